"""ResNet (He et al. 2016) with basic blocks, in plain torch: `resnet34` is the paper's model of pictures."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions and a way around them."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(outside)
        self.first_relu = nn.ReLU()
        self.second = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(outside)
        self.second_relu = nn.ReLU()
        self.around: nn.Module = nn.Identity()
        if stride > 1 or inside != outside:
            self.around = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))

    def forward(self, maps: Tensor) -> Tensor:
        """(S, inside, H, W) -> (S, outside, H / stride, W / stride)."""
        found = self.second_norm(self.second(self.first_relu(self.first_norm(self.first(maps)))))
        made: Tensor = self.second_relu(found + self.around(maps))
        return made


class ResNet(nn.Module):
    """(S, 3, H, W) normalised pixels -> (S, classes) logits, for any H and W."""

    def __init__(self, classes: int, blocks: Sequence[int] = (3, 4, 6, 3), width: int = 64) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        stages: list[nn.Module] = []
        channels = width
        for number, count in enumerate(blocks):
            outside = width * 2**number
            for place in range(count):
                stages.append(BasicBlock(channels, outside, 2 if number and not place else 1))
                channels = outside
        self.blocks = nn.Sequential(*stages)
        self.classifier = nn.Linear(channels, classes)
        for part in self.modules():
            if isinstance(part, nn.Conv2d):
                nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, pixels: Tensor) -> Tensor:
        """(S, 3, H, W) -> (S, classes)."""
        found: Tensor = self.classifier(self.blocks(self.stem(pixels)).mean((-2, -1)))
        return found


def resnet34(classes: int = 2) -> ResNet:
    """ResNet-34, not pre-trained."""
    return ResNet(classes)


def small_resnet(classes: int = 2) -> ResNet:
    """Four blocks of an eighth of the width: what a dry run on a CPU trains in minutes."""
    return ResNet(classes, (1, 1, 1, 1), 16)
