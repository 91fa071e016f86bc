"""How good rationales are on the ERASER movie reviews: agreement with people, sufficiency, comprehensiveness.

Protocol (Brinner and Zarriess, section 4.2): 19 levels 5..95 % of the words, replaced by the baseline, gold label; mean
average precision over white-space tokens, whose score is the mean of their words'; F1 at the gold length; IoU F1 of
spans (a span counts from an IoU of 0.5) at the gold length.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from rationales.models.text import TextModel
from rationales.models.tokens import TextInput
from rationales.rationale import Rationale

LEVELS = np.arange(1, 20) / 20


@dataclass(frozen=True)
class Review:
    """A review, its label and which of its white-space tokens people marked."""

    name: str
    text: str
    label: str
    gold: np.ndarray  # (tokens,) bool


def read_reviews(folder: Path, split: str) -> list[Review]:
    """The reviews of train, val or test."""
    reviews = []
    for line in (folder / f"{split}.jsonl").read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        name = entry["annotation_id"]
        tokens = (folder / "docs" / name).read_text(encoding="utf-8").split()
        gold = np.zeros(len(tokens), dtype=bool)
        for group in entry["evidences"]:
            for evidence in group:
                gold[evidence["start_token"] : evidence["end_token"]] = True
        reviews.append(
            Review(name, " ".join(tokens), {"NEG": "negative", "POS": "positive"}[entry["classification"]], gold)
        )
    return reviews


def token_scores(review: Review, result: Rationale) -> np.ndarray:
    """(tokens,): the mean score of the words in each white-space token."""
    ends = np.cumsum([len(token) + 1 for token in review.text.split(" ")])
    token = np.searchsorted(ends, [unit.start for unit in result.units], side="right")
    total, count = np.zeros(len(ends)), np.zeros(len(ends))
    np.add.at(total, token, result.scores)
    np.add.at(count, token, 1)
    return total / np.maximum(count, 1)


def average_precision(gold: np.ndarray, scores: np.ndarray) -> float:
    """Area under precision over recall; tokens of equal score come together."""
    order = np.argsort(-scores, kind="stable")
    hits = np.cumsum(gold[order])
    last = np.append(np.diff(scores[order]) != 0, True)  # the last token of each run of equal scores
    precision, recall = hits[last] / (np.flatnonzero(last) + 1), hits[last] / gold.sum()
    return float(np.sum(np.diff(recall, prepend=0) * precision))


def agreement(review: Review, scores: np.ndarray) -> dict[str, float]:
    """How well the scores match what people marked."""
    length = int(review.gold.sum())
    chosen = np.zeros(len(scores), dtype=bool)
    chosen[np.argsort(-scores, kind="stable")[:length]] = True
    mine, theirs = runs(chosen), runs(review.gold)
    found = sum(any(iou(one, other) >= 0.5 for other in mine) for one in theirs)
    right = sum(any(iou(one, other) >= 0.5 for other in theirs) for one in mine)
    recall, precision = found / len(theirs), right / max(len(mine), 1)
    both = recall + precision
    return {
        "mAP": average_precision(review.gold, scores),
        "F1": float((chosen & review.gold).sum() / length),
        "IoU F1": 2 * recall * precision / both if both else 0.0,
    }


def runs(chosen: np.ndarray) -> list[tuple[int, int]]:
    """Connected stretches of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], chosen.astype(int), [0]])))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def iou(one: tuple[int, int], other: tuple[int, int]) -> float:
    """Shared length over joint length."""
    shared = max(0, min(one[1], other[1]) - max(one[0], other[0]))
    return shared / (one[1] - one[0] + other[1] - other[0] - shared)


def faithfulness(model: TextModel, reviews: list[Review], results: list[Rationale], at_once: int = 8) -> np.ndarray:
    """(reviews, 2): sufficiency (lower is better) and comprehensiveness (higher is better)."""
    found = []
    for begin in range(0, len(reviews), at_once):
        some = slice(begin, begin + at_once)
        with model.borrowed():
            batch = model.batch(model.encode([TextInput(review.text) for review in reviews[some]]))
            kept = []
            for level in LEVELS:
                chosen = [torch.from_numpy(result.selected(share=level).astype(np.float32)) for result in results[some]]
                kept.append(batch.spread(chosen))
            variants = torch.stack([batch.ones(), *kept, *(1 - keep for keep in kept)])
            said = torch.cat([batch.predict(variant[None]) for variant in variants])  # (39, inputs, classes)
        for number, review in enumerate(reviews[some]):
            gold = said[:, number, model.labels.index(review.label)].cpu().numpy()
            found.append([gold[0] - gold[1:20].mean(), gold[0] - gold[20:].mean()])
    return np.array(found)


def interval(values: np.ndarray, seed: int = 0) -> tuple[float, float, float]:
    """The mean and its 95 % bootstrap interval."""
    drawn = np.random.default_rng(seed).integers(0, len(values), (2000, len(values)))
    low, high = np.quantile(values[drawn].mean(1), [0.025, 0.975])
    return float(values.mean()), float(low), float(high)
