"""The size of a rationale: the one of lowest loss (Eq. 8) among those that suffice, by the model's probabilities.

On a CPU every row takes its time, so that the model is asked about as few selections as the choice needs. Whatever is
left out could not have changed it: a rationale that does not suffice needs no complement; a size whose loss is too high
whatever its complement has needs none either; and if no size of words has a lower loss than the spans, the other sizes
of words are of no interest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

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
from rationales.models.batch.queries import outputs_of_rows

# Shares of the units that a rationale may have; at least one unit or `MIN_SIZE`, whichever is smaller.
SIZES = (0.01, 0.02, 0.03, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7, 0.8)
MIN_SIZE = 0.05
# On a grid a hard edge may itself disturb a model, so that half of an image suffices where three quarters do not:
# larger sizes are candidates, too.
GRID_SIZES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97)
SUFFICIENT, ALWAYS_SUFFICIENT = 0.9, 0.99  # of the target's probability in the full input: necessary, and always enough
EVIDENCE_SHARE = 0.8  # of the log-odds between baseline and full input, so that a second cause is not left out
LARGEST_SHARE = 0.85  # of a text's units; a larger selection is nearly the text itself
MIN_CAPPED_UNITS = 10  # in shorter texts every word may be needed
LOST_TARGET_SHARE = 0.5  # of the target's probability in the full input: a complement below has lost the target
LOGIT_EPSILON = 1e-6  # of torch.logit
CUT_SOFTNESS = 0.1  # softness of the edge at which a rationale is cut, in standard deviations
GRID_KEEPS_AT_ONCE = {"cuda": 2**28}  # elements of the keeps of images at once, by device (1 GiB); elsewhere one size
SUFFICIENT_COST = 2**10  # rows x tokens of a pass; more of them do not make it faster
MIN_COST = 2**11  # rows x tokens of all sizes of one order; below, one pass of everything is faster than several
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
    by_loss: bool = False,
) -> SizeChoice:
    """Size of the rationale of lowest loss (Eq. 8) among those that suffice; units enter in descending `order`.

    A rationale suffices if the target has `SUFFICIENT` of its probability in the full input, and `EVIDENCE_SHARE` of
    its log-odds or `ALWAYS_SUFFICIENT` of its probability; in texts where no size has either of the latter, the former
    is enough. Nearly all of a text (`LARGEST_SHARE`) restores everything and explains nothing: it never suffices. A
    size whose complement has the full probability contradicts the rationale: selected only if no other suffices.
    Where none suffices, as in models that drift to their prior as soon as many words are replaced, all sizes are
    compared by their loss; of images it is the size of highest probability, since their hard edges disturb a model.

    Without clause shaping, a complement below `LOST_TARGET_SHARE` counts as empty: weak evidence is everywhere, and a
    rationale with all of it would hide the word that decides.

    `probabilities`: those of this order, where the model was asked before. `by_loss`: all sizes are compared by their
    loss, whether they suffice or not.
    """
    candidates = size_candidates(batch)
    if probabilities is None and batch.pixel_grid is not None and batch.device.type == "cpu":
        probabilities = grid_probabilities_in_turn(order, batch, target, settings, by_loss)
    elif probabilities is None:
        (probabilities,) = size_probabilities([order], batch, target, candidates)
    kept, left, full = probabilities.kept, probabilities.left, probabilities.full
    loss, plain_loss = size_losses(probabilities, batch, settings)
    enough = torch.ones_like(kept, dtype=torch.bool) if by_loss else sufficient_sizes(probabilities, batch, order)
    consistent = enough & (left < full)
    enough = torch.where(consistent.any(0), consistent, enough)
    if batch.pixel_grid is None:
        enough = enough | ~enough.any(0)
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


def size_losses(probabilities: SizeProbabilities, batch: Batch, settings: MaskSettings) -> tuple[Tensor, Tensor]:
    """(sizes, I) each: loss (Eq. 8) with a floor of the complement's score, as `best_size` has it, and without one.

    Both fall with the probability in the rationale, and rise with that in the complement.
    """
    kept, left, full, empty = probabilities.kept, probabilities.left, probabilities.full, probabilities.empty
    floored = torch.maximum(squeeze(left), settings.complement_floor * shortness(batch) * squeeze(empty))
    floored = torch.maximum(floored, LOST_TARGET_SHARE * (1 - clause_shaping(batch, settings)) * squeeze(full))
    loss = settings.sufficiency * sufficiency_term(squeeze(kept)) + settings.sparsity * size_candidates(batch).square()
    plain_loss = loss + settings.complement * complement_term(squeeze(left), settings.complement_form)
    return loss + settings.complement * complement_term(floored, settings.complement_form), plain_loss


def size_probabilities(
    orders: Sequence[Tensor], batch: Batch, target: Tensor, candidates: Tensor
) -> list[SizeProbabilities]:
    """Probabilities for each of these orders (M, n), in rationales of the sizes `candidates` (sizes, I)."""
    predict, real = partial(_target_probabilities, batch, target), batch.rows.real
    if batch.pixel_grid is not None:  # masks of images are large: as many sizes at a time as memory is set aside for
        at_once = max(1, GRID_KEEPS_AT_ONCE.get(batch.device.type, 0) // (2 * real.numel()))
        full, empty = predict(torch.stack([real, torch.zeros_like(real)]))
        probabilities = []
        for order in orders:
            thresholds = torch.split(size_thresholds(order, batch, candidates), at_once)
            keeps = (rationale_keeps(order, batch, chunk) for chunk in thresholds)
            pairs = [predict(torch.cat([keep, ~keep & real])).view(2, len(keep), -1) for keep in keeps]
            kept, left = torch.cat(pairs, 1)
            probabilities.append(SizeProbabilities(kept, left, full, empty))
        return probabilities
    selections = [rationale_keeps(order, batch, size_thresholds(order, batch, candidates)) for order in orders]
    sides = [side for keep in selections for side in (keep, ~keep & real)]
    by_keep = _once_each(predict, torch.cat([*sides, real[None], torch.zeros_like(real[None])]))
    by_side = by_keep[:-2].view(len(orders), 2, len(candidates), -1)
    return [SizeProbabilities(kept, left, by_keep[-2], by_keep[-1]) for kept, left in by_side]


def _target_probabilities(batch: Batch, target: Tensor, keeps: Tensor) -> Tensor:
    """(K, I): probability of the target under keeps (K, S, n)."""
    return batch.predict(keeps.to(batch.dtype)).gather(-1, target.expand(len(keeps), -1)[..., None]).squeeze(-1)


def grid_probabilities_in_turn(
    order: Tensor, batch: Batch, target: Tensor, settings: MaskSettings, by_loss: bool = False
) -> SizeProbabilities:
    """What `best_size` needs for this order (M, n) of pixels, from as few complements as the choice allows.

    One size after the other, since masks of images are large. A complement that no choice depends on has the
    probability 1.
    """
    real = batch.rows.real
    thresholds = size_thresholds(order, batch, size_candidates(batch))
    full, empty = _target_probabilities(batch, target, torch.stack([real, torch.zeros_like(real)]))

    def keep_at(size: int) -> Tensor:
        return rationale_keeps(order, batch, thresholds[size : size + 1])

    kept = torch.cat([_target_probabilities(batch, target, keep_at(size)) for size in range(len(thresholds))])
    probabilities = SizeProbabilities(kept, torch.zeros_like(kept), full, empty)
    possible = torch.ones_like(kept, dtype=torch.bool) if by_loss else sufficient_sizes(probabilities, batch, order)
    lowest_loss, _ = size_losses(probabilities, batch, settings)  # with nothing in the complement
    left, best = torch.ones_like(kept), torch.full_like(full, torch.inf)
    for size in range(len(kept)):  # from the smallest on
        due = possible[size] & (lowest_loss[size] <= best + LOSS_SLACK)
        if not due.any():
            continue
        complement = _target_probabilities(batch, target, ~keep_at(size) & real)[0]
        left[size] = torch.where(due, complement, 1.0)
        loss, _ = size_losses(replace(probabilities, left=left), batch, settings)
        consistent = due & (left[size] < full)
        best = torch.where(consistent, torch.minimum(best, loss[size]), best)
    return replace(probabilities, left=left)


def size_thresholds(order: Tensor, batch: Batch, candidates: Tensor) -> Tensor:
    """(sizes, groups): values of `order` above which units are in the rationales of these sizes (sizes, I)."""
    return edge(order, batch, candidates.repeat_interleave(batch.views, 1), CUT_SOFTNESS)[0]


def rationale_keeps(order: Tensor, batch: Batch, thresholds: Tensor) -> Tensor:
    """(sizes, S, n) bool: the units above these thresholds (sizes, groups)."""
    return (order[batch.rows.mask] > thresholds[:, row_groups(batch), None]) & batch.rows.real


def _once_each(predict: Callable[[Tensor], Tensor], keeps: Tensor) -> Tensor:
    """(K, I): `predict` of keeps (K, S, n), on a CPU and for a single row without those that occur twice."""
    if keeps.device.type != "cpu" or keeps.shape[1] > 1:
        return predict(keeps)
    distinct, number = torch.unique(keeps, dim=0, return_inverse=True)
    return predict(distinct)[number]


def sufficient_sizes(probabilities: SizeProbabilities, batch: Batch, order: Tensor) -> Tensor:
    """(sizes, I) bool: rationales of this order (M, n) that suffice.

    Where none of a text restores enough evidence, the probability alone decides. Nearly all of a text never suffices.
    """
    restored = probabilities.kept >= required_probability(probabilities.full, probabilities.empty)
    if batch.pixel_grid is not None:
        return restored
    keeps = rationale_keeps(order, batch, size_thresholds(order, batch, size_candidates(batch)))
    capped = ~nearly_all(keeps, batch)
    restored = restored & capped
    return torch.where(restored.any(0), restored, capped & (probabilities.kept >= SUFFICIENT * probabilities.full))


def nearly_all(keeps: Tensor, batch: Batch) -> Tensor:
    """(K, I) bool: selections keeps (K, S, n) of more than `LARGEST_SHARE` of a text of `MIN_CAPPED_UNITS` or more."""
    count = unit_count(batch)
    selected = (keeps * batch.rows.blend * batch.rows.real).sum(-1)  # (K, S)
    share = selected.new_zeros(len(keeps), batch.inputs).index_add(1, batch.rows.input, selected) / count
    return (count >= MIN_CAPPED_UNITS) & (share > LARGEST_SHARE)


def required_probability(full: Tensor, empty: Tensor) -> Tensor:
    """(I,): probability of the target that suffices, from that in the full input and in the baseline."""
    full_odds, empty_odds = torch.logit(full, LOGIT_EPSILON), torch.logit(empty, LOGIT_EPSILON)
    restored = torch.sigmoid(empty_odds + EVIDENCE_SHARE * (full_odds - empty_odds)).clamp(max=ALWAYS_SUFFICIENT * full)
    return torch.maximum(SUFFICIENT * full, restored)


def asks_in_turn(batch: Batch) -> bool:
    """Whether it is faster to ask the model in turn than about everything at once."""
    cost = 2 * len(size_candidates(batch)) * sum(batch.cost())
    return batch.device.type == "cpu" and batch.pixel_grid is None and cost >= MIN_COST


class SelectionProbabilities:
    """Probability of the target in selections of units; equal selections of a row go through the model once."""

    def __init__(self, batch: Batch, target: Tensor) -> None:
        self.batch, self.target = batch, target
        self.known: dict[tuple[int, bytes], float] = {}  # row and its selection -> probability

    def ask(self, keep: Tensor, needed: Tensor, otherwise: float) -> Tensor:
        """(K, I): for selections keep (K, S, n) bool, where `needed` (K, I); elsewhere `otherwise`."""
        batch = self.batch
        variant, row = torch.nonzero(needed[:, batch.rows.input], as_tuple=True)
        row_keep = keep[variant, row]
        keys = list(zip(row.tolist(), map(bytes, row_keep.numpy()), strict=True))
        unknown = {key: number for number, key in enumerate(keys) if key not in self.known}
        if unknown:
            unknown_numbers = torch.tensor(list(unknown.values()))
            values = outputs_of_rows(batch, self.target, row[unknown_numbers], row_keep[unknown_numbers])
            self.known.update(zip(unknown, values.tolist(), strict=True))
        by_row = torch.zeros(keep.shape[:2], dtype=batch.dtype)
        by_row[variant, row] = torch.tensor([self.known[key] for key in keys], dtype=batch.dtype)
        pooled = batch.pool(by_row[..., None]).mean(-2).squeeze(-1)
        return torch.where(needed, pooled, otherwise)


def needed_probabilities(
    order: Tensor, settings: MaskSettings, selections: SelectionProbabilities, inputs: Tensor, by_loss: bool = False
) -> SizeProbabilities:
    """What `best_size` needs for this order (M, n) in the inputs `inputs` (I,) bool.

    Elsewhere a rationale has the probability 0 and a complement 1, so that it is not selected.
    """
    batch = selections.batch
    real = batch.rows.real
    keep = rationale_keeps(order, batch, size_thresholds(order, batch, size_candidates(batch)))
    full, empty = selections.ask(torch.stack([real, torch.zeros_like(real)]), inputs.expand(2, -1), 0.0)
    kept = selections.ask(keep, inputs.expand(len(keep), -1), 0.0)
    probabilities = SizeProbabilities(kept, torch.zeros_like(kept), full, empty)
    enough = sufficient_sizes(probabilities, batch, order)
    possible = (enough | ~enough.any(0) | by_loss) & inputs  # where none suffices, all are compared
    lowest_loss, _ = size_losses(probabilities, batch, settings)  # with nothing in the complement
    left, best = torch.ones_like(kept), torch.full_like(full, torch.inf)
    at_once = max(1, SUFFICIENT_COST // sum(batch.cost()))
    for begin in range(0, len(keep), at_once):  # from the smallest size on
        group = slice(begin, begin + at_once)
        due = possible[group] & (lowest_loss[group] <= best + LOSS_SLACK)
        left[group] = selections.ask(~keep[group] & real, due, 1.0)
        loss, _ = size_losses(replace(probabilities, left=left), batch, settings)
        consistent = due & (left[group] < full)
        best = torch.minimum(best, torch.where(consistent, loss[group], torch.inf).amin(0))
    return replace(probabilities, left=left)


def may_have_lower_loss(
    order: Tensor, settings: MaskSettings, selections: SelectionProbabilities, penalty: Tensor, limit: Tensor
) -> Tensor:
    """(I,) bool: whether a size of this order (M, n), with its `penalty` (sizes, I), has at most the loss `limit` (I,).

    The model is asked only about sizes whose penalty, and then whose rationale, leaves this possible.
    """
    batch = selections.batch
    keep = rationale_keeps(order, batch, size_thresholds(order, batch, size_candidates(batch)))
    all_inputs = torch.ones((2, batch.inputs), dtype=torch.bool)
    real = batch.rows.real
    full, empty = selections.ask(torch.stack([real, torch.zeros_like(real)]), all_inputs, 0.0)
    probabilities = SizeProbabilities(torch.ones_like(penalty), torch.zeros_like(penalty), full, empty)

    def within_limit() -> Tensor:
        _, plain_loss = size_losses(probabilities, batch, settings)
        return plain_loss + penalty <= limit

    due = within_limit()
    probabilities = replace(probabilities, kept=selections.ask(keep, due, 1.0))
    due &= within_limit()
    probabilities = replace(probabilities, left=selections.ask(~keep & real, due, 0.0))
    return (due & within_limit()).any(0)
