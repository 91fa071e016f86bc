"""Hash of a module's weights, remembered until they change."""

from __future__ import annotations

import hashlib
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

# of modules' weights, until they change
_CACHED_DIGESTS: WeakKeyDictionary[nn.Module, tuple[Any, bytes]] = WeakKeyDictionary()


def weights_digest(module: nn.Module) -> bytes:
    """Hash of all weights in their order, without their names, which a wrapper may change."""
    tensors = [value for value in module.state_dict().values() if isinstance(value, Tensor)]
    versions = _versions(tensors)
    cached = _CACHED_DIGESTS.get(module)
    if cached is not None and versions is not None and cached[0] == versions:
        return cached[1]
    digest = hashlib.blake2b(digest_size=16)
    for value in tensors:
        digest.update(repr(tuple(value.shape)).encode())
        digest.update(raw_bytes(value))
    _CACHED_DIGESTS[module] = (versions, digest.digest())
    return digest.digest()


def _versions(tensors: list[Tensor]) -> Any:
    """Changes when a weight is written to or replaced; None for inference tensors, which have no version counter."""
    if any(value.is_inference() for value in tensors):
        return None
    return [(value.data_ptr(), value.dtype, value._version) for value in tensors]  # noqa: SLF001  # the only counter


def raw_bytes(value: Tensor) -> Any:
    """The values as bytes of single precision, so that a copy in double precision has the same fingerprint."""
    plain = value.detach().cpu()
    plain = plain.to(torch.float32) if plain.is_floating_point() else plain
    return plain.contiguous().view(-1).view(torch.uint8).numpy()
