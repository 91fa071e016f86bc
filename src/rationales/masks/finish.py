"""From a field that is right at every size to the scores that are shown: their order, and the size of the rationale.

In a long input what lies among high values comes before what stands alone, since people mark clauses where a model
needs two of their words (`shrink`, `halo`, `closing`). In a short one, or without these, every unit counts by itself. A
field has no size of its own: the rationale takes so much of that order that it suffices, and of the sizes that do the
one whose loss is least: its complement does not suffice, and it is small (Eq. 8).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import max_pool1d, pad

from rationales.masks.field import smooth
from rationales.masks.levels import edge, groups, scaled
from rationales.masks.objective import complement, length, mask_rows, short, squeeze, sufficiency
from rationales.masks.settings import MaskSettings
from rationales.models.batch import Batch

# What a rationale may take of its input: in a long one down to a single unit, in a short one never less than `LEAST`.
SIZES = (0.01, 0.02, 0.03, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7, 0.8)
LEAST = 0.05
# On a grid a hard edge may itself disturb a model, so that half of a picture suffices where three quarters do not:
# larger sizes are tried as well.
GRID_SIZES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97)
SUFFICIENT, ENOUGH = 0.9, 0.99  # of the probability that the whole input gives the target: at least, and in any case
EVIDENCE = 0.8  # of the way from nothing to the whole input, in log-odds: a second cause is not left out
GONE = 0.5  # of that probability: a complement with less has lost the target; how much less matters for clauses alone
CERTAIN = 1e-6  # probabilities closer to 0 or 1 are taken to be this close
EDGE, BRIEF = 0.3, 0.15  # softness of the scores' edge, in standard deviations: where clauses are shaped, else
STEEP, ROOM = 10.0, 4.0  # beyond the first, in that softness, scores near 0 and 1 go slower, and stay apart
SHARP = 0.1  # and of the edge where a rationale is cut
OUTSHONE = 0.98  # what a value below the threshold loses: of two that are surrounded alike the higher is still first
FILLED = 0.99  # of the way to the lower side: inside a gap the order stays as it is
SLACK = 0.1  # of two sizes whose losses differ by less, the smaller one


def finished(z: Tensor, batch: Batch, target: Tensor, settings: MaskSettings, size: Tensor | None = None) -> Tensor:
    """(M, n) -> (M, n): scores in the order of the field and its halo; above 0.5 is the rationale.

    `size` (I,): its share of the units, where that is known; else the model is asked. The field of an image keeps its
    scale and is only shifted, so that 0.5 is the edge of the rationale.
    """
    with torch.no_grad():
        order = ordered(z, batch, settings)
        size = best_size(order, batch, target, settings).size if size is None else size
        size = size.repeat_interleave(batch.views)
        group = groups(batch)[: batch.masks]
        if batch.grid is not None:
            q, _ = edge(z, batch, size, SHARP)
            return torch.sigmoid(_apart(z - q[group][:, None]))
        q, deviation = (value[group][:, None] for value in edge(order, batch, size, SHARP))
        soft = BRIEF + (EDGE - BRIEF) * shaped(batch, settings)[mask_rows(batch.rows.input, batch)][:, None]
        return torch.sigmoid(_apart((order - q) / (soft * deviation)))


def shaped(batch: Batch, settings: MaskSettings) -> Tensor:
    """(I,): how far an input's scores follow clauses; 0 where every unit counts by itself."""
    long = 1 - short(batch)
    return long if settings.halo or settings.shrink or settings.closing else torch.zeros_like(long)


def _apart(steps: Tensor) -> Tensor:
    """The same up to `STEEP`; from there to infinity there are `ROOM` steps, so that no two sigmoids become one."""
    size = steps.abs()
    beyond = (size - STEEP).clamp(min=0)
    return steps.sign() * (size.clamp(max=STEEP) + ROOM * beyond / (beyond + ROOM))


def ordered(z: Tensor, batch: Batch, settings: MaskSettings) -> Tensor:
    """(M, n): the field in standard deviations; in long inputs as people mark, in clauses.

    There a unit's own value counts where it stands out (`shrink`, a soft threshold), beside it the mean of what is high
    around (`halo`), and gaps are filled (`closing`).
    """
    own = scaled(z, batch)
    long = (1 - short(batch))[mask_rows(batch.rows.input, batch)][:, None]
    order = own - OUTSHONE * long * own.clamp(-settings.shrink, settings.shrink)
    if settings.halo:
        around = smooth(own.clamp(min=0)[batch.rows.mask], batch, settings.halo_sigma)[: batch.masks]
        order = order + settings.halo * long * around
    if settings.closing and batch.grid is None:
        gaps = closed(order, mask_rows(batch.rows.real, batch), settings.closing) - order
        order = order + FILLED * long * gaps
    return order


def closed(values: Tensor, real: Tensor, size: int) -> Tensor:
    """(M, n): in gaps of fewer than `size` units the lower one of the sides, elsewhere as it is.

    Grey-scale closing (Serra 1982): of all windows of `size` units that hold a unit, the least of their highest values.
    """
    held = pad(torch.where(real, values, -torch.inf), (size - 1, size - 1), value=-torch.inf)  # outside is no side
    highest = max_pool1d(held[:, None], size, 1)
    return torch.where(real, -max_pool1d(-highest, size, 1)[:, 0], values)


def own_size(keep: Tensor, batch: Batch) -> Tensor:
    """(I,): the share of its units that an input's mask (M, n) keeps, within `sizes`."""
    kept = (keep > 0.5)[batch.rows.mask] * batch.rows.blend * batch.rows.real
    total = torch.zeros(batch.inputs, device=keep.device, dtype=batch.dtype)
    total = total.index_add(0, batch.rows.input, kept.sum(1))
    given = sizes(batch)
    return torch.minimum(torch.maximum(total / length(batch), given[0]), given[-1])


def sizes(batch: Batch) -> Tensor:
    """(sizes, I), rising: the shares of its units that an input's rationale may take, some of them the same."""
    shares = SIZES if batch.grid is None else GRID_SIZES
    candidates = torch.tensor(shares, device=batch.device, dtype=batch.dtype)[:, None]
    return torch.maximum(candidates, (1 / length(batch)).clamp(max=LEAST))


@dataclass(frozen=True, eq=False)
class SizeChoice:
    """The size of each input's rationale, (I,) each."""

    size: Tensor  # share of the units
    sufficient: Tensor  # bool: the rationale of that size gives the target enough, and its complement less than all
    probability: Tensor  # of the target in the rationale of that size


def best_size(order: Tensor, batch: Batch, target: Tensor, settings: MaskSettings) -> SizeChoice:
    """The share of the units, best first, whose rationale suffices and has the least loss (Eq. 8).

    Where every unit counts by itself a complement that has lost the target is empty enough: weak evidence is
    everywhere, and to take it all would hide the word that decides. Clauses may take what lies around.
    To suffice is to give the target `SUFFICIENT` of its probability in the whole input, and `EVIDENCE` of its log-odds
    or `ENOUGH`. A complement that gives the target as much as the whole input does contradicts the rationale, so such a
    size is taken only where no other suffices. Where no size suffices, it is the size that gives most.
    """
    candidates = sizes(batch)
    kept, left, full, empty = _probabilities(order, batch, target, candidates)
    ended = torch.maximum(squeeze(left), settings.floor * short(batch) * squeeze(empty))
    ended = torch.maximum(ended, GONE * (1 - shaped(batch, settings)) * squeeze(full))
    loss = settings.sufficiency * sufficiency(squeeze(kept))
    loss = loss + settings.complement * complement(ended, settings.complement_form)
    loss = loss + settings.sparsity * candidates.square()
    enough = kept >= _wanted(full, empty)
    consistent = enough & (left < full)
    enough = torch.where(consistent.any(0), consistent, enough)
    loss = torch.where(enough, loss, torch.inf)
    small = (loss <= loss.amin(0) + SLACK).to(torch.uint8).argmax(0)  # the first, and smallest
    best = torch.where(enough.any(0), small, kept.argmax(0))[None]
    return SizeChoice(candidates.gather(0, best)[0], consistent.any(0), kept.gather(0, best)[0])


def _probabilities(
    order: Tensor, batch: Batch, target: Tensor, candidates: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(sizes, I) twice, (I,) twice: the target's probability in rationales of these sizes (sizes, I), in their
    complements, in the whole input and in the baseline."""
    q, _ = edge(order, batch, candidates.repeat_interleave(batch.views, 1), SHARP)

    def predict(keeps: Tensor) -> Tensor:
        return batch.predict(keeps.to(batch.dtype)).gather(-1, target.expand(len(keeps), -1)[..., None]).squeeze(-1)

    def alone(thresholds: Tensor) -> Tensor:
        return (order[batch.rows.mask] > thresholds[:, groups(batch), None]) & batch.rows.real

    real = batch.rows.real
    if batch.grid is not None:  # masks of pictures are large: one size after the other
        pairs = [predict(torch.cat([keep, ~keep & real])) for keep in (alone(threshold[None]) for threshold in q)]
        kept, left = torch.stack(pairs).unbind(1)
        full, empty = predict(torch.stack([real, torch.zeros_like(real)]))
        return kept, left, full, empty
    keep = alone(q)
    probabilities = predict(torch.cat([keep, ~keep & real, real[None], torch.zeros_like(keep[:1])]))
    return probabilities[: len(q)], probabilities[len(q) : -2], probabilities[-2], probabilities[-1]


def _wanted(full: Tensor, empty: Tensor) -> Tensor:
    """(I,): the probability that a rationale has to give, from what all and what nothing of the input gives."""
    odds, least = torch.logit(full, CERTAIN), torch.logit(empty, CERTAIN)
    restored = torch.sigmoid(least + EVIDENCE * (odds - least)).clamp(max=ENOUGH * full)
    return torch.maximum(SUFFICIENT * full, restored)
