"""Convolutions whose windows do not overlap, as one product: what cuts a picture into patches in a transformer.

It is the same sum. But back to the pixels, of which there are three channels, libraries of convolutions are slow with
windows of 16 x 16.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import linear


class Patches(nn.Conv2d):
    """A convolution that is as wide as its step."""

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:  # noqa: A002  # torch's name
        high, wide = self.kernel_size
        down, along = input.shape[-2] // high, input.shape[-1] // wide
        windows = input[..., : down * high, : along * wide].reshape(-1, self.in_channels, down, high, along, wide)
        windows = windows.permute(0, 2, 4, 1, 3, 5).flatten(3)  # (R, down, along, channels x high x wide)
        return linear(windows, weight.flatten(1), bias).permute(0, 3, 1, 2)


def as_products(module: nn.Module) -> None:
    """Change every such convolution of a module that is our own copy."""
    for part in module.modules():
        if type(part) is nn.Conv2d and _apart(part):
            part.__class__ = Patches


def _apart(part: nn.Conv2d) -> bool:
    whole = part.groups == 1 and part.padding_mode == "zeros" and tuple(part.dilation) == (1, 1)
    filled = part.padding if isinstance(part.padding, str) else any(part.padding)
    return whole and filled in ("valid", False) and part.stride == part.kernel_size and max(part.kernel_size) > 1
