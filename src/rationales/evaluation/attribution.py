"""What a method says of many inputs, unit by unit on the model's own grid: the raw scores that metrics judge.

A method scores rows (segments); only then are rows smoothed, and blended to inputs. Both are cheap beside the method,
so rows are what is kept and shared: a table with five widths of smoothing asks the method once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from rationales.masks.field import smooth as smoothed
from rationales.methods import Method
from rationales.models.batch import Batch
from rationales.models.image import EncodedPicture
from rationales.models.model import Model
from rationales.models.probing import check_gradients


@dataclass(frozen=True, eq=False)
class Scored:
    """One input's raw scores, float32, or why there are none; `seconds` is its share of the time taken.

    Scores are (units,), or of rows: the units of its first segment, then of its second, ...
    """

    scores: np.ndarray | None
    seconds: float
    failure: str = ""


def predict(model: Model, encoded: Sequence[Any]) -> np.ndarray:
    """(inputs, classes): what the model says of the whole inputs."""
    with model.borrowed():
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
) -> list[Scored]:
    """Score the units of inputs that `model.encode` gave, all together; `smooth` is a Gaussian over neighbours.

    An input for which the method finds no finite scores is told as a failure, and does not spoil the others.
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
) -> list[Scored]:
    """Each input's scores of rows, views (baselines, networks) averaged."""
    started = time.perf_counter()
    with ExitStack() as threads, torch.inference_mode(False), model.borrowed():
        batch = model.batch(encoded, seed)
        threads.enter_context(batch.threads())
        if "gradients" in method.needs:
            check_gradients(batch)
        found = method.scores(batch, torch.tensor(list(targets), device=batch.device), progress).scores.detach()
        mean = torch.zeros_like(found[: batch.masks]).index_add(0, batch.rows.mask, found) / batch.views
        values = mean[batch.rows.real[: batch.masks]].float().cpu().numpy()
        last = np.cumsum(_units(batch))[:-1]
    seconds = (time.perf_counter() - started) / len(encoded)
    return [_scored(own, seconds, method.name) for own in np.split(values, last)]


def blend(batch: Batch, encoded: Sequence[Any], rows: Sequence[Scored], smooth: float | None = None) -> list[Scored]:
    """Scores of rows -> (units,) scores of each input of the batch, smoothed with this width first.

    The seconds stay those of the method, so that a table that is made again from kept scores says the same.
    """
    parts = [
        np.zeros(units, np.float32) if one.scores is None else one.scores
        for one, units in zip(rows, _units(batch), strict=True)
    ]
    with torch.inference_mode(False), torch.no_grad():
        mean = torch.zeros_like(batch.zeros()[: batch.masks])
        mean[batch.rows.real[: batch.masks]] = torch.from_numpy(np.concatenate(parts)).to(mean)
        scores = mean[batch.rows.mask]
        values = batch.gather(scores if smooth is None else smoothed(scores, batch, smooth))
    units = [_padded(one, own.float().cpu().numpy()) for one, own in zip(encoded, values, strict=True)]
    return [one if one.scores is None else replace(one, scores=own) for one, own in zip(rows, units, strict=True)]


def row_units(encoded: Any) -> int:
    """How many numbers an input's scores of rows have."""
    if isinstance(encoded, EncodedPicture):
        return int(encoded.real.sum())
    return sum(len(row.units) for row in encoded.rows)


def _units(batch: Batch) -> list[int]:
    """The same for every input of a batch; an input's masks stand together, in the order of the inputs."""
    rows, masks = batch.rows, batch.masks
    count = torch.zeros(batch.inputs, dtype=torch.long, device=batch.device)
    return count.index_add(0, rows.input[:masks], rows.real[:masks].sum(1)).tolist()


def _padded(one: Any, scores: np.ndarray) -> np.ndarray:
    """A picture's scores with the padding after its last pixel, which is no unit."""
    return np.pad(scores, (0, one.real.numel() - len(scores))) if isinstance(one, EncodedPicture) else scores


def _scored(scores: np.ndarray, seconds: float, method: str) -> Scored:
    if not np.isfinite(scores).all():
        return Scored(None, seconds, f"{method} found no finite scores: gradients are NaN or infinite")
    return Scored(scores, seconds)
