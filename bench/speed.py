"""How long MaRC takes: one text, many texts, one picture, many pictures; share of the device's peak; memory.

python bench/speed.py --quick                                    # a minute on a CPU
python bench/speed.py --device cuda --data path/to/eraser/movies --out speed.json

Timed is `rationales.explain`, after a warm-up, until the device is idle: `s/input` is all of it. `ms/step` is the
optimisation inside it, divided by the steps of all inputs together. `peak` is the share of a large matrix product's
speed, measured in the same run, that the rows of these steps reach (bench/flops.py counts them).

Models with random weights have nothing to converge to, so all steps of the preset are run, whatever its rule says. Of
the paper's presets, which take hundreds to thousands, the first `--paper-steps` are run: read their ms/step.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import flops
import torch
from subjects import SIZES, SIZES_OF_PICTURES, config_of, of_length, pictures, random_image, reviews, text_model, tokens
from timing import (
    TimedDescent,
    arguments,
    headline,
    matmul_peak,
    peak_memory,
    ready,
    run,
    save,
    seconds,
    setting,
    table,
    watched,
)

import rationales
from rationales.models.image.model import ImageModel
from rationales.models.text.model import TextModel

COLUMNS = ("model", "input", "preset", "inputs", "s/input", "lowest", "ms/step", "steps", "Tflop/s", "peak", "MB")
PAPER_MANY = 16  # texts together under the paper's preset, which is not meant for many
PAPER = {"resnet-50": ("resnet", ("black", "white", "mean")), "vit-b-16": ("vit", ("blur-20",))}
QUICK: dict[str, Any] = {
    "models": ["embedded", "bert-mini", *SIZES_OF_PICTURES],
    "lengths": ["40w", "160"],
    "many": 0,
    "pictures": 2,
    "sides": [64],
    "steps": 4,
    "paper_steps": 4,
    "repeat": 1,
}


@dataclass(frozen=True)
class Case:
    """One line of the table."""

    model: TextModel | ImageModel
    name: str
    inputs: Any  # one, or a list
    title: str
    preset: str
    options: dict[str, Any]
    row: Callable[[int], float]  # a row's size -> operations
    repeat: int

    @property
    def count(self) -> int:
        """How many inputs."""
        return len(self.inputs) if isinstance(self.inputs, list) else 1


def measure(case: Case, device: torch.device, peak: float, clock: str) -> dict[str, Any]:
    """The figures of one line."""

    def explain(**options: Any) -> None:
        rationales.explain(case.model, case.inputs, options=case.options | options)

    times: list[float] = []
    runs: list[list[TimedDescent]] = []
    with peak_memory(device) as peak_memory_mb:
        explain(**({"steps": 2} if case.count > 1 or device.type == "cpu" else {}))
        for _ in range(case.repeat):
            with watched(device, clock) as descents:
                times.append(seconds(explain, device, clock))
            runs.append(descents)
    inside = statistics.median(sum(descent.seconds for descent in descents) for descents in runs)
    descents = runs[0]  # the same seed: all runs take the same steps
    steps = [count for descent in descents for count in descent.steps]
    work = sum(flops.of_run(descent, case.row) for descent in descents)
    return {
        "model": case.name,
        "input": case.title,
        "preset": case.preset,
        "inputs": case.count,
        "seconds_per_input": statistics.median(times) / case.count,
        "lowest_seconds_per_input": min(times) / case.count,
        "ms_per_step": 1e3 * inside / sum(steps),
        "steps": statistics.mean(steps),
        "flops_per_second": work / inside,
        "share_of_peak": work / inside / peak,
        "peak_megabytes": peak_memory_mb[0],
        "runs": times,
    }


def line(figures: dict[str, Any]) -> list[str]:
    """Cells of the printed table for one row of figures."""
    return [
        figures["model"],
        figures["input"],
        figures["preset"],
        str(figures["inputs"]),
        f"{figures['seconds_per_input']:.3f}",
        f"{figures['lowest_seconds_per_input']:.3f}",
        f"{figures['ms_per_step']:.2f}",
        f"{figures['steps']:.0f}",
        f"{figures['flops_per_second'] / 1e12:.3g}",
        f"{figures['share_of_peak']:.0%}",
        f"{figures['peak_megabytes']:.0f}",
    ]


def presets(args: argparse.Namespace, paper: str, random: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """Titles and options of the presets in `args.presets`."""
    if "default" in args.presets:
        options = {"stop": "steps", "steps": args.steps} if args.steps else {"stop": "steps"} if random else {}
        yield f"default, {args.steps} steps" if args.steps else "default", options
    if "paper" in args.presets:
        options = {"preset": paper, "steps": args.paper_steps, "stop": "steps"}
        yield f"{paper}, {args.paper_steps} steps", options


def text_cases(name: str, args: argparse.Namespace, device: torch.device) -> Iterator[Case]:
    """One text of every length, then many."""
    model = text_model(name, device)
    if model is None:
        print(f"{name} is left out: it is not installed (make experiments)")
        return
    config = config_of(model)

    def case(inputs: Any, title: str, preset: str, options: dict[str, Any], repeat: int) -> Case:
        return Case(model, name, inputs, title, preset, options, lambda size: flops.text(config, size), repeat)

    for preset, options in presets(args, "paper", name in SIZES):
        for length in args.lengths:
            text = of_length(model, length)
            unit = "words" if length.endswith("w") else "tokens"
            yield case(text, f"{length.rstrip('w')} {unit}", preset, options, args.repeat)
        if args.many:
            many = reviews(args.many, args.data)[: None if preset.startswith("default") else PAPER_MANY]
            mean = sum(tokens(model, text) for text in many) / len(many)
            title = f"{'reviews' if args.data else 'review lengths'}, {mean:.0f} tokens"
            yield case(many, title, preset, options, 1)


def picture_cases(name: str, args: argparse.Namespace, device: torch.device) -> Iterator[Case]:
    """One picture of every size, then many; three baselines, and the paper's own for its preset."""
    paper, baselines = PAPER[name]
    for side in args.sides:
        for preset, options in presets(args, paper, random=True):
            three = preset.startswith("default")
            model = random_image(name, side, device, *([] if three else [baselines]))
            config = config_of(model)
            row = flops.resnet(config, side) if name == "resnet-50" else flops.vit(config)
            images = pictures(max(args.pictures, 1), side)
            for inputs in [images[0], images] if args.pictures > 1 else [images[0]]:
                title = f"{side} x {side}, {len(model.baselines)} baseline(s)"
                repeat = args.repeat if inputs is images[0] else 1
                yield Case(model, name, inputs, title, preset, options, partial(_same, row), repeat)


def _same(operations: float, _: int) -> float:
    """Rows of pictures are all of one size."""
    return operations


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--models", nargs="+", default=["bert-base", "minilm-reviews", "embedded", *SIZES_OF_PICTURES])
    parser.add_argument(
        "--lengths", nargs="+", default=["40w", "160", "400", "813"], help="of one text: tokens, or 40w"
    )
    parser.add_argument("--many", type=int, default=199, help="texts explained together; 0: none")
    parser.add_argument("--data", type=Path, help="folder of the ERASER movie reviews, for these")
    parser.add_argument("--sides", type=int, nargs="+", default=[224, 384], help="of pictures, in pixels")
    parser.add_argument("--pictures", type=int, default=32, help="explained together")
    parser.add_argument("--presets", nargs="+", default=["default", "paper"], choices=["default", "paper"])
    parser.add_argument("--paper-steps", type=int, default=60)
    parser.add_argument("--steps", type=int, help="run so many of the default preset's steps, then read ms/step only")
    args = parser.parse_args()
    if args.quick:
        parser.set_defaults(**QUICK)  # what is given in words still holds
        args = parser.parse_args()
    device = ready(args)
    peak = matmul_peak(device, args.clock)
    print(f"{headline(device)}; measured peak {peak / 1e12:.3g} Tflop/s", flush=True)
    rows: list[dict[str, Any]] = []
    for name in args.models:
        cases = picture_cases if name in SIZES_OF_PICTURES else text_cases
        for case in cases(name, args, device):
            rows.append(measure(case, device, peak, args.clock))
            print("  ".join(line(rows[-1])), flush=True)
            save(args.out, {"setting": setting(device, args.clock), "peak_flops_per_second": peak, "rows": rows})
    print()
    print(table(COLUMNS, [line(row) for row in rows]))
    print("MB: the most that was held beyond the model itself")


if __name__ == "__main__":
    run(main)
