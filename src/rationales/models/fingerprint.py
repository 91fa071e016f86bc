"""What tells one text classifier from another: its weights, its labels and its baseline."""

from __future__ import annotations

import hashlib
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from rationales.models.text_batch import TextBatch

_SEEN: WeakKeyDictionary[nn.Module, tuple[Any, bytes]] = WeakKeyDictionary()  # weights are hashed once, until they move


def fingerprint(batch: TextBatch) -> str:
    """Equal for two batches if what is explained is the same classifier, wherever it lies and however it is wrapped."""
    digest = hashlib.blake2b(digest_size=16)
    for network in batch.networks:
        digest.update(_weights(network.module))
        digest.update(_raw(network.baseline))
        digest.update(repr(_labels(network.module)).encode())
    digest.update(repr((batch.head.value, batch.classes)).encode())
    return digest.hexdigest()


def _weights(module: nn.Module) -> bytes:
    """A hash of all weights in their order; names do not count, so that a wrapper changes nothing."""
    tensors = [value for value in module.state_dict().values() if isinstance(value, Tensor)]
    now = _versions(tensors)
    seen = _SEEN.get(module)
    if seen is not None and now is not None and seen[0] == now:
        return seen[1]
    digest = hashlib.blake2b(digest_size=16)
    for value in tensors:
        digest.update(repr(tuple(value.shape)).encode())
        digest.update(_raw(value))
    _SEEN[module] = (now, digest.digest())
    return digest.digest()


def _versions(tensors: list[Tensor]) -> Any:
    """What changes when a weight is written to or replaced; None where nobody counts."""
    if any(value.is_inference() for value in tensors):
        return None
    return [(value.data_ptr(), value.dtype, value._version) for value in tensors]  # noqa: SLF001  # the only counter


def _raw(value: Tensor) -> Any:
    """The numbers as bytes; a model in double precision is the one it was made from."""
    plain = value.detach().cpu()
    plain = plain.to(torch.float32) if plain.is_floating_point() else plain
    return plain.contiguous().view(-1).view(torch.uint8).numpy()


def _labels(module: nn.Module) -> list[str]:
    named = getattr(getattr(module, "config", None), "id2label", None) or {}
    return [str(named[number]) for number in sorted(named, key=int)]
