"""Peak memory of `rationales run` with 2,000 and with 20,000 short texts, each in a process of its own.

python bench/corpus_memory.py                          # a tiny BERT with random weights, made on the spot
python bench/corpus_memory.py --sizes 200 2000 --method saliency --workers 2
python bench/corpus_memory.py --data movies.tar.gz --model embedded --method marc-instant --sizes 200 2000 --minutes 60
python bench/corpus_memory.py --model embedded         # the embedded model, much slower

`--data`: JSON lines, a folder of .txt files, or ERASER's movies.tar.gz with its 2,000 reviews. The peak is that of the
process that explains: of the command itself, or with `--workers` of its largest worker. On Linux the largest run is
also followed: the peak after every tenth of the records is printed, so that a run that `--minutes` ends still says how
far memory has grown.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import timing
from corpus import VOCABULARY, random_texts, read_texts, write_texts

POLL_SECONDS = 0.25
LIMIT = 1.1  # peak with the most texts, in units of that with the fewest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[2000, 20000])
    parser.add_argument("--words", type=int, default=12, help="of a text, on average")
    parser.add_argument("--data", type=Path, help="texts to explain instead; the first so many of them")
    parser.add_argument("--minutes", type=float, help="end each run after so long; the records until then count")
    parser.add_argument("--method", default="saliency")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="an option of the method")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--model", help="tiny (the default), embedded, or a name or folder", default="tiny")
    parser.add_argument("--shard-size", type=int, default=256)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="small settings, to see that all of it runs")
    parser.add_argument("--out", type=Path, help="write all figures as JSON")
    args = parser.parse_args()
    if args.quick:
        args.sizes, args.shard_size = [16, 64], 16
    figures = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = tiny_model(folder / "model") if args.model == "tiny" else args.model
        texts = read_texts(args.data) if args.data else random_texts(max(args.sizes), args.words)
        for size in args.sizes:
            table = write_texts(folder / f"{size}.jsonl", texts[:size])
            figures[size] = measured_run(table, folder / f"run{size}", str(model), args)
    smallest = figures[args.sizes[0]]["peak_mb"]
    rows = [
        [f"{size:,}", f"{entry['records']:,}", f"{entry['seconds']:.0f}", f"{entry['peak_mb']:.0f}",
         f"{entry['peak_mb'] / smallest:.3f}"]
        for size, entry in figures.items()
    ]  # fmt: skip
    print(f"machine busy: load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(timing.table(["texts", "finished", "seconds", "peak MB", "ratio"], rows))
    largest = figures[args.sizes[-1]]
    growth = [[f"{records:,}", f"{peak:.0f}"] for records, peak in largest["growth"]]
    if growth:
        print(timing.table(["records finished", "peak MB until then"], growth))
    print(f"{'within' if largest['peak_mb'] <= LIMIT * smallest else 'NOT within'} {LIMIT - 1:.0%}")
    timing.save(args.out, figures)


def tiny_model(folder: Path) -> Path:
    """A BERT of one layer with random weights that knows the words of the texts."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    folder.mkdir()
    digits = [f"{prefix}{digit}" for prefix in ("", "##") for digit in range(10)]
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *VOCABULARY, *digits]
    (folder / "vocab.txt").write_text("\n".join(vocabulary), encoding="utf-8")
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    config = BertConfig(vocab_size=len(vocabulary), max_position_embeddings=128, **sizes)
    BertForSequenceClassification(config).save_pretrained(folder)
    BertTokenizerFast(vocab=str(folder / "vocab.txt")).save_pretrained(folder)
    return folder


def measured_run(table: Path, out: Path, model: str, args: argparse.Namespace) -> dict[str, Any]:
    """Run the command; its seconds, finished records, peak memory, and the peak after each number of records."""
    log, errors = out.with_suffix(".log"), out.with_suffix(".err")
    command = [sys.executable, "-m", "rationales", "run", str(table), "--out", str(out), "--methods", args.method]
    command += ["--shard-size", str(args.shard_size), "--workers", str(args.workers), "--log", str(log)]
    command += ["--device", args.device, *(argument for option in args.set for argument in ("--set", option))]
    command += [] if model == "embedded" else ["--model", model]
    began, peaks, ended_by_limit = time.monotonic(), dict[int, float](), False
    with errors.open("w") as error_file:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=error_file)
    while True:
        ended, status, usage = os.wait4(process.pid, os.WNOHANG)  # usage: of the command and its workers
        if ended:
            break
        if args.workers == 1 and (records := finished_records(log)):
            peaks[records] = peak_so_far(process.pid) or peaks.get(records, 0.0)
        if args.minutes and time.monotonic() - began > 60 * args.minutes and not ended_by_limit:
            ended_by_limit = True
            process.send_signal(signal.SIGINT)
        time.sleep(POLL_SECONDS)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode and not ended_by_limit:
        raise SystemExit(errors.read_text())
    return {
        "seconds": time.monotonic() - began,
        "peak_mb": usage.ru_maxrss / 1024,
        "records": finished_records(log),
        "growth": tenths(peaks),
    }


def finished_records(log: Path) -> int:
    """Records of the last line of a run's log, of those that are complete."""
    lines = log.read_text(encoding="utf-8").split("\n")[:-1] if log.exists() else []
    return max((json.loads(line).get("records", 0) for line in lines), default=0)


def peak_so_far(process: int) -> float | None:
    """MB of the peak of a process; None where the system does not tell."""
    try:
        status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    except OSError:
        return None
    match = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(match[1]) / 1024 if match else None


def tenths(peaks: dict[int, float]) -> list[tuple[int, float]]:
    """(records, peak) at about every tenth of the records."""
    known = sorted(peaks.items())
    return known[:: max(1, len(known) // 10)] + known[-1:] if known else []


if __name__ == "__main__":
    main()
