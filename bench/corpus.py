"""Corpus runs beside the bare engine on the same texts: overhead, bytes per scored word, workers, a shared device.

python bench/corpus.py                                               # overhead, reading and workers, small
python bench/corpus.py --parts overhead --texts 1024
python bench/corpus.py --parts workers --engines local ray           # both clocks; ray needs the extra ray
python bench/corpus.py --parts reading --data reviews.jsonl --clock cpu
python bench/corpus.py --parts workers --workers 8 --device cuda --texts 8192 --words 720
python bench/corpus.py --parts stages kernels sharing --device cuda --texts 8192 --words 720 --processes 8 --minutes 4

"bare" calls `rationales.explain` on lists of a shard's size and keeps nothing. Rounds are interleaved and the median of
their ratios counts. On a busy machine use the CPU clock, which counts the time of this process alone; for workers, the
CPU time of all processes is what two free cores would have to do. "reading" is the time from texts to units and tokens,
each text as a whole and chunk by chunk (models/text/chunks.py). "stages", "kernels" and "sharing" (corpus_stages.py)
need no pyarrow: what each stage costs in one process, how long a GPU is busy, and several processes that read, explain
and build rows on one device, as `--workers` does. `--data`: JSON lines, a folder of .txt files, or ERASER's
movies.tar.gz. Peak memory has its own script, corpus_memory.py.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import tarfile
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import timing
import torch
from corpus_stages import kernels, sharing, stages

import rationales
from rationales import corpus
from rationales.models.batch import execution
from rationales.models.text.model import TextModel
from rationales.models.text.tokens import EncodedText, TextInput, encode, tokenize

VOCABULARY = """
    the acting is fine but plot a mess and nobody in room could say why anything happened still few scenes are
    warm funny oddly moving music never gets their way dull careless waste of talent lovely clever ending lazy
""".split()  # noqa: SIM905  # a list of forty lines reads worse
PARTS = ("overhead", "reading", "workers", "stages", "kernels", "sharing")
DEFAULT_PARTS = ("overhead", "reading", "workers")
WARM_UP_SHARDS = 4  # of each worker, not counted: the model is still being loaded
SHARDS_PER_WORKER = 20  # that the texts are divided into for the part workers, for the largest number of workers


def main() -> None:
    parser = timing.arguments(__doc__)
    parser.add_argument("--texts", type=int, default=1024)
    parser.add_argument("--words", type=int, default=24, help="of a text, on average")
    parser.add_argument("--data", type=Path, help="texts to explain instead: JSON lines, .txt files, or an archive")
    parser.add_argument("--method", default="marc-instant")
    parser.add_argument("--shard-size", type=int, default=512)
    parser.add_argument("--parts", nargs="+", default=DEFAULT_PARTS, choices=PARTS)
    parser.add_argument("--engines", nargs="+", default=["local"], choices=("local", "ray"), help="of the part workers")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2], help="numbers of them in the part workers")
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2], help="of the part sharing")
    parser.add_argument("--minutes", type=float, default=4.0, help="limit of the parts workers and sharing, each")
    args = parser.parse_args()
    if args.quick:
        args.texts, args.shard_size, args.repeat = 24, 16, 1
    args.threads = args.threads or 1
    device = timing.ready(args)
    print(timing.headline(device))
    print(f"machine busy: load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    results: dict[str, Any] = {"setting": timing.setting(device, args.clock), "load": os.getloadavg()[0]}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        texts = read_texts(args.data)[: args.texts] if args.data else random_texts(args.texts, args.words)
        table = write_texts(folder / "texts.jsonl", texts)
        if "overhead" in args.parts:
            results["overhead"] = overhead(args, device, texts, table, folder)
        if "reading" in args.parts:
            results["reading"] = reading(args, texts)
        if "workers" in args.parts:
            results["workers"] = workers(args, table, folder)
        if "stages" in args.parts:
            results["stages"] = stages(args, device, texts)
        if "kernels" in args.parts:
            results["kernels"] = kernels(args, device, texts)
        if "sharing" in args.parts:
            results["sharing"] = sharing(args, texts)
    timing.save(args.out, results)


def random_texts(count: int, words: int) -> list[str]:
    """Texts of `words` words on average, no two alike."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(max(1, words // 2), words + words // 2 + 1, count)
    return [f"{number} " + " ".join(rng.choice(VOCABULARY, length)) for number, length in enumerate(lengths)]


def read_texts(path: Path) -> list[str]:
    """The texts of JSON lines, of the .txt files in a folder, or of those in a .tar.gz archive, in their order."""
    if path.is_dir():
        return [file.read_text(encoding="utf-8") for file in sorted(path.rglob("*.txt"))]
    if path.name.endswith(".tar.gz"):
        with tarfile.open(path) as archive:  # in its own order: going back would unpack it again
            members = (member for member in archive if member.isfile() and member.name.endswith(".txt"))
            files = {member.name: stream.read() for member in members if (stream := archive.extractfile(member))}
        return [files[name].decode() for name in sorted(files)]
    return [json.loads(line)["text"] for line in path.read_text(encoding="utf-8").splitlines()]


def write_texts(path: Path, texts: list[str]) -> Path:
    """The same as JSON lines."""
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
    return path


def overhead(
    args: argparse.Namespace, device: torch.device, texts: list[str], table: Path, folder: Path
) -> dict[str, Any]:
    """Seconds of a run and of the bare engine, and the size of the results."""
    model = rationales.load(device=args.device)
    rationales.explain(model, texts[:2], method=args.method)
    summaries: list[corpus.RunSummary] = []

    def bare() -> None:
        for begin in range(0, len(texts), args.shard_size):
            rationales.explain(model, texts[begin : begin + args.shard_size], method=args.method)

    def run() -> None:
        options = {"methods": [args.method], "shard_size": args.shard_size, "threads": args.threads}
        summaries.append(corpus.run(table, folder / f"run{len(summaries)}", model=model, **options))

    run()  # warms up what is computed once
    works: dict[str, timing.Work] = {"bare": bare, "run": run}
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in works}  # wall clock, CPU time
    for _ in range(args.repeat):
        for name, work in works.items():
            began, cpu = time.perf_counter(), time.process_time()
            work()
            timing.wait(device)
            seconds[name].append((time.perf_counter() - began, time.process_time() - cpu))
    last = summaries[-1]
    figures: dict[str, Any] = {"texts": len(texts), "words": last.units, "bytes_per_word": last.bytes / last.units}
    rows = []
    for number, clock in enumerate(("wall", "cpu")):
        bare_seconds, run_seconds = ([values[number] for values in seconds[name]] for name in ("bare", "run"))
        ratio = timing.ratio(run_seconds, bare_seconds)
        medians = [statistics.median(values) for values in (bare_seconds, run_seconds)]
        figures[clock] = {"bare_seconds": medians[0], "run_seconds": medians[1], "ratio": ratio}
        rows.append([f"{clock} clock", f"{len(texts):,}", *(f"{value:.2f}" for value in medians), f"{ratio:.3f}",
                     f"{figures['bytes_per_word']:.2f}"])  # fmt: skip
    print(timing.table([args.method, "texts", "bare s", "run s", "run / bare", "bytes a word"], rows))
    return figures


def reading(args: argparse.Namespace, texts: list[str]) -> dict[str, Any]:
    """Milliseconds in which a text becomes units and rows of tokens: as a whole, and chunk by chunk."""
    model = rationales.load()
    assert isinstance(model, TextModel)
    inputs = [TextInput(text) for text in texts]

    def as_wholes() -> list[EncodedText]:
        settings = (model.tokenizer, model.unit, model.limit, model.overlap)
        with execution.garbage_collection_paused():
            tokenizations = tokenize(inputs, model.tokenizer)
            pairs = zip(inputs, tokenizations, strict=True)
            return [encode(source, *settings, tokenization) for source, tokenization in pairs]

    if as_wholes() != model.encode(inputs):
        raise SystemExit("texts read chunk by chunk differ from texts read as a whole")
    ways: dict[str, timing.Work] = {
        "as wholes": as_wholes,
        "chunk by chunk, none known": lambda: replace(model).encode(inputs),  # a copy begins without known chunks
        "chunk by chunk, all known": lambda: model.encode(inputs),
    }
    seconds = timing.interleaved(ways, args.repeat, torch.device("cpu"), args.clock)
    figures = {name: 1000 * statistics.median(values) / len(texts) for name, values in seconds.items()}
    words = sum(len(encoded.units) for encoded in model.encode(inputs)) / len(texts)
    rows = [
        [name, f"{milliseconds:.2f}", f"{figures['as wholes'] / milliseconds:.2f}"]
        for name, milliseconds in figures.items()
    ]
    print(timing.table([f"reading, {words:.0f} words", "ms a text", "times as fast"], rows))
    return {"words": words, "milliseconds": figures}


@dataclass
class SteadyState:
    """Seconds and records from the end of the warm-up to the last shard, passed to a run as `on_shard`."""

    workers: int
    records: int = 0
    shards: int = 0
    began: tuple[float, float] = (0.0, 0.0)  # wall clock, CPU time
    ended: tuple[float, float] = (0.0, 0.0)

    def __call__(self, entry: corpus.ShardEntry) -> None:
        self.shards += 1
        now = (time.perf_counter(), cpu_seconds())
        if self.shards <= WARM_UP_SHARDS * self.workers:
            self.began = now
        else:
            self.records += entry.records
        self.ended = now

    def milliseconds(self) -> tuple[float, float]:
        """Wall clock and CPU time of a record."""
        wall, cpu = (1000 * (end - begin) / self.records for end, begin in zip(self.ended, self.began, strict=True))
        return wall, cpu


def cpu_seconds() -> float:
    """CPU time of this process and its living workers, also those that Ray has started on this machine."""
    ticks = 0
    children = {process.pid for process in multiprocessing.active_children()}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if int(folder.name) in children or (folder / "cmdline").read_bytes().startswith(b"ray::ShardActor"):
                fields = (folder / "stat").read_text().rpartition(") ")[2].split()
                ticks += int(fields[11]) + int(fields[12])  # in user mode, in the kernel
        except OSError:  # it has ended
            continue
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def workers(args: argparse.Namespace, table: Path, folder: Path) -> dict[str, Any]:
    """Milliseconds of a record with each number of workers, without the start of the workers; for each engine."""
    deadline = time.monotonic() + 60 * args.minutes
    size = max(1, sum(1 for _ in table.open(encoding="utf-8")) // (SHARDS_PER_WORKER * max(args.workers)))
    figures = {}
    for engine in args.engines:
        measured: dict[int, list[tuple[float, float]]] = {count: [] for count in args.workers}
        for repeat in range(args.repeat):
            if repeat and time.monotonic() > deadline:
                print(f"{engine}: {repeat} of {args.repeat} rounds within {args.minutes:g} minutes")
                break
            for count, values in measured.items():
                state = SteadyState(count)
                options = {"methods": [args.method], "shard_size": size, "workers": count, "threads": args.threads}
                corpus.run(table, folder / f"{engine}{count}-{repeat}", device=args.device, engine=engine,
                           on_shard=state, **options)  # fmt: skip
                values.append(state.milliseconds())
        figures[engine] = _speed_up(engine, measured)
    return figures


def _speed_up(engine: str, measured: dict[int, list[tuple[float, float]]]) -> dict[str, Any]:
    """Print and return how many times as fast as the first number of workers the others are.

    The values are (wall clock, CPU time) of each round.
    """
    first, rows, ratios = next(iter(measured)), [], {}
    for count, values in measured.items():
        medians = [statistics.median(value[clock] for value in values) for clock in (0, 1)]
        wall, cpu = (
            timing.ratio(*([value[clock] for value in measured[n]] for n in (first, count))) for clock in (0, 1)
        )
        ratios[count] = {"wall": wall, "by_cpu_time": cpu * count / first}
        rows.append([str(count), *(f"{median:.1f}" for median in medians), f"{wall:.2f}", f"{cpu * count / first:.2f}"])
    headings = [
        f"workers, {engine}",
        "wall ms a text",
        "CPU ms a text",
        f"times {first}",
        f"times {first}, if every worker has a core",
    ]
    print(timing.table(headings, rows), flush=True)
    return {"milliseconds": measured, "ratios": ratios}


if __name__ == "__main__":
    timing.run(main)
