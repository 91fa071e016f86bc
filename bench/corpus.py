"""Corpus runs beside the bare engine on the same texts: overhead, bytes per scored word, workers, a shared device.

python bench/corpus.py                                    # all of it, small
python bench/corpus.py --parts workers --texts 2048 --repeat 3
python bench/corpus.py --parts workers --engine ray       # needs the extra ray
python bench/corpus.py --parts reading --data reviews.jsonl --clock cpu
python bench/corpus.py --parts sharing --device cuda --texts 4096 --words 720 --processes 1 2 4 8

"bare" calls `rationales.explain` on lists of a shard's size and keeps nothing. Rounds are interleaved and the median of
their ratios counts. On a busy machine use `--clock cpu` for the overhead, which counts the time of this process alone;
for workers both clocks are printed, the CPU time of all processes being what two free cores would have to do.
"reading" is the time from texts to units and tokens, each text as a whole and chunk by chunk (models/text/chunks.py).
"sharing" runs several processes that read, explain and build rows on one device, as `--workers` does; it needs no
pyarrow. Peak memory has its own script, corpus_memory.py.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import multiprocessing
import os
import statistics
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import timing
import torch

import rationales
from rationales import corpus
from rationales.corpus.records import Record
from rationales.corpus.row_format import row_of, serialized
from rationales.models.batch import execution
from rationales.models.text.model import TextModel
from rationales.models.text.tokens import EncodedText, TextInput, encode, tokenize

VOCABULARY = """
    the acting is fine but plot a mess and nobody in room could say why anything happened still few scenes are
    warm funny oddly moving music never gets their way dull careless waste of talent lovely clever ending lazy
""".split()  # noqa: SIM905  # a list of forty lines reads worse
PARTS = ("overhead", "reading", "workers", "sharing")
WARM_UP_SHARDS = 2  # not counted: workers are still loading the model


def main() -> None:
    parser = timing.arguments(__doc__)
    parser.add_argument("--texts", type=int, default=1024)
    parser.add_argument("--words", type=int, default=24, help="of a text, on average")
    parser.add_argument("--data", type=Path, help="texts to explain instead, as JSON lines")
    parser.add_argument("--method", default="marc-instant")
    parser.add_argument("--shard-size", type=int, default=512)
    parser.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS)
    parser.add_argument("--engine", default="local", choices=("local", "ray"), help="of the part workers")
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2], help="of the part sharing")
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
        texts = read_texts(args.data) if args.data else random_texts(args.texts, args.words)
        table = write_texts(folder / "texts.jsonl", texts)
        if "overhead" in args.parts:
            results["overhead"] = overhead(args, device, texts, table, folder)
        if "reading" in args.parts:
            results["reading"] = reading(args, texts)
        if "workers" in args.parts:
            results["workers"] = workers(args, table, folder)
        if "sharing" in args.parts:
            results["sharing"] = sharing(args, texts)
    timing.save(args.out, results)


def random_texts(count: int, words: int) -> list[str]:
    """Texts of `words` words on average, no two alike."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(max(1, words // 2), words + words // 2 + 1, count)
    return [f"{number} " + " ".join(rng.choice(VOCABULARY, length)) for number, length in enumerate(lengths)]


def read_texts(path: Path) -> list[str]:
    """The texts of JSON lines."""
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

    run()  # warms up what is computed once: the fingerprints of model and code
    seconds = timing.interleaved({"bare": bare, "run": run}, args.repeat, device, args.clock)
    ratio = timing.ratio(seconds["run"], seconds["bare"])
    last = summaries[-1]
    figures = {
        "texts": len(texts),
        "words": last.units,
        "bare_seconds": statistics.median(seconds["bare"]),
        "run_seconds": statistics.median(seconds["run"]),
        "ratio": ratio,
        "bytes_per_word": last.bytes / last.units,
    }
    cells = [f"{len(texts):,}", f"{figures['bare_seconds']:.2f}", f"{figures['run_seconds']:.2f}", f"{ratio:.3f}",
             f"{figures['bytes_per_word']:.2f}"]  # fmt: skip
    headings = [args.method, "texts", "bare s", "run s", "run / bare", "bytes a word"]
    print(timing.table(headings, [["one process", *cells]]))
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
    ways = {
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

    records: int = 0
    shards: int = 0
    began: tuple[float, float] = (0.0, 0.0)  # wall clock, CPU time
    ended: tuple[float, float] = (0.0, 0.0)

    def __call__(self, entry: corpus.ShardEntry) -> None:
        self.shards += 1
        now = (time.perf_counter(), cpu_seconds())
        if self.shards <= WARM_UP_SHARDS:
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
    """Milliseconds of a record with one worker and with two, without the start of the workers."""
    measured: dict[int, list[tuple[float, float]]] = {1: [], 2: []}
    for repeat in range(args.repeat):
        for count, values in measured.items():
            state = SteadyState()
            options = {"methods": [args.method], "shard_size": max(1, args.shard_size // 16), "workers": count}
            corpus.run(table, folder / f"workers{count}-{repeat}", device=args.device, engine=args.engine,
                       threads=args.threads, on_shard=state, **options)  # fmt: skip
            values.append(state.milliseconds())
    wall = timing.ratio([value[0] for value in measured[1]], [value[0] for value in measured[2]])
    cpu = timing.ratio([value[1] for value in measured[1]], [value[1] for value in measured[2]])
    rows = []
    for count, values in measured.items():
        medians = [statistics.median(value[clock] for value in values) for clock in (0, 1)]
        speed = ["1", "1"] if count == 1 else [f"{wall:.2f}", f"{2 * cpu:.2f}"]
        rows.append([str(count), *(f"{median:.1f}" for median in medians), *speed])
    headings = ["workers", "ms a text", "CPU ms a text", "times one", "times one by CPU time, two cores free"]
    print(timing.table(headings, rows))
    return {"milliseconds": measured, "ratio": wall, "ratio_by_cpu_time": 2 * cpu, "engine": args.engine}


def sharing(args: argparse.Namespace, texts: list[str]) -> dict[str, Any]:
    """Milliseconds of a text with several processes on the same device."""
    context = multiprocessing.get_context("spawn")
    figures = {}
    for count in args.processes:
        barrier, results = context.Barrier(count), context.Queue()
        parts = [texts[number::count] for number in range(count)]
        arguments = (args.device, args.method, args.shard_size, args.threads, count, barrier, results)
        processes = [context.Process(target=explain_share, args=(part, *arguments)) for part in parts]
        for process in processes:
            process.start()
        shares = [results.get() for _ in processes]
        for process in processes:
            process.join()
        seconds = max(share[1] for share in shares) - min(share[0] for share in shares)
        reading = statistics.mean(share[2] for share in shares)
        figures[count] = {"ms_a_text": 1000 * seconds / len(texts), "reading_ms_a_text": 1000 * reading}
    rows = [
        [str(count), f"{entry['ms_a_text']:.2f}", f"{entry['reading_ms_a_text']:.2f}"]
        for count, entry in figures.items()
    ]
    print(timing.table(["processes", "ms a text", "reading alone, ms a text and process"], rows))
    return {str(count): entry for count, entry in figures.items()}


def explain_share(
    texts: list[str], device: str, method: str, size: int, threads: int, processes: int, barrier: Any, results: Any
) -> None:
    """What a worker does with its texts: read, explain, build rows, and serialise them where pyarrow is there."""
    torch.set_num_threads(threads)
    execution.GPU_SHARE /= processes
    model = rationales.load(device=device)
    rationales.explain(model, texts[:size], method=method)  # warms up
    began = time.perf_counter()
    model.encode([model.read(text, None) for text in texts[:size]])
    reading = (time.perf_counter() - began) / len(texts[:size])
    barrier.wait()
    began = time.time()
    for begin in range(0, len(texts), size):
        part = texts[begin : begin + size]
        rows = [
            row_of(Record(number, str(number), "", rationale.text), method, rationale)
            for number, rationale in enumerate(rationales.explain(model, part, method=method), begin)
        ]
        if importlib.util.find_spec("pyarrow") is not None:
            serialized(rows, {})
    results.put((began, time.time(), reading))


if __name__ == "__main__":
    timing.run(main)
