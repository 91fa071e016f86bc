"""Other ways back through a network than the gradient: rules that hold while a model runs, for modules and functions.

A function mode sees every activation whether it is a module or a plain call (`nn.ReLU`, `functional.relu6`,
`x.tanh()`), and leaves nothing behind on the model. Values are never changed, only what flows back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

_RELU = {
    *(functional.relu, functional.relu_, torch.relu, torch.relu_, Tensor.relu, Tensor.relu_),
    *(functional.relu6, functional.hardtanh, functional.hardtanh_),
}
_ELEMENTWISE = _RELU | {
    *(functional.elu, functional.elu_, functional.selu, functional.celu, functional.leaky_relu),
    *(functional.leaky_relu_, functional.gelu, functional.silu, functional.mish, functional.hardswish),
    *(functional.hardsigmoid, functional.softplus, functional.softsign, functional.logsigmoid),
    *(functional.tanh, torch.tanh, torch.tanh_, Tensor.tanh, Tensor.tanh_),
    *(functional.sigmoid, torch.sigmoid, torch.sigmoid_, Tensor.sigmoid, Tensor.sigmoid_),
}
_SMALL = 1e-10  # a difference below this counts as none, and the gradient is taken instead

Rule = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]


class _Replaced(TorchFunctionMode):
    """Calls of these functions are answered by `rule`."""

    def __init__(self, rules: dict[Any, Rule]) -> None:
        super().__init__()
        self.rules = rules

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        rule = self.rules.get(func)
        return func(*args, **(kwargs or {})) if rule is None else rule(func, args, kwargs or {})


@contextmanager
def guided(met: list[str]) -> Iterator[None]:
    """Inside the block, what flows back through a ReLU is cut off below zero; `met` notes each ReLU.

    Springenberg et al. 2015, section 3.4: the gradient of a ReLU, and of what flows back only what is positive. A
    ReLU's slope is 0 or 1, so what comes in from above can be cut instead of what goes out below.
    """

    def rule(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        found = func(*args, **kwargs)
        if "hardtanh" in func.__name__ and kwargs.get("min_val", args[1] if len(args) > 1 else -1.0) != 0:
            return found  # only one that begins at 0 is a ReLU
        met.append(func.__name__)
        if found.requires_grad:
            found.register_hook(lambda slope: slope.clamp(min=0))
        return found

    with _Replaced(dict.fromkeys(_RELU, rule)):
        yield


@contextmanager
def rescaled(rows: int, *modules: nn.Module) -> Iterator[None]:
    """Inside the block, models run on 2 x `rows` rows, inputs before their baselines, and activations are secants.

    DeepLIFT's Rescale rule (Shrikumar, Greenside and Kundaje 2017, Eq. 8): what flows back through an activation is
    multiplied by (change of its output) / (change of its input) between baseline and input, for the inputs' rows. Max
    pooling hands the change of a window's maximum to the place that had it. All else (products, attention,
    normalisation) keeps its gradient.
    """

    def elementwise(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        value: Any = args[0] if args else kwargs["input"]
        if (axis := _paired(value, rows)) is None:
            return func(*args, **kwargs)
        own = value.clone()  # what a call in place may overwrite
        found = func(own, *args[1:], **{name: given for name, given in kwargs.items() if name != "input"})
        result = _secant(value, found, axis)
        return value.copy_(result) if found is own else result

    def max_pool(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        value: Any = args[0] if args else kwargs["input"]
        if _paired(value, rows) != 0 or value.dim() != 4:
            return func(*args, **kwargs)
        names = ("input", "kernel_size", "stride", "padding", "dilation", "ceil_mode")
        given = dict(zip((*names, "return_indices"), args, strict=False)) | kwargs
        both = given.pop("return_indices", False)
        found, place = functional.max_pool2d_with_indices(**given)
        moved = _moved_maximum(value, found, place)
        return (moved, place) if both else moved

    def composite(_module: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
        axis = _paired(args[0], rows)
        return output if axis is None else _secant(args[0], output, axis)

    with ExitStack() as stack:
        for module in modules:
            for part in module.modules():
                if type(part).__module__ == "transformers.activations":  # written out in products and powers
                    stack.callback(part.register_forward_hook(composite).remove)
        stack.enter_context(_Replaced(dict.fromkeys(_ELEMENTWISE, elementwise) | {functional.max_pool2d: max_pool}))
        yield


def _paired(value: Any, rows: int) -> int | None:
    """The axis along which this holds inputs before their baselines; None if it does not, or nothing flows back.

    Mostly the first, with one or more places for each row; the second where time comes first; and the first again where
    a model is run on some of the rows at a time.
    """
    if not isinstance(value, Tensor) or not value.requires_grad or value.dim() == 0:
        return None
    first, second = (*value.shape, 0)[:2]
    if first % (2 * rows) == 0 or (first < 2 * rows and first % 2 == 0 and second != 2 * rows):
        return 0
    return 1 if second == 2 * rows else None


def _secant(value: Tensor, found: Tensor, axis: int) -> Tensor:
    """`found`, with (change of output) / (change of input) as its slope in `value`."""
    with torch.no_grad():
        (x, base), (y, base_y) = value.chunk(2, axis), found.chunk(2, axis)
        step = torch.cat([x - base] * 2, axis)
        small = step.abs() < _SMALL
        slope = torch.cat([y - base_y] * 2, axis) / torch.where(small, torch.ones_like(step), step)
    straight = found.detach() + slope * (value - value.detach())
    return torch.where(small, found, straight)


def _moved_maximum(value: Tensor, found: Tensor, place: Tensor) -> Tensor:
    """`found` (2R, C, h, w), its change handed to the maximum's place in the input, or in the baseline if that fell."""
    with torch.no_grad():
        y, base_y = found.chunk(2)
        own, base_own = place.flatten(2).chunk(2)
        step = value.flatten(2)[: len(y)] - value.flatten(2)[len(y) :]
        most = torch.maximum(y, base_y)
        weights = []
        for where, change, otherwise in ((own, most - base_y, 1.0), (base_own, y - most, 0.0)):
            here = step.gather(2, where)
            small = here.abs() < _SMALL
            slope = change.flatten(2) / torch.where(small, torch.ones_like(here), here)
            weights.append(torch.where(small, torch.full_like(slope, otherwise), slope))
    flat = value[: len(y)].flatten(2)
    change = flat - flat.detach()
    moved = weights[0] * change.gather(2, own) + weights[1] * change.gather(2, base_own)
    return torch.cat([found[: len(y)].detach() + moved.view_as(y), found[len(y) :]])
