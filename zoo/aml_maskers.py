"""Train AML maskers for several models and data sets, one for each metric, within a time limit.

python -m zoo.aml_maskers --job sst2=./my-model,sst2-train.jsonl --job rt=./other-model,rt-train.jsonl \\
    --out maskers/ --minutes 30 --device cuda
python -m zoo.aml_maskers --tiny --out /tmp/maskers          # a dry run on the embedded model, half a minute on a CPU

A job is NAME=MODEL,TEXTS: texts without labels (JSON lines, CSV, or a data set by name with --folder). For each job and
metric it writes NAME-METRIC.safetensors (half precision) and NAME-METRIC.json (the card); a job that was done is not
done again unless its model, texts or settings are others now, and one that was interrupted goes on. Needs torch,
transformers, numpy and safetensors only; without Optuna the search for loss weights is random, and its trials are
shared by the metrics.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

import rationales
from rationales.experiments.aml.maskers import missing_maskers
from rationales.files import write_text
from rationales.masks.instant.aml.backbone import OWN, BackboneSource
from rationales.masks.instant.aml.example_metrics import EXAMPLE_METRICS
from rationales.masks.instant.aml.masker import load_aml_masker, stored_digest
from rationales.masks.instant.aml.pretraining import pretrain_for_metrics, training_digest
from rationales.masks.instant.aml.settings import AmlLosses, AmlTraining
from rationales.masks.instant.aml.training.training_run import EpochResult
from rationales.models.text.model import TextModel

TINY = AmlTraining(texts=20, validation_texts=5, epochs=1, trials=1, trial_texts=10, trial_epochs=1)
TINY_TEXTS = [
    f"{start}, and {end}." for start in ("The acting is fine", "The plot is a mess", "The music is warm", "It is long",
                                         "Nobody laughed", "A lovely film")
    for end in ("nobody knows why", "the end is dull", "I liked it", "we left early", "it stays with you")
]  # fmt: skip


@dataclass(frozen=True)
class MaskerJob:
    """A model and the texts that its maskers are trained on."""

    name: str
    model: TextModel
    texts: Sequence[str | tuple[str, str]]
    data: str = ""
    backbone: BackboneSource = OWN


def train_maskers(
    jobs: Sequence[MaskerJob],
    out: Path,
    metrics: Sequence[str] = EXAMPLE_METRICS,
    settings: AmlTraining | None = None,
    losses: AmlLosses | None = None,
    minutes: float = 0.0,
) -> dict[tuple[str, str], Path]:
    """The files of the maskers by job and metric; `minutes`: for all jobs together, 0: no limit."""
    out.mkdir(parents=True, exist_ok=True)
    settings, started = settings or AmlTraining(), time.monotonic()
    files: dict[tuple[str, str], Path] = {}
    for number, job in enumerate(jobs):
        paths = {metric: masker_path(out, job.name, metric) for metric in metrics}
        files |= {(job.name, metric): path for metric, path in paths.items()}
        digest = training_digest(job.model, job.texts, settings, losses, job.backbone)
        missing = missing_maskers(paths, digest, stored_digest, print)
        if not missing:
            continue
        remaining = max(0.01, minutes - (time.monotonic() - started) / 60) / (len(jobs) - number) if minutes else 0.0
        maskers = pretrain_for_metrics(
            job.model, job.texts, missing, replace(settings, minutes=remaining), losses, backbone=job.backbone,
            resume=out / f"{job.name}.progress", on_epoch=_printer(job.name), data=job.data,
        )  # fmt: skip
        for metric, masker in maskers.items():
            masker.save(paths[metric], half=True)
            write_text(paths[metric].with_suffix(".json"), json.dumps(asdict(masker.card), indent=1))
    return files


def masker_path(out: Path, name: str, metric: str) -> Path:
    """Where the masker of a job for a metric is written."""
    return out / f"{name}-{metric}.safetensors"


def print_table(files: dict[tuple[str, str], Path]) -> None:
    """A line for each masker: the metric on its validation texts, and how it was trained."""
    print(f"{'job':<20} {'metric':<24} {'value':>8} {'epoch':>6} {'trials':>7} {'search':>7} {'MB':>6}")
    for (name, metric), path in files.items():
        figures: dict[str, Any] = load_aml_masker(path).card.training
        numbers = f"{figures['value']:>8.4f} {figures['best_epoch']:>6} {figures['trials']:>7} {figures['search']:>7}"
        print(f"{name:<20} {metric:<24} {numbers} {path.stat().st_size / 2**20:>6.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--job", action="append", default=[], help="NAME=MODEL,TEXTS")
    parser.add_argument("--folder", type=Path, help="where named data sets are")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--metrics", default=",".join(EXAMPLE_METRICS))
    parser.add_argument("--minutes", type=float, default=0.0, help="for all jobs together; 0: no limit")
    parser.add_argument("--backbone", default=OWN)
    parser.add_argument("--train", type=json.loads, default={}, help='JSON: {"layers": 3, "trials": 30, ...}')
    parser.add_argument("--losses", type=json.loads, default={}, help='JSON: {"mask": "hard", ...}')
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--tiny", action="store_true", help="a dry run: one trial and one epoch on twenty texts")
    args = parser.parse_args()
    jobs = [_read_job(text, args) for text in args.job]
    if args.tiny and not jobs:
        model = rationales.load("embedded", device=args.device)
        assert isinstance(model, TextModel)
        jobs = [MaskerJob("tiny", model, TINY_TEXTS, "tiny", args.backbone)]
    settings = replace(TINY if args.tiny else AmlTraining(), **args.train)
    files = train_maskers(jobs, args.out, args.metrics.split(","), settings, AmlLosses(**args.losses), args.minutes)
    print_table(files)


def _read_job(text: str, args: argparse.Namespace) -> MaskerJob:
    from rationales.data import read_data

    name, _, sources = text.partition("=")
    model_name, _, data = sources.partition(",")
    model = rationales.load(model_name, device=args.device)
    assert isinstance(model, TextModel), f"{model_name} reads no texts"
    split = None if Path(data).exists() else "train"
    texts = [example.raw_input() for example in read_data(data, split, args.folder)]
    return MaskerJob(name, model, texts, Path(data).name, args.backbone)


def _printer(name: str) -> Any:
    def print_epoch(result: EpochResult) -> None:
        star = " *" if result.best else ""
        network = f"network {result.network}/{result.networks} " if result.networks > 1 else ""
        step = f"{network}{result.phase} {result.number}/{result.total}"
        figures = f"{result.metric} {result.value:.4f}{star}"
        print(f"{name:<16} {step:<26} {figures:<36} {result.seconds:6.0f} s, {result.remaining_seconds:.0f} s to go",
              flush=True)  # fmt: skip

    return print_epoch


if __name__ == "__main__":
    main()
