"""The reproductions of published tables and figures, by name, with their options and their result."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from rationales.errors import OptionError

if TYPE_CHECKING:
    from rationales.evaluation.tables.table import Table


@dataclass(frozen=True)
class Request:
    """Options of a reproduction; None: the default of the experiment."""

    data: Path | None = None  # folder or archive of the data set
    model: str | None = None
    device: str | None = None
    limit: int | None = None  # number of inputs, evenly spread over the test set
    validation: int | None = None  # number of validation inputs on which settings are chosen
    passes: int | None = None  # budget of forward passes per segment and row; 0: the settings of the paper
    rows: Sequence[str] | None = None  # names of rows or of groups of rows
    seed: int = 0
    cache: Path | None = None  # folder of the score cache
    out: Path | None = None  # folder to which files are written, after every row
    tf32: bool = False  # use TF32 matrix products on an NVIDIA GPU: faster, less precise
    runs: int | None = None  # number of models that are trained for each setting
    jobs: int | None = None  # number of runs in parallel, each in its own process
    filler: str | None = None  # masked language model, by name, id or folder
    samples: int | None = None  # perturbed texts of LIME
    train_texts: int | None = None  # training texts of ROAR, evenly spread over the training set
    minutes: float | None = None  # after which no further row or run is started
    progress: Callable[[float], None] | None = None  # called with the completed share
    log: Callable[[str], None] | None = None  # called with one line for every row


@dataclass(frozen=True)
class ExperimentReport:
    """Result of a reproduction: the table, and further sections in Markdown."""

    table: Table
    reference: str | None  # title of the row that all other rows are compared with
    printed_metrics: tuple[str, ...]  # columns of the printed table; the files have all metrics
    sections: tuple[tuple[str, str], ...]  # title and Markdown of each further section
    title: str
    draw_figures: Callable[[Path], Sequence[Path]] | None = None  # writes figures to a folder, returns their paths
    further_tables: tuple[tuple[str, Table, str | None], ...] = ()  # title, table and its reference row

    def to_markdown(self) -> str:
        """The complete report."""
        from dataclasses import replace

        table = replace(self.table, metrics=self.printed_metrics).to_markdown(self.reference)
        further = [
            f"## {title}\n\n{further_table.to_markdown(reference)}"
            for title, further_table, reference in self.further_tables
        ]
        sections = [f"## {title}\n\n{text}" for title, text in self.sections]
        blocks = [f"# {self.title}\n\n{table}", *further, *sections]
        return "\n\n".join(block.rstrip() for block in blocks) + "\n"


COMMON_OPTIONS = ("data", "device", "limit", "rows", "seed", "cache", "out", "progress", "log")


@dataclass(frozen=True)
class Experiment:
    """A published table or figure."""

    name: str
    title: str
    paper: str
    needs: str
    rows: Callable[[], Sequence[str]]  # the names that `Request.rows` accepts
    reproduce: Callable[[Request], ExperimentReport]
    accepted_options: tuple[str, ...] = ()  # fields of `Request` that only some experiments use
    refused_options: tuple[str, ...] = ()  # those of `COMMON_OPTIONS` that this experiment does not use

    def unread_options(self, request: Request) -> list[str]:
        """The fields that the request sets and that the experiment does not read."""
        accepted = {*COMMON_OPTIONS, *self.accepted_options} - {*self.refused_options}
        return [
            spec.name
            for spec in fields(request)
            if spec.name not in accepted and getattr(request, spec.name) != spec.default
        ]

    def check(self, request: Request) -> None:
        """Raise an OptionError for an option that would change nothing."""
        if unread := self.unread_options(request):
            flag, *accepted = (f"--{name.replace('_', '-')}" for name in (unread[0], *self.accepted_options))
            advice = f"; beside those of all tables it takes {', '.join(accepted)}" if accepted else ""
            raise OptionError(f"{self.name} takes no {flag}, which would change nothing{advice}")

    def run(self, request: Request) -> ExperimentReport:
        """The report; an error for an option that would change nothing."""
        self.check(request)
        return self.reproduce(request)


def _marc_table1(request: Request) -> ExperimentReport:
    from rationales.experiments.marc_table1.run import reproduce

    return reproduce(request)


def _marc_table1_rows() -> Sequence[str]:
    from rationales.experiments.marc_table1.row_specs import names

    return names()


def _marc_table2(request: Request) -> ExperimentReport:
    from rationales.experiments.marc_table2.run import reproduce

    return reproduce(request)


def _marc_table2_rows() -> Sequence[str]:
    from rationales.experiments.marc_table2.run import names

    return names()


def _marc_figures(request: Request) -> ExperimentReport:
    from rationales.experiments.marc_table2.figures import reproduce

    return reproduce(request)


def _marc_figures_rows() -> Sequence[str]:
    from rationales.experiments.marc_table2.figures import names

    return names()


_BIRDS = "the data set birds-112 (--data); a GPU; on a CPU use --rows small-resnet"
_REVIEWS = "the data set eraser-movies (--data, else downloaded), or rotten-tomatoes with --rows sentences"
_GROUND_TRUTH = (
    ("gt-fig5", "Planted pictures: attribution on the plant against its area", "Figures 5 and 15", _BIRDS),
    (
        "gt-fig5-confirm",
        "Planted pictures: gt-fig5 with another seed, other birds, two new plants, and baselines that suit each method",
        "Figures 5 and 15, confirmed",
        _BIRDS,
    ),
    ("gt-fig6", "Planted pictures: attribution while the model learns", "Figures 6 and 16", _BIRDS),
    ("gt-fig7", "Planted pictures: attribution and visibility", "Figures 7 and 17", _BIRDS),
    ("gt-fig8", "Planted pictures: attribution and the original features", "Figures 8 and 18", _BIRDS),
    (
        "gt-border",
        "Planted pictures: attribution on a white border that tells nothing, while the model learns",
        "F_N of section 3, for pictures",
        _BIRDS,
    ),
    ("gt-table1", "Planted texts: attention on articles that tell the class", "Table 1", _REVIEWS),
    ("gt-fig12", "Planted texts: rationale models, precision and recall", "Figure 12", _REVIEWS),
    ("gt-fig13", "Planted texts: rationale models, articles that tell nothing", "Figure 13", _REVIEWS),
)


def _ground_truth(name: str, title: str, figure: str, needs: str) -> Experiment:
    """An experiment on data with a known cause of the labels."""

    def run(request: Request) -> ExperimentReport:
        from rationales.experiments.ground_truth import figures
        from rationales.experiments.ground_truth.experiment import reproduce

        return reproduce(figures.EXPERIMENTS[name], request)

    def rows() -> Sequence[str]:
        from rationales.experiments.ground_truth import figures

        return figures.EXPERIMENTS[name].row_names()

    paper = f"Zhou et al., Do Feature Attribution Methods Correctly Attribute Features?, {figure}"
    options = ("runs", "jobs", "minutes", *(("validation",) if needs == _BIRDS else ()))
    return Experiment(name, title, paper, needs, rows, run, options)


_SINGLE_NETWORKS = (  # name, module, title, figure, needs
    ("gt-fig3", "fig3", "Bird species: confusion, and the choice of pairs", "Figure 3", _BIRDS),
    ("gt-fig10", "word_bars", "Planted texts: attention on every word, as bars", "Figures 10 and 11", _REVIEWS),
)


def _single_network(name: str, module: str, title: str, figure: str, needs: str) -> Experiment:
    """A figure of the same paper that needs one network of each kind, and no repeated runs."""

    def loaded() -> ModuleType:
        return importlib.import_module(f"rationales.experiments.ground_truth.figures.{module}")

    def run(request: Request) -> ExperimentReport:
        report: ExperimentReport = loaded().reproduce(request)
        return report

    def rows() -> Sequence[str]:
        row_names: Sequence[str] = loaded().names()
        return row_names

    paper = f"Zhou et al., Do Feature Attribution Methods Correctly Attribute Features?, {figure}"
    return Experiment(name, title, paper, needs, rows, run, refused_options=("limit",) if module == "fig3" else ())


_PHAM = "Pham et al., Double Trouble: How to not Explain a Text Classifier's Decisions Using Counterfactuals"
_FILLERS = "the classifiers and fillers of zoo/ with the MiniLM encoder (make experiments)"
_INPUT_MARGINALIZATION = (
    ("im-table1a", "Deletion and Deletion-BERT: each favours its own operation", "Table 1a", "sst-2, e-snli-l2"),
    ("im-table1b", "Deletion and Deletion-BERT with another filler", "Table 1b", "sst-2"),
    ("im-table2", "ROAR and ROAR-BERT: leave-one-out and Input Marginalization", "Table 2", "sst-2"),
    ("im-table3", "Agreement with human highlights", "Table 3", "sst, e-snli-l2, eraser-multirc"),
    ("im-table4", "Accuracy on the texts that methods perturb", "Table 4", "sst, e-snli-l2, eraser-multirc"),
    ("im-sanity", "Scores under random weights", "Table A5", "sst-2, e-snli-l2"),
    ("im-appendix", "Magnitude, coverage, the filler, the threshold, LIME under ROAR", "Tables A1-A4, A6, Figure 4",
     "sst, sst-2, e-snli-l2, eraser-multirc"),
)  # fmt: skip


def _input_marginalization(name: str, title: str, where: str, data: str) -> Experiment:
    """A table of Input Marginalization, leave-one-out and LIME."""

    def run(request: Request) -> ExperimentReport:
        from rationales.experiments.input_marginalization.tables import reproduce

        return reproduce(name, request)

    def rows() -> Sequence[str]:
        from rationales.experiments.input_marginalization.tables import row_names

        return row_names(name)

    further = {"im-table2": ("runs", "train_texts"), "im-table3": ("samples",), "im-sanity": ("runs",)}
    further["im-appendix"] = ("samples", "runs", "train_texts")
    options = ("model", "filler", "tf32", *further.get(name, ()))
    needs = f"the data sets {data} (--data, else downloaded) and {_FILLERS}"
    return Experiment(name, title, f"{_PHAM}, {where}", needs, rows, run, options)


_AML_DATA = "the data sets sst-2, rotten-tomatoes, imdb and emotion in one folder (--data)"
_AML = (
    ("aml-table1", "Faithfulness of twelve methods on four data sets and three encoders", "Table 1", _AML_DATA),
    (
        "aml-table2",
        "Faithfulness on a language model that classifies four data sets by a prompt",
        "Table 2",
        f"{_AML_DATA}; the language model smollm2 (the extra llm)",
    ),
    ("aml-table3", "Agreement with people", "Table 3", "the data sets sst-2, sst and eraser-movies (--data)"),
    ("aml-table4", "Ablations of AML's loss", "Table 4", "the data set emotion (--data)"),
    ("aml-table5", "Seconds and passes per example", "Table 5", "the data sets sst-2 and imdb (--data)"),
    ("aml-table6", "The best three words of a few texts", "Table 6", "the data sets sst-2 and emotion (--data)"),
)


def _aml(name: str, title: str, number: str, needs: str) -> Experiment:
    """A table of the AML paper."""

    def module() -> ModuleType:
        return importlib.import_module(f"rationales.experiments.aml.{name.removeprefix('aml-')}")

    def run(request: Request) -> ExperimentReport:
        report: ExperimentReport = module().reproduce(request)
        return report

    def rows() -> Sequence[str]:
        row_names: Sequence[str] = module().names()
        return row_names

    paper = f"Barkan et al., LLM Explainability via Attributive Masking Learning, {number}"
    return Experiment(
        name, title, paper, f"{needs}; the encoders in zoo/ and the MiniLM package", rows, run, ("model",)
    )


def _multimodal_plants(request: Request) -> ExperimentReport:
    from rationales.experiments.multimodal.plants import reproduce

    return reproduce(request)


def _multimodal_rows() -> Sequence[str]:
    from rationales.experiments.multimodal.plants import names

    return names()


EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        Experiment(
            name="marc-table1",
            title="Rationales of movie reviews: agreement with people and faithfulness",
            paper="Brinner and Zarriess, Model Interpretability and Rationale Extraction by Input Mask Optimization, "
            "Table 1",
            needs="the data set eraser-movies (--data, else downloaded) and a model of film reviews "
            "(--model, else minilm-reviews)",
            rows=_marc_table1_rows,
            reproduce=_marc_table1,
            accepted_options=("model", "validation", "passes", "tf32", "minutes"),
        ),
        Experiment(
            name="marc-table2",
            title="Pictures: faithfulness of all methods on four classifiers",
            paper="Brinner and Zarriess, Model Interpretability and Rationale Extraction by Input Mask Optimization, "
            "Table 2",
            needs="the data sets imagenet-val-250 and, for vit-birds, birds-112 (--data); the models that are there "
            "of resnet-50, efficientnet-lite0, mobilenet-v2 and vit-birds (--model: only these, separated by commas)",
            rows=_marc_table2_rows,
            reproduce=_marc_table2,
            accepted_options=("model", "tf32"),
        ),
        Experiment(
            name="marc-figures",
            title="Pictures: masks of all methods side by side, on any pictures of yours",
            paper="Brinner and Zarriess, Model Interpretability and Rationale Extraction by Input Mask Optimization, "
            "Figures 2, 3 and appendix C",
            needs="a folder of pictures (--data), of which 11 are shown (--limit); --model, else efficientnet-lite0; "
            "--out, where the sheet is written as PNG and HTML",
            rows=_marc_figures_rows,
            reproduce=_marc_figures,
            accepted_options=("model",),
        ),
        *(_ground_truth(*entry) for entry in _GROUND_TRUTH),
        *(_single_network(*entry) for entry in _SINGLE_NETWORKS),
        Experiment(
            name="multimodal-plants",
            title="Planted pictures with captions: a cause in the words, in the picture, in both",
            paper="ours, after Zhou et al., Do Feature Attribution Methods Correctly Attribute Features?",
            needs="nothing: the pictures are drawn and the networks trained, in a few minutes on a CPU",
            rows=_multimodal_rows,
            reproduce=_multimodal_plants,
            refused_options=("data",),
        ),
        *(_input_marginalization(*entry) for entry in _INPUT_MARGINALIZATION),
        *(_aml(*entry) for entry in _AML),
    )
}
