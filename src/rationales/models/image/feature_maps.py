"""Feature maps inside an image classifier: the sub-modules that have them, and their values in a forward pass.

A feature map is any output of a sub-module with the image's layout: maps (R, C, h, w), maps with channels last
(R, h, w, C), or the tokens of a transformer (R, tokens, C), which may begin with tokens that are no patches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from rationales.errors import NotApplicableError, OptionError
from rationales.models.batch import Batch, Piece
from rationales.models.batch.rows import normal
from rationales.models.fast.precision import weights_fingerprint

NO_FEATURE_MAPS = "the model has no feature maps"
_EXTRA = 8  # most tokens before those of the patches: class, distillation, registers
_NEVER = (nn.Dropout, nn.Softmax, nn.Linear)  # outputs may have the shape of feature maps, but are none
_LISTED = 8  # layers in a message


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
    call: int = 0  # which of its calls in a forward pass, for a module that is used several times


@dataclass(frozen=True, eq=False)
class _ModuleOutput:
    """The output of one call of a sub-module, for an image of noise."""

    name: str
    call: int
    value: Tensor
    layout: FeatureLayout
    source: Tensor | None  # its input


@dataclass(frozen=True, eq=False)
class _Call:
    """Input and output of a call of a sub-module."""

    name: str
    source: Tensor | None
    value: Tensor


_remembered: WeakKeyDictionary[nn.Module, tuple[object, list[FeatureMap]]] = WeakKeyDictionary()


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


def find_feature_maps(
    module: nn.Module,
    run: Callable[[Tensor], Tensor],
    like: Tensor,
    grid: tuple[int, int],
    layer: str = "",
    method: str = "grad-cam",
) -> list[FeatureMap]:
    """All feature maps that the logits depend on, or those of the sub-module called `layer`, in the order of execution.

    The last is none of several branches that read the same maps, as the projections of an attention do.
    `run`: input of a row -> logits; `like` (1, *read): its shape, device and type; `grid`: height and width. The choice
    is made on an image of noise, so that it depends on the model and not on the input, and is remembered as long as the
    weights stay as they are. `method`: its name, for messages.
    """
    state = (layer, grid, like.shape, like.dtype, weights_fingerprint(module))
    remembered = _remembered.get(module)
    if remembered is None or remembered[0] != state:
        remembered = _remembered[module] = (state, _search(module, run, like, grid, layer, method))
    return remembered[1]


def noise_like(values: Tensor) -> Tensor:
    """An input of noise, always the same, of the shape of `values` (1, *read)."""
    return normal(torch.zeros(1, dtype=torch.int64, device=values.device), values.shape[1:], values.dtype)


def _search(
    module: nn.Module, run: Callable[[Tensor], Tensor], like: Tensor, grid: tuple[int, int], layer: str, method: str
) -> list[FeatureMap]:
    named = dict(module.named_modules())
    noted: list[_Call] = []
    with torch.enable_grad(), ExitStack() as stack:
        for name, submodule in named.items():
            if name and (name == layer or not isinstance(submodule, _NEVER)):
                stack.enter_context(_watch_calls(submodule, _noting(noted, name)))
        logits = run(noise_like(like).requires_grad_().clone())
    calls: Counter[str] = Counter()
    candidates: list[_ModuleOutput] = []
    for call in noted:
        layout = layout_of(call.value.shape, grid)
        if layout is not None and len(call.value) == 1 and (call.value.requires_grad or not logits.requires_grad):
            candidates.append(_ModuleOutput(call.name, calls[call.name], call.value, layout, call.source))
        calls[call.name] += 1
    if layer:
        _check_layer(layer, named, noted, candidates)
        candidates = [candidate for candidate in candidates if candidate.name == layer]
    if not candidates:
        shapes = [f"{call.name} {tuple(call.value.shape)}" for call in noted][-_LISTED:]
        raise NotApplicableError(
            f"{method} finds no feature maps over {grid[0]} x {grid[1]} pixels in {type(module).__name__}, whose last "
            f"layers give: {', '.join(shapes) or 'no tensors'}; use integrated-gradients or occlusion"
        )
    used = _with_gradient(candidates, logits, grid) or candidates
    return [FeatureMap(candidate.name, named[candidate.name], candidate.layout, candidate.call) for candidate in used]


def _check_layer(layer: str, named: dict[str, nn.Module], noted: list[_Call], candidates: list[_ModuleOutput]) -> None:
    """Raise an OptionError, with the layers to choose from, unless `layer` has feature maps."""
    names = list(dict.fromkeys(candidate.name for candidate in candidates))
    if layer in names:
        return
    similar = [name for name in names if layer.rpartition(".")[-1] in name]
    options = f"layers with feature maps are, for example: {', '.join((similar or names)[-_LISTED:]) or 'none'}"
    if layer not in named:
        raise OptionError(f"the model has no layer {layer!r}; {options}")
    shapes = ", ".join(str(tuple(call.value.shape)) for call in noted if call.name == layer) or "no tensor"
    raise OptionError(f"the layer {layer!r} gives {shapes}, no feature maps over the image; {options}")


def _with_gradient(candidates: list[_ModuleOutput], logits: Tensor, grid: tuple[int, int]) -> list[_ModuleOutput]:
    """Candidates that the logits depend on, up to the last that is no branch, nor inside one.

    Not the patches of a last layer of which only the class token is used.
    """
    if not logits.requires_grad:
        return []
    weights = normal(torch.ones(1, dtype=torch.int64, device=logits.device), logits.shape[1:], logits.dtype)
    values = [candidate.value for candidate in candidates]
    output = (logits * weights).sum()
    gradients: Sequence[Tensor | None] = torch.autograd.grad(output, values, retain_graph=True, allow_unused=True)
    used = [candidate for candidate, gradient in zip(candidates, gradients, strict=True)
            if gradient is not None and bool(candidate.layout.maps(gradient).any())]  # fmt: skip
    remaining = used
    while remaining and _is_branch(remaining[-1], output, grid):
        branch = remaining[-1].name
        remaining = [candidate for candidate in remaining if not f"{candidate.name}.".startswith(f"{branch}.")]
    return remaining or used


def _is_branch(candidate: _ModuleOutput, output: Tensor, grid: tuple[int, int]) -> bool:
    """Whether the maps that the sub-module reads have an effect on the output that does not go through it."""
    source = candidate.source
    layout = layout_of(source.shape, grid) if source is not None and source.requires_grad else None
    if source is None or layout is None or source is candidate.value:
        return False
    handle = candidate.value.register_hook(torch.zeros_like)  # type: ignore[no-untyped-call]  # torch's own
    gradients: Sequence[Tensor | None] = torch.autograd.grad(output, source, retain_graph=True, allow_unused=True)
    handle.remove()
    around = gradients[0]
    return around is not None and bool(layout.maps(around).any())


def _noting(noted: list[_Call], name: str) -> Callable[[Tensor | None, Tensor], None]:
    return lambda source, value: noted.append(_Call(name, source, value))


@contextmanager
def watch_outputs(module: nn.Module, note: Callable[[Tensor], None]) -> Iterator[None]:
    """Inside the block, `note` is called with every tensor that the module returns.

    The model goes on with a copy of it, so that a later ReLU in place does not overwrite what was noted.
    """
    with _watch_calls(module, lambda _source, value: note(value)):
        yield


@contextmanager
def _watch_calls(module: nn.Module, note: Callable[[Tensor | None, Tensor], None]) -> Iterator[None]:
    """As `watch_outputs`, with the first tensor that the module is called with, if any."""

    def hook(_module: nn.Module, arguments: Any, keywords: Any, output: Any) -> Tensor | None:
        first = output[0] if isinstance(output, (tuple, list)) and output else output
        tensor = getattr(output, "last_hidden_state", first)
        if isinstance(tensor, Tensor):
            note(next((value for value in (*arguments, *keywords.values()) if isinstance(value, Tensor)), None), tensor)
        return output.clone() if isinstance(output, Tensor) else None

    handle = module.register_forward_hook(hook, with_kwargs=True)
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


def feature_maps_of(method: str, batch: Batch, layer: str = "") -> list[FeatureMap]:
    """The feature maps of a batch's model for the method of this name (`find_feature_maps`); there is at least one."""
    if batch.grid is None and batch.pixel_grid is not None:
        raise OptionError(
            f"{method} scores the pixels of an image and no words beside it; use integrated-gradients, saliency, "
            "occlusion or marc"
        )
    if batch.grid is None:
        raise OptionError(
            f"{method} needs feature maps of an image, which text models and models of waveforms do not have; "
            "use integrated-gradients, saliency or marc"
        )
    first = torch.zeros(1, dtype=torch.long, device=batch.device)
    piece = Piece(first, first, 0, batch.cost()[0])
    return find_feature_maps(
        batch.modules[0],
        lambda pixels: batch.forward_from(piece, pixels),
        batch.input_embeddings(first),
        batch.grid,
        layer,
        method,
    )
