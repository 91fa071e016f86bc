"""Raw scores of many inputs, unit by unit as the model reads them: what metrics are computed from.

A method scores rows (segments); only then are rows smoothed, and blended to inputs. Both are cheap beside the method,
so rows are what is kept and shared: a table with five widths of smoothing asks the method once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from rationales.masks.field import smooth as smooth_scores
from rationales.methods import Method
from rationales.models.batch import Batch
from rationales.models.image.encoded import EncodedImage
from rationales.models.model import Model
from rationales.pipeline.scoring import open_batch, run_method


@dataclass(frozen=True, eq=False)
class RawScores:
    """One input's raw scores, float32, or why there are none; `seconds` is its share of the time taken.

    Scores are (units,), or of rows: the units of its first segment, then of its second, ...
    """

    scores: np.ndarray | None
    seconds: float
    failure: str = ""


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
    progress: Callable[[float], None] | None = None,
) -> list[RawScores]:
    """Score the units of inputs that `model.encode` gave, all together; `smooth` is a Gaussian over neighbours.

    An input for which the method finds no finite scores is reported as a failure; the others are unaffected.
    """
    rows = score_rows(model, encoded, method, targets, seed=seed, progress=progress)
    return blend(model.batch(encoded, seed), encoded, rows, smooth)


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
        row_scores = run_method(batch, method, target, progress).scores
        mean = torch.zeros_like(row_scores[: batch.masks]).index_add(0, batch.rows.mask, row_scores) / batch.views
        values = mean[batch.rows.real[: batch.masks]].float().cpu().numpy()
        ends = np.cumsum(_units_per_input(batch))[:-1]
    seconds = (time.perf_counter() - started) / len(encoded)
    return [_checked_scores(input_scores, seconds, method.name) for input_scores in np.split(values, ends)]


def blend(
    batch: Batch, encoded: Sequence[Any], rows: Sequence[RawScores], smooth: float | None = None
) -> list[RawScores]:
    """Scores of rows -> (units,) scores of each input of the batch, smoothed with this width first.

    The seconds stay those of the method, so that a table computed again from cached scores is the same.
    """
    flat_scores = [
        np.zeros(count, np.float32) if raw.scores is None else raw.scores
        for raw, count in zip(rows, _units_per_input(batch), strict=True)
    ]
    with torch.inference_mode(False), torch.no_grad():
        mean = torch.zeros_like(batch.zeros()[: batch.masks])
        mean[batch.rows.real[: batch.masks]] = torch.from_numpy(np.concatenate(flat_scores)).to(mean)
        scores = mean[batch.rows.mask]
        values = batch.gather(scores if smooth is None else smooth_scores(scores, batch, smooth))
    units = [_pad_image(item, tensor.float().cpu().numpy()) for item, tensor in zip(encoded, values, strict=True)]
    return [raw if raw.scores is None else replace(raw, scores=array) for raw, array in zip(rows, units, strict=True)]


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


def _checked_scores(scores: np.ndarray, seconds: float, method: str) -> RawScores:
    if not np.isfinite(scores).all():
        return RawScores(None, seconds, f"{method} found no finite scores: gradients are NaN or infinite")
    return RawScores(scores, seconds)
