"""Judge methods on examples: one row for each, a random row always, every choice on record."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from rationales.evaluation.collecting import Progress
from rationales.evaluation.entries import MethodEntry, entries
from rationales.evaluation.protocol import Protocol
from rationales.evaluation.selection import Selection
from rationales.evaluation.study import study
from rationales.evaluation.table import Table
from rationales.models.front import as_model
from rationales.models.model import Model


def evaluate(
    model: Model | str | os.PathLike[str] | tuple[Any, Any],
    examples: Sequence[Any],
    methods: Sequence[str | Mapping[str, Any] | MethodEntry] = ("marc", "occlusion"),
    protocol: str | Protocol = "marc",
    metrics: Sequence[str] | None = None,
    smooth: float | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    cache: Any = None,
    *,
    selection: str | Selection | None = None,
    filler: Any = None,
) -> Table:
    """Judge methods by metrics on examples.

    `model`: of `rationales.load`, or what names one: a name, a folder or a tuple (module, tokenizer).
    `examples`: of `rationales.data`, or anything with their fields. `methods`: names, or mappings and MethodEntry with
    name, options, smooth and title; a `random` row is always there. `protocol`: a name or a Protocol. `metrics`: names,
    by default the usual ones that the examples allow. `smooth`: width of a Gaussian over neighbouring units for every
    row that does not say otherwise. `cache`: a folder that keeps scores, so that a table goes on where it was stopped.
    `selection`: how words are selected, instead of the protocol's rule. `filler`: the masked language model of removal
    `fill`. `progress` is called with the share done. An input for which a metric is not defined has no value in it; the
    table says how many had one.
    """
    model = as_model(model)
    rows = entries(methods, smooth, model.kind)
    made = study(
        model, examples, protocol, metrics, seed=seed, cache=cache, selection=selection, filler=filler
    )  # what is wrong with the examples is told before any work
    found = made.rows(rows, progress)
    if progress is not None:
        progress(1.0)
    return made.table(found)
