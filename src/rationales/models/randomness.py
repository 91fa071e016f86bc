"""Random numbers by counting: every number is a function of a key and a place, not of what was drawn before.

So an input draws the same numbers alone, in any batch, in any order and at any padding, and nothing global is touched.
The mixing function is splitmix64's finaliser (Steele, Lea and Flood 2014), on int64 tensors that wrap around.
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
    """A signed 64-bit key made from a seed and an input's content."""
    digest = hashlib.blake2b(repr((seed, content)).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def mix(value: Tensor) -> Tensor:
    """int64 -> int64: every bit of the result depends on every bit of the value."""
    value = value * 1  # a copy: the steps below work in place
    value.bitwise_xor_(_shift(value, 30)).mul_(_FIRST)
    value.bitwise_xor_(_shift(value, 27)).mul_(_SECOND)
    return value.bitwise_xor_(_shift(value, 31))


def fold(key: Tensor, *numbers: int | Tensor) -> Tensor:
    """Keys for another purpose, step or variant; `numbers` are one for all or (R,). Equal in, equal out."""
    for number in numbers:
        step = (number + 1) * _GOLDEN
        key = mix(key + (_wrapped(step) if isinstance(step, int) else step))
    return key


def uniform(key: Tensor, count: int) -> Tensor:
    """(R,) keys -> (R, count) float64 numbers in (0, 1)."""
    bits = _bits(key, count)
    return (_shift(bits, 12).double() + 0.5) * 2.0**-52  # 53 bits and a half would round up to 1


def normal(key: Tensor, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """(R,) keys -> (R, *shape) standard normal numbers, at 65,536 equally likely places (largest: 4.3).

    The last axis is drawn four at a time from 64 bits, so a number depends on its key, its place and the size of the
    last axis alone.
    """
    rows, last = math.prod(shape[:-1]), shape[-1]
    quarter = (last + 3) // 4
    bits = _bits(key, rows * quarter).view(torch.int16).view(len(key), rows, quarter * 4)
    place = bits[..., :last].to(torch.int32).add_(1 << 15)
    table = _normal_places(key.device, dtype)
    return table.index_select(0, place.reshape(-1)).view(len(key), *shape)


@functools.cache
def _normal_places(device: torch.device, dtype: torch.dtype) -> Tensor:
    """The inverse of the normal distribution function in the middle of 2^16 equal shares."""
    share = (torch.arange(1 << 16, dtype=torch.float64) + 0.5) / (1 << 16)
    places: Tensor = torch.special.ndtri(share)
    return places.to(device=device, dtype=dtype)


def _bits(key: Tensor, count: int) -> Tensor:
    place = torch.arange(1, count + 1, device=key.device, dtype=torch.int64) * _GOLDEN
    return mix(key[:, None] + place)


def _wrapped(number: int) -> int:
    """As 64 bits with a sign, as tensors count."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def _shift(value: Tensor, bits: int) -> Tensor:
    """A logical shift to the right: the sign does not come along."""
    return (value >> bits) & ((1 << (64 - bits)) - 1)
