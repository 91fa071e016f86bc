"""Several methods on one input, side by side, and how far they agree."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, overload

from rationales.errors import NotApplicableError, OptionError
from rationales.evaluation.agreement.human_marks import PEOPLE, HumanMarks
from rationales.evaluation.agreement.overlap import precision, recall
from rationales.evaluation.collecting import progress_of_step
from rationales.evaluation.entries import MethodEntry, ResolvedEntry, resolve_entries
from rationales.evaluation.stability.agreement import selection_iou
from rationales.evaluation.tables.statistics import rank_correlation
from rationales.files import write_text
from rationales.methods import Method
from rationales.models.load import as_model
from rationales.models.model import Model
from rationales.pipeline.explain import explain
from rationales.rationale import Rationale
from rationales.rendering import render

Methods = Sequence[str | Method | Mapping[str, Any] | MethodEntry]


@dataclass(frozen=True, eq=False)
class MethodComparison:
    """The rationales of one input by several methods; agreement is with the first of them."""

    titles: tuple[str, ...]
    rationales: tuple[Rationale, ...]
    not_applicable: Mapping[str, str] = field(default_factory=dict)  # title -> why the method has no rationale

    def agreement(self) -> dict[str, list[Any]]:
        """(methods, methods): the rank correlation of the scores, and the overlap of the selections.

        With people's marks also (methods,): precision and recall of each selection against them; None without a mark.
        """
        pairs = [[(row, column) for column in self.rationales] for row in self.rationales]
        ranks = [[rank_correlation(row.scores, column.scores) for row, column in line] for line in pairs]
        return {
            "rank_correlation": [[None if math.isnan(value) else value for value in line] for line in ranks],
            "overlap": [[selection_iou(row.selected(), column.selected()) for row, column in line] for line in pairs],
            **self._against_marks(),
        }

    def _against_marks(self) -> dict[str, list[float | None]]:
        """Precision and recall against people's marks, which come first if there are any."""
        marks = self.rationales[0]
        if marks.method != HumanMarks.name:
            return {}
        selected = [rationale.selected() for rationale in self.rationales]
        return {
            name: [None if math.isnan(value := measure(selected[0], units)) else value for units in selected]
            for name, measure in {"precision": precision, "recall": recall}.items()
        }

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        results = [rationale.to_dict() for rationale in self.rationales]
        gaps = {"not_applicable": dict(self.not_applicable)} if self.not_applicable else {}
        return {"methods": list(self.titles), **self.agreement(), "results": results, **gaps}

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str | Path:
        """A self-contained page with a column for each method; with a `path` it is written there."""
        page = str(render("comparison-html", self.rationales, self.titles, not_applicable=self.not_applicable))
        return page if path is None else write_text(path, page)

    def to_png(self, path: str | os.PathLike[str]) -> Path:
        """Write the heat maps and cut-outs of an image by all methods as one PNG; several: `picture_grid`."""
        gaps = tuple(self.not_applicable)
        written: Path = render("comparison-png", [self.rationales], self.titles, path, cutouts=True, gaps=gaps)
        return written

    def __str__(self) -> str:
        return str(render("comparison-text", self.rationales, self.titles, not_applicable=self.not_applicable))


@overload
def compare(
    model: Model | str | os.PathLike[str] | tuple[Any, Any],
    raw_input: list[Any],
    methods: Methods = ...,
    *,
    smooth: float | None = None,
    shape: str | None = None,
    marks: None = None,
    progress: Callable[[float], None] | None = None,
    **options: Any,
) -> list[MethodComparison]: ...


@overload
def compare(
    model: Model | str | os.PathLike[str] | tuple[Any, Any],
    raw_input: Any,
    methods: Methods = ...,
    *,
    smooth: float | None = None,
    shape: str | None = None,
    marks: Sequence[tuple[int, int]] | None = None,
    pair_marks: Sequence[tuple[int, int]] = (),
    progress: Callable[[float], None] | None = None,
    **options: Any,
) -> MethodComparison: ...


def compare(
    model: Model | str | os.PathLike[str] | tuple[Any, Any],
    raw_input: Any,
    methods: Methods = ("marc", "occlusion"),
    *,
    smooth: float | None = None,
    shape: str | None = None,
    marks: Sequence[tuple[int, int]] | None = None,
    pair_marks: Sequence[tuple[int, int]] = (),
    progress: Callable[[float], None] | None = None,
    **options: Any,
) -> MethodComparison | list[MethodComparison]:
    """Explain one input with several methods; a list in, a list out.

    `methods`: as for `evaluate`, but no row of random scores is added. `smooth` and `shape`: for every method that sets
    none. `marks`, `pair_marks`: what people marked, as (start, end) in characters (`Example.spans`, `pair_spans`); they
    come first, so that agreement is with people. A method that is not defined for the model is listed with the reason
    (`not_applicable`); an error where that is so for every method. `options`: target, against, seed, snap, threshold,
    share, top, curve and names, as for `explain`.
    """
    model = as_model(model)
    entries = resolve_entries(methods, smooth, model.kind, shape)[: len(methods)]
    if marks is not None:
        if isinstance(raw_input, list):
            raise OptionError("marks are of one input; compare the inputs one by one, or use evaluate")
        people = HumanMarks(tuple(map(tuple, marks)), tuple(map(tuple, pair_marks)))  # type: ignore[arg-type]
        entries.insert(0, ResolvedEntry(PEOPLE, people, None, "none"))
    options.setdefault("plain_baseline", not any(entry.method.depends_on_baselines for entry in entries))
    explained: dict[str, Any] = {}  # title -> the rationale or the rationales
    not_applicable: dict[str, NotApplicableError] = {}
    for number, entry in enumerate(entries):
        report = progress_of_step(progress, number, len(entries))
        settings = {"method": entry.method, "smooth": entry.smooth, "shape": entry.shape, **options}
        if isinstance(entry.method, HumanMarks):
            settings |= {"threshold": 0.5, "share": None, "top": None, "snap": False}
        try:
            explained[entry.title] = explain(model, raw_input, progress=report, **settings)
        except NotApplicableError as error:
            not_applicable[entry.title] = error
    if not set(explained) - {PEOPLE}:
        raise next(iter(not_applicable.values()))
    titles, reasons = tuple(explained), {title: str(error) for title, error in not_applicable.items()}
    if isinstance(raw_input, list):
        return [MethodComparison(titles, rationales, reasons) for rationales in zip(*explained.values(), strict=True)]
    return MethodComparison(titles, tuple(explained.values()), reasons)
