"""A small vision transformer (Dosovitskiy et al. 2021), in plain torch, trained from scratch.

Patches are embedded by a few small convolutions instead of one large one (`Early Convolutions Help Transformers See
Better`, Xiao et al. 2021): without them, a transformer does not learn small objects such as letters from few images.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from rationales.errors import OptionError
from rationales.groundtruth.networks.attention_block import TransformerLayer


class VisionTransformer(nn.Module):
    """(S, 3, size, size) normalised pixels -> (S, classes) logits, from the mean over the patches."""

    def __init__(
        self,
        n_classes: int,
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
            raise OptionError(
                f"{size} pixels are no multiple of patches of {patch}, or the width {width} of {heads} heads"
            )
        if stem and (patch & (patch - 1) or patch < 2):
            raise OptionError(f"the convolutional stem needs patches of 2, 4, 8, ... pixels, not {patch}")
        self.patches: nn.Module = _stem(patch, width) if stem else nn.Conv2d(3, width, patch, patch)
        self.positions = nn.Parameter(torch.zeros(1, (size // patch) ** 2, width))
        self.layers = nn.ModuleList(TransformerLayer(width, heads, 4 * width, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.classifier = nn.Linear(width, n_classes)
        nn.init.trunc_normal_(self.positions, std=0.02)

    def forward(self, pixels: Tensor) -> Tensor:
        """(S, 3, size, size) -> (S, classes)."""
        hidden_states: Tensor = self.patches(pixels).flatten(2).transpose(1, 2) + self.positions
        for layer in self.layers:
            hidden_states = layer(hidden_states)
        # Mean instead of a class token: every patch reaches the logits from the first step on, which small data need.
        logits: Tensor = self.classifier(self.norm(hidden_states).mean(1))
        return logits


def _stem(patch: int, width: int) -> nn.Module:
    """Convolutions that halve the image until a pixel is a patch, each with twice the channels of the previous."""
    halvings = patch.bit_length() - 1
    channels = [3, *(max(width >> (halvings - 1 - i), 8) for i in range(halvings - 1)), width]
    layers: list[nn.Module] = []
    for in_channels, out_channels in pairwise(channels):
        layers += [nn.Conv2d(in_channels, out_channels, 3, 2, 1, bias=False), nn.BatchNorm2d(out_channels), nn.ReLU()]
    return nn.Sequential(*layers, nn.Conv2d(width, width, 1))


def small_vit(n_classes: int = 2, size: int = 112) -> VisionTransformer:
    """Six layers of width 192, 3 million parameters."""
    return VisionTransformer(n_classes, size)
