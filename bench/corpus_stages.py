"""What each stage of a corpus run costs, and several processes that share a device; parts of corpus.py.

A clock waits for the device at both ends of a stage, and a stage counts without what is nested in it, so that the
stages add up. The processes of `sharing` are started once, for the largest number of them, and live until the end.
"""

from __future__ import annotations

import argparse
import importlib.util
import multiprocessing
import os
import statistics
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any
from unittest.mock import patch

import timing
import torch
from torch.profiler import ProfilerActivity, profile

import rationales
from rationales.corpus import row_format
from rationales.corpus.memory import freeze_objects
from rationales.corpus.records import Record
from rationales.methods import marc_instant
from rationales.models.batch import execution
from rationales.models.text.batch import TextClassifier
from rationales.models.text.model import TextModel
from rationales.pipeline import explain as explain_module
from rationales.pipeline import stages as stages_module

PASSES = "forward passes"
STAGES: dict[str, tuple[Any, str]] = {  # name -> where the function of the stage is looked up
    "reading: units and tokens": (explain_module, "encode_inputs"),
    "rows of tokens on the device": (TextModel, "batch"),
    PASSES: (TextClassifier, "logits"),
    "masker": (marc_instant, "_predict"),
    "scores": (stages_module, "run_method"),
    "rule": (stages_module, "choose_rules"),
    "snapping": (stages_module, "snap_selections"),
    "rationales": (explain_module, "make_rationale"),
    "rows of the table": (row_format, "row_of"),
    "Parquet": (row_format, "serialized"),
}
WARM_UP_TEXTS = 16  # compile kernels and fill caches
LISTED_KERNELS = 30
EXIT_SECONDS = 5.0  # that a process has to end by itself


@dataclass
class StageClock:
    """Seconds of each stage; those of forward passes are kept by the stage that asked for them."""

    device: torch.device
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    _open: list[tuple[str, float]] = field(default_factory=list)  # stage, seconds nested in it

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count the block for a stage."""
        timing.wait(self.device)
        began = time.perf_counter()
        self._open.append((name, 0.0))
        try:
            yield
        finally:
            timing.wait(self.device)
            elapsed = time.perf_counter() - began
            _, nested = self._open.pop()
            parent = self._open[-1][0] if self._open else ""
            self.seconds[f"{parent}: {PASSES}" if name == PASSES and parent else name] += elapsed - nested
            if self._open:
                self._open[-1] = (parent, self._open[-1][1] + elapsed)

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, counted for a stage."""

        def call(*arguments: Any, **options: Any) -> Any:
            with self.stage(name):
                return function(*arguments, **options)

        return call


@contextmanager
def timed_stages(clock: StageClock) -> Iterator[None]:
    """Inside the block, the functions of all stages are counted."""
    with ExitStack() as stack:
        for name, (owner, attribute) in STAGES.items():
            stack.enter_context(patch.object(owner, attribute, clock.timed(name, getattr(owner, attribute))))
        yield


def explain_list(model: Any, texts: list[str], method: str, first: int) -> None:
    """What a worker does with a shard: read, explain, build rows, and serialise them where pyarrow is installed."""
    rationale_list = rationales.explain(model, texts, method=method)
    with execution.garbage_collection_paused():
        rows = [
            row_format.row_of(Record(number, str(number), "", rationale.text), method, rationale)
            for number, rationale in enumerate(rationale_list, first)
        ]
    if importlib.util.find_spec("pyarrow") is not None:
        row_format.serialized(rows, {})


def kernels(args: argparse.Namespace, device: torch.device, texts: list[str]) -> dict[str, Any]:
    """Milliseconds per text that the device is busy, in one process, and the kernels that take the longest.

    This is a lower bound for the time per text, however many processes share the device.
    """
    if device.type != "cuda":
        print("the kernels of a CPU are not listed; give --device cuda")
        return {}
    model, shard = rationales.load(device=args.device), texts[: args.shard_size]
    for _ in range(2):  # warm-up: compilation and caches
        explain_list(model, shard, args.method, 0)
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        explain_list(model, shard, args.method, 0)
        torch.cuda.synchronize(device)
    totals = {event.key: (event.self_device_time_total / 1000, event.count) for event in profiler.key_averages()}
    busy = sum(milliseconds for milliseconds, _ in totals.values()) / len(shard)
    longest = sorted(totals.items(), key=lambda entry: -entry[1][0])[:LISTED_KERNELS]
    rows = [[name[:100], f"{milliseconds / len(shard):.4f}", str(count)] for name, (milliseconds, count) in longest]
    print(timing.table([f"{args.method}, device busy {busy:.3f} ms a text", "ms a text", "calls"], rows), flush=True)
    return {"busy": busy, "kernels": dict(longest)}


def stages(args: argparse.Namespace, device: torch.device, texts: list[str]) -> dict[str, Any]:
    """Milliseconds per text of each stage, in one process; the total is measured without the clocks of the stages."""
    model = rationales.load(device=args.device)
    freeze_objects()
    shard = texts[: args.shard_size]
    began = time.perf_counter()
    explain_list(model, shard[:WARM_UP_TEXTS], args.method, 0)
    print(f"first {min(WARM_UP_TEXTS, len(shard))} texts, with what is compiled and cached: "
          f"{time.perf_counter() - began:.1f} s", flush=True)  # fmt: skip
    explain_list(model, shard, args.method, 0)
    total = timing.seconds(lambda: explain_list(model, shard, args.method, 0), device)
    clock = StageClock(device)
    with timed_stages(clock), clock.stage("all else"):
        explain_list(model, shard, args.method, 0)
    scale = 1000 / len(shard)
    by_stage = {name: scale * seconds for name, seconds in clock.seconds.items()}
    rows = [[name, f"{value:.3f}"] for name, value in sorted(by_stage.items(), key=lambda entry: -entry[1])]
    rows += [["sum of the stages", f"{sum(by_stage.values()):.3f}"], ["without clocks", f"{scale * total:.3f}"]]
    print(timing.table([f"{args.method}, one process, {len(shard)} texts", "ms a text"], rows), flush=True)
    return {"milliseconds": by_stage, "total": scale * total}


@dataclass(frozen=True)
class DeviceUser:
    """A process that explains texts on the shared device when it is sent some."""

    process: Any
    connection: Connection

    def end(self) -> None:
        """End the process; by force where it does not end by itself."""
        self.connection.close()
        self.process.join(EXIT_SECONDS)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


def sharing(args: argparse.Namespace, texts: list[str]) -> dict[str, Any]:
    """Milliseconds a text with several processes on the same device, printed as soon as they are known.

    The part ends after `args.minutes`, whatever the processes do.
    """
    deadline = time.monotonic() + 60 * args.minutes
    if torch.cuda.is_available():
        torch.cuda.empty_cache()  # of the part stages
    context = multiprocessing.get_context("spawn")  # a process that uses a GPU cannot be forked
    users: list[DeviceUser] = []
    figures: dict[str, Any] = {}
    began = time.perf_counter()
    try:
        for number in range(max(args.processes)):
            here, there = context.Pipe()
            arguments = (there, args.device, args.method, args.shard_size, args.threads, max(args.processes),
                         texts[number :: max(args.processes)][:WARM_UP_TEXTS])  # fmt: skip
            process = context.Process(target=use_device, args=arguments, daemon=True)
            process.start()
            there.close()
            users.append(DeviceUser(process, here))
        starts = _answers(users, deadline)
        slowest = {name: f"{name} {max(start[name] for start in starts):.1f} s" for name in starts[0]}
        seconds = time.perf_counter() - began
        print(f"{len(users)} processes are ready after {seconds:.1f} s: {', '.join(slowest.values())}", flush=True)
        for count in args.processes:
            figures[str(count)] = _shared_run(users[:count], texts, deadline)
    except TimeoutError:
        print(f"not finished within {args.minutes:g} minutes; the figures above are complete", flush=True)
    finally:
        for user in users:
            user.end()
    return figures


def _shared_run(users: list[DeviceUser], texts: list[str], deadline: float) -> dict[str, float]:
    """Figures of these processes together; each has every n-th text."""
    for number, user in enumerate(users):
        user.connection.send(texts[number :: len(users)])
    shares = _answers(users, deadline)
    seconds = max(share["ended"] for share in shares) - min(share["began"] for share in shares)
    figures = {
        "ms_a_text": 1000 * seconds / len(texts),
        "cpu_ms_a_text": 1000 * sum(share["cpu"] for share in shares) / len(texts),
        "reading_ms_a_text": 1000 * statistics.mean(share["reading"] for share in shares),
    }
    print(f"{len(users)} processes: {figures['ms_a_text']:.3f} ms a text; CPU time of all processes "
          f"{figures['cpu_ms_a_text']:.3f} ms a text, reading {figures['reading_ms_a_text']:.3f} ms a text "
          f"in its process", flush=True)  # fmt: skip
    return figures


def _answers(users: list[DeviceUser], deadline: float) -> list[dict[str, float]]:
    """One answer of every process; a TimeoutError after the deadline, a SystemExit where a process fails."""
    answers: dict[Connection, dict[str, float]] = {}
    while len(answers) < len(users):
        missing = [user.connection for user in users if user.connection not in answers]
        ready = wait(missing, timeout=max(0.0, deadline - time.monotonic()))
        if not ready:
            raise TimeoutError
        for connection in ready:
            assert isinstance(connection, Connection)
            try:
                answer = connection.recv()
            except EOFError:
                raise SystemExit("a process has ended without an answer; the device may be out of memory") from None
            if isinstance(answer, str):
                raise SystemExit(f"a process failed:\n{answer}")
            answers[connection] = answer
    return [answers[user.connection] for user in users]


def use_device(
    connection: Connection, device: str, method: str, size: int, threads: int, processes: int, first_texts: list[str]
) -> None:
    """A process of `sharing`: warms up, then explains each list that it is sent, until the connection is closed."""
    try:
        times = {"import": time.time() - _start_time()}
        torch.set_num_threads(threads)
        execution.GPU_SHARE /= processes
        began = time.perf_counter()
        model = rationales.load(device=device)
        freeze_objects()
        times["load"] = time.perf_counter() - began
        began = time.perf_counter()
        explain_list(model, first_texts, method, 0)
        connection.send({**times, "warm up": time.perf_counter() - began})
        while True:
            connection.send(_timed_share(model, connection.recv(), method, size))
    except EOFError:  # the parent has no more texts
        return
    except Exception:  # noqa: BLE001  # the parent prints it
        connection.send(traceback.format_exc())


def _timed_share(model: Any, texts: list[str], method: str, size: int) -> dict[str, float]:
    """Explain these texts in lists of `size`: start, end, CPU seconds, and the seconds of reading one text."""
    sample = texts[:size]
    began = time.perf_counter()
    model.encode([model.read(text, None) for text in sample])
    reading = (time.perf_counter() - began) / len(sample)
    began_at, cpu = time.time(), time.process_time()
    for begin in range(0, len(texts), size):
        explain_list(model, texts[begin : begin + size], method, begin)
    return {"began": began_at, "ended": time.time(), "cpu": time.process_time() - cpu, "reading": reading}


def _start_time() -> float:
    """When this process was started, in seconds since 1970."""
    with open("/proc/self/stat", encoding="ascii") as file:  # noqa: PTH123  # no file of ours
        ticks = int(file.read().rpartition(") ")[2].split()[19])
    with open("/proc/uptime", encoding="ascii") as file:  # noqa: PTH123
        uptime = float(file.read().split()[0])
    return time.time() - uptime + ticks / os.sysconf("SC_CLK_TCK")
