"""Which of the GPU's fast paths, if any, leaves MaRC without finite scores under random weights.

python -m bench.missing_scores --data DIR [--encoder PACKED] [--texts 32]

A copy of minilm-sst2 gets a random head, as the check with random weights draws it, and MaRC scores the texts in
batches of 32, with the device's free memory filled with NaN, infinity or zeros before. One line for each of the paths
that can be switched off: inputs without scores, recordings that were tried and that failed, and the first quantity of
a step that is not finite. In the last line torch fills new memory with NaN, and steps run one by one, so that a
kernel that reads what was never written shows.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

import rationales
from bench.im_tables import provide_encoder
from rationales.data import read_data
from rationales.evaluation.sanity.changed_model import changed_model
from rationales.evaluation.sanity.check import SanitySettings, sanity_check
from rationales.evaluation.sanity.weight_groups import randomise, weight_groups
from rationales.evaluation.scores.attribution import score_rows
from rationales.masks import optimizer, steps
from rationales.methods import build
from rationales.methods.marc import Marc
from rationales.models.batch import Batch
from rationales.models.fast import attention, packed, precision

BATCH = 32  # inputs that an evaluation with a cache scores first
LEFTOVERS = {"NaN": float("nan"), "infinity": float("inf"), "zeros": 0.0}


class Recordings:
    """Counts recordings of steps, and keeps the errors of those that fail."""

    def __init__(self) -> None:
        self.tried, self.errors = 0, list[str]()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Context in which recordings of CUDA graphs are counted."""
        plain = torch.cuda.graph
        record = self

        class Watched(plain):  # type: ignore[misc, valid-type]  # torch's class
            def __enter__(self) -> Any:
                record.tried += 1
                return super().__enter__()

            def __exit__(self, kind: Any, error: Any, trace: Any) -> Any:
                if error is not None:
                    record.errors.append(f"{kind.__name__}: {error}")
                try:
                    return super().__exit__(kind, error, trace)
                except RuntimeError as second:
                    record.errors.append(f"at its end {type(second).__name__}: {second}")
                    raise

        with patch.object(torch.cuda, "graph", Watched):
            yield


def unprepared(batch: Batch, variants: int) -> None:
    """Earlier version of `Batch.prepare`, which only made plans."""
    batch.plan(variants, batch.size[0])


def paths() -> dict[str, tuple[Marc, Sequence[Callable[[], Any]]]]:
    """Name -> the method and the patches with which one path is switched off."""
    marc: Any = build("marc", {}, "text")
    return {
        "as it is": (marc, []),
        "unit weights computed while recording (before the fix)": (
            marc,
            [lambda: patch.object(Batch, "prepare", unprepared)],
        ),
        "no recording": (marc, [lambda: patch.object(steps, "MAX_COST", 0)]),
        "single precision": (replace(marc, precision="full"), []),
        "rows padded, with masks": (
            marc,
            [
                lambda: patch.object(attention, "set_unmasked", lambda *_: False),
                lambda: patch.object(packed, "set_packed", lambda *_: False),
            ],
        ),
        "no kernels of our own": (
            marc,
            [
                lambda: patch.object(attention, "attention_kernel", lambda *_: None),
                lambda: patch.object(packed, "norm_kernel", lambda *_: None),
            ],
        ),
        "no attention kernel of our own": (
            marc,
            [lambda: patch.object(attention, "attention_kernel", lambda *_: None)],
        ),
    }


@contextmanager
def uninitialised_memory_is_nan() -> Iterator[None]:
    """Context in which torch fills uninitialised memory with NaN."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    filled = torch.utils.deterministic.fill_uninitialized_memory
    torch.utils.deterministic.fill_uninitialized_memory = True
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)
        torch.utils.deterministic.fill_uninitialized_memory = filled


def leave(value: float) -> None:
    """Fill half of the free memory with a value, and give it back to the device."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        free, _ = torch.cuda.mem_get_info()
        leftover = torch.full((min(free // 8, 2**30),), value, device="cuda")
        del leftover
        torch.cuda.empty_cache()


@contextmanager
def first_not_finite(non_finite: list[str]) -> Iterator[None]:
    """Context that checks steps which run one by one; the first quantity that is not finite goes to `non_finite`."""
    plain = optimizer.losses

    def losses(problem: Any, w: Any, sigma: Any, count: Any, anchor: Any = None) -> Any:
        values = plain(problem, w, sigma, count, anchor)
        gradients = torch.autograd.grad(values.sum(), (w, sigma), retain_graph=True, allow_unused=True)
        quantities = {
            "unit weights": problem.batch.unit_weights(),
            "floor": problem.complement_floor,
            "w": w,
            "sigma": sigma,
            "loss": values,
            "gradient by w": gradients[0],
            "gradient by sigma": gradients[1],
        }
        for name, value in quantities.items():
            if not non_finite and value is not None and not bool(torch.isfinite(value).all()):
                broken = torch.nonzero(~torch.isfinite(value).reshape(len(value), -1).all(1)).flatten().tolist()
                non_finite.append(f"{name} at step {int(count.max())}, masks {broken[:12]}")
        return values

    with patch.object(optimizer, "losses", losses):
        yield


def report(model: Any, encoded: Sequence[Any], method: Marc, patches: Sequence[Callable[[], Any]], single: bool) -> str:
    """Inputs without scores, recordings and the time, for all leftovers and two random heads."""
    groups, recordings, began = weight_groups(model.networks[0].module)[:1], Recordings(), time.perf_counter()
    missing: dict[str, list[int]] = {}
    kinds: set[str] = set()
    non_finite: list[str] = []
    for name, value in LEFTOVERS.items():
        for seed in (0, 1):
            random_model = changed_model(model, lambda module, seed=seed: randomise(module, groups, seed))
            for begin in range(0, len(encoded), BATCH):
                chunk = encoded[begin : begin + BATCH]
                leave(value)
                with ExitStack() as stack:
                    for make in patches:
                        stack.enter_context(make())
                    stack.enter_context(recordings.watched())
                    if single:
                        stack.enter_context(first_not_finite(non_finite))
                        stack.enter_context(uninitialised_memory_is_nan())
                        stack.enter_context(patch.object(steps, "MAX_COST", 0))
                    raw = score_rows(random_model, chunk, method, [number % 2 for number in range(len(chunk))])
                missing.setdefault(name, []).extend(
                    begin + number for number, item in enumerate(raw) if item.scores is None
                )
            copies = precision._copies.get(random_model.networks[0].module, {})  # noqa: SLF001  # what was used
            kinds |= {f"{str(dtype).removeprefix('torch.')} {copy.agrees}" for dtype, copy in copies.items()}
    counts = ", ".join(f"{name} {len(numbers)} {numbers[:8] or ''}" for name, numbers in missing.items())
    errors = f"; errors: {sorted(set(recordings.errors))}" if recordings.errors else ""
    return (
        f"without scores after {counts}; recordings {recordings.tried}, failed {len(recordings.errors)}{errors}; "
        f"copies {sorted(kinds)}; {'first not finite: ' + non_finite[0] if non_finite else 'all looked at finite'}; "
        f"{time.perf_counter() - began:.1f} s"
    )


def in_the_check(model: Any, examples: Sequence[Any], patches: Sequence[Callable[[], Any]]) -> str:
    """Inputs without scores in the check with two random heads; batches are those of an evaluation with a cache."""
    recordings, began = Recordings(), time.perf_counter()
    with ExitStack() as stack, tempfile.TemporaryDirectory() as cache:
        for make in patches:
            stack.enter_context(make())
        stack.enter_context(recordings.watched())
        table = sanity_check(model, examples, ["loo-empty", "marc"], settings=SanitySettings(runs=2), cache=Path(cache))
    numbers = [table.inputs.index(name) for name in table["marc"].failures]
    return (
        f"{len(numbers)} of {len(table.inputs)} without scores {numbers[:20]}; recordings {recordings.tried}, failed "
        f"{len(recordings.errors)} {sorted(set(recordings.errors))}; {time.perf_counter() - began:.1f} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with the data sets; without it nothing is run")
    parser.add_argument("--encoder", type=Path, help="packed encoder, where the PyPI package is not installed")
    parser.add_argument("--texts", type=int, default=BATCH)
    parser.add_argument("--checked-texts", type=int, default=288, help="of the check with random heads; 0: left out")
    parser.add_argument("--paths", nargs="+", help="names of paths that are switched off; by default all")
    args = parser.parse_args()
    if args.data is None:
        print("missing_scores: give --data, where the data sets are; skipped")
        return
    with tempfile.TemporaryDirectory() as folder:
        if args.encoder is not None:
            provide_encoder(args.encoder, Path(folder))
        device = "cuda" if torch.cuda.is_available() else "cpu"
        model: Any = rationales.load("minilm-sst2", device=device)
    examples = read_data("sst-2", "dev", args.data)
    texts = examples[: args.texts]
    encoded = model.encode([model.read(example.raw_input(), example.name) for example in texts])
    torch.set_float32_matmul_precision("high")  # as in the run without scores
    available = paths()
    for name in list(available)[:2]:
        if args.checked_texts:
            line = in_the_check(model, examples[: args.checked_texts], available[name][1])
            print(f"the check with random heads, {name}: {line}", flush=True)
    for name, (method, patches) in available.items():
        if args.paths is None or name in args.paths:
            print(f"{name}: {report(model, encoded, method, patches, single=False)}", flush=True)
    line = report(model, encoded, available["as it is"][0], [], single=True)
    print(f"steps one by one, new memory is NaN: {line}", flush=True)


if __name__ == "__main__":
    main()
