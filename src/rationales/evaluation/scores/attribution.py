"""Raw scores of many inputs, unit by unit as the model reads them: what metrics are computed from.

A method scores rows (segments); only then are rows smoothed, and blended to inputs. Both are cheap beside the method,
so rows are what is kept and shared: a table with five widths of smoothing asks the method once.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rationales.methods import Attribution, Method
from rationales.models.batch import Batch
from rationales.models.batch.execution import counted_passes, record_replays
from rationales.models.image.encoded import EncodedImage
from rationales.models.model import Model
from rationales.pipeline.scoring import open_batch, run_method, shaped_scores


@dataclass(frozen=True, eq=False)
class RawScores:
    """One input's raw scores, float32, or why there are none; `seconds` is its share of the time taken.

    Scores are (units,), or of rows: the units of its first segment, then of its second, ...
    """

    scores: np.ndarray | None
    seconds: float
    failure: str = ""
    span_scores: np.ndarray | None = None  # that the rationale is selected by, where these are others
    steps: int | None = None  # of an optimisation
    stop: str = ""  # what ended it
    forward_passes: float = math.nan  # its share of the rows that went through the model; NaN: not counted
    backward_passes: float = math.nan  # and of those with a backward pass


def predict(model: Model, encoded: Sequence[Any]) -> np.ndarray:
    """(inputs, classes): the model's probabilities for the whole inputs."""
    with model.frozen():
        return model.batch(encoded).predict().double().cpu().numpy()


def attribute(
    model: Model,
    encoded: Sequence[Any],
    method: Method,
    targets: Sequence[int],
    *,
    seed: int = 0,
    smooth: float | None = None,
    shape: str | None = None,
    progress: Callable[[float], None] | None = None,
) -> list[RawScores]:
    """Score the units of inputs that `model.encode` gave, all together; `smooth` and `shape` as `explain` takes them.

    An input for which the method finds no finite scores is reported as a failure; the others are unaffected.
    """
    rows = score_rows(model, encoded, method, targets, seed=seed, progress=progress)
    return blend(model.batch(encoded, seed), encoded, rows, smooth, shape)


def score_rows(
    model: Model,
    encoded: Sequence[Any],
    method: Method,
    targets: Sequence[int],
    *,
    seed: int = 0,
    progress: Callable[[float], None] | None = None,
) -> list[RawScores]:
    """Each input's scores of rows, views (baselines, networks) averaged."""
    started = time.perf_counter()
    with open_batch(model, encoded, seed) as batch:
        target = torch.tensor(list(targets), device=batch.device)
        with counted_passes() as passes:
            attribution = run_method(batch, method, target, progress)
        record_replays(passes, 1)  # where a caller counts, too
        scores = _by_input(batch, attribution.scores)
        spans: Sequence[np.ndarray | None] = [None] * len(scores)
        if attribution.span_scores is not None:
            spans = _by_input(batch, attribution.span_scores)
    seconds = (time.perf_counter() - started) / len(encoded)
    pairs = zip(scores, spans, strict=True)
    forward, backward = passes.forward / len(encoded), passes.backward / len(encoded)
    rows = [
        replace(
            _checked_scores(values, seconds, method.name, span_values), forward_passes=forward, backward_passes=backward
        )
        for values, span_values in pairs
    ]
    if not attribution.steps:
        return rows
    stops = attribution.stop or [raw.stop for raw in rows]
    endings = zip(rows, attribution.steps, stops, strict=True)
    return [replace(raw, steps=steps, stop=stop) for raw, steps, stop in endings]


def blend(
    batch: Batch,
    encoded: Sequence[Any],
    rows: Sequence[RawScores],
    smooth: float | None = None,
    shape: str | None = None,
) -> list[RawScores]:
    """Scores of rows -> (units,) scores of each input of the batch, smoothed and shaped first.

    The seconds stay those of the method, so that a table computed again from cached scores is the same.
    """
    with torch.inference_mode(False), torch.no_grad():
        row_scores = _to_rows(batch, [raw.scores for raw in rows])
        row_spans = None
        if any(raw.span_scores is not None for raw in rows):
            row_spans = _to_rows(batch, [raw.scores if raw.span_scores is None else raw.span_scores for raw in rows])
        row_scores, row_spans = shaped_scores(batch, Attribution(row_scores, span_scores=row_spans), smooth, shape)
        values = batch.gather(row_scores)
        span_values = [None] * len(values) if row_spans is None else batch.gather(row_spans)
    blended = []
    for item, raw, unit_scores, span_scores in zip(encoded, rows, values, span_values, strict=True):
        if raw.scores is not None:
            spans = None if span_scores is None else _pad_image(item, span_scores.float().cpu().numpy())
            raw = replace(raw, scores=_pad_image(item, unit_scores.float().cpu().numpy()), span_scores=spans)
        blended.append(raw)
    return blended


def _by_input(batch: Batch, row_scores: Tensor) -> list[np.ndarray]:
    """(S, n) -> the scores of each input's rows, views averaged."""
    mean = torch.zeros_like(row_scores[: batch.masks]).index_add(0, batch.rows.mask, row_scores) / batch.views
    values = mean[batch.rows.real[: batch.masks]].float().cpu().numpy()
    return np.split(values, np.cumsum(_units_per_input(batch))[:-1])


def _to_rows(batch: Batch, scores: Sequence[np.ndarray | None]) -> Tensor:
    """The reverse of `_by_input`; an input without scores gets zeros."""
    flat_scores = [
        np.zeros(count, np.float32) if values is None else values
        for values, count in zip(scores, _units_per_input(batch), strict=True)
    ]
    mean = torch.zeros_like(batch.zeros()[: batch.masks])
    mean[batch.rows.real[: batch.masks]] = torch.from_numpy(np.concatenate(flat_scores)).to(mean)
    return mean[batch.rows.mask]


def row_units(encoded: Any) -> int:
    """Length of an input's scores of rows."""
    if isinstance(encoded, EncodedImage):
        return int(encoded.real.sum())
    return sum(len(row.units) for row in encoded.rows)


def _units_per_input(batch: Batch) -> list[int]:
    """The same for every input of a batch; an input's masks stand together, in the order of the inputs."""
    rows, masks = batch.rows, batch.masks
    count = torch.zeros(batch.inputs, dtype=torch.long, device=batch.device)
    return count.index_add(0, rows.input[:masks], rows.real[:masks].sum(1)).tolist()


def _pad_image(encoded: Any, scores: np.ndarray) -> np.ndarray:
    """An image's scores, padded with zeros after its last pixel to the size that the model reads."""
    return np.pad(scores, (0, encoded.real.numel() - len(scores))) if isinstance(encoded, EncodedImage) else scores


def _checked_scores(scores: np.ndarray, seconds: float, method: str, span_scores: np.ndarray | None) -> RawScores:
    if not np.isfinite(scores).all() or (span_scores is not None and not np.isfinite(span_scores).all()):
        return RawScores(None, seconds, f"{method} found no finite scores: gradients are NaN or infinite")
    return RawScores(scores, seconds, span_scores=span_scores)
