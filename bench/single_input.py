"""One input at a time on a GPU: seconds of `explain`, and where they go: stages, host functions, kernels.

python bench/single_input.py --device cuda --data path/to/eraser/movies --out single.json
python bench/single_input.py --device cuda --cases words review --options '{"now": {}, "12": {"steps": 12}}'

Timed is all of `explain`, on inputs that follow each other and differ, after a few calls (no cold start). `stages` are
medians of further calls, with a synchronisation at the end of each stage, so that their sum is larger than `seconds`; a
stage inside another counts in both. With --profile DIR, one more call of every case is profiled: host.txt by Python
functions, kernels.txt by kernels, launches and synchronisations.

Runs with older checkouts, too: PYTHONPATH=older/src python bench/single_input.py …
"""

from __future__ import annotations

import argparse
import contextlib
import cProfile
import importlib
import io
import json
import pstats
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from subjects import of_length, pictures, random_image, random_text, reviews, words
from timing import arguments, headline, ready, run, save, seconds, setting, table, wait

import rationales

CASES = ("words", "review", "picture", "pictures", "reviews")
WARMUP_CALLS = 3
# where stages are looked up: module, attribute; those that an older checkout lacks are left out
STAGES = (
    ("rationales.pipeline.explain", "encode_inputs"),
    ("rationales.pipeline.explain", "open_batch"),
    ("rationales.pipeline.stages", "run_method"),
    ("rationales.pipeline.scoring", "check_access"),
    ("rationales.methods.marc", "optimize"),
    ("rationales.masks.optimize", "fast_precision"),
    ("rationales.masks.optimize", "collect_warmup"),
    ("rationales.masks.optimize", "check_stopping"),
    ("rationales.masks.steps.StepRunner", "run"),
    ("rationales.masks.steps.StepRunner", "_record"),
    ("rationales.methods.marc", "words_and_spans"),
    ("rationales.methods.marc", "sharpen"),
    ("rationales.methods.marc", "final_scores"),
    ("rationales.pipeline.stages", "choose_rules"),
    ("rationales.pipeline.stages", "snap_selections"),
    ("rationales.pipeline.explain", "make_rationale"),
    ("rationales.models.batch.batch.Batch", "full_logits"),
    ("rationales.models.batch.batch.Batch", "check_gradients"),
    ("rationales.models.batch.batch.Batch", "predict"),
)


@dataclass(frozen=True)
class Case:
    """A kind of input: the model, and inputs that are explained one call after the other."""

    name: str
    model: Any
    inputs: list[Any]  # of each call: one, or a list

    @property
    def count(self) -> int:
        """Inputs of a call."""
        return len(self.inputs[0]) if isinstance(self.inputs[0], list) else 1


def cases(args: argparse.Namespace, device: torch.device) -> Iterator[Case]:
    """The requested kinds of input."""
    model: Any = None
    for name in args.cases:
        if name in ("words", "review", "reviews") and model is None:
            model = random_text(args.text_model, device)
        if name == "words":
            yield Case("one text of 40 words", model, [words(40, seed) for seed in range(args.calls)])
        elif name == "review":
            texts = [of_length(model, str(args.review_tokens + 3 * seed), seed) for seed in range(args.calls)]
            yield Case("one review of 813 tokens and more", model, texts)
        elif name == "reviews":
            yield Case(f"{args.many} reviews", model, [reviews(args.many, args.data)] * args.calls_together)
        else:
            image_model, images = random_image("resnet-50", args.side, device), pictures(args.pictures, args.side)
            if name == "picture":
                yield Case("one picture", image_model, [images[i % len(images)] for i in range(args.calls)])
            else:
                yield Case(f"{args.pictures} pictures", image_model, [images] * args.calls_together)


@contextlib.contextmanager
def stages(device: torch.device) -> Iterator[dict[str, float]]:
    """Inside the block, the seconds of each stage are added up, with the device idle before and after."""
    spent: dict[str, float] = defaultdict(float)

    def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **keywords: Any) -> Any:
            wait(device)
            began = time.perf_counter()
            try:
                return function(*arguments, **keywords)
            finally:
                wait(device)
                spent[name] += time.perf_counter() - began

        return call

    with contextlib.ExitStack() as stack:
        for path, attribute in STAGES:
            owner = _owner(path)
            if owner is not None and hasattr(owner, attribute):
                stack.enter_context(patch.object(owner, attribute, timed(attribute, getattr(owner, attribute))))
        yield spent


def _owner(path: str) -> Any:
    """The module or class of this name; None if there is none."""
    try:
        return importlib.import_module(path)
    except ImportError:
        pass
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name, None)
    except ImportError:
        return None


def measure(case: Case, options: dict[str, Any], device: torch.device, clock: str) -> dict[str, Any]:
    """The figures of one case."""

    def explain(inputs: Any) -> Any:
        return rationales.explain(case.model, inputs, options=options)

    began = time.perf_counter()
    for inputs in case.inputs[:WARMUP_CALLS]:
        results = explain(inputs)
    cold = time.perf_counter() - began
    times = [seconds(lambda inputs=inputs: explain(inputs), device, clock) for inputs in case.inputs]
    by_call = []
    for inputs in case.inputs[:WARMUP_CALLS]:
        with stages(device) as spent:
            explain(inputs)
        by_call.append(spent)
    names = list(dict.fromkeys(name for spent in by_call for name in spent))
    first = results[0] if isinstance(results, list) else results
    return {
        "case": case.name,
        "seconds_per_input": statistics.median(times) / case.count,
        "lowest_seconds_per_input": min(times) / case.count,
        "runs": times,
        "warm_up": cold,
        "steps": first.steps,
        "stages": {name: statistics.median(spent.get(name, 0.0) for spent in by_call) for name in names},
    }


def profile(case: Case, options: dict[str, Any], folder: Path) -> None:
    """Write what one call spends on the host and on the device."""
    inputs = case.inputs[0]

    def explain() -> None:
        rationales.explain(case.model, inputs, options=options)

    stem = case.name.replace(" ", "-")
    folder.mkdir(parents=True, exist_ok=True)
    host = cProfile.Profile()
    host.runcall(explain)
    text = io.StringIO()
    pstats.Stats(host, stream=text).sort_stats("cumulative").print_stats(70)
    pstats.Stats(host, stream=text).sort_stats("tottime").print_stats(30)
    (folder / f"{stem}-host.txt").write_text(text.getvalue(), encoding="utf-8")
    activities = [torch.profiler.ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=activities) as trace:
        explain()
    averages = trace.key_averages()
    by_device = "self_cuda_time_total" if torch.cuda.is_available() else "self_cpu_time_total"
    lines = [
        averages.table(sort_by=by_device, row_limit=30, max_name_column_width=70),
        averages.table(sort_by="self_cpu_time_total", row_limit=25, max_name_column_width=70),
    ]
    (folder / f"{stem}-kernels.txt").write_text("\n".join(lines), encoding="utf-8")


def _cell(value: object) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=CASES)
    parser.add_argument("--calls", type=int, default=10, help="timed calls with one input")
    parser.add_argument("--calls-together", type=int, default=2, help="timed calls with many inputs")
    parser.add_argument("--text-model", default="bert-base", help="size of the text model with random weights")
    parser.add_argument("--review-tokens", type=int, default=813)
    parser.add_argument("--many", type=int, default=199, help="reviews explained together")
    parser.add_argument("--data", type=Path, help="folder of the ERASER movie reviews, for these")
    parser.add_argument("--pictures", type=int, default=32, help="explained together")
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--options", default='{"default": {}}', help="JSON: name -> options of marc, each timed")
    parser.add_argument("--profile", type=Path, help="folder for the profiles of one call of every case")
    args = parser.parse_args()
    device = ready(args)
    print(f"{headline(device)}; rationales from {Path(rationales.__file__).parent}", flush=True)
    rows: list[dict[str, Any]] = []
    variants: dict[str, dict[str, Any]] = json.loads(args.options)
    for case in cases(args, device):
        for name, options in variants.items():
            figures = {"options": name, **measure(case, options, device, args.clock)}
            rows.append(figures)
            median, lowest = figures["seconds_per_input"], figures["lowest_seconds_per_input"]
            print(f"{case.name}, {name}: {median:.4f} s, lowest {lowest:.4f}", flush=True)
            parts = [f"{stage} {1e3 * spent:.1f}" for stage, spent in figures["stages"].items()]
            print(f"   ms: {'  '.join(parts)}", flush=True)
            save(args.out, {"setting": setting(device, args.clock), "rows": rows})
            if args.profile is not None:
                profile(case, options, args.profile / name)
    columns = ("case", "options", "seconds_per_input", "lowest_seconds_per_input", "steps")
    cells = [[_cell(row[column]) for column in columns] for row in rows]
    print(table(("input", "options", "s/input", "lowest", "steps"), cells))


if __name__ == "__main__":
    run(main)
