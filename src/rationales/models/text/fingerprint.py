"""Fingerprint of a text classifier, by its weights, its labels and its baseline, and digest of a tokenizer."""

from __future__ import annotations

import hashlib
import json
from typing import Any
from weakref import WeakKeyDictionary

from torch import nn

from rationales.models.text.batch import TextBatch
from rationales.models.text.model import TextModel
from rationales.models.weights_digest import raw_bytes, weights_digest

_TOKENIZER_DIGESTS: WeakKeyDictionary[Any, tuple[int, str]] = WeakKeyDictionary()  # tokenizer -> its size, digest
_CALL_SETTINGS = ("truncation", "padding")  # of a fast tokenizer: those of its last call


def fingerprint(batch: TextBatch) -> str:
    """Equal for two batches if they explain the same classifier, on any device and in any wrapper."""
    digest = hashlib.blake2b(digest_size=16)
    for network in batch.networks:
        digest.update(weights_digest(network.module))
        digest.update(raw_bytes(network.baseline))
        digest.update(repr(_labels(network.module)).encode())
    digest.update(repr((batch.head.value, batch.classes)).encode())
    return digest.hexdigest()


def model_digest(model: TextModel) -> str:
    """Hash of all that decides what a model says of a text: weights, tokenizer, labels, unit and baseline."""
    networks = [(weights_digest(network.module), bytes(raw_bytes(network.baseline))) for network in model.networks]
    decisive = (networks, tokenizer_digest(model.tokenizer), model.labels, model.unit)
    return hashlib.blake2b(repr(decisive).encode(), digest_size=16).hexdigest()


def digests(batch: TextBatch) -> dict[str, str]:
    """Digests of a classifier's labels, tokenizer, weights and baseline, for a message that says which of them differs.

    There is none of the tokenizer for a batch that was made without its texts.
    """
    networks = batch.networks
    contents = {
        "labels": [repr(_labels(network.module)).encode() for network in networks] + [repr(batch.classes).encode()],
        "tokenizer": [] if batch.sources is None else [tokenizer_digest(batch.sources.tokenizer).encode()],
        "weights": [weights_digest(network.module) for network in networks],
        "baseline": [raw_bytes(network.baseline) for network in networks],
    }
    return {
        name: hashlib.blake2b(b"".join(values), digest_size=16).hexdigest()
        for name, values in contents.items()
        if values
    }


def _labels(module: nn.Module) -> list[str]:
    named = getattr(getattr(module, "config", None), "id2label", None) or {}
    return [str(named[number]) for number in sorted(named, key=int)]


def tokenizer_digest(tokenizer: Any) -> str:
    """Hash of what decides the tokens of a text; computed once for a tokenizer, and anew when tokens are added."""
    vocabulary = tokenizer.get_vocab() if hasattr(tokenizer, "get_vocab") else {}
    cached = _TOKENIZER_DIGESTS.get(tokenizer)
    if cached is not None and cached[0] == len(vocabulary):
        return cached[1]
    backend = getattr(tokenizer, "backend_tokenizer", None)
    content: Any = sorted(vocabulary.items())
    if backend is not None:
        settings = json.loads(backend.to_str())
        content = {name: value for name, value in settings.items() if name not in _CALL_SETTINGS}
    digest = hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=16).hexdigest()
    _TOKENIZER_DIGESTS[tokenizer] = (len(vocabulary), digest)
    return digest
