"""Feature maps inside an image classifier: the sub-modules that have them, and their values in a forward pass.

A feature map is any output of a sub-module with the image's layout: maps (R, C, h, w), maps with channels last
(R, h, w, C), or the tokens of a transformer (R, tokens, C), which may begin with tokens that are no patches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from rationales.errors import ModelError, OptionError
from rationales.models.batch.rows import normal
from rationales.models.fast.precision import weights_fingerprint

NO_FEATURE_MAPS = "the model has no feature maps"
_EXTRA = 8  # most tokens before those of the patches: class, distillation, registers
_NEVER = (nn.Dropout, nn.Softmax, nn.Linear)  # outputs may have the shape of feature maps, but are none


@dataclass(frozen=True)
class FeatureLayout:
    """How an output is read as maps."""

    height: int
    width: int
    form: str  # maps, maps-last or tokens
    extra: int = 0  # tokens before those of the patches

    def maps(self, value: Tensor) -> Tensor:
        """The output as maps (R, C, h, w)."""
        if self.form == "maps":
            return value
        if self.form == "maps-last":
            return value.movedim(-1, 1)
        patches = value[:, self.extra :].transpose(1, 2)
        return patches.reshape(len(value), value.shape[-1], self.height, self.width)


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """One sub-module whose output is a feature map."""

    name: str
    module: nn.Module
    layout: FeatureLayout


_remembered: WeakKeyDictionary[nn.Module, tuple[object, FeatureMap]] = WeakKeyDictionary()


def layout_of(shape: torch.Size, grid: tuple[int, int]) -> FeatureLayout | None:
    """The layout of an output of this shape over an image of this height and width; None if it has none."""
    if len(shape) == 4:
        layouts = [FeatureLayout(*shape[2:], "maps"), FeatureLayout(*shape[1:3], "maps-last")]
        best = min(layouts, key=lambda layout: _grid_mismatch(layout, grid))
        return best if _grid_mismatch(best, grid) <= 1 else None
    if len(shape) == 3 and shape[-1] > 1:
        for extra in range(_EXTRA + 1):
            for high, wide in _patches(grid):
                if high * wide == shape[1] - extra:
                    return FeatureLayout(high, wide, "tokens", extra)
    return None


def find_feature_map(
    module: nn.Module, run: Callable[[Tensor], Tensor], like: Tensor, grid: tuple[int, int], layer: str = ""
) -> FeatureMap:
    """The last feature map that the logits depend on, or the output of the sub-module called `layer`.

    `run`: input of a row -> logits; `like` (1, *read): its shape, device and type; `grid`: height and width. The choice
    is made on an image of noise, so that it depends on the model and not on the input, and is remembered as long as the
    weights stay as they are.
    """
    state = (layer, grid, like.shape, like.dtype, weights_fingerprint(module))
    remembered = _remembered.get(module)
    if remembered is None or remembered[0] != state:
        remembered = _remembered[module] = (state, _search(module, run, like, grid, layer))
    return remembered[1]


def _search(
    module: nn.Module, run: Callable[[Tensor], Tensor], like: Tensor, grid: tuple[int, int], layer: str
) -> FeatureMap:
    named = dict(module.named_modules())
    if layer and layer not in named:
        near = [name for name in named if layer.rpartition(".")[-1] in name][:5] or list(named)[-5:]
        raise OptionError(f"the model has no layer {layer!r}; it has, for example: {', '.join(filter(None, near))}")
    searched = {layer: named[layer]} if layer else {
        name: submodule for name, submodule in named.items() if name and not isinstance(submodule, _NEVER)
    }  # fmt: skip
    noise = normal(torch.zeros(1, dtype=torch.int64, device=like.device), like.shape[1:], like.dtype)
    module_outputs: list[tuple[str, Tensor]] = []
    with torch.enable_grad(), ExitStack() as stack:
        for name, submodule in searched.items():
            stack.enter_context(watch_outputs(submodule, _noting(module_outputs, name)))
        logits = run(noise.requires_grad_().clone())
    candidates: list[tuple[str, Tensor, FeatureLayout]] = []
    for name, value in module_outputs:
        layout = layout_of(value.shape, grid)
        if layout is not None and len(value) == 1 and (value.requires_grad or not logits.requires_grad):
            candidates.append((name, value, layout))
    if not candidates and layer:
        shapes = ", ".join(str(tuple(value.shape)) for _, value in module_outputs) or "no tensor"
        raise OptionError(f"the layer {layer!r} gives {shapes}, no feature maps over the image; name another")
    if not candidates:
        raise ModelError(
            "grad-cam finds no feature maps in this model; name a layer with the option layer, or use "
            "integrated-gradients or occlusion"
        )
    name, _, layout = (_with_gradient(candidates, logits) or candidates)[-1]
    return FeatureMap(name, named[name], layout)


def _with_gradient(
    candidates: list[tuple[str, Tensor, FeatureLayout]], logits: Tensor
) -> list[tuple[str, Tensor, FeatureLayout]]:
    """Candidates that the logits depend on; not the patches of a last layer of which only the class token is used."""
    if not logits.requires_grad:
        return []
    weights = normal(torch.ones(1, dtype=torch.int64, device=logits.device), logits.shape[1:], logits.dtype)
    values = [value for _, value, _ in candidates]
    gradients: Sequence[Tensor | None] = torch.autograd.grad((logits * weights).sum(), values, allow_unused=True)
    return [candidate for candidate, gradient in zip(candidates, gradients, strict=True)
            if gradient is not None and bool(candidate[2].maps(gradient).any())]  # fmt: skip


def _noting(module_outputs: list[tuple[str, Tensor]], name: str) -> Callable[[Tensor], None]:
    return lambda value: module_outputs.append((name, value))


@contextmanager
def watch_outputs(module: nn.Module, note: Callable[[Tensor], None]) -> Iterator[None]:
    """Inside the block, `note` is called with every tensor that the module returns."""

    def hook(_module: nn.Module, _arguments: Any, output: Any) -> None:
        first = output[0] if isinstance(output, (tuple, list)) and output else output
        tensor = getattr(output, "last_hidden_state", first)
        if isinstance(tensor, Tensor):
            note(tensor)

    handle = module.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def _grid_mismatch(layout: FeatureLayout, grid: tuple[int, int]) -> float:
    """Difference, in cells, from square cells that cover an image of this height and width; inf if impossible."""
    high, wide = layout.height, layout.width
    if not (1 < high <= grid[0] and 1 < wide <= grid[1]):
        return float("inf")
    return abs(high - grid[0] * wide / grid[1])


def _patches(grid: tuple[int, int]) -> list[tuple[int, int]]:
    """Rows and columns of square patches of each size in an image of this height and width."""
    return [(grid[0] // side, grid[1] // side) for side in range(1, min(grid) // 2 + 1)]
