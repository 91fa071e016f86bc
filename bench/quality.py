"""How good rationales are on the ERASER movie reviews: agreement with people, sufficiency, comprehensiveness.

The library's protocol `marc` (Brinner and Zarriess, section 4.2): 19 levels 5..95 % of the words, replaced by PAD, gold
label; mean average precision over white-space tokens, whose score is the mean of their words'; F1 at the gold length;
IoU F1 of spans (a span counts from an IoU of 0.5) at the gold length.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rationales.data import read_data
from rationales.evaluation.agreement.word_marks import marked_words, word_scores
from rationales.evaluation.faithfulness.measure import measure_rationales
from rationales.evaluation.metric_values import MetricInputs, compute_metrics
from rationales.evaluation.metrics import select_metrics
from rationales.evaluation.protocols import find_protocol
from rationales.evaluation.tables.statistics import estimate
from rationales.models.batch.rows import content_key
from rationales.models.text.model import TextModel
from rationales.rationale import Rationale

PROTOCOL = find_protocol("marc")
AGREEMENT = {"mAP": "average-precision", "F1": "f1-gold-length", "IoU F1": "iou-f1@gold-length"}


@dataclass(frozen=True)
class Review:
    """A review, its label and which of its white-space tokens people marked."""

    name: str
    text: str
    label: str
    gold: np.ndarray  # (tokens,) bool


def read_reviews(folder: Path, split: str) -> list[Review]:
    """The reviews of train, val or test."""
    return [
        Review(
            example.name,
            " ".join(example.text.split()),
            example.label,
            marked_words(example.text, example.spans, example.name),
        )
        for example in read_data("eraser-movies", split, folder)
    ]


def token_scores(review: Review, result: Rationale) -> np.ndarray:
    """(tokens,): the mean score of the words in each white-space token."""
    return word_scores(review.text, None, result.words, result.scores)


def agreement(review: Review, scores: np.ndarray) -> dict[str, float]:
    """How well the scores match what people marked."""
    evidence = MetricInputs(
        unit_scores=[scores], compared_scores=[scores], gold=[review.gold], tie_keys=[content_key(0, review.text, None)]
    )
    metrics = compute_metrics(select_metrics(list(AGREEMENT.values()), {"marks"}), evidence, PROTOCOL)
    return {title: float(metrics[name].values[0]) for title, name in AGREEMENT.items()}


def faithfulness(model: TextModel, reviews: list[Review], results: list[Rationale]) -> np.ndarray:
    """(reviews, 2): sufficiency (lower is better) and comprehensiveness (higher is better)."""
    metrics = measure_rationales(model, results, [review.label for review in reviews], PROTOCOL)
    return np.stack([metrics.sufficiency(), metrics.comprehensiveness()], 1)


def interval(values: np.ndarray, seed: int = 0) -> tuple[float, float, float]:
    """The mean and its 95 % bootstrap interval."""
    mean_and_interval = estimate(values, seed=seed)
    return mean_and_interval.mean, mean_and_interval.low, mean_and_interval.high
