"""Figures of the ground-truth paper on a machine with a GPU, in so many minutes, without a command line.

    python -m bench.ground_truth_figures --steps gt-fig5 --data DIR --out OUT --minutes 12 --jobs 6
    python -m bench.ground_truth_figures --steps attention-pretrained attention --data DIR --out OUT --encoder minilm
    python -m bench.ground_truth_figures --steps gt-border gt-fig3 --data DIR --out OUT
    python -m bench.ground_truth_figures --data DIR --out OUT --tiny          # a dry run: small networks, few inputs

--data: folder with birds-112 and, for `attention`, eraser-movies. --encoder: MiniLM as `zoo.paper_models.pack` packs
it, where its package is not installed; `attention-pretrained` (Table 1 with pretrained word vectors) needs it.
Under OUT/STEP: a file for every run, so that the same command goes on from there, table.md after every minute and
table.json at the end. A step begins no run after its --minutes, and finishes those that have begun.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import traceback
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from bench.im_tables import provide_encoder
from bench.run_log import RunLog
from rationales.experiments.ground_truth.method_rows import INHERENT
from rationales.experiments.registry import EXPERIMENTS, Request
from rationales.files import write_text
from rationales.models.batch import execution

_METHODS = (
    "paper", "marc", "chance", "integrated-gradients", "deep-lift", "guided-backpropagation", "occlusion",
    "kernel-shap",
)  # fmt: skip


@dataclass(frozen=True)
class Step:
    """An experiment with its rows, runs of each setting and explained inputs of each run."""

    experiment: str
    rows: tuple[str, ...] | None
    runs: int | None
    limit: int | None
    tiny_rows: tuple[str, ...]


STEPS = {
    "gt-fig5": Step("gt-fig5", _METHODS, 5, 40, ("small-resnet", "watermark", "lime", "shap", "random")),
    "attention-pretrained": Step(
        "gt-table1", ("attention-pretrained", INHERENT), 11, None, ("attention-pretrained", "articles", INHERENT)
    ),
    "attention": Step("gt-table1", ("attention", INHERENT), 11, None, ("attention", "articles", INHERENT)),
    "gt-border": Step("gt-border", None, 5, 24, ("small-resnet", "watermark-border", "gradient", "random")),
    "gt-fig3": Step("gt-fig3", None, None, None, ("small-resnet",)),
}


def run_step(name: str, log: RunLog, args: argparse.Namespace) -> None:
    """Run one step and write its report."""
    step, out = STEPS[name], args.out / name
    request = Request(
        data=args.data, device="cuda" if torch.cuda.is_available() else "cpu", out=out, minutes=args.minutes,
        rows=step.tiny_rows if args.tiny else step.rows, limit=4 if args.tiny else args.limit or step.limit,
        runs=1 if args.tiny else args.runs or step.runs, jobs=args.jobs, log=log.tell, progress=log.progress,
    )  # fmt: skip
    log.begin_step()
    experiment = EXPERIMENTS[step.experiment]
    report = experiment.run(replace(request, **dict.fromkeys(experiment.unread_options(request))))
    write_text(out / "table.md", report.to_markdown())
    report.table.to_json(out / "table.json")
    log.tell(f"{name} is finished")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with the data sets; without it nothing is run")
    parser.add_argument("--out", type=Path, help="folder for the results; without it nothing is run")
    parser.add_argument("--steps", nargs="+", choices=list(STEPS), default=list(STEPS))
    parser.add_argument("--minutes", type=float, default=10.0, help="of each step, after which no run begins")
    parser.add_argument("--jobs", type=int, default=1, help="runs at once, each in its own process")
    parser.add_argument("--runs", type=int, help="models of each setting")
    parser.add_argument("--limit", type=int, help="explained inputs of each model")
    parser.add_argument("--gpu-share", type=float, help="of the memory that is free, for all jobs together")
    parser.add_argument("--encoder", type=Path, help="packed encoder")
    parser.add_argument("--tiny", action="store_true", help="a dry run: small networks, few inputs")
    args = parser.parse_args()
    if args.data is None or args.out is None:
        print("ground_truth_figures: give --data, where the data sets are, and --out, a folder for results; skipped")
        return
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    execution.GPU_SHARE = args.gpu_share or execution.GPU_SHARE
    with tempfile.TemporaryDirectory() as folder:
        if args.encoder is not None:
            provide_encoder(args.encoder, Path(folder))
        for name in args.steps:
            log = RunLog(args.out / name)
            log.tell(f"== {name}")
            try:
                run_step(name, log, args)
            except Exception as error:  # noqa: BLE001 - machine time is scarce: the other steps are still run
                traceback.print_exc()
                log.tell(f"{name} FAILED: {type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
