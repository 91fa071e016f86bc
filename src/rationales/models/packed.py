"""Encoders of BERT's shape as half-precision copies run them: the tokens of all rows one after the other.

Nothing is run for what fills rows up, rows attend apart from each other, a sum and the normalisation after it are one
kernel where there is one, gradients that meet are added by the products that make them, and the last layer is run for
nothing but the token that the classifier reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from operator import attrgetter
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import layer_norm, linear

from rationales.models.attention import attend_in_line
from rationales.models.kernels import norm_kernel
from rationales.models.rows import Packing


@dataclass(frozen=True)
class Names:
    """What a layer calls its parts."""

    query: str = "attention.self.query"
    key: str = "attention.self.key"
    value: str = "attention.self.value"
    seen: str = "attention.output.dense"
    middle: str = "attention.output.LayerNorm"
    inner: str = "intermediate.dense"
    outer: str = "output.dense"
    last: str = "output.LayerNorm"
    bend: str = "intermediate.intermediate_act_fn"
    heads: str = "attention.self.num_attention_heads"


BERT = Names()
DISTILBERT = Names(
    *("attention.q_lin", "attention.k_lin", "attention.v_lin", "attention.out_lin", "sa_layer_norm"),
    *("ffn.lin1", "ffn.lin2", "output_layer_norm", "ffn.activation", "attention.n_heads"),
)
# classifiers of transformers' own, where their encoders are, and what is in a layer
KNOWN = {
    "BertForSequenceClassification": ("bert", "encoder", BERT),
    "RobertaForSequenceClassification": ("roberta", "encoder", BERT),
    "XLMRobertaForSequenceClassification": ("roberta", "encoder", BERT),
    "CamembertForSequenceClassification": ("roberta", "encoder", BERT),
    "ElectraForSequenceClassification": ("electra", "encoder", BERT),
    "DistilBertForSequenceClassification": ("distilbert", "transformer", DISTILBERT),
}
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
    where, name, names = KNOWN[kind.__name__]
    core = getattr(module, where, None)
    encoder = getattr(core, name, None)
    if isinstance(encoder, PackedEncoder):
        if not wanted:
            setattr(core, name, encoder.plain)
        return wanted
    layers = getattr(encoder, "layer", None)
    if not wanted or not layers or not all(_usual(one, names) for one in layers):
        return False
    setattr(core, name, PackedEncoder(cast("nn.Module", encoder), names))
    return True


def _usual(layer: nn.Module, names: Names) -> bool:
    """Whether it is made of what is known here and of nothing else, and nobody listens to it."""
    parts = dict(layer.named_modules())
    weighty = {name for name, part in parts.items() if next(part.parameters(recurse=False), None) is not None}
    known = {value for name, value in asdict(names).items() if name not in ("bend", "heads")}
    if weighty != known or any(type(parts[name]) not in (nn.Linear, nn.LayerNorm) for name in known):
        return False
    hooked = any(part._forward_hooks or part._forward_pre_hooks for part in parts.values())  # noqa: SLF001
    return not hooked and not getattr(layer, "is_decoder", False)


class PackedEncoder(nn.Module):
    """In place of an encoder, with its weights."""

    def __init__(self, plain: nn.Module, names: Names) -> None:
        super().__init__()
        self.plain = plain
        layers: Any = plain.layer
        self.layers = [
            _Layer(**{part: attrgetter(name)(layer) for part, name in asdict(names).items()}) for layer in layers
        ]

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
        for layer in self.layers[:-1]:
            x = layer.run(x, count, packing)
        read: Any = self.layers[-1].run(x, count, packing, first)[:, None]
        return BaseModelOutputWithPastAndCrossAttentions(last_hidden_state=read)


@dataclass(frozen=True, eq=False)
class _Layer:
    query: nn.Linear
    key: nn.Linear
    value: nn.Linear
    seen: nn.Linear
    middle: nn.LayerNorm
    inner: nn.Linear
    outer: nn.Linear
    last: nn.LayerNorm
    bend: Callable[[Tensor], Tensor]
    heads: int

    def run(self, x: Tensor, count: int, packing: Packing | None, only: Tensor | None = None) -> Tensor:
        """(N, hidden) of so many rows -> (N, hidden), or (R, hidden) where `only` these tokens are read."""
        if only is None:
            x, query, key, value = beside(x, self.query, self.key, self.value)
        else:
            key, value = self.key(x), self.value(x)
            x, query = beside(x[only], self.query)
        parted = [one.view(len(one), self.heads, -1) for one in (query, key, value)]
        ends = None if packing is None else (packing.ends, packing.longest)
        seen = attend_in_line(parted[0], parted[1], parted[2], count, ends).flatten(1)
        x = add_norm(self.seen(seen), x, self.middle)
        x, inner = beside(x, self.inner)
        return add_norm(self.outer(self.bend(inner)), x, self.last)


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
