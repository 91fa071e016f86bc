"""Seconds of `explain` for images, beside those of its scores alone, and where the rest goes.

python bench/explain_images.py --device cuda
python bench/explain_images.py --device cpu --threads 1 --count 4 --batches 1 --methods grad-cam

Scores: baselines chosen where the method needs them, batch opened, target predicted, method run; from preprocessed
images to scores in the device's memory. `explain`: everything, from arrays (files, with --data) to rationales. The
split, in seconds on the wall clock, shows reading, preprocessing, choosing baselines, the method, and what comes after
it: the selection with its probabilities, and the description. `forward rows`: images that go through the network for
each photograph, for the scores and for `explain`. Every work is run once before it is timed. --profile also prints
the functions in which the host spends its time, and how often the device is asked for something and waited for.
"""

from __future__ import annotations

import cProfile
import io
import itertools
import pstats
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import timing
import torch

import rationales
from rationales.methods import Method, resolve_method
from rationales.models.image.model import ImageModel
from rationales.pipeline import explain as explain_module
from rationales.pipeline import stages as stages_module
from rationales.pipeline.scoring import open_batch, run_method

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp")
PHOTOGRAPHS = ("astronaut", "chelsea", "coffee", "rocket")  # functions of skimage.data that need no download
LISTED = 30  # functions and operators of a profile
LONG_SIDE = 500  # pixels; photographs are reduced to this, as in the usual collections


def photographs(folder: Path | None, count: int) -> list[Any]:
    """`count` paths of a folder, or arrays: the photographs of scikit-image, shifted so that no two are the same."""
    if folder is not None:
        paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)
        return list(itertools.islice(itertools.cycle(paths), count)) if paths else []
    from skimage import data

    images = []
    for number, name in zip(range(count), itertools.cycle(PHOTOGRAPHS), strict=False):
        pixels = getattr(data, name)()
        step = -(-max(pixels.shape[:2]) // LONG_SIDE)
        images.append(np.roll(pixels[::step, ::step], 8 * (number // len(PHOTOGRAPHS)), axis=1).copy())
    return images


def scores_alone(model: ImageModel, prepared: list[Any], method: Method) -> None:
    """The scores of preprocessed images, on the device: what `explain` cannot do without."""
    chosen = model.choose(prepared, plain_baseline=not method.uses_baselines)
    with open_batch(model, chosen, 0) as batch:
        target = batch.pool(batch.probabilities(batch.full_logits())).mean(-2).argmax(-1)
        run_method(batch, method, target)


@contextmanager
def counted_rows(module: torch.nn.Module) -> Iterator[list[int]]:
    """The number of images in every forward pass of the module."""
    rows: list[int] = []
    handle = module.register_forward_pre_hook(lambda _, arguments: rows.append(len(arguments[0])))
    try:
        yield rows
    finally:
        handle.remove()


@contextmanager
def stopwatch(device: torch.device) -> Iterator[dict[str, float]]:
    """Seconds inside the steps of `explain`, by name."""
    spent: dict[str, float] = {}

    def timed(name: str, function: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            timing.wait(device)
            began = time.perf_counter()
            try:
                return function(*arguments, **options)
            finally:
                timing.wait(device)
                spent[name] = spent.get(name, 0.0) + time.perf_counter() - began

        return call

    with (
        patch.object(stages_module, "run_method", timed("method", stages_module.run_method)),
        patch.object(stages_module, "choose_rules", timed("select", stages_module.choose_rules)),
        patch.object(explain_module, "make_rationale", timed("describe", explain_module.make_rationale)),
        patch.object(ImageModel, "read_all", timed("read", ImageModel.read_all)),
        patch.object(ImageModel, "prepare", timed("prepare", ImageModel.prepare)),
        patch.object(ImageModel, "choose", timed("choose", ImageModel.choose)),
    ):
        yield spent


def main() -> None:
    parser = timing.arguments(__doc__)
    parser.add_argument(
        "--data", type=Path, help="a folder of photographs, read from files; else those of scikit-image"
    )
    parser.add_argument("--count", type=int, default=32, help="photographs")
    parser.add_argument("--batches", default="1,32", help="photographs for each call of explain")
    parser.add_argument("--methods", default="grad-cam,marc")
    parser.add_argument("--model", default="efficientnet-lite0")
    parser.add_argument("--profile", action="store_true", help="also print where the host spends its time")
    args = parser.parse_args()
    device = timing.ready(args)
    images = photographs(args.data, 4 if args.quick else args.count)
    if not images:
        print("explain_images: the folder has no photographs; skipped")
        return
    model: Any = rationales.load(args.model, device=args.device)
    print(f"{timing.headline(device)}; {args.model}, {len(images)} photographs, seconds for each")
    results = []
    rows = []
    for name in args.methods.split(","):
        method = resolve_method(name, {"steps": 4} if args.quick and name == "marc" else None, "image")
        for size in dict.fromkeys(min(int(number), len(images)) for number in args.batches.split(",")):
            row = {
                "method": name,
                "batch": size,
                **measure(model, method, images, size, args.repeat, device, args.clock),
            }
            results.append(row)
            split = ", ".join(f"{step} {value:.4f}" for step, value in row["split"].items())
            rows.append(
                [
                    *(name, str(size), f"{row['scores']:.4f}", f"{row['explain']:.4f}", f"{row['ratio']:.2f}"),
                    *(" / ".join(f"{count:.3g}" for count in row["rows"]), split),
                ]
            )
            timing.save(args.out, {**timing.setting(device, args.clock), "rows": results})
            if args.profile:
                print(f"# {name}, {size} at once\n\n{profile(model, method, images, size, device)}", flush=True)
    print(timing.table(["method", "batch", "scores", "explain", "ratio", "forward rows", "split of explain"], rows))


def measure(
    model: ImageModel, method: Method, images: Sequence[Any], size: int, repeat: int, device: torch.device, clock: str
) -> dict[str, Any]:
    """Seconds for each image of the scores alone and of `explain`, in calls of `size` images; medians of rounds."""
    chunks = [images[begin : begin + size] for begin in range(0, len(images), size)]
    prepared = [model.prepare([model.read(image, None) for image in chunk]) for chunk in chunks]

    def explain() -> None:
        for chunk in chunks:
            rationales.explain(model, list(chunk), method=method)

    def scores() -> None:
        for chunk in prepared:
            scores_alone(model, chunk, method)

    scores_alone(model, prepared[0], method)  # the first run also measures memory and loads kernels
    rationales.explain(model, list(chunks[0]), method=method)
    seconds = timing.interleaved({"scores": scores, "explain": explain}, repeat, device, clock)
    with stopwatch(device) as spent:
        explain()
    with counted_rows(model.module) as scores_rows:
        scores()
    with counted_rows(model.module) as explain_rows:
        explain()
    return {
        "rows": [sum(scores_rows) / len(images), sum(explain_rows) / len(images)],
        **{name: statistics.median(values) / len(images) for name, values in seconds.items()},
        "ratio": timing.ratio(seconds["explain"], seconds["scores"]),
        "split": {name: value / len(images) for name, value in spent.items()},
    }


def profile(model: ImageModel, method: Method, images: Sequence[Any], size: int, device: torch.device) -> str:
    """Where one call of `explain` with `size` images spends its time: functions of the host, and operators."""
    chunk = list(images[:size])
    host = cProfile.Profile()
    host.enable()
    rationales.explain(model, chunk, method=method)
    timing.wait(device)
    host.disable()
    functions = io.StringIO()
    pstats.Stats(host, stream=functions).sort_stats("tottime").print_stats(LISTED)
    activities = [torch.profiler.ProfilerActivity.CPU]
    if device.type == "cuda":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=activities) as operators:
        rationales.explain(model, chunk, method=method)
        timing.wait(device)
    table = operators.key_averages().table(sort_by="self_cpu_time_total", row_limit=LISTED, max_name_column_width=40)
    return f"{functions.getvalue().strip()}\n\n{table}"


if __name__ == "__main__":
    timing.run(main)
