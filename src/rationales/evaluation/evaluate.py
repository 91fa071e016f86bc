"""Evaluate methods on examples: one row per method and one of random scores, with every setting on record."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from rationales.errors import OptionError
from rationales.evaluation.collecting import Progress
from rationales.evaluation.entries import MethodEntry, resolve_entries, selection_remarks
from rationales.evaluation.preparation import prepare_evaluation
from rationales.evaluation.protocols import Protocol
from rationales.evaluation.selection.rules import SelectionRule
from rationales.evaluation.studies import check_study_settings, check_training_data, run_study, split_studies
from rationales.evaluation.tables.table import Table
from rationales.methods import Method
from rationales.models.load import as_model
from rationales.models.model import Model
from rationales.rationale import Rule


def evaluate(
    model: Model | str | os.PathLike[str] | tuple[Any, Any],
    examples: Sequence[Any],
    methods: Sequence[str | Method | Mapping[str, Any] | MethodEntry] = ("marc", "occlusion"),
    protocol: str | Protocol = "marc",
    metrics: Sequence[str] | None = None,
    smooth: float | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    cache: Any = None,
    *,
    selection: str | Rule | SelectionRule | None = None,
    filler: Any = None,
    shape: str | None = None,
    train: Sequence[Any] | None = None,
    study: Mapping[str, Any] | None = None,
) -> Table:
    """Evaluate methods by metrics on examples.

    `model`: of `rationales.load`, or what it loads: a name, a folder or a tuple (module, tokenizer). `examples`: of
    `rationales.data`, or objects with the same fields. `methods`: names, method objects, or mappings or MethodEntry of
    name, options, smooth, shape and title; a row of random scores is always added. `protocol`: a name or a Protocol.
    `metrics`: names, by default those that the examples allow. `smooth`: width of a Gaussian over neighbouring units,
    and `shape`: of the rationale ("clauses" or "none", as for `explain`), both for every row that sets none. Agreement
    with people is measured on the scores that the rationale is selected by, faithfulness on the scores of units.
    `cache`: a folder for scores, from which an interrupted table continues. `selection`: a selection by name or a
    `Rule`, instead of the protocol's. `filler`: the masked language model of removal `fill`. `train`, `study`: training
    examples and settings of the metrics that make a table of their own (`roar`, `sanity`). `progress` is called with
    the share done. An input for which a metric is not defined has no value in it; the table gives the number of inputs
    with a value. A method that is not defined for the model has a row of n/a with the reason; an error where that is so
    for all of them.
    """
    model = as_model(model)
    studies, other_metrics = split_studies(metrics)
    check_study_settings(studies, study or {})
    if train is not None:
        check_training_data(studies)
    if studies:
        if len(studies) > 1 or other_metrics:
            raise OptionError(f"{studies[0]} makes a table of its own; request it apart from the other metrics")
        options = {"smooth": smooth, "seed": seed, "progress": progress, "cache": cache, "filler": filler}
        return run_study(studies[0], model, examples, methods, train=train, study=study, **options)
    entries = resolve_entries(methods, smooth, model.kind, shape)
    prepared = prepare_evaluation(
        model, examples, protocol, metrics, seed=seed, cache=cache, selection=selection, filler=filler
    )  # checks the examples before any computation
    table_rows = prepared.rows(entries, progress)
    if progress is not None:
        progress(1.0)
    return prepared.table(table_rows, selection_remarks(entries))
