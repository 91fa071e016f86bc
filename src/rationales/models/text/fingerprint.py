"""Fingerprint of a text classifier: its weights, its labels and its baseline."""

from __future__ import annotations

import hashlib

from torch import nn

from rationales.models.text.batch import TextBatch
from rationales.models.weights_digest import raw_bytes, weights_digest


def fingerprint(batch: TextBatch) -> str:
    """Equal for two batches if they explain the same classifier, on any device and in any wrapper."""
    digest = hashlib.blake2b(digest_size=16)
    for network in batch.networks:
        digest.update(weights_digest(network.module))
        digest.update(raw_bytes(network.baseline))
        digest.update(repr(_labels(network.module)).encode())
    digest.update(repr((batch.head.value, batch.classes)).encode())
    return digest.hexdigest()


def _labels(module: nn.Module) -> list[str]:
    named = getattr(getattr(module, "config", None), "id2label", None) or {}
    return [str(named[number]) for number in sorted(named, key=int)]
