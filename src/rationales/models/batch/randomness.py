"""Counter-based random numbers: each is a function of a key and a position, not of earlier numbers.

An input therefore gets the same numbers alone, in any batch, in any order and with any padding, and no global state is
used. The mixing function is the finaliser of splitmix64 (Steele, Lea and Flood 2014), on int64 tensors, which wrap.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Sequence

import torch
from torch import Tensor

_GOLDEN = -7046029254386353131  # 0x9E3779B97F4A7C15 as a signed number
_FIRST = -4658895280553007687  # 0xBF58476D1CE4E5B9
_SECOND = -7723592293110705685  # 0x94D049BB133111EB


def content_key(seed: int, *content: str | bytes | int | None) -> int:
    """A signed 64-bit key from a seed and an input's content."""
    digest = hashlib.blake2b(repr((seed, content)).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def mix(value: Tensor) -> Tensor:
    """int64 -> int64: every bit of the result depends on every bit of the value."""
    value = value * 1  # a copy: the steps below work in place
    value.bitwise_xor_(_shift(value, 30)).mul_(_FIRST)
    value.bitwise_xor_(_shift(value, 27)).mul_(_SECOND)
    return value.bitwise_xor_(_shift(value, 31))


def fold(key: Tensor, *numbers: int | Tensor) -> Tensor:
    """Keys derived for another purpose, step or variant; each of `numbers` is a scalar or (R,)."""
    for number in numbers:
        step = (number + 1) * _GOLDEN
        key = mix(key + (_wrapped(step) if isinstance(step, int) else step))
    return key


def uniform(key: Tensor, count: int) -> Tensor:
    """(R,) keys -> (R, count) float64 numbers in (0, 1)."""
    bits = _bits(key, count)
    return (_shift(bits, 12).double() + 0.5) * 2.0**-52  # 53 bits and a half would round up to 1


def normal(key: Tensor, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """(R,) keys -> (R, *shape) standard normal numbers, from 65,536 equally likely quantiles (largest: 4.3).

    Four numbers of the last axis come from 64 bits, so that a number depends only on its key, its position and the size
    of the last axis.
    """
    rows, last = math.prod(shape[:-1]), shape[-1]
    quarter = (last + 3) // 4
    bits = _bits(key, rows * quarter).view(torch.int16).view(len(key), rows, quarter * 4)
    table_index = bits[..., :last].to(torch.int32).add_(1 << 15)
    table = _normal_quantiles(key.device, dtype)
    return table.index_select(0, table_index.reshape(-1)).view(len(key), *shape)


@functools.cache
def _normal_quantiles(device: torch.device, dtype: torch.dtype) -> Tensor:
    """Normal quantiles at the centres of 2^16 equal shares of probability."""
    share = (torch.arange(1 << 16, dtype=torch.float64) + 0.5) / (1 << 16)
    quantiles: Tensor = torch.special.ndtri(share)
    return quantiles.to(device=device, dtype=dtype)


def _bits(key: Tensor, count: int) -> Tensor:
    counter = torch.arange(1, count + 1, device=key.device, dtype=torch.int64) * _GOLDEN
    return mix(key[:, None] + counter)


def _wrapped(number: int) -> int:
    """The number as a signed 64-bit integer, wrapped around."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def _shift(value: Tensor, bits: int) -> Tensor:
    """Logical right shift, without sign extension."""
    return (value >> bits) & ((1 << (64 - bits)) - 1)
