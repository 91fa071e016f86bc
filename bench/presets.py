"""The presets of MaRC side by side on the ERASER movie reviews: is `default` as good as `paper`, in fewer steps?

python bench/presets.py --data path/to/eraser/movies --model minilm-reviews
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from quality import agreement, faithfulness, interval, read_reviews, token_scores

import rationales


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with docs/ and test.jsonl; without it nothing is run")
    parser.add_argument("--model", default=None)
    parser.add_argument("--split", default="test")
    parser.add_argument("--limit", type=int, default=None)
    parser.add_argument("--device", default=None)
    parser.add_argument(
        "--variants", default='{"default": {}, "paper": {"preset": "paper"}}', help="JSON: name -> options"
    )
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    parser.add_argument("--tf32", action="store_true", help="faster, slightly coarser products on an NVIDIA card")
    args = parser.parse_args()
    if args.tf32:
        torch.set_float32_matmul_precision("high")
    if args.data is None:
        print("presets: give --data, the folder of the ERASER movie reviews; skipped")
        return
    model = rationales.load(args.model, device=args.device)
    reviews = read_reviews(args.data, args.split)[: args.limit]
    texts, gold = [review.text for review in reviews], [review.label for review in reviews]
    rows: dict[str, Any] = {}
    variants: dict[str, dict[str, Any]] = json.loads(args.variants)
    for name, options in {**variants, "random": {}}.items():
        began = time.perf_counter()
        method = options.pop("method", "random" if name == "random" else "marc")
        smooth = options.pop("smooth", None)
        results = rationales.explain(model, texts, method=method, target=gold, options=options, smooth=smooth)
        seconds = (time.perf_counter() - began) / len(texts)
        scored = [
            agreement(review, token_scores(review, result)) for review, result in zip(reviews, results, strict=True)
        ]
        suff_comp = faithfulness(model, reviews, results)
        figures = {key: np.array([metrics[key] for metrics in scored]) for key in scored[0]}
        figures |= {"suff": suff_comp[:, 0], "comp": suff_comp[:, 1]}
        correct = np.mean(
            [result.probabilities["full"][label] > 0.5 for result, label in zip(results, gold, strict=True)]
        )
        rows[name] = {key: interval(values) for key, values in figures.items()} | {
            "steps": float(np.mean([result.steps for result in results])),
            "keep": float(np.mean([result.scores.mean() for result in results])),
            "selected": float(np.mean([result.selected().mean() for result in results])),
            "spans": float(np.mean([len(result.spans()) for result in results])),
            "seconds": seconds,
            "accuracy": float(correct),
        }
        print(name, _line(rows[name]), flush=True, file=sys.stderr)
    print(f"{len(reviews)} {args.split} reviews, {model.name}, gold label, baseline {model.baseline}")
    print("protocol of bench/quality.py, 95 % bootstrap intervals, seed 0")
    print(f"{'scores':<24} mAP                F1@gold            IoU F1@gold        suff               comp")
    for name, row in rows.items():
        print(f"{name:<24} {_line(row)}")
    if args.out is not None:
        args.out.write_text(json.dumps(rows, indent=1), encoding="utf-8")


def _line(row: dict[str, Any]) -> str:
    cells = [
        f"{row[key][0]:.3f} [{row[key][1]:.3f} {row[key][2]:.3f}]" for key in ("mAP", "F1", "IoU F1", "suff", "comp")
    ]
    return " ".join(cells) + (
        f" steps {row['steps']:.0f} keep {row['keep']:.2f} selected {row['selected']:.2f} "
        f"spans {row['spans']:.1f} {row['seconds']:.3f} s/review accuracy {row['accuracy']:.3f}"
    )


if __name__ == "__main__":
    main()
