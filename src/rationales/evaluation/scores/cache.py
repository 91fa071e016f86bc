"""Cache of scores by content, so that an interrupted table continues where it stopped.

The key of an entry covers everything that decides the scores: the model's weights and settings, the input as the model
reads it, the target, the method with its options, the seed, and the method's code. Entries hold the scores of rows,
before smoothing. An entry is one safetensors file with JSON metadata, written atomically; an unreadable entry is
computed again.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from rationales.errors import InputError
from rationales.evaluation.scores.attribution import RawScores
from rationales.evaluation.scores.code_fingerprint import code_fingerprint
from rationales.files import write_bytes
from rationales.methods import Method
from rationales.models.image.encoded import EncodedImage
from rationales.models.image.model import ImageModel
from rationales.models.model import Model
from rationales.models.prompt.prefix.prefix_cache import adapter_states
from rationales.models.text.model import TextModel

FORMAT = 3  # raised when entries would be misread


@dataclass(eq=False)
class Cache:
    """A folder of scores; where it cannot be written, scores are not stored and `problem` says why."""

    folder: Path
    problem: str = ""

    def __post_init__(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            self.problem = f"{self.folder} cannot be made ({error.strerror})"

    def get(self, key: str, units: int) -> RawScores | None:
        """The entry, if it exists, is complete and has the right length."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(self._path(key), framework="numpy") as file:
                header = json.loads((file.metadata() or {})["entry"])
                scores = file.get_tensor("scores")
                span_scores = file.get_tensor("span_scores") if "span_scores" in file.keys() else None  # noqa: SIM118
        except (OSError, SafetensorError, KeyError, ValueError, TypeError):
            return None
        arrays = [scores] if span_scores is None else [scores, span_scores]
        complete = header.get("key") == key and header.get("format") == FORMAT
        if not complete or any(array.shape != (units,) or not np.isfinite(array).all() for array in arrays):
            return None
        return RawScores(
            scores,
            float(header.get("seconds", 0.0)),
            span_scores=span_scores,
            steps=header.get("steps"),
            stop=str(header.get("stop", "")),
            forward_passes=float(header.get("forward_passes", math.nan)),
            backward_passes=float(header.get("backward_passes", math.nan)),
        )

    def put(self, key: str, entry: RawScores) -> None:
        """Store scores; failures are not stored. After a failed write nothing more is stored."""
        from safetensors.numpy import save

        if entry.scores is None or self.problem:
            return
        path = self._path(key)
        ending = {} if entry.steps is None else {"steps": entry.steps, "stop": entry.stop}
        counts = {"forward_passes": entry.forward_passes, "backward_passes": entry.backward_passes}
        known_counts = {name: count for name, count in counts.items() if not math.isnan(count)}
        header = json.dumps({"format": FORMAT, "key": key, "seconds": entry.seconds, **ending, **known_counts})
        arrays = {"scores": entry.scores} | ({} if entry.span_scores is None else {"span_scores": entry.span_scores})
        contiguous = {name: np.ascontiguousarray(array, np.float32) for name, array in arrays.items()}
        content = save(contiguous, {"entry": header})
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


def open_cache(source: str | os.PathLike[str] | Cache | None) -> Cache | None:
    """A cache from a folder."""
    return source if source is None or isinstance(source, Cache) else Cache(Path(source))


def entry_key(model_fingerprint: str, input_fingerprint: str, method: Method, target: int, seed: int) -> str:
    """The name of an entry."""
    settings = json.dumps(asdict(method), sort_keys=True, default=repr) + method.trained_part_fingerprint()
    code = code_fingerprint(type(method))
    return _digest(model_fingerprint, input_fingerprint, method.name, settings, code, target, seed)


def model_fingerprint(model: Model) -> str:
    """Fingerprint of a model: its weights, bit by bit, and every setting that changes its output."""
    if isinstance(model, TextModel):
        modules: Sequence[nn.Module] = [network.module for network in model.networks]
        vectors = [network.baseline for network in model.networks]
        settings: tuple[Any, ...] = (model.unit, model.limit, model.overlap, model.filler)
        settings += tuple(states for module in modules if (states := adapter_states(module)))
    elif isinstance(model, ImageModel):
        modules, vectors = [model.module], []
        settings = (model.baselines, model.mean_colour, repr(model.fit))
    else:
        raise InputError(f"scores of {model.name} cannot be kept: its weights are not known; evaluate without a cache")
    digest = hashlib.blake2b(digest_size=16)
    for module in modules:
        digest.update(type(module).__name__.encode())
        for name, tensor in sorted([*module.named_parameters(), *module.named_buffers()]):
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(_raw(tensor))
    for vector in vectors:
        digest.update(_raw(vector))
    digest.update(repr((model.head.value, model.labels, model.baseline, settings)).encode())
    return digest.hexdigest()


def input_fingerprint(encoded: Any) -> str:
    """Fingerprint of an input as the model reads it, and of the content that seeds its random numbers."""
    if isinstance(encoded, EncodedImage):
        content = np.ascontiguousarray(encoded.source.pixels).tobytes()
        return _digest(content, _raw(encoded.pixels), _raw(encoded.real))
    source = encoded.source
    rows = [(row.ids, row.types, row.owner, row.units, row.weight, row.position) for row in encoded.rows]
    return _digest(source.text, source.pair, repr(rows))


def _raw(tensor: torch.Tensor) -> bytes:
    return tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes()


def _digest(*values: Any) -> str:
    digest = hashlib.blake2b(digest_size=20)
    for value in values:
        raw = value if isinstance(value, bytes) else repr(value).encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8, "little") + raw)
    return digest.hexdigest()
