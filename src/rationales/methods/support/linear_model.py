"""LIME's random samples of kept units, and the weighted linear model that is fitted to their outputs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from rationales.errors import OptionError
from rationales.methods.method import Attribution
from rationales.methods.support.feature_groups import FeatureGroups, feature_groups
from rationales.methods.support.least_squares import centre, least_squares, row_chunks
from rationales.models.batch import Batch
from rationales.models.batch.rows import fold, uniform

Kept = Callable[[Tensor, Tensor], Tensor]  # rows (R,), samples (k,) -> (k, R, g) bool


def random_keeps(
    batch: Batch, groups: FeatureGroups, row: Tensor, variant: Tensor, min_share: float = 0.0, max_share: float = 1.0
) -> Tensor:
    """(k, R, g) bool: each sample keeps all groups but a random number of random ones; sample 0 keeps all.

    The number is uniform between `min_share` (at least one) and `max_share` of a row's groups.
    """
    count = groups.count[row]
    low = (min_share * count).round().long().clamp(min=1)
    high = torch.maximum((max_share * count).round().long(), low)
    number = variant[:, None].expand(-1, len(row))
    keys = fold(batch.rows.key[row].expand_as(number).flatten(), number.flatten(), 1)
    random_numbers = uniform(keys, 1).view(number.shape)
    picks = low + (random_numbers * (high - low + 1)).long()  # (k, R)
    return (groups.order(batch, row, number) >= picks[..., None]) | (number == 0)[..., None]


def fit_linear_model(groups: FeatureGroups, kept: Kept, outputs: Tensor, kernel: float, ridge: float) -> Tensor:
    """(K, S) outputs of K samples -> (S, g): coefficients of a ridge regression on what each sample keeps.

    A sample has the weight exp(-d^2 / (2 kernel^2)), d the cosine distance between its keep and the full input's; a
    kernel of 0: equal weights. The intercept is not penalised.
    """
    all_samples = torch.arange(len(outputs), device=outputs.device)
    fitted = torch.zeros(groups.real.shape, device=outputs.device, dtype=outputs.dtype)
    for row in row_chunks(groups.real, len(outputs)):
        real = groups.real[row]
        kept_groups = (kept(row, all_samples) & real).double().movedim(0, 1)  # (R, K, g)
        weights = _weights(kept_groups.sum(-1) / groups.count[row][:, None], kernel)
        features, values = centre(kept_groups, outputs[:, row].T.double(), weights)
        fitted[row] = least_squares(features * real[:, None], values, weights, ridge).to(fitted.dtype)
    return fitted


def fit_random_keeps(batch: Batch, outputs: Callable[[Kept], Tensor], kernel: float, ridge: float) -> Attribution:
    """Coefficients of the linear model of random keeps; outputs: keeps -> (K, S)."""
    groups = feature_groups(batch)
    kept = partial(random_keeps, batch, groups)
    return Attribution(fit_linear_model(groups, kept, outputs(kept), kernel, ridge))


def check_fit(name: str, samples: int, kernel: float, ridge: float) -> None:
    """Raise an OptionError unless a linear model can be fitted with these options of the method `name`."""
    if samples < 2:
        raise OptionError(f"{name} needs at least 2 samples, not {samples}")
    if kernel < 0 or ridge < 0:
        raise OptionError(f"{name} needs a kernel and a ridge of at least 0")


def _weights(share: Tensor, kernel: float) -> Tensor:
    """(R, K) shares of kept units -> weights; the cosine between a 0/1 vector and ones is the root of its mean."""
    if kernel == 0:
        return torch.ones_like(share)
    return torch.exp(-((1 - share.sqrt()) ** 2) / (2 * kernel**2))
