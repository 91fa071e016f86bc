"""Train the masker that ships with the embedded model, from texts without labels, and measure what it loses.

python -m zoo.masker --eraser eraser-movies.tar.gz --sst2 sst2.tar.gz --out zoo/out/masker.safetensors --minutes 5

Prints MaRC's loss, where a mask has a size of its own, and the quality on ERASER's validation reviews
(bench/quality.py): the masker alone, with 15 steps of refinement, MaRC from scratch, and random scores.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import rationales
from rationales.data import read_data
from rationales.data.archives import find, unpacked
from rationales.masks.instant.length_buckets import LengthBuckets
from rationales.masks.instant.masker_file import Masker
from rationales.masks.instant.refine import refine
from rationales.masks.instant.training import TrainSettings, ValidationResult, train
from rationales.masks.objective import Problem
from rationales.masks.optimize import optimize
from rationales.masks.optimizer import losses
from rationales.masks.settings import CLAUSES, MaskSettings
from rationales.models.text.model import TextModel
from rationales.models.text.units import sentences

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bench"))
from quality import agreement, faithfulness, interval, read_reviews, token_scores

SHORTEST, LONGEST = 10, 400  # words of a training text; whole reviews come on top
REFINE = 15
ENDLESS = 10**9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--eraser", type=Path, required=True, help="the ERASER movie reviews: folder or archive")
    parser.add_argument("--sst2", type=Path, help="SST-2: folder or archive; without it, reviews alone")
    parser.add_argument("--out", type=Path, required=True, help="where the masker goes")
    parser.add_argument("--model", default="embedded")
    parser.add_argument("--minutes", type=float, default=5.0, help="of training, preparation of the texts included")
    parser.add_argument("--steps", type=int, default=ENDLESS, help="of training at most")
    parser.add_argument("--texts", type=int, default=20_000)
    parser.add_argument("--longest", type=int, default=LONGEST, help="words of a training passage at most")
    parser.add_argument("--no-whole", action="store_true", help="no whole reviews among the training texts")
    parser.add_argument("--train", type=json.loads, default={}, help='JSON: {"width": 160, "inputs": 64, ...}')
    parser.add_argument("--objective", type=json.loads, default={}, help='JSON: options of marc, {"level_weight": 0.5}')
    parser.add_argument("--half", action="store_true", help="store half precision")
    parser.add_argument("--val", type=int, default=200, help="validation reviews that are judged; 0: none")
    parser.add_argument("--longest-val", type=int, help="leave out longer reviews, in words: for a dry run")
    parser.add_argument("--device")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    device = args.device or ("cuda" if torch.cuda.is_available() else "cpu")
    model = rationales.load(args.model, device=device)
    assert isinstance(model, TextModel)
    texts = training_texts(args.eraser, args.sst2, args.texts, args.longest, not args.no_whole, args.seed)
    lengths = np.array([len(text.split()) for text in texts])
    print(
        f"{len(texts)} texts of {lengths.min()} to {lengths.max()} words, {lengths.mean():.0f} on average", flush=True
    )
    settings = replace(TrainSettings(steps=args.steps, minutes=args.minutes, inputs=64, seed=args.seed), **args.train)
    masker = train(model, texts, settings, replace(CLAUSES, **args.objective), on_validation=_print_progress)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    masker.save(args.out, args.half)
    weights = sum(parameter.numel() for parameter in masker.network.parameters())
    print(f"wrote {args.out}: {weights:,} weights, {args.out.stat().st_size / 1e6:.2f} MB, {masker.card.training}")
    if args.val:
        judge(model, masker, args.out, args.eraser, args.val, args.longest_val)


def training_texts(
    eraser: Path, sst2: Path | None, count: int, longest: int, with_reviews: bool, seed: int
) -> list[str]:
    """A third phrases of SST-2's training part, the rest passages of ERASER's, and its reviews as they are."""
    draw = np.random.default_rng(seed)
    reviews = [" ".join(example.text.split()) for example in read_data("eraser-movies", "train", eraser)]
    texts = list(reviews) if with_reviews else []
    if sst2 is not None:
        phrases = sorted(
            {example.text for example in read_data("sst-2", "train", sst2) if len(example.text.split()) >= SHORTEST}
        )
        texts += [phrases[i] for i in draw.permutation(len(phrases))[: count // 3]]
    while len(texts) < count:
        before = len(texts)
        for i in draw.permutation(len(reviews)):
            texts += passages(reviews[i], longest, draw)
        if len(texts) == before:
            break
    return list(dict.fromkeys(texts))[:count]


def passages(review: str, longest: int, draw: np.random.Generator) -> list[str]:
    """A review cut at ends of sentences into stretches whose lengths are drawn evenly on a logarithmic scale."""
    ends = [end for _, end in sentences(review)]
    cut, start = [], 0
    while start < len(review):
        words = np.exp(draw.uniform(np.log(SHORTEST), np.log(longest)))
        stop = next((end for end in ends if end > start and len(review[start:end].split()) >= words), len(review))
        passage = " ".join(review[start:stop].split()[:longest])
        if len(passage.split()) >= SHORTEST:
            cut.append(passage)
        start = stop
    return cut


def judge(model: TextModel, masker: Masker, path: Path, eraser: Path, count: int, longest: int | None) -> None:
    """Print MaRC's loss and the quality of rationales on validation reviews, with and without the masker."""
    listing = find(unpacked(eraser) if eraser.is_file() else eraser, "val.jsonl")
    assert listing is not None, "there is no val.jsonl"
    reviews = [
        review for review in read_reviews(listing.parent, "val") if longest is None or len(review.gold) <= longest
    ]
    reviews = [review for review in reviews if review.gold.any()][:count]
    print(f"\n{len(reviews)} validation reviews, {model.name}")
    if masker.card.objective.mask_weight:  # else a field is anchored to something that no pair of w and sigma tells
        print("MaRC's loss (Eq. 8 without noise), predicted class")
        for name, value in _losses(model, masker, [review.text for review in reviews]).items():
            print(f"{name:<28} {value:.4f}", flush=True)
    instant = {"masker": str(path)}
    rows: dict[str, dict[str, Any]] = {}
    for name, method, options in (
        ("marc", "marc", {}),
        ("marc-instant", "marc-instant", instant),
        (f"marc-instant, refine={REFINE}", "marc-instant", instant | {"refine": REFINE}),
        ("random", "random", {}),
    ):
        rows[name] = _quality(model, reviews, method, options)
    print("\nprotocol of bench/quality.py, gold label, 95 % bootstrap intervals")
    print(f"{'scores':<28} {'mAP':<20} {'F1':<20} {'IoU F1':<20} {'suff':<20} {'comp':<20} s/review")
    for name, row in rows.items():
        cells = [f"{row[key][0]:.3f} [{row[key][1]:.3f} {row[key][2]:.3f}]" for key in KEYS]
        print(f"{name:<28} {' '.join(f'{cell:<20}' for cell in cells)} {row['seconds']:.4f}")
    for name in list(rows)[1:3]:
        parts = [
            f"{key} {100 * rows[name][key][0] / max(rows['marc'][key][0], 1e-9):.0f} %" for key in ("mAP", "IoU F1")
        ]
        print(f"{name}: {', '.join(parts)} of marc's")


KEYS = ("mAP", "F1", "IoU F1", "suff", "comp")


def _losses(model: TextModel, masker: Masker, texts: list[str], at_once: int = 64) -> dict[str, float]:
    """The mean loss over texts: predicted, refined, and optimised from scratch with the same objective."""
    objective = masker.card.objective
    by_source: dict[str, list[torch.Tensor]] = {}
    for begin in range(0, len(texts), at_once):
        sources = [model.read(text, None) for text in texts[begin : begin + at_once]]
        with model.frozen():
            for bucket in LengthBuckets(model, sources, 0):
                batch, target = bucket.batch, bucket.predicted_labels
                start = masker(batch, target)
                refined = refine(batch, target, replace(objective, steps=REFINE, learning_rate=0.1), start)
                scratch = optimize(batch, target, objective)
                for name, pair in {
                    "masker": start,
                    f"masker, {REFINE} steps": (refined.w, refined.sigma),
                    f"marc, {objective.steps} steps": (scratch.w, scratch.sigma),
                }.items():
                    by_source.setdefault(name, []).append(_loss(batch, target, objective, pair))
    return {name: float(torch.cat(values).mean()) for name, values in by_source.items()}


def _loss(batch: Any, target: torch.Tensor, objective: MaskSettings, pair: tuple[torch.Tensor, ...]) -> torch.Tensor:
    problem = Problem.of(batch, target, replace(objective, noise=0.0, flip_share=0.0))
    with torch.no_grad():
        return losses(problem, pair[0], pair[1], torch.zeros(batch.masks, dtype=torch.long, device=batch.device)).cpu()


def _quality(model: TextModel, reviews: list[Any], method: str, options: dict[str, Any]) -> dict[str, Any]:
    texts, gold = [review.text for review in reviews], [review.label for review in reviews]
    began = time.perf_counter()
    results = rationales.explain(model, texts, method=method, target=gold, options=options)
    seconds = (time.perf_counter() - began) / len(texts)
    scored = [
        agreement(review, token_scores(review, rationale)) for review, rationale in zip(reviews, results, strict=True)
    ]
    both = faithfulness(model, reviews, results)
    figures = {key: np.array([metrics[key] for metrics in scored]) for key in scored[0]}
    figures |= {"suff": both[:, 0], "comp": both[:, 1]}
    return {key: interval(values) for key, values in figures.items()} | {"seconds": seconds}


def _print_progress(result: ValidationResult) -> None:
    star = " *" if result.best else ""
    print(f"step {result.step:>6}  {result.seconds:5.0f} s  held-out loss {result.loss:.4f}{star}", flush=True)


if __name__ == "__main__":
    main()
