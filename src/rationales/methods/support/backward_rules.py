"""Backward rules other than the gradient, for modules and functions while a model runs.

A TorchFunctionMode sees every activation, whether module or function call (`nn.ReLU`, `functional.relu6`, `x.tanh()`),
and does not modify the model. Only the backward pass changes, never the values.
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
ELEMENTWISE = _RELU | {
    *(functional.elu, functional.elu_, functional.selu, functional.celu, functional.leaky_relu),
    *(functional.leaky_relu_, functional.gelu, functional.silu, functional.mish, functional.hardswish),
    *(functional.hardsigmoid, functional.softplus, functional.softsign, functional.logsigmoid),
    *(functional.tanh, torch.tanh, torch.tanh_, Tensor.tanh, Tensor.tanh_),
    *(functional.sigmoid, torch.sigmoid, torch.sigmoid_, Tensor.sigmoid, Tensor.sigmoid_),
}
_LOG_SUM_EXP = (torch.logsumexp, Tensor.logsumexp)
_SMALL = 1e-10  # smaller differences count as none, and the gradient is used instead

FunctionRule = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]


class FunctionsReplaced(TorchFunctionMode):
    """Mode in which calls of these functions go to their rules."""

    def __init__(self, rules: dict[Any, FunctionRule]) -> None:
        super().__init__()
        self.rules = rules

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        rule = self.rules.get(func)
        return func(*args, **(kwargs or {})) if rule is None else rule(func, args, kwargs or {})


@contextmanager
def guided(met: list[str]) -> Iterator[None]:
    """Inside the block, negative gradients are set to 0 at every ReLU; the name of each ReLU is appended to `met`.

    Springenberg et al. 2015, section 3.4. The derivative of a ReLU is 0 or 1, so the gradient of its output can be
    clamped instead of that of its input.
    """

    def rule(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        output = func(*args, **kwargs)
        if "hardtanh" in func.__name__ and kwargs.get("min_val", args[1] if len(args) > 1 else -1.0) != 0:
            return output  # only a hardtanh from 0 is a ReLU
        met.append(func.__name__)
        if output.requires_grad:
            output.register_hook(lambda gradient: gradient.clamp(min=0))
        return output

    with FunctionsReplaced(dict.fromkeys(_RELU, rule)):
        yield


@contextmanager
def rescaled(rows: int, *modules: nn.Module) -> Iterator[None]:
    """Inside the block, models run on 2 x `rows` rows, inputs before their baselines, under DeepLIFT's Rescale rule.

    Shrikumar, Greenside and Kundaje 2017, Eq. 8: the derivative of an activation is (change of its output) / (change of
    its input) between baseline and input, for the inputs' rows. Max pooling assigns the change of a window's maximum to
    the position that had it. A log-sum-exp, as in the log-odds of a class, is a sum between two activations. All else
    (products, attention, normalisation) keeps its gradient.
    """

    def elementwise(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        value: Any = args[0] if args else kwargs["input"]
        if (axis := _paired(value, rows)) is None:
            return func(*args, **kwargs)
        copied = value.clone()  # for calls in place
        output = func(copied, *args[1:], **{name: argument for name, argument in kwargs.items() if name != "input"})
        result = _secant(value, output, axis)
        return value.copy_(result) if output is copied else result

    def max_pool(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        value: Any = args[0] if args else kwargs["input"]
        if _paired(value, rows) != 0 or value.dim() != 4:
            return func(*args, **kwargs)
        names = ("input", "kernel_size", "stride", "padding", "dilation", "ceil_mode")
        arguments = dict(zip((*names, "return_indices"), args, strict=False)) | kwargs
        both = arguments.pop("return_indices", False)
        pooled, indices = functional.max_pool2d_with_indices(**arguments)
        redistributed = _max_pool_rescaled(value, pooled, indices)
        return (redistributed, indices) if both else redistributed

    def log_sum_exp(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        names = ("input", "dim", "keepdim")
        arguments = dict(zip(names, args, strict=False)) | kwargs
        value, dim = arguments["input"], arguments["dim"]
        if _paired(value, rows) != 0 or not isinstance(dim, int) or dim % value.dim() == 0:
            return func(*args, **kwargs)
        return _log_sum_exp_rescaled(value, dim, arguments.get("keepdim", False))

    def composite(_module: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
        axis = _paired(args[0], rows)
        return output if axis is None else _secant(args[0], output, axis)

    with ExitStack() as stack:
        for module in modules:
            for submodule in module.modules():
                if type(submodule).__module__ == "transformers.activations":  # composed of elementary operations
                    stack.callback(submodule.register_forward_hook(composite).remove)
        rules: dict[Any, FunctionRule] = {
            **dict.fromkeys(ELEMENTWISE, elementwise),
            **dict.fromkeys(_LOG_SUM_EXP, log_sum_exp),
            functional.max_pool2d: max_pool,
        }
        stack.enter_context(FunctionsReplaced(rules))
        yield


def _paired(value: Any, rows: int) -> int | None:
    """The axis along which inputs come before their baselines; None if there is none, or no gradient is needed.

    Usually the first, with one or more entries per row; the second if time comes first; and the first again if a model
    runs on some of the rows at a time.
    """
    if not isinstance(value, Tensor) or not value.requires_grad or value.dim() == 0:
        return None
    first, second = (*value.shape, 0)[:2]
    if first % (2 * rows) == 0 or (first < 2 * rows and first % 2 == 0 and second != 2 * rows):
        return 0
    return 1 if second == 2 * rows else None


def _secant(value: Tensor, output: Tensor, axis: int) -> Tensor:
    """`output`, with (change of output) / (change of input) as its derivative with respect to `value`."""
    with torch.no_grad():
        (x, base), (y, base_y) = value.chunk(2, axis), output.chunk(2, axis)
        step = torch.cat([x - base] * 2, axis)
        small = step.abs() < _SMALL
        secant_slope = torch.cat([y - base_y] * 2, axis) / torch.where(small, torch.ones_like(step), step)
    linearised = output.detach() + secant_slope * (value - value.detach())
    return torch.where(small, output, linearised)


def _max_pool_rescaled(value: Tensor, pooled: Tensor, indices: Tensor) -> Tensor:
    """`pooled` (2R, C, h, w), its change assigned to the maximum's position in the input, or baseline if it fell."""
    with torch.no_grad():
        y, base_y = pooled.chunk(2)
        own_index, base_index = indices.flatten(2).chunk(2)
        step = value.flatten(2)[: len(y)] - value.flatten(2)[len(y) :]
        maximum = torch.maximum(y, base_y)
        weights = []
        for index, change, fallback in ((own_index, maximum - base_y, 1.0), (base_index, y - maximum, 0.0)):
            selected_step = step.gather(2, index)
            small = selected_step.abs() < _SMALL
            multiplier = change.flatten(2) / torch.where(small, torch.ones_like(selected_step), selected_step)
            weights.append(torch.where(small, torch.full_like(multiplier, fallback), multiplier))
    flat = value[: len(y)].flatten(2)
    change = flat - flat.detach()
    redistributed = weights[0] * change.gather(2, own_index) + weights[1] * change.gather(2, base_index)
    return torch.cat([pooled[: len(y)].detach() + redistributed.view_as(y), pooled[len(y) :]])


def _log_sum_exp_rescaled(value: Tensor, dim: int, keepdim: bool) -> Tensor:
    """log(sum(exp(value))) along `dim`, with the secants of exp and log as their derivatives; entries may be -inf."""
    total = value.logsumexp(dim, keepdim=True)
    with torch.no_grad():
        x, base = value.chunk(2)
        y, base_y = total.chunk(2)
        reference = torch.maximum(y, base_y)  # subtracted before exp, so that nothing overflows
        step = x - base
        steep = step.abs() >= _SMALL  # False where both are -inf
        exponential, base_exponential = (x - reference).exp(), (base - reference).exp()
        safe_step = torch.where(steep, step, torch.ones_like(step))
        exp_slope = torch.where(steep, (exponential - base_exponential) / safe_step, exponential)
        sums = (y - reference).exp(), (base_y - reference).exp()
        change = sums[0] - sums[1]
        steep = change.abs() >= torch.finfo(value.dtype).eps ** 0.5  # the larger sum is 1; below, a quotient is noise
        log_slope = torch.where(steep, (y - base_y) / torch.where(steep, change, 1), 2 / (sums[0] + sums[1]))
        weight = torch.where(x.isinf(), 0, exp_slope * log_slope)
    change = torch.where(x.isinf(), 0, value[: len(x)] - x)  # 0, with a gradient
    result = torch.cat([y + (weight * change).sum(dim, keepdim=True), total[len(y) :]])
    return result if keepdim else result.squeeze(dim)
