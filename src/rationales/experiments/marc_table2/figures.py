"""Figures 2 and 3 and the grids of appendix C: every method on the user's pictures, on one sheet for each model."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rationales.data import read_data
from rationales.errors import ModelError, NotApplicableError, OptionError
from rationales.evaluation.preparation import versions
from rationales.evaluation.sampling import evenly
from rationales.evaluation.tables.table import Cell, Table, TableRow
from rationales.experiments.marc_table2.model_run import ModelRun
from rationales.experiments.marc_table2.row_specs import (
    GAUSSIAN,
    MARC,
    MARC_PRESETS,
    TRANSFORMER,
    PictureRow,
    select_rows,
)
from rationales.experiments.registry import ExperimentReport, Request
from rationales.methods.method import Method
from rationales.models.image.model import ImageModel
from rationales.models.load import load
from rationales.pipeline.explain import explain
from rationales.rationale import Rationale
from rationales.report.png.method_grid import Row, method_grid_page, method_grid_png

TITLE = "MaRC, Figures 2 and 3 and appendix C: masks of all methods"
MODEL = "efficientnet-lite0"
PICTURES = 11  # of the user's folder; appendix C shows as many
METRICS = ("alone", "without")  # columns of the table: the target's probability
# Figure 3b and 3c: what tells a class from others, and whatever speaks for it (softmax and sigmoid in a ratio of 1:9).
INDICATIVE = (("MaRC, discriminative (3b)", 0.0), ("MaRC, indicative (3c)", 0.9))


@dataclass(frozen=True)
class FigureSettings:
    """What `reproduce` leaves as it is, and a shorter run sets otherwise."""

    model: ImageModel | None = None
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # row -> further options


def names() -> list[str]:
    """The names that `--rows` accepts."""
    from rationales.experiments.marc_table2.row_specs import names as table_names

    return [name for name in table_names() if name not in ("controls", "random", GAUSSIAN)]


def reproduce(request: Request, settings: FigureSettings | None = None) -> ExperimentReport:
    """Explain the pictures of a folder by all methods; the sheet is drawn into --out."""
    began = time.perf_counter()
    settings = settings or FigureSettings()
    if request.data is None:
        raise OptionError("give --data, a folder of pictures of your own (or imagenet-val-250.tar)")
    model = settings.model or load(request.model or MODEL, device=request.device)
    if not isinstance(model, ImageModel):
        raise OptionError(f"{model.name} reads no pictures")
    examples = evenly(read_data(str(request.data)), request.limit or PICTURES)
    paths = [example.image for example in examples if example.image is not None]
    family = ModelRun(model, [], request).family
    entries = _entries(request.rows, family, settings.options)
    by_method: dict[str, list[Rationale]] = {}
    left_out: dict[str, list[str]] = {}  # title of a section -> a line for each method
    for number, (title, (method, baselines)) in enumerate(entries.items()):
        fitted = replace(model, baselines=baselines) if baselines else model
        try:
            by_method[title] = explain(fitted, paths, method=method, seed=request.seed)
        except NotApplicableError as error:
            left_out.setdefault("Not applicable", []).append(f"- {title}: n/a ({error})")
        except (ModelError, OptionError) as error:
            left_out.setdefault("Failed", []).append(f"- {title}: failed ({error})")
        if request.progress is not None:
            request.progress((number + 1) / len(entries))
    if not by_method:
        reasons = "\n".join(line for lines in left_out.values() for line in lines)
        raise ModelError(f"no method explains {model.name}:\n{reasons}")
    rows: list[Row] = [
        (path.name, {title: rationales[number] for title, rationales in by_method.items()})
        for number, path in enumerate(paths)
    ]
    sections = [(section, "\n".join(lines)) for section, lines in left_out.items()]
    sections.append(("Time", f"{time.perf_counter() - began:.0f} s."))
    table = _table(by_method, [path.name for path in paths], model, request)
    return ExperimentReport(table, None, METRICS, tuple(sections), TITLE, _drawing(rows, list(by_method), model.name))


def _entries(
    requested: Sequence[str] | None, family: str, options: Mapping[str, Mapping[str, Any]]
) -> dict[str, tuple[Method, tuple[str, ...]]]:
    """Title -> method and its baselines: by default the rows of the paper's table, on a ViT also Figure 3b and 3c."""
    specs = [spec for spec in select_rows(requested or ["paper"]) if spec.group != "controls"]
    entries: dict[str, tuple[Method, tuple[str, ...]]] = {}
    for spec in specs:
        further = options.get(spec.key, {})
        if spec.key != MARC:
            entries[spec.title] = (_method(spec, further), spec.baselines)
            continue
        preset, baselines = MARC_PRESETS[family]
        settings = {"preset": preset, "precision": "auto", **further}
        entries[spec.title] = (_method(spec, settings), baselines)
        for title, indicative in INDICATIVE if family == TRANSFORMER else ():
            entries[title] = (_method(spec, {**settings, "indicative": indicative}), baselines)
    return entries


def _method(spec: PictureRow, options: Mapping[str, Any]) -> Method:
    return replace(spec, options={**spec.options, **options}).build()


def _table(
    by_method: Mapping[str, Sequence[Rationale]], inputs: Sequence[str], model: ImageModel, request: Request
) -> Table:
    """For each method the target's probability in the rationale alone, and in the picture without it."""
    rows = []
    for title, rationales in by_method.items():
        sides = {"alone": "rationale", "without": "complement"}
        cells = {
            name: Cell(tuple(float(rationale.probabilities[side][rationale.target]) for rationale in rationales))
            for name, side in sides.items()
        }
        rows.append(TableRow(title, cells, rationales[0].method))
    recipe = (
        "Probability of the predicted class in the rationale alone (alone) and in the picture without it (without); "
        "each method has its own rule of selection and its own baselines."
    )
    return Table(
        tuple(rows), METRICS, tuple(inputs), None, "", model.name, model.baseline, request.seed, versions(), (), recipe,
        "pictures",
    )  # fmt: skip


def _drawing(rows: Sequence[Row], titles: Sequence[str], name: str) -> Callable[[Path], Sequence[Path]]:
    def draw(folder: Path) -> Sequence[Path]:
        stem = name.replace("/", "-")
        png = method_grid_png(rows, titles, folder / f"masks-{stem}.png")
        return [png, method_grid_page(rows, titles, folder / f"masks-{stem}.html", f"Masks of {name}")]

    return draw
