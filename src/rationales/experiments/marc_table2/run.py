"""Table 2 for every model that is there: rows, controls, intervals, the claims of section 5, seconds and passes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rationales.data import Example, read_data
from rationales.errors import DataError, ModelError, OptionError
from rationales.evaluation.sampling import evenly
from rationales.evaluation.tables import markdown
from rationales.evaluation.tables.table import Table, short
from rationales.experiments.claims import claims_markdown
from rationales.experiments.marc_table2 import row_specs
from rationales.experiments.marc_table2.claims import claims
from rationales.experiments.marc_table2.model_run import ModelRun
from rationales.experiments.marc_table2.row_specs import MARC, METRICS, PAPER_METRICS, ROWS
from rationales.experiments.registry import ExperimentReport, Request
from rationales.models.image.model import ImageModel
from rationales.models.load import load

TITLE = "MaRC, Table 2: faithfulness of explanations of image classifiers"
MODELS = ("resnet-50", "efficientnet-lite0", "mobilenet-v2", "vit-birds")
PHOTOGRAPHS, BIRDS = "imagenet-val-250", "birds-112"
IMAGENET_CLASSES = 1000
PICTURES = 250  # of each model


@dataclass(frozen=True)
class TableSettings:
    """What `reproduce` leaves at the paper's settings, and a shorter run sets otherwise."""

    models: Mapping[str, tuple[ImageModel, Sequence[Example]]] | None = None  # in place of MODELS and their data
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # row -> further options
    stop: Callable[[], bool] = lambda: False  # no row is begun once it returns True


def names() -> list[str]:
    """The names that `--rows` accepts."""
    return row_specs.names()


def reproduce(request: Request, settings: TableSettings | None = None) -> ExperimentReport:
    """The tables of all models that are there, with claims and remarks."""
    began = time.perf_counter()
    settings = settings or TableSettings()
    specs = row_specs.select_rows(request.rows)
    runs, missing = _runs(request, settings)
    tables: dict[str, Table] = {}
    for number, run in enumerate(runs):
        report = None if request.progress is None else _share(request.progress, number, len(runs))
        tables[run.model.name] = run.compute(specs, report, settings.stop)
    if request.progress is not None:
        request.progress(1.0)
    return build_report(tables, missing, time.perf_counter() - began)


def build_report(tables: Mapping[str, Table], missing: Sequence[str], seconds: float) -> ExperimentReport:
    """The report on the tables of models (name -> table); `missing`: a line for every model that is left out."""
    costs = "\n\n".join(_costs(name, table) for name, table in tables.items())
    sections = [
        ("The paper's claims", claims_markdown(claims(tables))),
        ("Seconds and passes for each picture", costs),
        ("The paper's own figures (ResNet-101 and ViT-B/16)", published()),
    ]
    sections += [("Models that are left out", "\n".join(f"- {line}" for line in missing))] if missing else []
    sections.append(("Time", f"This run took {seconds:.0f} s."))
    (first, table), *further_models = tables.items()
    table = replace(table, remarks=(f"Model {first}.", *table.remarks))
    further = tuple((name, model_table, _reference(model_table)) for name, model_table in further_models)
    metrics = tuple(name for name in METRICS if name in table.metrics)
    return ExperimentReport(table, _reference(table), metrics, tuple(sections), TITLE, None, further)


def _runs(request: Request, settings: TableSettings) -> tuple[list[ModelRun], list[str]]:
    """A run for every model whose weights and pictures are there, and a line for every other."""
    if settings.models is not None:
        return [ModelRun(model, items, request, settings.options) for model, items in settings.models.values()], []
    runs, missing = list[ModelRun](), list[str]()
    for name in MODELS if request.model is None else request.model.split(","):
        try:
            model = load(name, device=request.device)
            if not isinstance(model, ImageModel):
                raise OptionError(f"{name} reads no pictures")
            runs.append(ModelRun(model, pictures_for(model, request), request, settings.options))
        except (ModelError, DataError, OptionError) as error:
            missing.append(f"{name}: {error}")
            if request.log is not None:
                request.log(f"{name} is left out: {error}")
    if not runs:
        raise ModelError("there is no model to make the table of; " + "; ".join(missing))
    return runs, missing


def pictures_for(model: ImageModel, request: Request) -> list[Example]:
    """The photographs of ImageNet for a model of its classes, else birds."""
    data, split = (PHOTOGRAPHS, "all") if len(model.labels) == IMAGENET_CLASSES else (BIRDS, "test")
    return evenly(read_data(data, split, request.data), request.limit or PICTURES)


def _share(report: Callable[[float], None], number: int, count: int) -> Callable[[float], None]:
    return lambda done: report((number + done) / count)


def _reference(table: Table) -> str | None:
    """The row that all others are compared with: MaRC with the paper's settings, else by default."""
    titles = [row.title for row in table.rows if row.cells]
    candidates = (ROWS[MARC].title, ROWS[row_specs.DEFAULT].title)
    return next((title for title in candidates if title in titles), None)


def _costs(name: str, table: Table) -> str:
    """Seconds, counted passes and steps of every row of a model."""
    heads = ["method", "s / picture", "forward passes", "with a backward pass", "steps"]
    lines = [
        [row.title, f"{row.seconds:.3g}", *map(_count, (row.forward_passes, row.backward_passes, row.steps))]
        if row.cells
        else [row.title, *[row.placeholder] * (len(heads) - 1)]
        for row in table.rows
    ]
    return f"{name}:\n\n{markdown.table(heads, lines)}"


def _count(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:,.0f}"


def published() -> str:
    """Table 2 as published."""
    lines = []
    for spec in ROWS.values():
        if spec.published:
            figures = [spec.published.get(family) for family in (row_specs.CONVOLUTIONAL, row_specs.TRANSFORMER)]
            lines.append([spec.title, *(text for pair in figures for text in _pair(pair))])
    headings = [f"{network} {name}" for network in ("ResNet-101", "ViT-B/16") for name in PAPER_METRICS]
    return markdown.table(["method", *headings], lines)


def _pair(figures: tuple[float, float] | None) -> tuple[str, str]:
    return ("–", "–") if figures is None else (short(figures[0]), short(figures[1]))
