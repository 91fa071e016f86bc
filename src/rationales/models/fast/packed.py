"""BERT-like encoders as fast copies run them: the tokens of all rows as one sequence.

There is no padding, tokens attend within their row, a sum and the layer norm after it are one kernel where available,
gradients are accumulated by the matrix products that compute them, and the last layer is run only for the token that
the classifier reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import layer_norm, linear

from rationales.models.batch.rows import Packing
from rationales.models.encoder_layers import BERT, DISTILBERT, ROLES, EncoderLayer, LayerNames, encoder_layer
from rationales.models.fast.attention import attend_packed
from rationales.models.fast.kernels import norm_kernel

# classifiers of transformers: the attributes that lead to the encoder, and the names in a layer
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
def row_lengths(packing: Packing) -> Iterator[None]:
    """Inside the block rows have padding, as described by `packing`; outside they have one length."""
    token = _packing.set(packing)
    try:
        yield
    finally:
        _packing.reset(token)


def can_pack(module: nn.Module) -> bool:
    """Whether `set_packed` works for copies of this classifier."""
    kind = type(module)
    if kind.__name__ not in KNOWN or not kind.__module__.startswith("transformers.models."):
        return False
    where, name, names = KNOWN[kind.__name__]
    layers = getattr(getattr(getattr(module, where, None), name, None), "layer", None) or ()
    return bool(layers) and all(_is_plain_layer(layer, names) for layer in layers)


def set_packed(module: nn.Module, enabled: bool = True) -> bool:
    """Switch packing on or off in a copy of a classifier; returns whether it is on.

    It stays off for unknown architectures, layers with other sub-modules and layers with hooks.
    """
    kind = type(module)
    if kind.__name__ not in KNOWN or not kind.__module__.startswith("transformers.models."):
        return False
    where, name, names = KNOWN[kind.__name__]
    core = getattr(module, where, None)
    encoder = getattr(core, name, None)
    if isinstance(encoder, PackedEncoder):
        if not enabled:
            setattr(core, name, encoder.plain)
        return enabled
    layers = getattr(encoder, "layer", None)
    if not enabled or not layers or not all(_is_plain_layer(layer, names) for layer in layers):
        return False
    setattr(core, name, PackedEncoder(cast("nn.Module", encoder), names))
    return True


def _is_plain_layer(layer: nn.Module, names: LayerNames) -> bool:
    """Whether a layer has exactly the known sub-modules and no hooks."""
    submodules = dict(layer.named_modules())
    with_weights = {
        name for name, submodule in submodules.items() if next(submodule.parameters(recurse=False), None) is not None
    }
    known = {getattr(names, role) for role in ROLES}
    if with_weights != known or any(type(submodules[name]) not in (nn.Linear, nn.LayerNorm) for name in known):
        return False
    hooked = any(submodule._forward_hooks or submodule._forward_pre_hooks for submodule in submodules.values())  # noqa: SLF001
    return not hooked and not getattr(layer, "is_decoder", False)


class PackedEncoder(nn.Module):
    """Replacement of an encoder that uses its weights."""

    def __init__(self, plain: nn.Module, names: LayerNames) -> None:
        super().__init__()
        self.plain = plain
        layers: Any = plain.layer
        self.layers = [
            _PackedLayer(
                encoder_layer(layer, names), attrgetter(names.activation)(layer), attrgetter(names.heads)(layer)
            )
            for layer in layers
        ]

    def forward(self, hidden_states: Tensor, *_: Any, **__: Any) -> Any:
        """(R, T, hidden) -> (R, 1, hidden) in transformers' output class."""
        from transformers.modeling_outputs import BaseModelOutputWithPastAndCrossAttentions

        count, size = hidden_states.shape[:2]
        packing = _packing.get()
        x = hidden_states.flatten(0, 1)
        if packing is None:
            first = torch.arange(0, count * size, size, device=x.device)
        else:
            x, first = x[packing.token_indices(size)], packing.ends[:-1]
        for layer in self.layers[:-1]:
            x = layer.run(x, count, packing)
        read: Any = self.layers[-1].run(x, count, packing, first)[:, None]
        return BaseModelOutputWithPastAndCrossAttentions(last_hidden_state=read)


@dataclass(frozen=True, eq=False)
class _PackedLayer:
    weights: EncoderLayer
    activation: Callable[[Tensor], Tensor]
    heads: int

    def run(self, x: Tensor, count: int, packing: Packing | None, only: Tensor | None = None) -> Tensor:
        """(N, hidden) of `count` rows -> (N, hidden), or (R, hidden) if `only` these tokens are needed."""
        weights = self.weights
        if only is None:
            x, query, key, value = with_products(x, weights.query, weights.key, weights.value)
        else:
            key, value = weights.key(x), weights.value(x)
            x, query = with_products(x[only], weights.query)
        by_head = [projection.view(len(projection), self.heads, -1) for projection in (query, key, value)]
        ends = None if packing is None else (packing.ends, packing.longest)
        attended = attend_packed(by_head[0], by_head[1], by_head[2], count, ends).flatten(1)
        x = add_norm(weights.attention_output(attended), x, weights.attention_norm)
        x, intermediate = with_products(x, weights.intermediate)
        return add_norm(weights.output(self.activation(intermediate)), x, weights.output_norm)


def with_products(x: Tensor, *products: nn.Linear) -> tuple[Tensor, ...]:
    """x and its linear projections; the backward pass adds their gradients into the gradient of x in place.

    x must be used by `add_norm` and nowhere else, because the gradient that comes from there is overwritten.
    """
    weights = [weight for product in products for weight in (product.weight, product.bias)]
    return cast("tuple[Tensor, ...]", _WithProducts.apply(x, *weights))  # type: ignore[no-untyped-call]  # torch's own


class _WithProducts(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
        ctx.save_for_backward(*weights[::2])
        return (x.view_as(x), *(linear(x, *pair) for pair in zip(weights[::2], weights[1::2], strict=True)))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, *product_gradients: Tensor) -> tuple[Tensor | None, ...]:
        for product_gradient, weight in zip(product_gradients, ctx.saved_tensors, strict=True):
            gradient = gradient.addmm_(product_gradient, weight)
        return (gradient, *(2 * len(product_gradients) * [None]))


def add_norm(x: Tensor, y: Tensor, norm: nn.LayerNorm) -> Tensor:
    """Layer norm of x + y."""
    kernel = norm_kernel(x)
    if kernel is None:
        return layer_norm(x + y, norm.normalized_shape, norm.weight, norm.bias, norm.eps)
    normed = _AddNorm.apply(kernel, x, y, norm.weight, norm.bias, norm.eps)  # type: ignore[no-untyped-call]
    return cast("Tensor", normed)


class _AddNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, kernel: Any, x: Tensor, y: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
        total, mean, scale, normed = kernel.forward(x, y, weight, bias, eps)
        ctx.save_for_backward(total, mean, scale, weight)
        ctx.kernel = kernel
        return cast("Tensor", normed)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        input_gradient = ctx.kernel.backward(gradient, *ctx.saved_tensors)
        return None, input_gradient, input_gradient, None, None, None
