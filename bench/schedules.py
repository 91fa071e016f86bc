r"""Schedules of MaRC's optimisation side by side: are fewer, larger steps as good? To be run on validation data.

python -m bench.schedules --data path/to/data --set sst:dev:100 --model minilm-sst2
python -m bench.schedules --data path/to/data --set eraser-movies:val:30 --variants '{"now": {}, "20": {"steps": 20}}'
python -m bench.schedules --data path/to/data --set sst:test:300 --model minilm-sst2 --metrics average-precision \
    --variants '{"marc": {}, "IG": {"method": "integrated-gradients"}}'     # other methods beside marc

Every row but the first is compared with the first: the mean difference over inputs and its 95 % bootstrap interval.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import rationales
from rationales.data import read_data
from rationales.evaluation.tables.statistics import estimate
from rationales.evaluation.tables.table import TableRow
from rationales.files import write_text

METRICS = ("average-precision", "iou-f1@gold-length", "sufficiency", "comprehensiveness")
# the schedule before the last change of the default, and the default
VARIANTS: dict[str, dict[str, Any]] = {
    "50 steps, 16 of warm-up": {"steps": 50, "warmup_steps": 20, "draws": 1, "learning_rate": 0.08},
    "default": {},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--set", default="sst:dev:100", help="name, split and number of the examples")
    parser.add_argument("--first", type=int, default=0, help="examples to pass over")
    parser.add_argument("--model", default=None)
    parser.add_argument("--encoder", type=Path, help="packed MiniLM (zoo/paper_models/pack.py)")
    parser.add_argument("--device", default=None)
    parser.add_argument(
        "--variants", default=None, help="JSON, or a file of it: title -> options, of marc unless they name a 'method'"
    )
    parser.add_argument("--metrics", nargs="+", default=METRICS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="write all figures as JSON, row by row")
    args = parser.parse_args()
    name, split, count = args.set.split(":")
    with tempfile.TemporaryDirectory() as folder:
        if args.encoder is not None:
            from bench.im_tables import provide_encoder

            provide_encoder(args.encoder, Path(folder))
        model = rationales.load(args.model, device=args.device)
    known = [example for example in read_data(name, split, args.data) if example.label in model.labels]
    examples = known[args.first :][: int(count)]
    variants = VARIANTS if args.variants is None else _read_json(args.variants)
    print(f"{len(examples)} examples of {name} {split}, {model.name}, seed {args.seed}, protocol marc", flush=True)
    first: TableRow | None = None
    figures: dict[str, Any] = {}
    for title, options in {**variants, "random": None}.items():
        method = _method(title, options)
        began = time.perf_counter()
        row = rationales.evaluate(model, examples, [method], "marc", args.metrics, seed=args.seed)[title]
        metrics = [metric for metric in args.metrics if metric in row.cells]
        cells = [
            f"{metric} {row.cells[metric].estimate.mean:.4f}{_difference(row, first, metric)}" for metric in metrics
        ]
        seconds = f"{row.seconds:.3f} s each, {time.perf_counter() - began:.0f} s with the metrics"
        print(f"{title:<28} {'  '.join(cells)}  {seconds}", flush=True)
        values = {metric: row.cells[metric].values for metric in metrics}
        figures[title] = {"options": options, "seconds": row.seconds, "values": values}
        first = first or row
        if args.out is not None:
            write_text(args.out, json.dumps(figures, indent=1))


def _method(title: str, options: dict[str, Any] | None) -> dict[str, Any]:
    """A row of `evaluate`: random scores without options, else marc or the method that they name."""
    if options is None:
        return {"name": "random"}
    return {
        "name": options.get("method", "marc"),
        "title": title,
        "options": {name: value for name, value in options.items() if name != "method"},
    }


def _difference(row: TableRow, first: TableRow | None, metric: str) -> str:
    """The mean difference between two rows and its interval; empty without one, and where F1 is of all inputs."""
    if first is None or row.cells[metric].recalls is not None:
        return ""
    values = np.array(row.cells[metric].values) - np.array(first.cells[metric].values)
    difference = estimate(values[np.isfinite(values)])
    return f" ({difference.mean:+.4f} [{difference.low:+.4f} {difference.high:+.4f}])"


def _read_json(value: str) -> dict[str, dict[str, Any]]:
    text = value if value.lstrip().startswith("{") else Path(value).read_text(encoding="utf-8")
    variants: dict[str, dict[str, Any]] = json.loads(text)
    return variants


if __name__ == "__main__":
    main()
