"""Scores of one method for the examples in memory, cached or computed, and what is measured while they are there."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch

from rationales.evaluation.agreement.unit_marks import judged_on_units
from rationales.evaluation.agreement.word_marks import gold_pixels, word_scores
from rationales.evaluation.entries import ResolvedEntry
from rationales.evaluation.faithfulness.curves import FaithfulnessCurves
from rationales.evaluation.faithfulness.measure import measure_faithfulness
from rationales.evaluation.metrics import Metric
from rationales.evaluation.protocols import Protocol
from rationales.evaluation.scores.attribution import RawScores, blend, row_units, score_rows
from rationales.evaluation.scores.cache import Cache, entry_key, input_fingerprint
from rationales.evaluation.selection.rules import SelectionRule
from rationales.methods import Method
from rationales.models.batch import Batch
from rationales.models.model import Model
from rationales.models.text.filling.filler import Filler

Progress = Callable[[float], None]

SECONDS_BETWEEN_SAVES = 60.0  # of computing that an interruption may lose where scores are cached
FIRST_CHUNK = 32  # inputs scored together at first, to estimate the time per input


@dataclass(eq=False)
class CollectedRow:
    """Scores and measurements of one row of the table so far."""

    raw_scores: list[RawScores] = field(default_factory=list)
    compared_scores: list[np.ndarray | None] = field(default_factory=list)  # of units, or of white-space tokens
    curves: list[FaithfulnessCurves] = field(default_factory=list)
    image_values: dict[str, list[float]] = field(default_factory=dict)  # by image metric
    faithfulness_seconds: float = 0.0


@dataclass(frozen=True, eq=False)
class EvaluationSettings:
    """Everything that is the same for all rows of a table."""

    model: Model
    forward_model: Model  # for what needs no gradients: the model itself, or a copy in half precision
    protocol: Protocol
    metrics: Sequence[Metric]
    selection: SelectionRule | None
    seed: int
    filler: Filler | None
    cache: Cache | None
    model_fingerprint: str  # empty without a cache
    needs_curves: bool  # whether faithfulness has to be measured


@dataclass(frozen=True, eq=False)
class LoadedExamples:
    """Examples read and encoded once for all rows and metrics."""

    examples: Sequence[Any]
    encoded: Sequence[Any]
    batch: Batch
    gold_labels: Sequence[int | None]
    predicted_labels: Sequence[int]
    targets: Sequence[int]  # the classes that methods explain
    row_scores: dict[str, list[RawScores]] = field(default_factory=dict)  # by method and options


def collect(
    settings: EvaluationSettings,
    examples: LoadedExamples,
    entry: ResolvedEntry,
    row: CollectedRow,
    progress: Progress | None,
) -> None:
    """Score the examples with one method, and measure what has to be measured while they are in memory."""
    model, protocol = settings.model, settings.protocol
    method_key = f"{entry.method.name} {sorted(asdict(entry.method).items())!r}"
    if method_key not in examples.row_scores:
        examples.row_scores[method_key] = _scores(settings, examples, entry.method, progress)
    raw_scores = blend(examples.batch, examples.encoded, examples.row_scores[method_key], entry.smooth, entry.shape)
    row.raw_scores += raw_scores
    for example, encoded, raw in zip(examples.examples, examples.encoded, raw_scores, strict=True):
        if model.kind == "text":
            scores = raw.scores if raw.span_scores is None else raw.span_scores
            if scores is not None and not judged_on_units(protocol, example):
                scores = word_scores(example.text, example.pair, encoded.units, scores)
            row.compared_scores.append(scores)
        for metric in settings.metrics:
            if metric.kind == "image":
                row.image_values.setdefault(metric.name, []).append(_image_metric(model, metric, example, encoded, raw))
    scored_positions = [number for number, raw in enumerate(raw_scores) if raw.scores is not None]
    if settings.needs_curves and scored_positions:
        started = time.perf_counter()
        row.curves.append(
            measure_faithfulness(
                settings.forward_model,
                [examples.encoded[number] for number in scored_positions],
                [scores for raw in raw_scores if (scores := raw.scores) is not None],
                None if protocol.label == "predicted" else [examples.targets[number] for number in scored_positions],
                protocol,
                gold=[examples.gold_labels[number] for number in scored_positions],
                seed=settings.seed,
                filler=settings.filler,
            )
        )
        row.faithfulness_seconds += time.perf_counter() - started


def _scores(
    settings: EvaluationSettings, examples: LoadedExamples, method: Method, progress: Progress | None
) -> list[RawScores]:
    """The method's scores of all rows, from the cache where possible."""
    model = settings.forward_model if method.runs_in_half_precision else settings.model
    return cached_row_scores(
        model,
        examples.encoded,
        method,
        examples.targets,
        settings.seed,
        settings.cache,
        settings.model_fingerprint,
        progress,
    )


def cached_row_scores(
    model: Model,
    encoded: Sequence[Any],
    method: Method,
    targets: Sequence[int],
    seed: int,
    cache: Cache | None,
    fingerprint: str,
    progress: Progress | None = None,
) -> list[RawScores]:
    """`score_rows` with a cache; `fingerprint`: the model's."""
    if cache is None:
        return score_rows(model, encoded, method, targets, seed=seed, progress=progress)
    keys = [
        entry_key(fingerprint, input_fingerprint(entry), method, target, seed)
        for entry, target in zip(encoded, targets, strict=True)
    ]
    entries = [cache.get(key, row_units(entry)) for key, entry in zip(keys, encoded, strict=True)]
    missing = [number for number, entry in enumerate(entries) if entry is None]
    done, size = 0, FIRST_CHUNK
    while done < len(missing):  # in chunks, so that an interruption does not lose everything
        chunk, started = missing[done : done + size], time.perf_counter()
        computed = score_rows(
            model,
            [encoded[number] for number in chunk],
            method,
            [targets[number] for number in chunk],
            seed=seed,
            progress=progress_of_step(progress, done, len(missing), len(chunk)),
        )
        for number, entry in zip(chunk, computed, strict=True):
            cache.put(keys[number], entry)
            entries[number] = entry
        done += len(chunk)
        seconds_per_input = (time.perf_counter() - started) / len(chunk)
        size = max(FIRST_CHUNK, int(SECONDS_BETWEEN_SAVES / max(seconds_per_input, 1e-6)))
    return [entry for entry in entries if entry is not None]


def progress_of_step(progress: Progress | None, done: int, total: int, size: int = 1) -> Progress | None:
    """Progress of the next `size` of `total` units of work, reported as progress of all of them."""
    return None if progress is None else lambda share: progress((done + size * min(share, 1.0)) / total)


def _image_metric(model: Model, metric: Metric, example: Any, encoded: Any, raw: RawScores) -> float:
    """The value of an image metric, at the image's own size."""
    if raw.scores is None or not example.boxes:
        return float("nan")
    source = encoded.source
    height, width = source.size
    scores = model.describe(encoded, torch.from_numpy(raw.scores)).scores.reshape(height, width)
    boxes = example.boxes
    if source.reduced_from is not None:  # the boxes refer to the image as it was stored
        down, across = height / source.reduced_from[0], width / source.reduced_from[1]
        boxes = [
            (int(a * across), int(b * down), min(width, -int(-c * across // 1)), min(height, -int(-d * down // 1)))
            for a, b, c, d in boxes
        ]
    return float(metric.function(gold_pixels(boxes, height, width, example.name), scores))
