"""The same methods under several ways of removal: one table each, and how the ranking changes between them.

A metric that removes words favours methods that remove them in the same way (Pham et al. 2022, section 4). A method
that leads only under its own operation has not been shown to be better.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from rationales.errors import OptionError
from rationales.evaluation.bias.ranking import kendall, kendall_interval, rank_rows, spearman
from rationales.evaluation.bias.removal_operations import resolve_protocols, shared_operations
from rationales.evaluation.collecting import Progress, progress_of_step
from rationales.evaluation.entries import MethodEntry, resolve_entries
from rationales.evaluation.faithfulness.removal import protocol_for
from rationales.evaluation.metrics import METRICS, check_metric_names, direction
from rationales.evaluation.preparation import prepare_evaluation
from rationales.evaluation.protocols import FILL, Protocol
from rationales.evaluation.tables.table import Table, short
from rationales.files import write_text
from rationales.methods import Method
from rationales.models.load import as_model
from rationales.models.model import Model


@dataclass(frozen=True, eq=False)
class ProtocolComparison:
    """One table for each protocol, with the same rows, metrics and inputs."""

    tables: Mapping[str, Table]  # by the protocol's name
    metrics: tuple[str, ...]
    warnings: tuple[str, ...]  # methods that are judged by the operation they are built on

    @property
    def rows(self) -> list[str]:
        """Titles of the rows."""
        return [row.title for row in next(iter(self.tables.values())).rows]

    def means(self, metric: str) -> np.ndarray:
        """(protocols, rows): the means."""
        return np.array(
            [
                [row.cells[metric].estimate.mean if metric in row.cells else np.nan for row in table.rows]
                for table in self.tables.values()
            ]
        )

    def ranks(self, metric: str) -> np.ndarray:
        """(protocols, rows): 1 is the best; equal means share a rank; NaN where there is no value."""
        return np.array([rank_rows(values, bool(METRICS[metric].higher)) for values in self.means(metric)])

    def agreement(self, metric: str) -> list[dict[str, Any]]:
        """For every two protocols Kendall's tau-b of the means, its 95 % interval over inputs, and Spearman's rho."""
        means = dict(zip(self.tables, self.means(metric), strict=True))
        values = {
            name: np.array([row.cells[metric].values for row in table.rows if metric in row.cells])
            for name, table in self.tables.items()
        }
        return [
            {
                "protocols": [first, second],
                "kendall": kendall(means[first], means[second]),
                "interval": kendall_interval(values[first], values[second]),
                "spearman": spearman(means[first], means[second]),
            }
            for first, second in combinations(self.tables, 2)
        ]

    def to_markdown(self) -> str:
        """For each metric the ranks with their means, then how far the rankings agree, then the warnings."""
        names, lines = list(self.tables), list[str]()
        table = next(iter(self.tables.values()))
        for metric in self.metrics:
            means, ranks = self.means(metric), self.ranks(metric)
            lines += [f"## {metric}{direction(metric)}: rank (mean) under each protocol", ""]
            lines += ["| method | " + " | ".join(names) + " |", "| --- " * (len(names) + 1) + "|"]
            for number, title in enumerate(self.rows):
                cells = [
                    table.rows[number].placeholder if np.isnan(rank) else f"{rank:g} ({short(mean)})"
                    for rank, mean in zip(ranks[:, number], means[:, number], strict=True)
                ]
                lines.append(f"| {' '.join(title.split())} | " + " | ".join(cells).replace("\n", " ") + " |")
            lines += ["", "| protocols | Kendall's τ-b [95 % interval] | Spearman's ρ |", "| --- | --- | --- |"]
            for pair in self.agreement(metric):
                tau, (low, high) = pair["kendall"], pair["interval"]
                interval = "" if np.isnan(low) else f" [{short(low)} {short(high)}]"
                cells = ["–" if np.isnan(value) else short(value) for value in (tau, pair["spearman"])]
                lines.append(f"| {' – '.join(pair['protocols'])} | {cells[0]}{interval} | {cells[1]} |")
            lines.append("")
        lines += [f"Warning: {sentence}" for sentence in self.warnings]
        lines += table.gap_notes()
        where = f"Model {table.model}, {len(table.inputs)} inputs, seed {table.seed}."
        reading = "Rank 1 is the best; τ and ρ compare the order of all rows, random scores included, from −1 to 1."
        lines += ["", f"{where} {reading}"]
        described = {name: table.protocol for name, table in self.tables.items() if table.protocol is not None}
        lines += [f"{name}: {protocol.describe()}." for name, protocol in described.items()]
        return "\n".join(lines) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; what is not defined is null."""
        return {
            "rows": self.rows,
            "protocols": list(self.tables),
            "metrics": {
                metric: {
                    "means": _nulls(self.means(metric).tolist()),
                    "ranks": _nulls(self.ranks(metric).tolist()),
                    "agreement": _nulls(self.agreement(metric)),
                }
                for metric in self.metrics
            },
            "warnings": list(self.warnings),
            "tables": {name: table.to_dict() for name, table in self.tables.items()},
        }

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """`to_dict` as a JSON text; written to `path` when one is given."""
        content = json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False, default=str) + "\n"
        if path is not None:
            write_text(path, content)
        return content

    def __str__(self) -> str:
        return self.to_markdown()


def compare_protocols(
    model: Model | str | os.PathLike[str] | tuple[Any, Any],
    examples: Sequence[Any],
    methods: Sequence[str | Method | Mapping[str, Any] | MethodEntry] = ("marc", "occlusion"),
    protocols: Sequence[str | Protocol] = ("delete", "pad", "unk", "mask"),
    *,
    base: str | Protocol = "im",
    metrics: Sequence[str] | None = None,
    smooth: float | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    cache: Any = None,
    filler: Any = None,
) -> ProtocolComparison:
    """Judge the same scores under several protocols, and compare the rankings.

    `protocols`: names of protocols, Protocol objects, or ways of removal (delete, pad, unk, mask, zero, mean, fill),
    each of which stands for `base` with that removal. `metrics`: faithfulness metrics; by default `deletion` where the
    base removes one unit at a time, else comprehensiveness and sufficiency. The other arguments are those of
    `evaluate`. Scores are computed once for each class that is explained.
    """
    model = as_model(model)
    resolved = resolve_protocols(protocols, base, model.kind)
    names = compared_metrics(metrics, protocol_for(base, model))
    entries = resolve_entries(methods, smooth, model.kind)
    with tempfile.TemporaryDirectory() as folder:
        prepared = [
            prepare_evaluation(
                model,
                examples,
                protocol,
                names,
                seed=seed,
                cache=folder if cache is None else cache,
                filler=filler if FILL in (protocol.removal, protocol.odds_removal) else None,
            )
            for protocol in resolved
        ]
        tables = {}
        for number, (protocol, evaluation) in enumerate(zip(resolved, prepared, strict=True)):
            rows = evaluation.rows(entries, progress_of_step(progress, number, len(resolved)))
            tables[protocol.name] = evaluation.table(rows)
    if progress is not None:
        progress(1.0)
    warnings = shared_operations([(entry.title, entry.method) for entry in entries], resolved, model)
    return ProtocolComparison(tables, names, tuple(warnings))


def compared_metrics(requested: Sequence[str] | None, base: Protocol) -> tuple[str, ...]:
    """The metrics that rankings are compared by; an error for one that does not depend on the way of removal."""
    if requested is None:
        return ("deletion",) if base.each is not None else ("comprehensiveness", "sufficiency")
    check_metric_names(requested)
    for name in requested:
        if METRICS[name.partition("@")[0]].kind != "curves":
            curves = ", ".join(metric.name for metric in METRICS.values() if metric.kind == "curves")
            raise OptionError(f"{name} does not depend on how words are removed; protocols are compared by: {curves}")
    return tuple(requested)


def _nulls(value: Any) -> Any:
    """The same nested lists and mappings with None in place of NaN."""
    if isinstance(value, dict):
        return {key: _nulls(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_nulls(item) for item in value]
    return None if isinstance(value, float) and np.isnan(value) else value
