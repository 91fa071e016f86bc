"""Shared by the benchmarks of speed: clocks that wait for the device, peak throughput, memory, tables and files."""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from field import peak_process_memory
from torch import Tensor

from rationales.errors import OptionError, RationalesError
from rationales.files import write_text
from rationales.masks.optimize import MaskResult, optimize
from rationales.masks.settings import MaskSettings
from rationales.methods import marc
from rationales.models.batch import Batch
from rationales.models.pretrained import device_of

Work = Callable[[], object]
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


def arguments(description: str | None) -> argparse.ArgumentParser:
    """A parser with the options that all benchmarks of speed have."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=None, help="of torch on a CPU; else as torch decides")
    parser.add_argument(
        "--clock",
        default="wall",
        choices=list(CLOCKS),
        help="cpu: this process's own time, for ratios on a busy machine",
    )
    parser.add_argument("--repeat", type=int, default=3, help="timed runs; the median counts")
    parser.add_argument("--quick", action="store_true", help="small settings, to see that all of it runs")
    parser.add_argument("--out", type=Path, help="write all figures as JSON")
    return parser


def ready(args: argparse.Namespace) -> torch.device:
    """The checked device; sets the number of threads and silences the log of transformers."""
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    if args.clock == "cpu" and args.device != "cpu":
        raise OptionError("--clock cpu counts what the CPU does; on another device use the wall clock")
    if args.threads:
        torch.set_num_threads(args.threads)
    return torch.device(device_of(args.device))


def run(main: Callable[[], None]) -> None:
    """Call `main`; an error of the package is printed as one line, with exit code 2."""
    try:
        main()
    except RationalesError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


def wait(device: torch.device) -> None:
    """Wait until the device has finished all queued work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def seconds(work: Work, device: torch.device, clock: str = "wall") -> float:
    """Seconds of one run, from an idle device to an idle device."""
    wait(device)
    began = CLOCKS[clock]()
    work()
    wait(device)
    return CLOCKS[clock]() - began


def interleaved(
    works: dict[str, Work], repeat: int, device: torch.device, clock: str = "wall"
) -> dict[str, list[float]]:
    """Name -> seconds in every round; all run in turns, so that other load on the machine affects all of them."""
    durations: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeat):
        for name, work in works.items():
            durations[name].append(seconds(work, device, clock))
    return durations


def ratio(over: Sequence[float], under: Sequence[float]) -> float:
    """The median of the ratios of all rounds."""
    return statistics.median(numerator / denominator for numerator, denominator in zip(over, under, strict=True))


@dataclass(frozen=True)
class TimedDescent:
    """One optimisation: its settings and inputs, its steps, and how long it took."""

    method: MaskSettings
    batch: Batch
    steps: list[int]  # of every input
    seconds: float


@contextlib.contextmanager
def watched(device: torch.device, clock: str = "wall") -> Iterator[list[TimedDescent]]:
    """Context that times every optimisation inside `explain`, without the remaining stages of `explain`."""
    descents: list[TimedDescent] = []

    def timed(batch: Batch, target: Tensor, settings: MaskSettings, *arguments: Any) -> MaskResult:
        results: list[MaskResult] = []
        spent = seconds(lambda: results.append(optimize(batch, target, settings, *arguments)), device, clock)
        descents.append(TimedDescent(settings, batch, results[0].steps, spent))
        return results[0]

    with patch.object(marc, "optimize", timed):
        yield descents


def matmul_peak(device: torch.device, clock: str = "wall") -> float:
    """Operations per second of one large product: bfloat16 on CUDA, float32 on a CPU; the best of five."""
    cuda = device.type == "cuda"
    side, products = (8192, 10) if cuda else (1536, 1)
    left, right = torch.randn(2, side, side, device=device, dtype=torch.bfloat16 if cuda else torch.float32)

    def multiply() -> None:
        for _ in range(products):
            left @ right

    times = [seconds(multiply, device, clock) for _ in range(7)]
    return 2 * side**3 * products / min(times[2:])


@contextlib.contextmanager
def peak_memory(device: torch.device) -> Iterator[list[float]]:
    """Peak memory inside the block minus the memory in use before it, in MB.

    On CUDA what tensors hold; on a CPU what the process holds, of which the allocator keeps some for later use.
    """
    peak: list[float] = []
    gc.collect()
    if device.type == "cuda":
        wait(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device) / 2**20
        yield peak
        peak.append(torch.cuda.max_memory_allocated(device) / 2**20 - before)
    else:
        with contextlib.suppress(OSError, AttributeError):  # only the GNU C library has it
            ctypes.CDLL(None).malloc_trim(0)  # give back what is free, or it would be used again unseen
        before = peak_process_memory(reset=True)
        yield peak
        peak.append(peak_process_memory() - before)


def setting(device: torch.device, clock: str = "wall") -> dict[str, Any]:
    """Device, clock, threads and versions with which figures were measured."""
    import transformers

    cuda = device.type == "cuda"
    name = torch.cuda.get_device_name(device) if cuda else platform.processor() or platform.machine()
    return {
        "device": f"{device.type}: {name}",
        "clock": clock,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "python": platform.python_version(),
    }


def headline(device: torch.device) -> str:
    """Device, threads and versions in one line."""
    settings = setting(device)
    threads = "" if device.type == "cuda" else f", {settings['threads']} thread(s)"
    return f"{settings['device']}{threads}, torch {settings['torch']}, transformers {settings['transformers']}"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of text; the first column is aligned to the left, all others to the right."""
    wide = [max(len(line[at]) for line in [columns, *rows]) for at in range(len(columns))]
    lines = []
    for line in [columns, *rows]:
        cells = [cell.ljust(wide[at]) if at == 0 else cell.rjust(wide[at]) for at, cell in enumerate(line)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def save(out: Path | None, results: Any) -> None:
    """Write the results so far as JSON, if `out` is not None."""
    if out is not None:
        write_text(out, json.dumps(results, indent=1))
