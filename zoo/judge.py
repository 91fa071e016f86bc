"""Evaluate models as they are stored, and write the figures beside them."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from zoo.data import read_packed
from zoo.evaluate import report
from zoo.teacher import load_teacher


def judge(model: Any, tokenizer: Any, data: Path, folder: Path, device: torch.device, limit: int | None = None) -> None:
    sets = {
        "eraser_test": read_packed(data / "eraser-test.tsv.xz", limit),
        "sst2_dev": read_packed(data / "sst2-dev.tsv.xz", limit),
    }
    figures = report(model.to(device), tokenizer, sets)
    figures["weight_bytes"] = next(folder.glob("*.safetensors")).stat().st_size
    (folder / "metrics.json").write_text(json.dumps(figures, indent=1) + "\n")
    print(folder.name, json.dumps(figures, indent=1), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder written by zoo.prepare")
    parser.add_argument("--minilm", type=Path, help="model folder of the MiniLM package; default: the copy in --data")
    parser.add_argument("--teacher", type=Path, help="folder of a delta on MiniLM")
    parser.add_argument("--student", type=Path, help="folder of a whole model")
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if args.teacher:
        judge(*load_teacher(args.minilm or args.data / "minilm", args.teacher), args.data, args.teacher, device)
    if args.student:
        student = AutoModelForSequenceClassification.from_pretrained(args.student)
        judge(student, AutoTokenizer.from_pretrained(args.student), args.data, args.student, device)


if __name__ == "__main__":
    main()
