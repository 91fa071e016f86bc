"""The size of a rationale: the one of lowest loss (Eq. 8) among those that suffice, by the model's probabilities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rationales.masks.objective import (
    complement_term,
    edge,
    row_groups,
    shortness,
    squeeze,
    sufficiency_term,
    unit_count,
)
from rationales.masks.settings import MaskSettings
from rationales.models.batch import Batch

# Shares of the units that a rationale may have; at least one unit or `MIN_SIZE`, whichever is smaller.
SIZES = (0.01, 0.02, 0.03, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7, 0.8)
MIN_SIZE = 0.05
# On a grid a hard edge may itself disturb a model, so that half of an image suffices where three quarters do not:
# larger sizes are candidates, too.
GRID_SIZES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97)
SUFFICIENT, ALWAYS_SUFFICIENT = 0.9, 0.99  # of the target's probability in the full input: necessary, and always enough
EVIDENCE_SHARE = 0.8  # of the log-odds between baseline and full input, so that a second cause is not left out
LOST_TARGET_SHARE = 0.5  # of the target's probability in the full input: a complement below has lost the target
LOGIT_EPSILON = 1e-6  # of torch.logit
CUT_SOFTNESS = 0.1  # softness of the edge at which a rationale is cut, in standard deviations
GRID_KEEPS_AT_ONCE = {"cuda": 2**28}  # elements of the keeps of images at once, by device (1 GiB); elsewhere one size
LOSS_SLACK = 0.1  # of two sizes whose losses differ by less, the smaller one is selected


def clause_shaping(batch: Batch, settings: MaskSettings) -> Tensor:
    """(I,): weight of the shaping by clauses in [0, 1]; 0 where every unit ranks by its value."""
    longness = 1 - shortness(batch)
    return longness if settings.halo or settings.shrink or settings.closing else torch.zeros_like(longness)


def mask_size(keep: Tensor, batch: Batch) -> Tensor:
    """(I,): share of the units that an input's mask (M, n) keeps, within the range of `size_candidates`."""
    kept = (keep > 0.5)[batch.rows.mask] * batch.rows.blend * batch.rows.real
    total = torch.zeros(batch.inputs, device=keep.device, dtype=batch.dtype)
    total = total.index_add(0, batch.rows.input, kept.sum(1))
    candidates = size_candidates(batch)
    return torch.minimum(torch.maximum(total / unit_count(batch), candidates[0]), candidates[-1])


def size_candidates(batch: Batch) -> Tensor:
    """(sizes, I), rising: shares of the units that an input's rationale may have; may contain duplicates."""
    shares = SIZES if batch.pixel_grid is None else GRID_SIZES
    candidates = torch.tensor(shares, device=batch.device, dtype=batch.dtype)[:, None]
    return torch.maximum(candidates, (1 / unit_count(batch)).clamp(max=MIN_SIZE))


@dataclass(frozen=True, eq=False)
class SizeChoice:
    """Selected size of each input's rationale, (I,) each."""

    size: Tensor  # share of the units
    sufficient: Tensor  # bool: the rationale suffices, and its complement has less than the full probability
    probability: Tensor  # of the target in the rationale of that size
    loss: Tensor  # Eq. 8 of that size, without a floor of the complement's score


def best_size(
    order: Tensor,
    batch: Batch,
    target: Tensor,
    settings: MaskSettings,
    probabilities: SizeProbabilities | None = None,
) -> SizeChoice:
    """Size of the rationale of lowest loss (Eq. 8) among those that suffice; units enter in descending `order`.

    A rationale suffices if the target has `SUFFICIENT` of its probability in the full input, and `EVIDENCE_SHARE` of
    its log-odds or `ALWAYS_SUFFICIENT` of its probability. A size whose complement has the full probability contradicts
    the rationale and is selected only where no other suffices. Without any, it is the size of highest probability.

    Without clause shaping, a complement below `LOST_TARGET_SHARE` counts as empty: weak evidence is everywhere, and a
    rationale with all of it would hide the word that decides.

    `probabilities`: those of this order, where the model was asked before.
    """
    candidates = size_candidates(batch)
    if probabilities is None:
        (probabilities,) = size_probabilities([order], batch, target, candidates)
    kept, left, full, empty = probabilities.kept, probabilities.left, probabilities.full, probabilities.empty
    floored = torch.maximum(squeeze(left), settings.complement_floor * shortness(batch) * squeeze(empty))
    floored = torch.maximum(floored, LOST_TARGET_SHARE * (1 - clause_shaping(batch, settings)) * squeeze(full))
    loss = settings.sufficiency * sufficiency_term(squeeze(kept)) + settings.sparsity * candidates.square()
    plain_loss = loss + settings.complement * complement_term(squeeze(left), settings.complement_form)
    loss = loss + settings.complement * complement_term(floored, settings.complement_form)
    enough = kept >= _required_probability(full, empty)
    consistent = enough & (left < full)
    enough = torch.where(consistent.any(0), consistent, enough)
    loss = torch.where(enough, loss, torch.inf)
    smallest = (loss <= loss.amin(0) + LOSS_SLACK).to(torch.uint8).argmax(0)  # the first is the smallest
    best = torch.where(enough.any(0), smallest, kept.argmax(0))[None]
    size, probability, best_loss = (values.gather(0, best)[0] for values in (candidates, kept, plain_loss))
    return SizeChoice(size, consistent.any(0), probability, best_loss)


@dataclass(frozen=True, eq=False)
class SizeProbabilities:
    """Probability of the target in rationales of several sizes and in their complements."""

    kept: Tensor  # (sizes, I)
    left: Tensor  # (sizes, I)
    full: Tensor  # (I,) in the full input
    empty: Tensor  # (I,) in the baseline


def size_probabilities(
    orders: Sequence[Tensor], batch: Batch, target: Tensor, candidates: Tensor
) -> list[SizeProbabilities]:
    """Probabilities for each of these orders (M, n), in rationales of the sizes `candidates` (sizes, I)."""
    levels = candidates.repeat_interleave(batch.views, 1)
    thresholds = [edge(order, batch, levels, CUT_SOFTNESS)[0] for order in orders]

    def predict(keeps: Tensor) -> Tensor:
        return batch.predict(keeps.to(batch.dtype)).gather(-1, target.expand(len(keeps), -1)[..., None]).squeeze(-1)

    def rationale_keep(order: Tensor, q: Tensor) -> Tensor:
        return (order[batch.rows.mask] > q[:, row_groups(batch), None]) & batch.rows.real

    real = batch.rows.real
    if batch.pixel_grid is not None:  # masks of images are large: as many sizes at a time as memory is set aside for
        at_once = max(1, GRID_KEEPS_AT_ONCE.get(batch.device.type, 0) // (2 * real.numel()))
        full, empty = predict(torch.stack([real, torch.zeros_like(real)]))
        probabilities = []
        for order, q in zip(orders, thresholds, strict=True):
            selections = (rationale_keep(order, group_q) for group_q in torch.split(q, at_once))
            pairs = [predict(torch.cat([keep, ~keep & real])).view(2, len(keep), -1) for keep in selections]
            kept, left = torch.cat(pairs, 1)
            probabilities.append(SizeProbabilities(kept, left, full, empty))
        return probabilities
    keeps = [rationale_keep(order, q) for order, q in zip(orders, thresholds, strict=True)]
    sides = [side for keep in keeps for side in (keep, ~keep & real)]
    by_keep = _once_each(predict, torch.cat([*sides, real[None], torch.zeros_like(real[None])]))
    by_side = by_keep[:-2].view(len(orders), 2, len(candidates), -1)
    return [SizeProbabilities(kept, left, by_keep[-2], by_keep[-1]) for kept, left in by_side]


def _once_each(predict: Callable[[Tensor], Tensor], keeps: Tensor) -> Tensor:
    """(K, I): `predict` of keeps (K, S, n), on a CPU and for a single row without those that occur twice."""
    if keeps.device.type != "cpu" or keeps.shape[1] > 1:
        return predict(keeps)
    distinct, number = torch.unique(keeps, dim=0, return_inverse=True)
    return predict(distinct)[number]


def _required_probability(full: Tensor, empty: Tensor) -> Tensor:
    """(I,): probability of the target that suffices, from that in the full input and in the baseline."""
    full_odds, empty_odds = torch.logit(full, LOGIT_EPSILON), torch.logit(empty, LOGIT_EPSILON)
    restored = torch.sigmoid(empty_odds + EVIDENCE_SHARE * (full_odds - empty_odds)).clamp(max=ALWAYS_SUFFICIENT * full)
    return torch.maximum(SUFFICIENT * full, restored)
