"""One method over the examples that are in memory: its scores, kept or made, and what must be measured right away."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch

from rationales.evaluation.attribution import Scored, blend, row_units, score_rows
from rationales.evaluation.cache import Cache, entry_key, input_print
from rationales.evaluation.curves import Faithfulness
from rationales.evaluation.entries import Entry
from rationales.evaluation.faithfulness import faithfulness
from rationales.evaluation.filling import Filler
from rationales.evaluation.metrics import Metric
from rationales.evaluation.protocol import Protocol
from rationales.evaluation.selection import Selection
from rationales.evaluation.unit_marks import judged_on_units
from rationales.evaluation.words import gold_pixels, word_scores
from rationales.methods import Method
from rationales.models.batch import Batch
from rationales.models.model import Model

Progress = Callable[[float], None]

SAVE_EVERY = 60.0  # seconds of work that an interruption may cost where scores are kept
FIRST = 32  # inputs that are scored together at first, to see how long they take


@dataclass(eq=False)
class Collected:
    """What has been found for one row so far."""

    scored: list[Scored] = field(default_factory=list)
    words: list[np.ndarray | None] = field(default_factory=list)  # scores of units, or of white-space tokens
    curves: list[Faithfulness] = field(default_factory=list)
    pictures: dict[str, list[float]] = field(default_factory=dict)
    measuring: float = 0.0  # seconds that faithfulness took


@dataclass(frozen=True, eq=False)
class Job:
    """Everything that stays the same while a table is made."""

    model: Model
    asked: Model  # the same, or a coarser copy: for what needs no gradients
    recipe: Protocol
    metrics: Sequence[Metric]
    rule: Selection | None
    seed: int
    filler: Filler | None
    cache: Cache | None
    print: str  # of the model, where scores are kept
    curves: bool  # whether the model has to be asked again


@dataclass(frozen=True, eq=False)
class Held:
    """Examples that are in memory, read and encoded once for all rows and metrics."""

    examples: Sequence[Any]
    encoded: Sequence[Any]
    batch: Batch
    right: Sequence[int | None]  # the gold classes
    predicted: Sequence[int]  # what the model says of the whole inputs
    explained: Sequence[int]  # the classes that methods are asked about
    rows: dict[str, list[Scored]] = field(default_factory=dict)  # by method and options: scores of rows


def collect(job: Job, held: Held, entry: Entry, into: Collected, progress: Progress | None) -> None:
    """Score the examples with one method, and measure what has to be measured while they are in memory."""
    model, recipe = job.model, job.recipe
    name = f"{entry.method.name} {sorted(asdict(entry.method).items())!r}"
    if name not in held.rows:
        held.rows[name] = _scores(job, held, entry.method, progress)
    scored = blend(held.batch, held.encoded, held.rows[name], entry.smooth)
    into.scored += scored
    for example, one, own in zip(held.examples, held.encoded, scored, strict=True):
        if model.kind == "text":
            scores = own.scores
            if scores is not None and not judged_on_units(recipe, example):
                scores = word_scores(example.text, example.pair, one.units, scores)
            into.words.append(scores)
        for metric in job.metrics:
            if metric.kind == "picture":
                into.pictures.setdefault(metric.name, []).append(_of_picture(model, metric, example, one, own))
    good = [number for number, own in enumerate(scored) if own.scores is not None]
    if job.curves and good:
        began = time.perf_counter()
        into.curves.append(
            faithfulness(
                job.asked,
                [held.encoded[number] for number in good],
                [scores for own in scored if (scores := own.scores) is not None],
                None if recipe.label == "predicted" else [held.explained[number] for number in good],
                recipe,
                gold=[held.right[number] for number in good],
                seed=job.seed,
                filler=job.filler,
            )
        )
        into.measuring += time.perf_counter() - began


def _scores(job: Job, held: Held, method: Method, progress: Progress | None) -> list[Scored]:
    """What the method says of all rows, from the cache where it is there."""
    encoded, targets = held.encoded, held.explained
    model = job.model if "gradients" in method.needs else job.asked
    if job.cache is None:
        return score_rows(model, encoded, method, targets, seed=job.seed, progress=progress)
    keys = [
        entry_key(job.print, input_print(one), method, target, job.seed)
        for one, target in zip(encoded, targets, strict=True)
    ]
    found = [job.cache.get(key, row_units(one)) for key, one in zip(keys, encoded, strict=True)]
    missing = [number for number, one in enumerate(found) if one is None]
    done, size = 0, FIRST
    while done < len(missing):  # in parts, so that an interruption does not cost everything
        some, began = missing[done : done + size], time.perf_counter()
        made = score_rows(
            model,
            [encoded[number] for number in some],
            method,
            [targets[number] for number in some],
            seed=job.seed,
            progress=_part(progress, done / len(missing), len(some) / len(missing)),
        )
        for number, one in zip(some, made, strict=True):
            job.cache.put(keys[number], one)
            found[number] = one
        done += len(some)
        pace = (time.perf_counter() - began) / len(some)
        size = max(FIRST, int(SAVE_EVERY / max(pace, 1e-6)))
    return [one for one in found if one is not None]


def _part(progress: Progress | None, begin: float, share: float) -> Progress | None:
    return None if progress is None else lambda done: progress(begin + share * min(done, 1.0))


def _of_picture(model: Model, metric: Metric, example: Any, encoded: Any, own: Scored) -> float:
    """A metric of pictures, at the picture's own size."""
    if own.scores is None or not example.boxes:
        return float("nan")
    source = encoded.source
    height, width = source.size
    scores = model.describe(encoded, torch.from_numpy(own.scores))["scores"].reshape(height, width)
    boxes = example.boxes
    if source.reduced_from is not None:  # the boxes are those of the picture as it was stored
        down, across = height / source.reduced_from[0], width / source.reduced_from[1]
        boxes = [
            (int(a * across), int(b * down), min(width, -int(-c * across // 1)), min(height, -int(-d * down // 1)))
            for a, b, c, d in boxes
        ]
    return float(metric.function(gold_pixels(boxes, height, width, example.name), scores))
