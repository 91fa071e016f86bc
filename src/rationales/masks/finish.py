"""From a field that is right at every size to the scores that are shown: their order, and the size of the rationale.

In a long input what lies among high values comes before what stands alone, since people mark clauses where a model
needs two of their words (`shrink`, `halo`, `closing`). In a short one, or without these, every unit counts by itself. A
field has no size of its own: the rationale takes so much of that order that it suffices, and of the sizes that do the
one whose loss is least: its complement does not suffice, and it is small (Eq. 8).
"""

from __future__ import annotations

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

    `size` (I,): its share of the units, where that is known; else the model is asked.
    """
    with torch.no_grad():
        order = ordered(z, batch, settings)
        size = best_size(order, batch, target, settings) if size is None else size
        size = size.repeat_interleave(batch.views)
        group = groups(batch)[: batch.masks]
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
    given = torch.tensor(SIZES, device=batch.device, dtype=batch.dtype)[:, None]
    return torch.maximum(given, (1 / length(batch)).clamp(max=LEAST))


def best_size(order: Tensor, batch: Batch, target: Tensor, settings: MaskSettings) -> Tensor:
    """(I,): the share of the units, best first, whose rationale suffices and has the least loss (Eq. 8).

    Where every unit counts by itself a complement that has lost the target is empty enough: weak evidence is
    everywhere, and to take it all would hide the word that decides. Clauses may take what lies around.
    To suffice is to give the target `SUFFICIENT` of its probability in the whole input, and `EVIDENCE` of its log-odds
    or `ENOUGH`; where no size does, it is the size that gives most.
    """
    tried = sizes(batch)
    q, _ = edge(order, batch, tried.repeat_interleave(batch.views, 1), SHARP)
    alone = (order[batch.rows.mask] > q[:, groups(batch), None]) & batch.rows.real
    rest = ~alone & batch.rows.real
    keeps = torch.cat([alone, rest, batch.rows.real[None], torch.zeros_like(alone[:1])]).to(batch.dtype)
    said = batch.predict(keeps).gather(-1, target.expand(len(keeps), -1)[..., None]).squeeze(-1)
    kept, left, full, empty = said[: len(SIZES)], said[len(SIZES) : -2], said[-2], said[-1]
    ended = torch.maximum(squeeze(left), settings.floor * short(batch) * squeeze(empty))
    ended = torch.maximum(ended, GONE * (1 - shaped(batch, settings)) * squeeze(full))
    loss = settings.sufficiency * sufficiency(squeeze(kept))
    loss = loss + settings.complement * complement(ended, settings.complement_form)
    loss = loss + settings.sparsity * tried.square()
    enough = kept >= _wanted(full, empty)
    loss = torch.where(enough, loss, torch.inf)
    small = (loss <= loss.amin(0) + SLACK).to(torch.uint8).argmax(0)  # the first, and smallest
    best = torch.where(enough.any(0), small, kept.argmax(0))
    return tried.gather(0, best[None])[0]


def _wanted(full: Tensor, empty: Tensor) -> Tensor:
    """(I,): the probability that a rationale has to give, from what all and what nothing of the input gives."""
    odds, least = torch.logit(full, CERTAIN), torch.logit(empty, CERTAIN)
    restored = torch.sigmoid(least + EVIDENCE * (odds - least)).clamp(max=ENOUGH * full)
    return torch.maximum(SUFFICIENT * full, restored)
