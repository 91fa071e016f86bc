"""The losses of Attributive Masking Learning (Barkan et al. 2024, Eq. 4 to 7), per input.

Predictions come as log-probabilities, so that a loss has a gradient where a probability is 0 or 1 in single precision.
Shapes: I inputs, C classes, up to U units.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rationales.masks.instant.aml.settings import AmlLosses

LARGEST_SCORE = 1 - 1e-6  # of log(1 - a), which is infinite at 1


@dataclass(frozen=True, eq=False)
class LogPredictions:
    """Predictions on I reduced inputs."""

    log_p: Tensor  # (I, C) log-probabilities of the classes
    log_not_target: Tensor  # (I,) log(1 - p) of the explained class
    log_not_p: Tensor | None = None  # (I, C) log(1 - p), of models whose classes are independent


def prediction_loss(masked: LogPredictions, y: Tensor) -> Tensor:
    """(I,): Eq. 5, cross-entropy of the prediction on the masked input with y (I, C).

    Of independent classes: the binary cross-entropy of each, summed.
    """
    loss = -(y * masked.log_p).sum(-1)
    return loss if masked.log_not_p is None else loss - ((1 - y) * masked.log_not_p).sum(-1)


def inverse_loss(inverse: LogPredictions, target: Tensor, kind: str) -> Tensor:
    """(I,): Eq. 6 for target (I,), or one of its two alternatives, on the inversely masked input."""
    if kind == "log":
        return -inverse.log_not_target
    if kind == "probability":
        return inverse.log_p.gather(-1, target[:, None]).squeeze(-1).exp()
    negative_entropy = (inverse.log_p.exp() * inverse.log_p).sum(-1)
    if inverse.log_not_p is not None:
        negative_entropy = negative_entropy + (inverse.log_not_p.exp() * inverse.log_not_p).sum(-1)
    return negative_entropy


def attribution_loss(attribution: Tensor, real: Tensor, kind: str) -> Tensor:
    """(I,): Eq. 7, or the mean score (L1), of attributions (I, U); `real` (I, U) marks the units that exist."""
    size = attribution if kind == "l1" else -torch.log1p(-attribution.clamp(max=LARGEST_SCORE))
    return (size * real).sum(-1) / real.sum(-1)


def total_loss(
    masked: LogPredictions,
    inverse: LogPredictions,
    attribution: Tensor,
    real: Tensor,
    y: Tensor,
    target: Tensor,
    settings: AmlLosses,
) -> Tensor:
    """(I,): Eq. 4."""
    return (
        settings.prediction_weight * prediction_loss(masked, y)
        + settings.attribution_weight * attribution_loss(attribution, real, settings.mask_loss)
        + settings.inverse_weight * inverse_loss(inverse, target, settings.inverse_loss)
    )


def encode_prediction(probabilities: Tensor, target: Tensor, kind: str) -> Tensor:
    """(I, C): y of the paper, from the model's probabilities (I, C) and the explained class (I,).

    `soft`: the probabilities. `one-hot`, or where the explained class is not the predicted class: 1 for that class.
    """
    one_hot = torch.zeros_like(probabilities).scatter(1, target[:, None], 1.0)
    if kind == "one-hot":
        return one_hot
    return torch.where((probabilities.argmax(-1) == target)[:, None], probabilities, one_hot)
