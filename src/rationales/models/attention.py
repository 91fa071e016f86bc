"""Attention without a mask, for copies of encoders in half precision.

A mask keeps the fast kernels away. Where rows are of unequal length, every row is taken as two sequences that do not
see each other: its tokens, and what fills it up. That is exact for the tokens, and nobody reads the rest.
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

from rationales.models.kernels import attention_kernel

NAME = "rationales-apart"
_KNOWN = {"is_causal", "dropout", "scaling", "output_attentions", "output_hidden_states", "return_dict", "use_cache"}
_rows: ContextVar[tuple[Tensor, int] | None] = ContextVar("rows", default=None)


def use(module: nn.Module, wanted: bool = True) -> bool:
    """Let a copy of a Hugging Face encoder attend so, or not; False where it has another attention of its own."""
    config: Any = getattr(module, "config", None)
    if getattr(config, "_attn_implementation", None) == NAME:
        config._attn_implementation = NAME if wanted else "sdpa"  # noqa: SLF001  # the copy's own
        return wanted
    if not wanted:
        return False
    causal = getattr(config, "is_decoder", False) or getattr(config, "is_encoder_decoder", False)
    if getattr(config, "_attn_implementation", None) != "sdpa" or causal or not _registered():
        return False
    if any(getattr(part, "is_causal", False) for part in module.modules()):
        return False
    config._attn_implementation = NAME  # noqa: SLF001  # the copy's own; its layers look there
    return True


@contextmanager
def rows_of(attention: Tensor) -> Iterator[None]:
    """Inside the block, `attention` (R, T) says which tokens are no fill-up; these come first in every row."""
    size = attention.shape[1]
    first = torch.arange(len(attention), device=attention.device) * size
    ends = torch.stack([first + attention.sum(1), first + size], 1).flatten()  # after the tokens, after the fill-up
    token = _rows.set((torch.cat([ends.new_zeros(1), ends]).int(), size))
    try:
        yield
    finally:
        _rows.reset(token)


def attend(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **more: Any
) -> tuple[Tensor, None]:
    """(R, heads, T, size) three times -> (R, T, heads, size); outside of `rows_of` every row is full."""
    rows, unknown = _rows.get(), [name for name, given in more.items() if name not in _KNOWN and given is not None]
    if attention_mask is not None or unknown or query.shape != key.shape or more.get("is_causal"):
        raise NotImplementedError(f"attention of {type(module).__name__} with {unknown or 'a mask'} of its own")
    shape = query.transpose(1, 2).shape
    usual = more.get("scaling") in (None, shape[-1] ** -0.5)
    scale: dict[str, Any] = {} if usual else {"scale": more["scaling"]}  # not all kernels can be told
    if rows is None:
        return _attend(query, key, value, **scale).transpose(1, 2), None
    flat = [one.transpose(1, 2).flatten(0, 1) for one in (query, key, value)]
    return _apart(flat[0], flat[1], flat[2], *rows, scale).view(shape), None


def attend_in_line(
    query: Tensor, key: Tensor, value: Tensor, rows: int, ends: tuple[Tensor, int] | None = None
) -> Tensor:
    """(N, heads, size) three times -> (N, heads, size): tokens of all rows one after the other.

    `ends`: 0 and where each row ends, and the size of the longest; without them all are of one size. There may be fewer
    queries: one of each row.
    """
    if ends is None:
        parted = [one.view(rows, -1, *one.shape[1:]).transpose(1, 2) for one in (query, key, value)]
        return _attend(parted[0], parted[1], parted[2]).transpose(1, 2).flatten(0, 1)
    if len(query) == len(key):
        return _apart(query, key, value, *ends, {})
    single = torch.arange(rows + 1, device=query.device, dtype=torch.int32)
    return _apart(query, key, value, *ends, {}, (single, 1))


def _apart(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    ends: Tensor,
    longest: int,
    scale: dict[str, Any],
    asking: tuple[Tensor, int] | None = None,
) -> Tensor:
    """(N, heads, size): every sequence by itself; `asking`: ends and size of queries that are not as many as keys."""
    kernel = attention_kernel(query, len(ends) - 1)
    if kernel is not None and asking is None:
        factor = scale.get("scale", query.shape[-1] ** -0.5)
        found = _Apart.apply(kernel, query, key, value, ends, longest, factor)  # type: ignore[no-untyped-call]
        return cast("Tensor", found)
    first, most = asking or (ends, longest)
    if query.device.type == "cuda":
        from torch.nn.attention.varlen import varlen_attn

        return cast("Tensor", varlen_attn(query, key, value, first, ends, most, longest, **scale))
    # where there is no such kernel: sequence by sequence
    cuts = [torch.tensor_split(one, at[1:-1].long()) for one, at in ((query, first), (key, ends), (value, ends))]
    parts = zip(*cuts, strict=True)
    return torch.cat([_attend(*(one.transpose(0, 1) for one in part), **scale).transpose(0, 1) for part in parts])


class _Apart(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, kernel: Any, query: Tensor, key: Tensor, value: Tensor, ends: Tensor, longest: int, scale: float
    ) -> Tensor:
        query, key, value = query.contiguous(), key.contiguous(), value.contiguous()
        found, total = kernel.forward(query, key, value, ends, longest, scale)
        ctx.save_for_backward(query, key, value, found, total, ends)
        ctx.kernel, ctx.longest, ctx.scale = kernel, longest, scale
        return cast("Tensor", found)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        slopes = ctx.kernel.backward(slope, *ctx.saved_tensors, ctx.longest, ctx.scale)
        return None, *slopes, None, None, None


def _registered() -> bool:
    """Tell transformers of it; False where torch or transformers are too old."""
    try:
        from torch.nn.attention import varlen  # noqa: F401  # from torch 2.10 on
        from transformers import AttentionInterface, AttentionMaskInterface
    except ImportError:
        return False
    AttentionInterface.register(NAME, attend)
    AttentionMaskInterface.register(NAME, _no_mask)
    return True


def _no_mask(*_: Any, mask_function: Any = None, **more: Any) -> None:
    """No mask, where no more was asked for than that fill-up is not seen."""
    from transformers.masking_utils import bidirectional_mask_function

    if mask_function is not bidirectional_mask_function or more.get("local_size") is not None:
        raise NotImplementedError("a mask of the model's own")
