"""The class that is explained for each input, and the one path from encoded inputs and a method to scores.

`explain`, `evaluate` and the experiments all take it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, ValuesView
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from rationales.errors import OptionError
from rationales.masks.field import smooth as smooth_scores
from rationales.masks.postprocess import clause_scores
from rationales.methods.method import Attribution, Method
from rationales.models.batch import Batch
from rationales.models.model import Model
from rationales.options import check_option

SHAPES = ("clauses", "none")  # of the rationale
SCORE_ROUNDING = 1e-6  # differences of scores in [0, 1] below this are rounding
KINDS_ON_A_GRID = ("image", "image-text", "spectrogram")  # of input, in which there are no clauses


def lists_inputs(inputs: Any) -> bool:
    """Whether these are several inputs: a list, an iterator, an array of texts, a column of a data frame.

    A tuple is one input (a pair of texts, or samples and their rate), and so is an array of numbers (a picture).
    """
    if isinstance(inputs, (str, bytes, bytearray, memoryview, tuple)):
        return False
    if isinstance(inputs, (Sequence, Iterator, ValuesView)):
        return True
    if callable(getattr(inputs, "to_list", None)):  # a series of pandas or polars
        return True
    return isinstance(inputs, np.ndarray) and inputs.ndim == 1 and inputs.dtype.kind in "OUT"  # objects or texts


def target_numbers(model: Model, target: Any, count: int) -> list[int | None]:
    """The class to explain for each input; None: the one that the model predicts."""
    labels = list(target) if _several(target) else [target] * count
    if len(labels) != count:
        raise OptionError(f"{len(labels)} targets for {count} inputs")
    default_target = getattr(model, "default_target", None)  # of a language model with a single label
    return [default_target if label is None else model.target(label) for label in labels]


def _several(labels: Any) -> bool:
    """Whether these are labels of several inputs, not the label of all."""
    return lists_inputs(labels) or isinstance(labels, tuple) or getattr(labels, "ndim", 0) == 1


def rival_numbers(model: Model, against: Any, count: int) -> list[int] | None:
    """The index of the class that each input's target is contrasted with; None without a contrast."""
    if against is None:
        return None
    if len(model.labels) < 2:
        raise OptionError(f"{model.name} has one class, {model.labels[0]}, and nothing to set it against")
    listed = list(against) if _several(against) else [against] * count
    if len(listed) != count:
        raise OptionError(f"{len(listed)} labels in against for {count} inputs")
    numbers = [model.target(label) for label in listed]
    rivals = [number for number in numbers if number is not None]
    if len(rivals) < count:
        raise OptionError("against needs a label for every input, or None for all of them")
    return rivals


def check_rivals(model: Model, target: Tensor, against: Tensor, titles: Sequence[str]) -> None:
    """Raise an OptionError where a target (inputs,) is contrasted with itself."""
    same = torch.nonzero(target == against).flatten().tolist()
    if same:
        label = model.labels[int(target[same[0]])]
        raise OptionError(
            f"the target of {titles[same[0]]} and the label it is set against are both {label}; "
            "give another label as target or as against"
        )


def two_class_probabilities(
    probabilities: Mapping[str, Mapping[str, float]], target: str, against: str
) -> dict[str, dict[str, float]]:
    """The probabilities of two labels normalised to sum 1; 1/2 each where both are 0."""
    shares = {}
    for name, by_label in probabilities.items():
        total = by_label[target] + by_label[against]
        share = by_label[target] / total if total > 0 else 0.5
        shares[name] = {target: share, against: 1 - share}
    return shares


def read_inputs(model: Model, raw_inputs: Sequence[Any], names: Sequence[str | None]) -> list[Any]:
    """Every input, checked; images several at once."""
    if model.kind == "image":
        images: list[Any] = cast("Any", model).read_all(raw_inputs, names)
        return images
    return [model.read(raw_input, name) for raw_input, name in zip(raw_inputs, names, strict=True)]


def encode_inputs(model: Model, sources: Sequence[Any], plain_baseline: bool) -> Sequence[Any]:
    """The inputs divided into units and rows; with `plain_baseline`, images get the least informative plain colour."""
    if plain_baseline and model.kind == "image":
        encoded: Sequence[Any] = cast("Any", model).encode(sources, plain_baseline=True)
        return encoded
    return model.encode(sources)


@contextmanager
def open_batch(model: Model, encoded: Sequence[Any], seed: int) -> Iterator[Batch]:
    """The rows of these inputs; inside the block the model is frozen and the threads suit the size of the work."""
    with torch.inference_mode(False), model.frozen():
        batch = model.batch(encoded, seed)
        with batch.threads():
            yield batch


def run_method(
    batch: Batch, method: Method, target: Tensor, progress: Callable[[float], None] | None = None
) -> Attribution:
    """The method's scores (S, n) for `target` (inputs,), detached; a model without gradients is reported first."""
    batch.check_access(method.name, method.needs)
    attribution = method.scores(batch, target, progress)
    spans = None if attribution.span_scores is None else attribution.span_scores.detach()
    return replace(attribution, scores=attribution.scores.detach(), span_scores=spans)


def check_shape(shape: str | None, kind: str) -> None:
    """Raise an OptionError where `shape` is none of `SHAPES`, or does not apply to this kind of input."""
    if shape is None:
        return
    check_option("shape", shape, "str", SHAPES)
    if shape == "clauses" and kind in KINDS_ON_A_GRID:
        raise OptionError(f"shape='clauses' is for texts and sounds, not for an input of kind {kind}; leave it out")


def shaped_scores(
    batch: Batch, attribution: Attribution, smooth: float | None = None, shape: str | None = None
) -> tuple[Tensor, Tensor | None]:
    """(S, n) twice: the scores of units, and the scores that a rationale is selected by where they are others.

    `smooth`: width of a Gaussian over neighbouring units. `shape`: "clauses": by the method's own spans; where it has
    single units instead, or selects by scores, by these shaped in the same way; "none": by the scores of units; None:
    as the method does it. With "clauses", only the spans are smoothed, as MaRC smooths only its own.
    """
    scores, span_scores = attribution.scores, attribution.span_scores
    smoothed = scores if smooth is None else smooth_scores(scores, batch, smooth)
    if shape == "none" or (span_scores is None and batch.pixel_grid is not None):
        return smoothed, None
    if span_scores is None:
        return (scores, clause_scores(smoothed, batch)) if shape == "clauses" else (smoothed, None)
    method_spans = span_scores if smooth is None else smooth_scores(span_scores, batch, smooth)
    if shape != "clauses":
        return smoothed, method_spans
    single_units = same_order(scores, span_scores, batch)[batch.rows.input][:, None]
    shaped = with_values_of_inputs(clause_scores(smoothed, batch), method_spans, batch)
    return scores, torch.where(single_units, shaped, method_spans)


def same_order(scores: Tensor, span_scores: Tensor, batch: Batch) -> Tensor:
    """(I,) bool: inputs whose units rank by `span_scores` as by `scores`, (S, n) each: single units and no spans."""
    real = batch.rows.real
    rising = torch.where(real, scores, torch.inf).argsort(1)
    ranked = torch.where(real, span_scores, torch.inf).gather(1, rising)
    other_rank = (ranked[:, 1:] < ranked[:, :-1] - SCORE_ROUNDING).any(1)
    return torch.zeros(batch.inputs, device=scores.device).index_add(0, batch.rows.input, other_rank.float()) == 0


def with_values_of_inputs(order: Tensor, scores: Tensor, batch: Batch) -> Tensor:
    """(S, n): of each input the values of `scores` (S, n), ranked as `order` (S, n) ranks its units; 0 for padding."""
    real = batch.rows.real
    owner = batch.rows.input[:, None].expand_as(real)[real]

    def ranking(values: Tensor) -> Tensor:
        by_value = values.argsort(stable=True)
        return by_value[owner[by_value].argsort(stable=True)]

    values, sorted_values = torch.zeros_like(scores), scores[real][ranking(scores[real])]
    values[real] = torch.empty_like(sorted_values).index_copy(0, ranking(order[real]), sorted_values)
    return values


def first_nonfinite(values: Tensor) -> int | None:
    """The first index along the first axis at which `values` holds NaN or infinity; None where all are finite."""
    finite = torch.isfinite(values).flatten(1).all(1) if values.dim() > 1 else torch.isfinite(values)
    return None if bool(finite.all()) else int(torch.nonzero(~finite)[0])
