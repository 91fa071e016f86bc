"""Corpus runs beside the bare engine on the same texts: overhead, bytes per scored word, workers, memory.

python bench/corpus.py                                    # all of it, small
python bench/corpus.py --texts 20000 --method random --parts memory
python bench/corpus.py --data reviews.jsonl --method marc-instant --device cuda

"bare" calls `rationales.explain` on lists of a shard's size and keeps nothing. Rounds are interleaved and the median of
their ratios counts; on a busy machine use `--clock cpu`, which counts the time of this process alone. Workers are other
processes and are always measured by the wall clock.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import timing
import torch

import rationales
from rationales import corpus

VOCABULARY = [
    "the",
    "acting",
    "is",
    "fine",
    "but",
    "plot",
    "a",
    "mess",
    "and",
    "nobody",
    "in",
    "room",
    "could",
    "say",
    "why",
    "anything",
    "happened",
    "still",
    "few",
    "scenes",
    "are",
    "warm",
    "funny",
    "oddly",
    "moving",
    "music",
    "never",
    "gets",
    "their",
    "way",
    "dull",
    "careless",
    "waste",
    "of",
    "talent",
    "lovely",
    "clever",
    "ending",
    "lazy",
]
PARTS = ("overhead", "workers", "memory")
MEMORY_CODE = (
    "import json, resource, sys; from rationales import corpus; table, out, method, size = sys.argv[1:];"
    "s = corpus.run(table, out, methods=[method], shard_size=int(size));"
    "print(json.dumps([s.peak_open_records, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))"
)


def main() -> None:
    parser = timing.arguments(__doc__)
    parser.add_argument("--texts", type=int, default=1024)
    parser.add_argument("--words", type=int, default=24, help="of a text, on average")
    parser.add_argument("--data", type=Path, help="texts to explain instead, as JSON lines")
    parser.add_argument("--method", default="marc-instant")
    parser.add_argument("--shard-size", type=int, default=512)
    parser.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS)
    args = parser.parse_args()
    if args.quick:
        args.texts, args.shard_size, args.repeat = 16, 8, 1
    args.threads = args.threads or 1
    device = timing.ready(args)
    print(timing.headline(device))
    results: dict[str, Any] = {"setting": timing.setting(device, args.clock)}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        texts = read_texts(args.data) if args.data else random_texts(args.texts, args.words)
        table = write_texts(folder / "texts.jsonl", texts)
        if "overhead" in args.parts:
            results["overhead"] = overhead(args, device, texts, table, folder)
        if "workers" in args.parts:
            results["workers"] = workers(args, table, folder)
        if "memory" in args.parts:
            results["memory"] = memory(args, texts, folder)
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


def workers(args: argparse.Namespace, table: Path, folder: Path) -> dict[str, Any]:
    """Records a second with one worker and with two, from the first shard to the last."""
    rates: dict[int, list[float]] = {1: [], 2: []}
    for repeat in range(args.repeat):
        for count, values in rates.items():
            options = {"methods": [args.method], "shard_size": max(1, args.shard_size // 4), "workers": count}
            summary = corpus.run(table, folder / f"workers{count}-{repeat}", device=args.device, **options)
            values.append(summary.records_per_second)
    one, two = (statistics.median(rates[count]) for count in (1, 2))
    rows = [["1", f"{one:.1f}", "1"], ["2", f"{two:.1f}", f"{two / one:.2f}"]]
    print(timing.table(["workers", "texts a second", "times one"], rows))
    return {"one": one, "two": two, "ratio": two / one}


def memory(args: argparse.Namespace, texts: list[str], folder: Path) -> dict[str, Any]:
    """Peak memory of a process with a tenth of the texts and with all of them."""
    figures = {}
    for count in (max(1, len(texts) // 10), len(texts)):
        table = write_texts(folder / f"{count}.jsonl", texts[:count])
        command = [sys.executable, "-c", MEMORY_CODE, str(table), str(folder / f"memory{count}"), args.method]
        done = subprocess.run([*command, str(args.shard_size)], capture_output=True, text=True, check=True)
        open_records, megabytes = json.loads(done.stdout.splitlines()[-1])
        figures[count] = {"peak_open_records": open_records, "peak_mb": megabytes}
    rows = [
        [f"{count:,}", str(entry["peak_open_records"]), f"{entry['peak_mb']:.0f}"] for count, entry in figures.items()
    ]
    print(timing.table(["texts", "open records", "peak MB"], rows))
    return {str(count): entry for count, entry in figures.items()}


if __name__ == "__main__":
    timing.run(main)
