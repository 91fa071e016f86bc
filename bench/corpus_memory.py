"""Peak memory of `rationales run` with 2,000 and with 20,000 short texts, each in a process of its own.

python bench/corpus_memory.py                          # a tiny BERT with random weights, made on the spot
python bench/corpus_memory.py --sizes 200 2000 --method saliency --workers 2
python bench/corpus_memory.py --data reviews.jsonl --sizes 200 2000 --shard-size 32
python bench/corpus_memory.py --model embedded         # the embedded model, much slower

The peak is that of the process that explains: of the command itself, or with `--workers` of its largest worker.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import timing
from corpus import VOCABULARY, random_texts, read_texts, write_texts

LIMIT = 1.1  # peak with the most texts, in units of that with the fewest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[2000, 20000])
    parser.add_argument("--words", type=int, default=12, help="of a text, on average")
    parser.add_argument("--data", type=Path, help="texts to explain instead, as JSON lines; the first so many of them")
    parser.add_argument("--method", default="saliency")
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
        [f"{size:,}", f"{entry['seconds']:.0f}", f"{entry['peak_mb']:.0f}", f"{entry['peak_mb'] / smallest:.3f}"]
        for size, entry in figures.items()
    ]
    print(f"machine busy: load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(timing.table(["texts", "seconds", "peak MB", "ratio"], rows))
    largest = figures[args.sizes[-1]]["peak_mb"]
    print(f"{'within' if largest <= LIMIT * smallest else 'NOT within'} {LIMIT - 1:.0%}")
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


def measured_run(table: Path, out: Path, model: str, args: argparse.Namespace) -> dict[str, float]:
    """Seconds and the peak of a run of the command."""
    command = [sys.executable, "-m", "rationales", "run", str(table), "--out", str(out), "--methods", args.method]
    command += ["--shard-size", str(args.shard_size), "--workers", str(args.workers), "--json"]
    command += [] if model == "embedded" else ["--model", model]
    code = (
        "import json, resource, subprocess, sys;"
        "done = subprocess.run(sys.argv[1:], capture_output=True, text=True, check=True);"
        "peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024;"
        "print(json.dumps({**json.loads(done.stdout), 'peak_mb': peak}))"
    )
    done = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    figures = json.loads(done.stdout)
    return {name: figures[name] for name in ("seconds", "peak_mb", "records", "explained", "peak_open_records")}


if __name__ == "__main__":
    main()
