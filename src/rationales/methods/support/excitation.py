"""Marginal winning probabilities of neurons, carried back through a network (Zhang et al. 2016, Eq. 2 to 5).

P(x_j) = sum_i P(y_i) x_j w+_ij / sum_j x_j w+_ij, for a layer y = W x + b with w+ the positive weights and x >= 0. The
probability flows in place of gradients: functions are replaced while the network runs (a TorchFunctionMode sees modules
and function calls alike and does not modify the model), and only their backward passes change. Where the inputs of a
layer are negative, be they pixels or outputs of a linear bottleneck, the smallest of them takes the place of 0, as in
section 3.2 of the paper; the values decide it, not where they come from.

A batch norm or a constant factor behind a convolution or linear layer is folded into its weights, and the terms of a
residual sum are inputs of one neuron, also where a function between them moves or copies neurons. Activations, max
pooling and batch norms elsewhere have one winner, which gets all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from rationales.errors import NotApplicableError
from rationales.methods.support.backward_rules import ELEMENTWISE, FunctionsReplaced

_POOLS = {
    *(functional.avg_pool2d, functional.adaptive_avg_pool2d, torch.mean, Tensor.mean, torch.sum, Tensor.sum),
}  # averages and sums of neurons
_ADDITIONS = {torch.add, Tensor.add, Tensor.__add__, Tensor.__radd__}
_SUBTRACTIONS = {torch.sub, Tensor.sub, Tensor.__sub__}
_PRODUCTS = {torch.mul, Tensor.mul, Tensor.__mul__, Tensor.__rmul__}
_QUOTIENTS = {torch.div, Tensor.div, Tensor.__truediv__}
_IN_PLACE: dict[Any, Any] = {
    **dict.fromkeys((Tensor.add_, Tensor.__iadd__), torch.add),
    **dict.fromkeys((Tensor.sub_, Tensor.__isub__), torch.sub),
    **dict.fromkeys((Tensor.mul_, Tensor.__imul__), torch.mul),
    **dict.fromkeys((Tensor.div_, Tensor.__itruediv__), torch.div),
}
_LAYERS = {functional.conv1d, functional.conv2d, functional.conv3d, functional.linear}
_MOVEMENTS = {  # they move, select or copy the neurons of one tensor, so that the gradient moves their probabilities
    *("flatten", "unflatten", "reshape", "view", "view_as", "permute", "transpose", "swapaxes", "movedim"),
    *("contiguous", "squeeze", "unsqueeze", "__getitem__", "narrow", "select", "clone", "to", "float", "double"),
    *("half", "bfloat16", "type_as", "expand", "pad", "dropout", "dropout2d", "roll", "flip", "pixel_shuffle"),
    *("pixel_unshuffle", "channel_shuffle", "__get__", "requires_grad_"),
}
_STRUCTURAL = _MOVEMENTS | {  # those of several tensors, and those whose result is the largest neuron
    *("cat", "concat", "stack", "chunk", "split", "unbind", "max_pool2d", "adaptive_max_pool2d"),
    *("max_pool2d_with_indices", "amax", "max"),
}
Drive = Callable[[Tensor], Tensor]  # non-negative inputs -> the excitation that they give to every neuron


@dataclass(frozen=True, eq=False)
class _LinearLayer:
    """How outputs of a convolution or linear layer depend on its input `source`."""

    source: Tensor
    excite: Drive  # by the positive weights
    inhibit: Drive  # by the sizes of the negative weights

    def scaled(self, factor: Tensor) -> _LinearLayer:
        """The layer with its outputs multiplied by `factor`, which broadcasts to them."""
        positive, negative = factor.clamp(min=0), -factor.clamp(max=0)
        if not bool(negative.any()):
            return self.after(lambda output: output * positive)
        excite, inhibit = self.excite, self.inhibit
        return _LinearLayer(
            self.source,
            lambda values: positive * excite(values) + negative * inhibit(values),
            lambda values: positive * inhibit(values) + negative * excite(values),
        )

    def after(self, move: Callable[[Tensor], Tensor]) -> _LinearLayer:
        """The layer with `move`, which is linear and keeps signs, applied to its outputs."""
        excite, inhibit = self.excite, self.inhibit
        return _LinearLayer(self.source, lambda values: move(excite(values)), lambda values: move(inhibit(values)))


class _Excitation(torch.autograd.Function):
    """The value of `compute()`; back goes the probability, divided among the sources by their share of the drive."""

    @staticmethod
    def forward(ctx: Any, compute: Callable[[], Tensor], drives: Sequence[Drive], *sources: Tensor) -> Tensor:
        ctx.drives = drives
        ctx.save_for_backward(*sources)
        return compute()

    @staticmethod
    def backward(ctx: Any, *probabilities: Tensor) -> Any:
        with torch.enable_grad():
            inputs = [above_minimum(source).requires_grad_() for source in ctx.saved_tensors]
            total = torch.stack([drive(values) for drive, values in zip(ctx.drives, inputs, strict=True)]).sum(0)
        share = torch.where(total > 0, probabilities[0] / total, torch.zeros_like(total))
        weights = torch.autograd.grad(total, inputs, share)
        return None, None, *(values.detach() * weight for values, weight in zip(inputs, weights, strict=True))


class _OneInput(torch.autograd.Function):
    """The value of `compute()`, elementwise in `source`; the probability goes back as it comes."""

    @staticmethod
    def forward(ctx: Any, compute: Callable[[], Tensor], source: Tensor) -> Tensor:
        del ctx, source
        return compute()

    @staticmethod
    def backward(ctx: Any, *probabilities: Tensor) -> Any:
        del ctx
        return None, probabilities[0]


class _Refusal(torch.autograd.Function):
    """The value itself; a probability that arrives here cannot go on."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, message: str) -> Tensor:
        ctx.message = message
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *probabilities: Tensor) -> Any:
        del probabilities
        raise NotApplicableError(ctx.message)


def above_minimum(values: Tensor) -> Tensor:
    """(R, ...) values minus the smallest of each row where that is negative."""
    values = values.detach()
    lowest = values.flatten(1).amin(1).clamp(max=0)
    return values - lowest.view(-1, *[1] * (values.dim() - 1))


@contextmanager
def activations_detached(leaves: list[Tensor]) -> Iterator[None]:
    """Inside the block, the output of every activation is a leaf, in the order of execution; gradients end there."""

    def rule(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        value, output, in_place = _out_of_place(func, args, kwargs)
        leaf = output.detach().requires_grad_()
        leaves.append(leaf)
        return value.copy_(leaf) if in_place else leaf.clone()  # a copy may be overwritten, a leaf may not

    with FunctionsReplaced(dict.fromkeys(ELEMENTWISE, rule)):
        yield


class ExcitationMode(TorchFunctionMode):
    """Mode in which probabilities go back in place of gradients; `outputs` are those of the activations, in order."""

    def __init__(self, module: nn.Module, kept: set[int]) -> None:
        super().__init__()
        self.kind = type(module).__name__
        self.kept = kept  # numbers of the activations whose outputs are wanted
        self.outputs: dict[int, Tensor] = {}
        self.activations = 0

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if not torch.is_grad_enabled() or not _differentiable(args, kwargs):
            return func(*args, **kwargs)
        if func in ELEMENTWISE:
            return self._activation(func, args, kwargs)
        result = self._linear(func, args, kwargs)
        if result is not None:
            return result
        result = func(*args, **kwargs)
        name = getattr(func, "__name__", str(func))
        if name in _STRUCTURAL or not isinstance(result, Tensor) or not result.requires_grad:
            _note_movement(func, name, args, kwargs, result)
            return result
        refused: Any = _Refusal.apply(result, self._message(name))  # type: ignore[no-untyped-call]  # torch's own
        return _overwritten(args[0], refused) if args and result is args[0] else refused

    def _activation(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        value, computed, in_place = _out_of_place(func, args, kwargs)
        output: Any = _OneInput.apply(computed.detach, value)  # type: ignore[no-untyped-call]
        if self.activations in self.kept:
            self.outputs[self.activations] = output
            output = output.clone()  # what is kept is not overwritten
        self.activations += 1
        return _overwritten(value, output) if in_place else output

    def _linear(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The output of a linear function; None for others."""
        if func in _LAYERS:
            return _layer_output(func, args, kwargs)
        if func is functional.batch_norm:
            return _normalised(args, kwargs)
        value = args[0] if args else kwargs.get("input")
        if func in _POOLS and isinstance(value, Tensor):
            return _excited(lambda: func(*args, **kwargs), [(value, lambda values: func(values, *args[1:], **kwargs))])
        return _combined(func, args, kwargs)

    def _message(self, name: str) -> str:
        return (
            "excitation-backprop is defined for convolutions, linear layers, pooling, batch norms, sums and "
            f"activations, and {self.kind} computes {name.strip('_')} of its neurons; use grad-cam, occlusion or marc"
        )


def _layer_output(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    arguments = dict(zip(("input", "weight", "bias", "stride", "padding", "dilation", "groups"), args, strict=False))
    arguments |= kwargs
    source, weight = arguments.pop("input"), arguments.pop("weight")
    bias, constant = arguments.pop("bias", None), weight.detach()
    layer = _LinearLayer(
        source,
        lambda values: func(values, constant.clamp(min=0), None, **arguments),
        lambda values: func(values, -constant.clamp(max=0), None, **arguments),
    )
    return _layer_excited(lambda: func(source, weight, bias, **arguments), layer)


def _normalised(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The output of a batch norm, folded into the layer before it if there is one; None with a batch's statistics."""
    names = ("input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps")
    arguments = dict(zip(names, args, strict=False)) | kwargs
    value, variance = arguments["input"], arguments["running_var"]
    if arguments.get("training", False) or variance is None:
        return None
    layer = _linear_layer(value)
    if layer is None:
        return _OneInput.apply(lambda: functional.batch_norm(**arguments), value)  # type: ignore[no-untyped-call]
    scale = torch.rsqrt(variance.detach() + arguments.get("eps", 1e-5))
    if arguments.get("weight") is not None:
        scale = scale * arguments["weight"].detach()
    by_channel = scale.view(-1, *[1] * (value.dim() - 2))
    return _layer_excited(lambda: functional.batch_norm(**arguments), layer.scaled(by_channel))


def _combined(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A sum of two tensors, or a tensor and a constant in an elementary operation; None for other functions."""
    plain = _IN_PLACE.get(func, func)
    if len(args) != 2 or kwargs or plain not in _ADDITIONS | _SUBTRACTIONS | _PRODUCTS | _QUOTIENTS:
        return None
    inputs = [value for value in args if isinstance(value, Tensor) and value.requires_grad]
    if len(inputs) == 1 and (inputs[0] is args[0] or plain in _ADDITIONS | _PRODUCTS):
        result = _with_constant(plain, args, inputs[0])
    elif plain in _ADDITIONS and len(inputs) == 2 and inputs[0].shape == inputs[1].shape:
        terms = [_term(value) for value in inputs]
        if func in _IN_PLACE:  # the first term is overwritten
            terms = [(source.clone() if source is args[0] else source, drive) for source, drive in terms]
        result = _excited(lambda: torch.add(*args), terms)
    else:
        return None  # a difference or product of neurons
    return _overwritten(args[0], result) if func in _IN_PLACE and result is not None else result


def _with_constant(plain: Any, args: tuple[Any, ...], value: Tensor) -> Any:
    """An elementary operation of neurons and a constant, folded into their layer; None if it copies the neurons."""
    with torch.no_grad():
        output = plain(*args)
    if output.shape != value.shape:
        return None
    layer = _linear_layer(value)
    if layer is None:
        return _OneInput.apply(output.clone, value)  # type: ignore[no-untyped-call]
    if plain in _PRODUCTS | _QUOTIENTS:
        other = args[1] if value is args[0] else args[0]
        factor = torch.as_tensor(other, dtype=value.dtype, device=value.device)
        layer = layer.scaled(factor.reciprocal() if plain in _QUOTIENTS else factor)
    return _layer_excited(output.clone, layer)


def _term(value: Tensor) -> tuple[Tensor, Drive]:
    """The neurons behind a term of a sum, and how they drive it."""
    layer = _linear_layer(value)
    return (value, lambda values: values) if layer is None else (layer.source, layer.excite)


def _excited(compute: Callable[[], Tensor], terms: Sequence[tuple[Tensor, Drive]]) -> Any:
    sources, drives = zip(*terms, strict=True)
    return _Excitation.apply(compute, drives, *sources)  # type: ignore[no-untyped-call]


def _layer_excited(compute: Callable[[], Tensor], layer: _LinearLayer) -> Any:
    """The outputs of a linear layer, which know it."""
    output = _excited(compute, [(layer.source, layer.excite)])
    _note_layer(output, layer)
    return output


def _note_movement(func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
    """Note the layer of neurons that `func` has moved; not where it adds some of another value than 0."""
    value = args[0] if args else kwargs.get("input")
    layer = _linear_layer(value)
    padding = func is functional.pad and (args[3] if len(args) > 3 else kwargs.get("value"))
    if layer is None or name not in _MOVEMENTS or padding or result is value or not isinstance(result, Tensor):
        return
    named = {name: argument for name, argument in kwargs.items() if name != "input"}
    _note_layer(result, layer.after(lambda output: func(output, *args[1:], **named)))


def _note_layer(output: Tensor, layer: _LinearLayer) -> None:
    """Note which layer has these outputs, for as long as they are not overwritten."""
    output.linear_layer = layer, _version(output)  # type: ignore[attr-defined]  # a note on a tensor, for this mode


def _linear_layer(value: Any) -> _LinearLayer | None:
    """The layer whose outputs these are, if any."""
    layer: _LinearLayer | None
    layer, version = getattr(value, "linear_layer", (None, 0))
    return layer if layer is not None and version == _version(value) else None


def _version(value: Tensor) -> int:
    """How often a tensor, or another view of its memory, was overwritten."""
    version: int = value._version  # noqa: SLF001  # torch has no public name for it
    return version


def _overwritten(value: Any, result: Tensor) -> Tensor:
    """`value`, with the result, its history and its layer in place of what it was."""
    overwritten: Tensor = value.copy_(result)
    layer = _linear_layer(result)
    if layer is not None:
        _note_layer(overwritten, layer)
    return overwritten


def _out_of_place(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Tensor, bool]:
    """The input of an activation, its output, computed from a copy, and whether it would have overwritten the input."""
    value: Any = args[0] if args else kwargs["input"]
    copied = value.detach().clone()
    output = func(copied, *args[1:], **{name: argument for name, argument in kwargs.items() if name != "input"})
    return value, output, output is copied


def _differentiable(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether any tensor among the arguments has a gradient."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, (tuple, list)):
            if _differentiable(tuple(value), {}):
                return True
        elif isinstance(value, Tensor) and value.requires_grad:
            return True
    return False
