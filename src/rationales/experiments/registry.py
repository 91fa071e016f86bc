"""The published tables that can be asked for by name, and what they are given and give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rationales.evaluation.table import Table


@dataclass(frozen=True)
class Request:
    """How a table is to be made; what is None is the experiment's own choice."""

    data: Path | None = None  # the folder or archive of the data set
    model: str | None = None
    device: str | None = None
    limit: int | None = None  # inputs, evenly spread over the test set
    validation: int | None = None  # inputs on which settings are chosen
    rows: Sequence[str] | None = None  # names of rows or of groups of rows
    seed: int = 0
    cache: Path | None = None  # where scores are kept
    out: Path | None = None  # where files are written, after every row
    tf32: bool = False  # faster, slightly coarser products on an NVIDIA card
    runs: int | None = None  # models that are trained for each setting
    jobs: int | None = None  # runs at once, each in a process of its own
    progress: Callable[[float], None] | None = None  # told the share done
    tell: Callable[[str], None] | None = None  # told one line for every row


@dataclass(frozen=True)
class Outcome:
    """What an experiment gives."""

    table: Table
    reference: str | None  # the row that others are compared with
    shown: tuple[str, ...]  # the metrics of the table that is printed
    sections: tuple[tuple[str, str], ...]  # title and Markdown of everything else
    title: str
    draw: Callable[[Path], Sequence[Path]] | None = None  # draws figures of its own into a folder

    def to_markdown(self) -> str:
        """The whole report."""
        from dataclasses import replace

        table = replace(self.table, metrics=self.shown).to_markdown(self.reference)
        parts = [f"# {self.title}\n\n{table}", *(f"## {title}\n\n{text}" for title, text in self.sections)]
        return "\n\n".join(part.rstrip() for part in parts) + "\n"


@dataclass(frozen=True)
class Experiment:
    """A published table."""

    name: str
    title: str
    paper: str
    needs: str
    rows: Callable[[], Sequence[str]]  # the names that `Request.rows` takes
    run: Callable[[Request], Outcome]
    takes: tuple[str, ...] = ()  # fields of a request that not every experiment knows what to do with


def _marc_table1(request: Request) -> Outcome:
    from rationales.experiments.marc_table1.run import reproduce

    return reproduce(request)


def _marc_table1_rows() -> Sequence[str]:
    from rationales.experiments.marc_table1.rows import names

    return names()


_BIRDS = "the data set birds-112 (--data); an accelerator, or --rows small-resnet and patience"
_REVIEWS = "the data set eraser-movies (--data, else downloaded), or rotten-tomatoes with --rows sentences"
_GROUND_TRUTH = (
    ("gt-fig5", "Planted pictures: attribution on the plant against its area", "Figures 5 and 15", _BIRDS),
    ("gt-fig6", "Planted pictures: attribution while the model learns", "Figures 6 and 16", _BIRDS),
    ("gt-fig7", "Planted pictures: attribution and visibility", "Figures 7 and 17", _BIRDS),
    ("gt-fig8", "Planted pictures: attribution and the original features", "Figures 8 and 18", _BIRDS),
    ("gt-table1", "Planted texts: attention on articles that tell the class", "Table 1", _REVIEWS),
    ("gt-fig12", "Planted texts: rationale models, precision and recall", "Figure 12", _REVIEWS),
    ("gt-fig13", "Planted texts: rationale models, articles that tell nothing", "Figure 13", _REVIEWS),
)


def _ground_truth(name: str, title: str, figure: str, needs: str) -> Experiment:
    """One of the experiments on data whose true cause is known."""

    def run(request: Request) -> Outcome:
        from rationales.experiments.ground_truth.experiment import reproduce
        from rationales.experiments.ground_truth.figures import find

        return reproduce(find(name), request)

    def rows() -> Sequence[str]:
        from rationales.experiments.ground_truth.figures import find

        return find(name).rows()

    paper = f"Zhou et al., Do Feature Attribution Methods Correctly Attribute Features?, {figure}"
    return Experiment(name, title, paper, needs, rows, run, ("runs", "jobs"))


EXPERIMENTS: dict[str, Experiment] = {
    one.name: one
    for one in (
        Experiment(
            name="marc-table1",
            title="Rationales of movie reviews: agreement with people and faithfulness",
            paper="Brinner and Zarriess, Model Interpretability and Rationale Extraction by Input Mask Optimization, "
            "Table 1",
            needs="the data set eraser-movies (--data, else downloaded) and a model of film reviews "
            "(--model, else minilm-reviews)",
            rows=_marc_table1_rows,
            run=_marc_table1,
            takes=("model", "validation", "tf32"),
        ),
        *(_ground_truth(*one) for one in _GROUND_TRUTH),
    )
}
