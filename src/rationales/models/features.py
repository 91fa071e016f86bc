"""Feature maps inside an image classifier: where they are, and their values while the model runs.

A feature map is any output of a sub-module that still has the picture's layout: maps (R, C, h, w), maps with channels
last (R, h, w, C), or the tokens of a transformer (R, tokens, C), some of which may stand before those of the patches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from rationales.errors import ModelError, OptionError
from rationales.models.randomness import normal

_EXTRA = 8  # tokens that may stand before those of the patches: class, distillation, registers
_NEVER = (nn.Dropout, nn.Softmax, nn.Linear)  # attention weights and projections have the shape, but not the meaning


@dataclass(frozen=True)
class Layout:
    """How to read an output as maps."""

    height: int
    width: int
    form: str  # maps, maps-last or tokens
    extra: int = 0  # tokens before those of the patches

    def maps(self, value: Tensor) -> Tensor:
        """-> (R, C, h, w)."""
        if self.form == "maps":
            return value
        if self.form == "maps-last":
            return value.movedim(-1, 1)
        patches = value[:, self.extra :].transpose(1, 2)
        return patches.reshape(len(value), value.shape[-1], self.height, self.width)


@dataclass(frozen=True, eq=False)
class Feature:
    """One sub-module whose output is a feature map."""

    name: str
    module: nn.Module
    layout: Layout


def layout_of(shape: torch.Size, grid: tuple[int, int]) -> Layout | None:
    """How an output of this shape lies over a picture of this height and width; None if it does not."""
    if len(shape) == 4:
        forms = [Layout(*shape[2:], "maps"), Layout(*shape[1:3], "maps-last")]
        best = min(forms, key=lambda one: _strain(one, grid))
        return best if _strain(best, grid) <= 1 else None
    if len(shape) == 3 and shape[-1] > 1:
        for extra in range(_EXTRA + 1):
            for high, wide in _patches(grid):
                if high * wide == shape[1] - extra:
                    return Layout(high, wide, "tokens", extra)
    return None


def find_feature(
    module: nn.Module, run: Callable[[Tensor], Tensor], like: Tensor, grid: tuple[int, int], layer: str = ""
) -> Feature:
    """The last feature map that the answer depends on, or the output of the sub-module called `layer`.

    `run`: what one row reads -> logits; `like` (1, *read) tells shape, device and type; `grid`: height and width. The
    model is asked about one picture of noise, so that the choice is the model's own and not the input's.
    """
    named = dict(module.named_modules())
    if layer and layer not in named:
        near = [name for name in named if layer.rpartition(".")[-1] in name][:5] or list(named)[-5:]
        raise OptionError(f"the model has no layer {layer!r}; it has, for example: {', '.join(filter(None, near))}")
    chosen = {layer: named[layer]} if layer else {
        name: part for name, part in named.items() if name and not isinstance(part, _NEVER)
    }  # fmt: skip
    noise = normal(torch.zeros(1, dtype=torch.int64, device=like.device), like.shape[1:], like.dtype)
    seen: list[tuple[str, Tensor]] = []
    with torch.enable_grad(), ExitStack() as stack:
        for name, part in chosen.items():
            stack.enter_context(outputs(part, _noting(seen, name)))
        answer = run(noise.requires_grad_().clone())
    fitting: list[tuple[str, Tensor, Layout]] = []
    for name, value in seen:
        found = layout_of(value.shape, grid)
        if found is not None and len(value) == 1 and (value.requires_grad or not answer.requires_grad):
            fitting.append((name, value, found))
    if not fitting and layer:
        shapes = ", ".join(str(tuple(value.shape)) for _, value in seen) or "no tensor"
        raise OptionError(f"the layer {layer!r} gives {shapes}, no feature maps over the picture; name another")
    if not fitting:
        raise ModelError(
            "grad-cam finds no feature maps in this model; name a layer with the option layer, or use "
            "integrated-gradients or occlusion"
        )
    name, _, found = (_reached(fitting, answer) or fitting)[-1]
    return Feature(name, named[name], found)


def _reached(fitting: list[tuple[str, Tensor, Layout]], answer: Tensor) -> list[tuple[str, Tensor, Layout]]:
    """Those that the answer depends on: not the patches of a last layer of which only the class token is read."""
    if not answer.requires_grad:
        return []
    weights = normal(torch.ones(1, dtype=torch.int64, device=answer.device), answer.shape[1:], answer.dtype)
    values = [value for _, value, _ in fitting]
    slopes: Sequence[Tensor | None] = torch.autograd.grad((answer * weights).sum(), values, allow_unused=True)
    return [one for one, slope in zip(fitting, slopes, strict=True)
            if slope is not None and bool(one[2].maps(slope).any())]  # fmt: skip


def _noting(seen: list[tuple[str, Tensor]], name: str) -> Callable[[Tensor], None]:
    return lambda value: seen.append((name, value))


@contextmanager
def outputs(module: nn.Module, note: Callable[[Tensor], None]) -> Iterator[None]:
    """Inside the block, `note` is told whatever tensor the module gives out."""

    def hook(_module: nn.Module, _arguments: Any, output: Any) -> None:
        first = output[0] if isinstance(output, (tuple, list)) and output else output
        found = getattr(output, "last_hidden_state", first)
        if isinstance(found, Tensor):
            note(found)

    handle = module.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def _strain(layout: Layout, grid: tuple[int, int]) -> float:
    """How far it is, in cells, from square cells that cover a picture of this height and width."""
    high, wide = layout.height, layout.width
    if not (1 < high <= grid[0] and 1 < wide <= grid[1]):
        return float("inf")
    return abs(high - grid[0] * wide / grid[1])


def _patches(grid: tuple[int, int]) -> list[tuple[int, int]]:
    """How many square patches of each size there are in a picture of this height and width."""
    sides = range(1, min(grid) // 2 + 1)
    return [(grid[0] // side, grid[1] // side) for side in sides]
