"""A small vision transformer (Dosovitskiy et al. 2021), in plain torch, trained from scratch.

Patches are read by a few small convolutions instead of one large one (`Early Convolutions Help Transformers See
Better`, Xiao et al. 2021): with few pictures, a transformer then finds small things such as letters, and else does not.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from rationales.errors import OptionError
from rationales.groundtruth.networks.attention_block import Layer


class VisionTransformer(nn.Module):
    """(S, 3, size, size) normalised pixels -> (S, classes) logits; patches are averaged at the end."""

    def __init__(
        self,
        classes: int,
        size: int = 112,
        patch: int = 8,
        width: int = 192,
        layers: int = 6,
        heads: int = 3,
        dropout: float = 0.0,
        stem: bool = True,
    ) -> None:
        super().__init__()
        if size % patch or width % heads:
            raise OptionError(f"{size} pixels are no multiple of patches of {patch}, or {width} none of {heads} heads")
        if stem and (patch & (patch - 1) or patch < 2):
            raise OptionError(f"convolutions that halve the picture read patches of 2, 4, 8, ... pixels, not {patch}")
        self.patches: nn.Module = _stem(patch, width) if stem else nn.Conv2d(3, width, patch, patch)
        self.places = nn.Parameter(torch.zeros(1, (size // patch) ** 2, width))
        self.layers = nn.ModuleList(Layer(width, heads, 4 * width, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.classifier = nn.Linear(width, classes)
        nn.init.trunc_normal_(self.places, std=0.02)

    def forward(self, pixels: Tensor) -> Tensor:
        """(S, 3, size, size) -> (S, classes)."""
        tokens: Tensor = self.patches(pixels).flatten(2).transpose(1, 2) + self.places
        for layer in self.layers:
            tokens = layer(tokens)
        # no class token: a mean gives every patch a way to the answer from the first step on, which small data need
        found: Tensor = self.classifier(self.norm(tokens).mean(1))
        return found


def _stem(patch: int, width: int) -> nn.Module:
    """Convolutions that halve the picture until a pixel is a patch, each with twice the channels of the one before."""
    halvings = patch.bit_length() - 1
    channels = [3, *(max(width >> (halvings - 1 - number), 8) for number in range(halvings - 1)), width]
    parts: list[nn.Module] = []
    for inside, outside in pairwise(channels):
        parts += [nn.Conv2d(inside, outside, 3, 2, 1, bias=False), nn.BatchNorm2d(outside), nn.ReLU()]
    return nn.Sequential(*parts, nn.Conv2d(width, width, 1))


def small_vit(classes: int = 2, size: int = 112) -> VisionTransformer:
    """Six layers of 192 numbers, 3 million weights."""
    return VisionTransformer(classes, size)
