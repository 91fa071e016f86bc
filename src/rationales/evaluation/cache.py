"""Scores kept by content, so that an interrupted table goes on where it stopped.

The key of an entry is made of everything that decides the scores: the model's weights and settings, the input as the
model reads it, the target, the method with its options, the seed, and the code of the method. What is kept are scores
of rows, before smoothing. An entry is one safetensors file with a line of JSON in its header, written whole or not at
all; one that cannot be read is made again.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.metadata
import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from rationales.errors import InputError
from rationales.evaluation.attribution import Scored
from rationales.files import write_bytes
from rationales.methods import Method
from rationales.models.image import EncodedPicture, ImageModel
from rationales.models.model import Model
from rationales.models.text import TextModel
from rationales.version import __version__

FORMAT = 2  # raised when entries would be misread
_ROOT = Path(__file__).resolve().parents[1]
_IMPORTED = re.compile(rb"^from rationales\.methods\.(\w+) import", re.MULTILINE)


@dataclass(eq=False)
class Cache:
    """A folder of scores; where it cannot be written, scores are not kept and `problem` says why."""

    folder: Path
    problem: str = ""

    def __post_init__(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            self.problem = f"{self.folder} cannot be made ({error.strerror})"

    def get(self, key: str, units: int) -> Scored | None:
        """The entry, if it is there, whole and of the right length."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(self._path(key), framework="numpy") as file:
                told = json.loads((file.metadata() or {})["entry"])
                scores = file.get_tensor("scores")
        except (OSError, SafetensorError, KeyError, ValueError, TypeError):
            return None
        whole = told.get("key") == key and told.get("format") == FORMAT and scores.shape == (units,)
        if not whole or not np.isfinite(scores).all():
            return None
        return Scored(scores, float(told.get("seconds", 0.0)))

    def put(self, key: str, entry: Scored) -> None:
        """Keep scores; failures are not kept, they may be mended. After a write that failed nothing more is kept."""
        from safetensors.numpy import save

        if entry.scores is None or self.problem:
            return
        path = self._path(key)
        told = json.dumps({"format": FORMAT, "key": key, "seconds": entry.seconds})
        content = save({"scores": np.ascontiguousarray(entry.scores, np.float32)}, {"entry": told})
        try:
            path.parent.mkdir(exist_ok=True)
            write_bytes(path, content)
        except (OSError, InputError) as error:
            reason = getattr(error if isinstance(error, OSError) else error.__cause__, "strerror", None) or error
            self.problem = f"{self.folder} cannot be written ({reason})"

    def remarks(self) -> tuple[str, ...]:
        """What a reader of the table should know."""
        if not self.problem:
            return ()
        return (f"Scores were not kept: {self.problem}; the next run starts anew. Give another folder as cache.",)

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.safetensors"


def cache_of(given: str | os.PathLike[str] | Cache | None) -> Cache | None:
    """A cache from a folder."""
    return given if given is None or isinstance(given, Cache) else Cache(Path(given))


def entry_key(model_print: str, input_print: str, method: Method, target: int, seed: int) -> str:
    """The name of an entry."""
    made = _json(asdict(method)) + method.brings()
    return _digest(model_print, input_print, method.name, made, code_print(type(method)), target, seed)


def model_print(model: Model) -> str:
    """A fingerprint of a model: its weights, bit by bit, and every setting that changes what it says."""
    if isinstance(model, TextModel):
        own: Sequence[nn.Module] = [network.module for network in model.networks]
        vectors = [network.baseline for network in model.networks]
        settings: tuple[Any, ...] = (model.unit, model.limit, model.overlap, model.filler)
    elif isinstance(model, ImageModel):
        own, vectors = [model.module], []
        settings = (model.baselines, model.mean_colour, repr(model.fit))
    else:
        raise InputError(f"scores of {model.name} cannot be kept: its weights are not known; evaluate without a cache")
    digest = hashlib.blake2b(digest_size=16)
    for module in own:
        digest.update(type(module).__name__.encode())
        for name, tensor in sorted([*module.named_parameters(), *module.named_buffers()]):
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(_raw(tensor))
    for vector in vectors:
        digest.update(_raw(vector))
    digest.update(repr((model.head.value, model.labels, model.baseline, settings)).encode())
    return digest.hexdigest()


def input_print(encoded: Any) -> str:
    """A fingerprint of an input as the model reads it, and of what its randomness comes from."""
    if isinstance(encoded, EncodedPicture):
        content = np.ascontiguousarray(encoded.source.pixels).tobytes()
        return _digest(content, _raw(encoded.pixels), _raw(encoded.real))
    source = encoded.source
    rows = [(row.ids, row.types, row.owner, row.units, row.weight, row.position) for row in encoded.rows]
    return _digest(source.text, source.pair, repr(rows))


@functools.cache
def code_print(method: type[Method]) -> str:
    """A fingerprint of the code that makes a method's scores: its files, those it uses, the shared ones."""
    files: dict[Path, bytes] = {}
    waiting = [Path(name) for one in method.__mro__ if (name := _file(one)) is not None]
    while waiting:
        path = waiting.pop()
        if path in files or _ROOT not in path.parents:
            continue
        files[path] = path.read_bytes()
        waiting += [_ROOT / "methods" / f"{found.decode()}.py" for found in _IMPORTED.findall(files[path])]
    source = b"".join(files[path] for path in sorted(files))
    shared = [path for room in ("models", "masks") for path in sorted((_ROOT / room).rglob("*.py"))]
    versions = [f"torch {torch.__version__}"]
    if b"captum" in source:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions.append(f"captum {importlib.metadata.version('captum')}")
    return _digest(__version__, source, *(path.read_bytes() for path in shared), *versions)


def _file(one: type) -> str | None:
    return getattr(sys.modules.get(one.__module__), "__file__", None)


def _raw(tensor: torch.Tensor) -> bytes:
    return tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes()


def _json(options: Mapping[str, Any]) -> str:
    return json.dumps(options, sort_keys=True, default=repr)


def _digest(*parts: Any) -> str:
    digest = hashlib.blake2b(digest_size=20)
    for part in parts:
        raw = part if isinstance(part, bytes) else repr(part).encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8, "little") + raw)
    return digest.hexdigest()
