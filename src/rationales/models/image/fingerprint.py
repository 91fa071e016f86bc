"""Fingerprint of an image classifier: its weights, its classes and the size of its input."""

from __future__ import annotations

import hashlib

from rationales.models.image.batch import ImageBatch
from rationales.models.weights_digest import weights_digest


def image_fingerprint(batch: ImageBatch) -> str:
    """Equal for two batches if they explain the same classifier, on any device and in any wrapper."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(weights_digest(batch.module))
    digest.update(repr((batch.head.value, batch.classes, tuple(batch.values.shape[1:]))).encode())
    return digest.hexdigest()
