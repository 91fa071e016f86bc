"""Encoders of BERT's shape as half-precision copies run them: the tokens of all rows one after the other.

Nothing is run for what fills rows up, rows attend apart from each other, a sum and the normalisation after it are one
kernel where there is one, gradients that meet are added by the products that make them, and the last layer is run for
nothing but the token that the classifier reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import layer_norm, linear

from rationales.models.attention import attend_in_line
from rationales.models.kernels import norm_kernel
from rationales.models.rows import Packing

# classifiers of transformers' own, and where their encoders are
KNOWN = {
    "BertForSequenceClassification": "bert",
    "RobertaForSequenceClassification": "roberta",
    "XLMRobertaForSequenceClassification": "roberta",
    "ElectraForSequenceClassification": "electra",
}
_PARTS = (  # of a layer: all that it has weights in
    *("attention.self.query", "attention.self.key", "attention.self.value"),
    *("attention.output.dense", "attention.output.LayerNorm"),
    *("intermediate.dense", "output.dense", "output.LayerNorm"),
)


_packing: ContextVar[Packing | None] = ContextVar("packing", default=None)


@contextmanager
def rows(packing: Packing) -> Iterator[None]:
    """Inside the block rows are filled up; outside of it all are of one length."""
    token = _packing.set(packing)
    try:
        yield
    finally:
        _packing.reset(token)


def use(module: nn.Module, wanted: bool = True) -> bool:
    """Let a copy of a classifier run so, or as it was; False where it is of another shape, or has its own idea."""
    kind = type(module)
    if kind.__name__ not in KNOWN or not kind.__module__.startswith("transformers.models."):
        return False
    core: Any = getattr(module, KNOWN[kind.__name__], None)
    encoder: Any = getattr(core, "encoder", None)
    if isinstance(encoder, PackedEncoder):
        if not wanted:
            core.encoder = encoder.plain
        return wanted
    layers = getattr(encoder, "layer", None)
    if not wanted or not layers or not all(map(_usual, layers)):
        return False
    core.encoder = PackedEncoder(encoder)
    return True


def _usual(layer: Any) -> bool:
    """Whether it is made of what is known here and of nothing else, and nobody listens to it."""
    parts = dict(layer.named_modules())
    weighty = {name for name, part in parts.items() if next(part.parameters(recurse=False), None) is not None}
    if weighty != set(_PARTS) or any(type(parts[name]) not in (nn.Linear, nn.LayerNorm) for name in _PARTS):
        return False
    hooked = any(part._forward_hooks or part._forward_pre_hooks for part in parts.values())  # noqa: SLF001
    return not hooked and not getattr(layer, "is_decoder", False)


class PackedEncoder(nn.Module):
    """In place of an encoder, with its weights."""

    def __init__(self, plain: nn.Module) -> None:
        super().__init__()
        self.plain = plain

    def forward(self, hidden_states: Tensor, *_: Any, **__: Any) -> Any:
        """(R, T, hidden) -> (R, 1, hidden), as transformers wraps it."""
        from transformers.modeling_outputs import BaseModelOutputWithPastAndCrossAttentions

        count, size = hidden_states.shape[:2]
        packing = _packing.get()
        x = hidden_states.flatten(0, 1)
        if packing is None:
            first = torch.arange(0, count * size, size, device=x.device)
        else:
            x, first = x[packing.places(size)], packing.ends[:-1]
        layers: Any = self.plain.layer
        for number, layer in enumerate(layers):
            x = _layer(layer, x, count, packing, first if number == len(layers) - 1 else None)
        read: Any = x[:, None]
        return BaseModelOutputWithPastAndCrossAttentions(last_hidden_state=read)


def _layer(layer: Any, x: Tensor, count: int, packing: Packing | None, only: Tensor | None) -> Tensor:
    """(N, hidden) -> (N, hidden), or (R, hidden) where `only` these tokens are read."""
    own = layer.attention.self
    if only is None:
        x, query, key, value = beside(x, own.query, own.key, own.value)
    else:
        key, value = own.key(x), own.value(x)
        x, query = beside(x[only], own.query)
    heads = [one.view(len(one), own.num_attention_heads, -1) for one in (query, key, value)]
    ends = None if packing is None else (packing.ends, packing.longest)
    seen = attend_in_line(heads[0], heads[1], heads[2], count, ends, own.scaling).flatten(1)
    x = add_norm(layer.attention.output.dense(seen), x, layer.attention.output.LayerNorm)
    x, inner = beside(x, layer.intermediate.dense)
    return add_norm(layer.output.dense(layer.intermediate.intermediate_act_fn(inner)), x, layer.output.LayerNorm)


def beside(x: Tensor, *products: nn.Linear) -> tuple[Tensor, ...]:
    """x itself, and its products: gradients of all of them are added up where x has one, without a sum of its own.

    x must go into `add_norm`, and nowhere else: what comes back from there is overwritten.
    """
    weights = [weight for one in products for weight in (one.weight, one.bias)]
    return cast("tuple[Tensor, ...]", _Beside.apply(x, *weights))  # type: ignore[no-untyped-call]  # torch's own


class _Beside(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
        ctx.save_for_backward(*weights[::2])
        return (x.view_as(x), *(linear(x, *pair) for pair in zip(weights[::2], weights[1::2], strict=True)))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, own: Tensor, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        for slope, weight in zip(slopes, ctx.saved_tensors, strict=True):
            own = own.addmm_(slope, weight)
        return (own, *(2 * len(slopes) * [None]))


def add_norm(x: Tensor, y: Tensor, norm: nn.LayerNorm) -> Tensor:
    """The normalised sum of both."""
    kernel = norm_kernel(x)
    if kernel is None:
        return layer_norm(x + y, norm.normalized_shape, norm.weight, norm.bias, norm.eps)
    found = _AddNorm.apply(kernel, x, y, norm.weight, norm.bias, norm.eps)  # type: ignore[no-untyped-call]
    return cast("Tensor", found)


class _AddNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, kernel: Any, x: Tensor, y: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
        total, mean, scale, normed = kernel.forward(x, y, weight, bias, eps)
        ctx.save_for_backward(total, mean, scale, weight)
        ctx.kernel = kernel
        return cast("Tensor", normed)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        found = ctx.kernel.backward(slope, *ctx.saved_tensors)
        return None, found, found, None, None, None
