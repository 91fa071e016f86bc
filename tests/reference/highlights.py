"""Pham et al. (2022), section 5.2, word by word and threshold by threshold."""

from __future__ import annotations

from collections.abc import Sequence


def figures(
    golds: Sequence[Sequence[bool]], scores: Sequence[Sequence[float]], threshold: float
) -> tuple[float, float, float, float]:
    """Mean precision, mean recall, F1 of these two means, and mean IoU, over the inputs with marks."""
    precisions, recalls, ious = [], [], []
    for gold, values in zip(golds, scores, strict=True):
        human = {index for index, mark in enumerate(gold) if mark}
        if not human:
            continue
        positive = [max(value, 0.0) for value in values]
        largest = max(positive)
        machine = {
            index for index, value in enumerate(positive) if largest > 0 and value / largest >= threshold - 1e-12
        }
        both = len(human & machine)
        precisions.append(both / len(machine) if machine else 0.0)
        recalls.append(both / len(human))
        ious.append(both / len(human | machine))
    precision, recall = sum(precisions) / len(precisions), sum(recalls) / len(recalls)
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return precision, recall, f1, sum(ious) / len(ious)


def best_threshold(golds: Sequence[Sequence[bool]], scores: Sequence[Sequence[float]]) -> float:
    """The threshold of 0.05 x, 0 < x < 20, with the best mean IoU; the lowest of several."""
    best, chosen = -1.0, 0.0
    for x in range(1, 20):
        iou = figures(golds, scores, x / 20)[3]
        if iou > best + 1e-12:
            best, chosen = iou, x / 20
    return chosen
