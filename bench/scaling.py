"""How the cost of a step grows: with length, segments, units, inputs, classes and baselines; and memory with rows.

python bench/scaling.py --quick
python bench/scaling.py --device cuda --model bert-base --out scaling.json

Every line grows one thing and holds the others. The exponent is the slope of a straight line through the logarithms,
over all points and over the last two: small sizes pay for the fixed cost of a step, so the last says where it goes. 0:
it costs nothing; 1: twice as much costs twice as much; 2: four times. Times are those of MaRC's `scores`, of a
convolutional network those of the optimisation alone, divided by its steps; what is compared is run in turns. Memory is
the most that a step's rows hold beyond the model, each point in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from flops import rows_per_step
from subjects import SIZES, of_length, pictures, random_text, words
from timing import arguments, headline, interleaved, peak_memory, ready, run, save, setting, table

import rationales
from rationales.masks.optimize import optimize
from rationales.methods import build
from rationales.methods.marc import Marc
from rationales.models.batch import Batch
from rationales.models.image.model import ImageModel
from rationales.models.text.model import TextModel
from rationales.models.text.tokens import TextInput

FULL = {
    "length": [32, 64, 128, 256, 512],
    "segments": [1, 2, 4, 8],
    "units": [25, 50, 100, 200, 400],
    "pixels": [64, 128, 256, 512],
    "network_pixels": [64, 128, 256],
    "inputs": [1, 2, 4, 8, 16],
    "classes": [2, 10, 100, 1000, 10000],
    "picture_classes": [2, 10, 100, 1000],
    "baselines": [1, 2, 4, 6],
    "memory": [2, 4, 8, 16],
}
QUICK = {
    "length": [16, 64],
    "segments": [1, 2],
    "units": [8, 32],
    "pixels": [16, 64],
    "network_pixels": [32, 64],
    "inputs": [1, 4],
    "classes": [2, 100],
    "picture_classes": [2, 100],
    "baselines": [1, 2],
    "memory": [16, 64],
}
NAMED_BASELINES = ("black", "white", "mean", "noise", "blur-10", "blur-20")
# A further line, such as the length of a prompt, is an entry in FULL, QUICK and TITLES and a method of `Points`.
TITLES = {
    "length": "tokens of one text, one segment",
    "segments": "segments of one long text",
    "units": "words of a text of a fixed number of tokens",
    "pixels": "pixels of one picture, a network of one layer",
    "network_pixels": "pixels of one picture, a convolutional network",
    "inputs": "texts together",
    "classes": "classes",
    "picture_classes": "classes of one picture",
    "baselines": "baselines of one picture, all in every step",
    "memory": "memory: rows",
}


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """The slope of log cost over log size, by least squares."""
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])


@dataclass(frozen=True, eq=False)
class Scored:
    """A run of MaRC's `scores` on inputs that are ready, of exactly so many steps."""

    model: TextModel | ImageModel
    method: Marc
    batch: Batch

    def __call__(self) -> None:
        target = torch.zeros(self.batch.inputs, dtype=torch.long, device=self.batch.device)
        with self.model.frozen():
            attribution = self.method.scores(self.batch, target)
        assert set(attribution.steps) == {self.method.steps}


@dataclass(frozen=True, eq=False)
class Optimized(Scored):
    """The optimisation alone: with random weights no part of a picture may suffice, and `scores` adds steps then."""

    def __call__(self) -> None:
        target = torch.zeros(self.batch.inputs, dtype=torch.long, device=self.batch.device)
        with self.model.frozen():
            result = optimize(self.batch, target, self.method)
        assert set(result.steps) == {self.method.steps}


def optimized(model: Any, inputs: Sequence[Any], steps: int, **options: Any) -> Optimized:
    """The optimisation of so many steps on these inputs."""
    run = scored(model, inputs, steps, **options)
    return Optimized(run.model, run.method, run.batch)


def scored(model: Any, inputs: Sequence[Any], steps: int, **options: Any) -> Scored:
    """The run of so many steps on these inputs."""
    method = build("marc", {"steps": steps, "stop": "steps", **options}, model.kind)
    assert isinstance(method, Marc)
    return Scored(model, method, model.batch(model.encode([model.read(text, None) for text in inputs])))


Point = tuple[float, Scored]  # how much of it, and a run


class Points:
    """What is timed for every line; each gives, for sizes, how much that is and a run."""

    def __init__(self, args: argparse.Namespace, device: torch.device) -> None:
        self.size, self.device, self.steps = args.model, device, args.steps
        self.model = random_text(self.size, device)
        self.fixed = 64 if args.quick else 160  # tokens, where another thing grows

    def length(self, sizes: Sequence[int]) -> list[Point]:
        return [(size, scored(self.model, [of_length(self.model, str(size))], self.steps)) for size in sizes]

    def segments(self, sizes: Sequence[int]) -> list[Point]:
        model = random_text(self.size, self.device, segment=self.fixed, overlap=0)
        points = []
        for size in sizes:
            text, count = "", 0
            while len(model.encode([TextInput(text or "a")])[0].rows) <= size:  # the longest text of so many segments
                longest, count = text, count + 4
                text = words(count)
            points.append(
                (float(len(model.encode([TextInput(longest)])[0].rows)), scored(model, [longest], self.steps))
            )
        return points

    def units(self, sizes: Sequence[int]) -> list[Point]:
        """As many tokens for all, in words of 1, 2, 4, ... tokens."""
        largest, points = max(sizes), []
        for size in sizes:
            text = " ".join(["of" * (largest // size)] * size)
            encoded = self.model.encode([TextInput(text)])[0]
            assert (len(encoded.units), sum(len(row.ids) for row in encoded.rows)) == (size, largest + 2)
            points.append((float(size), scored(self.model, [text], self.steps)))
        return points

    def pixels(self, sizes: Sequence[int]) -> list[Point]:
        return [(size**2, scored(one_layer(size, self.device), pictures(1, size), self.steps)) for size in sizes]

    def network_pixels(self, sizes: Sequence[int]) -> list[Point]:
        """A network whose cost is that of its convolutions, as in practice."""
        return [(size**2, optimized(convolutional(size, self.device), pictures(1, size), self.steps)) for size in sizes]

    def picture_classes(self, sizes: Sequence[int]) -> list[Point]:
        models = [(size, convolutional(64, self.device, classes=size)) for size in sizes]
        return [(size, optimized(model, pictures(1, 64), self.steps)) for size, model in models]

    def baselines(self, sizes: Sequence[int]) -> list[Point]:
        models = [(size, convolutional(64, self.device, NAMED_BASELINES[:size])) for size in sizes]
        return [(size, optimized(model, pictures(1, 64), self.steps, views="all")) for size, model in models]

    def inputs(self, sizes: Sequence[int]) -> list[Point]:
        texts = [of_length(self.model, str(self.fixed), seed) for seed in range(max(sizes))]
        return [(size, scored(self.model, texts[:size], self.steps)) for size in sizes]

    def classes(self, sizes: Sequence[int]) -> list[Point]:
        text = of_length(self.model, str(self.fixed))
        return [(size, scored(random_text(self.size, self.device, size), [text], self.steps)) for size in sizes]


def convolutional(
    side: int, device: torch.device, baselines: Sequence[str] = ("black",), classes: int = 2
) -> ImageModel:
    """A small convolutional network with random weights."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layers = [torch.nn.Conv2d(3, 16, 3, stride=2, padding=1), torch.nn.ReLU()]
        for channels in (16, 32, 64):
            layers += [torch.nn.Conv2d(channels, 2 * channels, 3, stride=2, padding=1), torch.nn.ReLU()]
        layers += [torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(128, classes)]
        module = torch.nn.Sequential(*layers)
    return picture_model(module.eval(), side, device, baselines, classes)


def one_layer(side: int, device: torch.device) -> ImageModel:
    """A network that costs next to nothing, so that the mask is what is timed."""
    module = torch.nn.Sequential(
        torch.nn.AvgPool2d(side // 4), torch.nn.Flatten(), torch.nn.Linear(48, 2)
    )  # 4 x 4 means of 3 colours
    return picture_model(module, side, device, ("black",), 2)


def picture_model(
    module: torch.nn.Module, side: int, device: torch.device, baselines: Sequence[str], classes: int
) -> ImageModel:
    """The module as a model of pictures of side x side pixels."""
    scale = torch.full((3, 1, 1), 1 / 255)
    model = rationales.load(
        module.to(device),
        lambda picture: (
            torch.from_numpy(np.array(picture.resize((side, side)), dtype=np.float32)).permute(2, 0, 1) * scale
        ),
        baseline=",".join(baselines),
        labels=[str(number) for number in range(classes)],
    )
    assert isinstance(model, ImageModel)
    return model


def memory(args: argparse.Namespace, sizes: Sequence[int]) -> list[tuple[float, float]]:
    """(rows of a step, MB) for so many texts; each measured in a process of its own."""
    points = []
    for size in sizes:
        command = [sys.executable, str(Path(__file__).resolve()), "--device", args.device, "--model", args.model]
        command += ["--steps", str(args.steps), "--one", str(size)] + (["--quick"] if args.quick else [])
        command += ["--threads", str(args.threads)] if args.threads else []
        measured = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
        points.append((measured["rows"], measured["megabytes"]))
    return points


def one_memory(args: argparse.Namespace, device: torch.device) -> dict[str, float]:
    """What this process needs for `given.one` texts."""
    points = Points(args, device)
    texts = [of_length(points.model, str(points.fixed), seed) for seed in range(args.one)]
    scored(points.model, texts[:1], 1)()  # buffers that are made once
    work = scored(points.model, texts, points.steps)
    with peak_memory(device) as peak:
        work()
    return {"rows": rows_per_step(work.method, work.batch) * work.batch.size[0], "megabytes": peak[0]}


def grown(name: str, args: argparse.Namespace, device: torch.device, sizes: Sequence[int]) -> dict[str, Any]:
    """Sizes, what each costs and the exponents, for one line of the table."""
    if name == "memory":
        points = memory(args, sizes)
        unit = "MB"
    else:
        make: Callable[[Sequence[int]], list[Point]] = getattr(Points(args, device), name)
        works = {str(size): (size, work) for size, work in make(sizes)}
        for _, work in works.values():
            work()  # warm-up
        times = interleaved({key: work for key, (_, work) in works.items()}, args.repeat, device, args.clock)
        points = [(size, 1e3 * statistics.median(times[key]) / args.steps) for key, (size, _) in works.items()]
        unit = "ms/step"
    size, cost = [value for value, _ in points], [value for _, value in points]
    return {
        "grows": name,
        "unit": unit,
        "sizes": size,
        "costs": cost,
        "exponent": exponent(size, cost),
        "last_exponent": exponent(size[-2:], cost[-2:]),
    }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--model", default="bert-mini", choices=list(SIZES), help="its weights are random")
    parser.add_argument("--what", nargs="+", default=list(FULL), choices=list(FULL))
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)  # texts: what a process of its own measures
    args = parser.parse_args()
    if args.quick:
        parser.set_defaults(model="bert-tiny", steps=3, repeat=1)
        args = parser.parse_args()
    device = ready(args)
    if args.one:
        print(json.dumps(one_memory(args, device)))
        return
    print(f"{args.model} with random weights on {headline(device)}; {args.steps} steps", flush=True)
    rows: list[dict[str, Any]] = []
    for name in args.what:
        rows.append(grown(name, args, device, (QUICK if args.quick else FULL)[name]))
        save(args.out, {"setting": setting(device, args.clock), "model": args.model, "rows": rows})
    lines = []
    for row in rows:
        points = "  ".join(f"{size:g}: {cost:.3g}" for size, cost in zip(row["sizes"], row["costs"], strict=True))
        cells = [TITLES[row["grows"]], f"{row['exponent']:.2f}", f"{row['last_exponent']:.2f}"]
        lines.append([*cells, f"{points} {row['unit']}"])
    print(table(("what grows", "exponent", "last two", "points"), lines))


if __name__ == "__main__":
    run(main)
