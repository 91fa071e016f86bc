"""ROAR (Hooker et al. 2019; Pham et al. 2022, section 5.1), literally: lists of words, training, the t-test."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch


def without_best(words: Sequence[str], scores: Sequence[float], share: float) -> list[str]:
    """The words but the best N %, at least one; of equal scores the left one goes first."""
    order = sorted(range(len(words)), key=lambda index: (-scores[index], index))
    count = max(1, math.floor(share * len(words) + 1e-9))
    return [word for index, word in enumerate(words) if index not in order[:count]]


def train(module, texts, labels, padding, batches, learning_rate, clip):
    """The loss of every step of Adam (Kingma and Ba 2015, Algorithm 1); the module is trained in place.

    texts: token ids of each text; batches: numbers of the texts of every step. The learning rate falls linearly to 0,
    and gradients are scaled to a norm of at most `clip`.
    """
    weights = dict(module.named_parameters())
    first = {name: torch.zeros_like(weight) for name, weight in weights.items()}
    second = {name: torch.zeros_like(weight) for name, weight in weights.items()}
    losses = []
    for step, numbers in enumerate(batches):
        longest = max(len(texts[number]) for number in numbers)
        ids = [texts[number] + [padding] * (longest - len(texts[number])) for number in numbers]
        mask = [[1] * len(texts[number]) + [0] * (longest - len(texts[number])) for number in numbers]
        logits = module(input_ids=torch.tensor(ids), attention_mask=torch.tensor(mask)).logits
        log_likelihoods = [
            row[labels[number]] - torch.logsumexp(row, 0) for row, number in zip(logits, numbers, strict=True)
        ]
        loss = -sum(log_likelihoods) / len(numbers)
        losses.append(float(loss.detach()))
        gradients = dict(zip(weights, torch.autograd.grad(loss, list(weights.values())), strict=True))
        norm = math.sqrt(sum(float((gradient**2).sum()) for gradient in gradients.values()))
        rate = learning_rate * (1 - step / len(batches))
        for name, gradient in gradients.items():
            gradient = gradient * min(1.0, clip / norm)
            first[name] = 0.9 * first[name] + 0.1 * gradient
            second[name] = 0.999 * second[name] + 0.001 * gradient**2
            mean, square = first[name] / (1 - 0.9 ** (step + 1)), second[name] / (1 - 0.999 ** (step + 1))
            with torch.no_grad():
                weights[name] -= rate * mean / (square.sqrt() + 1e-8)
    return losses


def welch_statistic(first: Sequence[float], second: Sequence[float]) -> tuple[float, float]:
    """Welch's t and the degrees of freedom after Welch and Satterthwaite."""
    means = [sum(values) / len(values) for values in (first, second)]
    errors = [
        sum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values)
        for values, mean in zip((first, second), means, strict=True)
    ]
    freedom = sum(errors) ** 2 / sum(
        error**2 / (len(values) - 1) for error, values in zip(errors, (first, second), strict=True)
    )
    return (means[0] - means[1]) / math.sqrt(sum(errors)), freedom
