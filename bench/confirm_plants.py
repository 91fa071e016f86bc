"""Figure 5 of the ground-truth paper confirmed (`gt-fig5-confirm`), on a machine with a GPU, in so many minutes.

python -m bench.confirm_plants --data DIR --out OUT --minutes 6
python -m bench.confirm_plants --data DIR --out OUT --tiny                 # a dry run: small networks, few pictures

--data: folder with birds-112. --packages: a folder with scikit-image for LIME's super-pixels, where it is not
installed. The new plants come first, then those of the paper, as many runs of each as the time allows. Under --out:
confirm.tar (a file for every run, so that --resume goes on from there), confirm.md and log.txt, written again after
every run. No run begins after --minutes, and those that have begun are finished.
"""

from __future__ import annotations

import argparse
import sys
import tarfile
import tempfile
from dataclasses import replace
from pathlib import Path

import torch

from bench.run_log import RunLog
from rationales.experiments.registry import EXPERIMENTS, Request
from rationales.files import write_text

NAME = "gt-fig5-confirm"
PHASES = ("new-plants", "paper-plants")  # groups of rows, in the order of their importance
TINY_METHODS = ["gradient", "shap-best", "occlusion-best", "marc"]


class Results(RunLog):
    """Everything that comes back: an archive of all runs, the report, and the log."""

    def __init__(self, out: Path, work: Path) -> None:
        super().__init__(out)
        self.work = work

    def tell(self, line: str) -> None:
        """Print a line with the time, and write all files again."""
        super().tell(line)
        with tarfile.open(self.out / "confirm.tar", "w:xz", preset=1) as archive:
            archive.add(self.work, ".")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with birds-112; without it nothing is run")
    parser.add_argument("--out", type=Path, help="folder for the results; without it nothing is run")
    parser.add_argument("--minutes", type=float, default=6.0, help="after which no run begins")
    parser.add_argument("--runs", type=int, default=5, help="models for each plant")
    parser.add_argument("--jobs", type=int, default=14, help="runs at once, each in its own process")
    parser.add_argument("--limit", type=int, default=20, help="test pictures of each model")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--packages", type=Path, help="folder with packages")
    parser.add_argument("--resume", type=Path, help="confirm.tar of an earlier run")
    parser.add_argument("--tiny", action="store_true", help="a dry run: small networks, few pictures and methods")
    args = parser.parse_args()
    if args.data is None or args.out is None:
        print("confirm_plants: give --data, where birds-112 is, and --out, a folder for the results; skipped")
        return
    if args.packages is not None:
        sys.path.append(str(args.packages.resolve()))
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        if args.resume is not None:
            with tarfile.open(args.resume) as archive:
                archive.extractall(work, filter="data")
        results = Results(args.out, work)
        request = Request(
            data=args.data, device="cuda" if torch.cuda.is_available() else "cpu", limit=args.limit, seed=args.seed,
            out=work, runs=args.runs, jobs=args.jobs, log=results.tell,
        )  # fmt: skip
        further_rows = ["small-resnet", *TINY_METHODS] if args.tiny else []
        if args.tiny:
            request = replace(request, limit=2, validation=2, runs=1, jobs=1)
        for number in range(1, len(PHASES) + 1):
            left = args.minutes - results.minutes()
            if number > 1 and left <= 0:
                results.tell(f"no time is left for {PHASES[number - 1]}")
                break
            rows = [*PHASES[:number], *further_rows]
            report = EXPERIMENTS[NAME].run(replace(request, rows=rows, minutes=max(left, 1e-9)))
            write_text(args.out / "confirm.md", report.to_markdown())
        print(report.to_markdown())


if __name__ == "__main__":
    main()
