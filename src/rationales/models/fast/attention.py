"""Attention without a mask, for copies of encoders in half precision.

The fast kernels take no mask. Rows of unequal length are therefore treated as two sequences each that do not attend to
each other: the tokens and the padding. This is exact for the tokens, and the padding is not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import scaled_dot_product_attention as _attend

from rationales.models.fast.kernels import attention_kernel

NAME = "rationales-unmasked"
_KNOWN_OPTIONS = {
    "is_causal",
    "dropout",
    "scaling",
    "output_attentions",
    "output_hidden_states",
    "return_dict",
    "use_cache",
}
_rows: ContextVar[tuple[Tensor, int] | None] = ContextVar("rows", default=None)


def set_unmasked(module: nn.Module, enabled: bool = True) -> bool:
    """Switch this attention on or off in a copy of a Hugging Face encoder; returns whether it is on.

    It stays off in decoders and in models with another attention than torch's `sdpa`.
    """
    config: Any = getattr(module, "config", None)
    if getattr(config, "_attn_implementation", None) == NAME:
        config._attn_implementation = NAME if enabled else "sdpa"  # noqa: SLF001  # the copy's own
        return enabled
    if not enabled:
        return False
    causal = getattr(config, "is_decoder", False) or getattr(config, "is_encoder_decoder", False)
    if getattr(config, "_attn_implementation", None) != "sdpa" or causal or not _registered():
        return False
    if any(getattr(submodule, "is_causal", False) for submodule in module.modules()):
        return False
    config._attn_implementation = NAME  # noqa: SLF001  # the copy's own; its layers look there
    return True


@contextmanager
def row_lengths(attention: Tensor) -> Iterator[None]:
    """Inside the block, rows have the lengths of the mask `attention` (R, T), which is 0 for padding on the right."""
    size = attention.shape[1]
    first = torch.arange(len(attention), device=attention.device) * size
    ends = torch.stack([first + attention.sum(1), first + size], 1).flatten()  # after the tokens, after the padding
    token = _rows.set((torch.cat([ends.new_zeros(1), ends]).int(), size))
    try:
        yield
    finally:
        _rows.reset(token)


def attend(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    """(R, heads, T, size) three times -> (R, T, heads, size); outside of `row_lengths` there is no padding."""
    rows, unknown = (
        _rows.get(),
        [name for name, option in options.items() if name not in _KNOWN_OPTIONS and option is not None],
    )
    if attention_mask is not None or unknown or query.shape != key.shape or options.get("is_causal"):
        raise NotImplementedError(f"attention of {type(module).__name__} with {unknown or 'a mask'} of its own")
    shape = query.transpose(1, 2).shape
    usual = options.get("scaling") in (None, shape[-1] ** -0.5)
    scale: dict[str, Any] = {} if usual else {"scale": options["scaling"]}  # not all kernels take it
    if rows is None:
        return _attend(query, key, value, **scale).transpose(1, 2), None
    flat = [tensor.transpose(1, 2).flatten(0, 1) for tensor in (query, key, value)]
    return _attend_rows(flat[0], flat[1], flat[2], *rows, scale).view(shape), None


def attend_packed(
    query: Tensor, key: Tensor, value: Tensor, rows: int, ends: tuple[Tensor, int] | None = None
) -> Tensor:
    """(N, heads, size) three times -> (N, heads, size): attention within packed rows.

    `ends`: 0 and the cumulative lengths, and the longest length; None: all rows have one length. There may be fewer
    queries: one per row.
    """
    if ends is None:
        split_by_row = [tensor.view(rows, -1, *tensor.shape[1:]).transpose(1, 2) for tensor in (query, key, value)]
        attended = _attend_in_single(split_by_row[0], split_by_row[1], split_by_row[2])
        return attended.transpose(1, 2).flatten(0, 1)
    if len(query) == len(key):
        return _attend_rows(query, key, value, *ends, {})
    single = torch.arange(rows + 1, device=query.device, dtype=torch.int32)
    return _attend_rows(query, key, value, *ends, {}, (single, 1))


def _attend_rows(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    ends: Tensor,
    longest: int,
    scale: dict[str, Any],
    query_layout: tuple[Tensor, int] | None = None,
) -> Tensor:
    """(N, heads, size): attention within each sequence; `query_layout`: ends and longest of other queries."""
    kernel = attention_kernel(query, len(ends) - 1)
    if kernel is not None and query_layout is None:
        factor = scale.get("scale", query.shape[-1] ** -0.5)
        attended = _KernelAttention.apply(kernel, query, key, value, ends, longest, factor)  # type: ignore[no-untyped-call]
        return cast("Tensor", attended)
    query_ends, longest_query = query_layout or (ends, longest)
    if query.device.type == "cuda":
        from torch.nn.attention.varlen import varlen_attn

        return cast("Tensor", varlen_attn(query, key, value, query_ends, ends, longest_query, longest, **scale))
    # without such a kernel: sequence by sequence
    cuts = [
        torch.tensor_split(tensor, at[1:-1].long()) for tensor, at in ((query, query_ends), (key, ends), (value, ends))
    ]
    sequences = zip(*cuts, strict=True)
    return torch.cat(
        [
            _attend_in_single(*(tensor.transpose(0, 1) for tensor in sequence), **scale).transpose(0, 1)
            for sequence in sequences
        ]
    )


def _attend_in_single(query: Tensor, key: Tensor, value: Tensor, **scale: Any) -> Tensor:
    """Attention; on a CPU in single precision, where the backward pass in bfloat16 is 30 times slower (torch 2.13)."""
    if query.device.type != "cpu" or query.dtype != torch.bfloat16:
        return _attend(query, key, value, **scale)
    return _attend(query.float(), key.float(), value.float(), **scale).to(query.dtype)


class _KernelAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, kernel: Any, query: Tensor, key: Tensor, value: Tensor, ends: Tensor, longest: int, scale: float
    ) -> Tensor:
        query, key, value = query.contiguous(), key.contiguous(), value.contiguous()
        attended, log_normaliser = kernel.forward(query, key, value, ends, longest, scale)
        ctx.save_for_backward(query, key, value, attended, log_normaliser, ends)
        ctx.kernel, ctx.longest, ctx.scale = kernel, longest, scale
        return cast("Tensor", attended)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        input_gradients = ctx.kernel.backward(gradient, *ctx.saved_tensors, ctx.longest, ctx.scale)
        return None, *input_gradients, None, None, None


def _registered() -> bool:
    """Register this attention with transformers; False if torch or transformers is too old."""
    try:
        from torch.nn.attention import varlen  # noqa: F401  # from torch 2.10 on
        from transformers import AttentionInterface, AttentionMaskInterface
    except ImportError:
        return False
    AttentionInterface.register(NAME, attend)
    AttentionMaskInterface.register(NAME, _no_mask)
    return True


def _no_mask(*_: Any, mask_function: Any = None, **options: Any) -> None:
    """No mask, if the model only masks padding; other masks are refused."""
    from transformers.masking_utils import bidirectional_mask_function

    if mask_function is not bidirectional_mask_function or options.get("local_size") is not None:
        raise NotImplementedError("the model needs a mask of its own")
