"""ResNet (He et al. 2016) with basic blocks, in plain torch: `resnet34` is the network of the paper for images."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions with a residual connection."""

    def __init__(self, in_channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(out_channels)
        self.relu1 = nn.ReLU()
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(out_channels)
        self.relu2 = nn.ReLU()
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or in_channels != out_channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(in_channels, out_channels, 1, stride, bias=False), nn.BatchNorm2d(out_channels)
            )

    def forward(self, maps: Tensor) -> Tensor:
        """(S, in_channels, H, W) -> (S, out_channels, H / stride, W / stride)."""
        residual = self.norm2(self.conv2(self.relu1(self.norm1(self.conv1(maps)))))
        output: Tensor = self.relu2(residual + self.shortcut(maps))
        return output


class ResNet(nn.Module):
    """(S, 3, H, W) normalised pixels -> (S, classes) logits, for any H and W."""

    def __init__(self, n_classes: int, blocks: Sequence[int] = (3, 4, 6, 3), width: int = 64) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        layers: list[nn.Module] = []
        channels = width
        for stage, count in enumerate(blocks):
            out_channels = width * 2**stage
            for index in range(count):
                layers.append(BasicBlock(channels, out_channels, 2 if stage and not index else 1))
                channels = out_channels
        self.blocks = nn.Sequential(*layers)
        self.classifier = nn.Linear(channels, n_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, pixels: Tensor) -> Tensor:
        """(S, 3, H, W) -> (S, classes)."""
        logits: Tensor = self.classifier(self.blocks(self.stem(pixels)).mean((-2, -1)))
        return logits


def resnet34(n_classes: int = 2) -> ResNet:
    """ResNet-34 with random weights."""
    return ResNet(n_classes)


def small_resnet(n_classes: int = 2) -> ResNet:
    """Four blocks with a quarter of the width of ResNet-34, for training on a CPU in minutes."""
    return ResNet(n_classes, (1, 1, 1, 1), 16)
