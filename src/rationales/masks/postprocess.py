"""From an optimised field to scores: the order of the units, and the size of the rationale.

In a long input, units among high values rank above units that stand alone, since people mark clauses where a model
needs two of their words (`shrink`, `halo`, `closing`). In a short input, or without these options, every unit ranks by
its value. The size of the rationale is the one of lowest loss (Eq. 8) among those that suffice.

With `shaping=spans` the two are kept apart: scores are those of single words, and the rationale consists of single
words or of spans, whichever has the lower loss with a penalty for each span (`words_and_spans`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import max_pool1d, pad, softplus

from rationales.masks.field import smooth
from rationales.masks.objective import (
    complement_term,
    edge,
    mask_rows,
    row_groups,
    scaled,
    shortness,
    squeeze,
    sufficiency_term,
    unit_count,
)
from rationales.masks.settings import DEFAULT, MaskSettings
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
CLAUSE_EDGE, UNIT_EDGE = 0.3, 0.15  # softness of the scores, in standard deviations: with clause shaping, and without
LINEAR_RANGE, COMPRESSED_RANGE = 10.0, 4.0  # see `_compressed`
CUT_SOFTNESS = 0.1  # softness of the edge at which a rationale is cut, in standard deviations
SHRINK_STRENGTH = 0.98  # of values below the threshold; below 1, so that their order is kept
CLOSING_STRENGTH = 0.99  # of the step to the lower side; below 1, so that the order inside a gap is kept
SCORE_POWER = 2.0  # of a word's positive value relative to the highest, in scores word by word
SOFTPLUS_SLOPE = 3.0  # of the function that makes values positive before the power; negative values keep their order
SHORT_SPAN_SIGMA = 0.6  # of spans in short inputs, in units: a neighbour counts a sixteenth
SPAN_PENALTY = 0.2  # added to the loss for each span of a rationale, when words are compared with spans
LEAST_RANGE = 1e-9  # of values on one side of the edge
GRID_KEEPS_AT_ONCE = {"cuda": 2**28}  # elements of the keeps of images at once, by device (1 GiB); elsewhere one size
LOSS_SLACK = 0.1  # of two sizes whose losses differ by less, the smaller one is selected


def final_scores(z: Tensor, batch: Batch, target: Tensor, settings: MaskSettings, size: Tensor | None = None) -> Tensor:
    """(M, n) fields -> (M, n) scores in [0, 1]; units above 0.5 are the rationale.

    `size` (I,): the rationale's share of the units; by default `best_size`. The field of an image keeps
    its scale and is only shifted, so that 0.5 is the edge of the rationale.
    """
    with torch.no_grad():
        order = unit_order(z, batch, settings)
        size = best_size(order, batch, target, settings).size if size is None else size
        size = size.repeat_interleave(batch.views)
        group = row_groups(batch)[: batch.masks]
        if batch.pixel_grid is not None:
            q, _ = edge(z, batch, size, CUT_SOFTNESS)
            return torch.sigmoid(_compressed(z - q[group][:, None]))
        q, deviation = (value[group][:, None] for value in edge(order, batch, size, CUT_SOFTNESS))
        shaping = clause_shaping(batch, settings)[mask_rows(batch.rows.input, batch)][:, None]
        soft = UNIT_EDGE + (CLAUSE_EDGE - UNIT_EDGE) * shaping
        return torch.sigmoid(_compressed((order - q) / (soft * deviation)))


def words_and_spans(
    z: Tensor, anchor: Tensor, batch: Batch, target: Tensor, settings: MaskSettings
) -> tuple[Tensor, Tensor]:
    """(M, n) fields and warm-up gradients -> (M, n) scores of single words, and of spans; both in [0, 1].

    Span scores above 0.5 are the rationale. For each input they are those of its single words, or of its clauses: the
    rationale with the lower loss, where each span counts `SPAN_PENALTY`.
    """
    with torch.no_grad():
        by_word = replace(settings, halo=0.0, shrink=0.0, closing=0, anchor=0.0)
        standardized = scaled(z, batch)
        words = _Candidate.of(scaled(_positive(standardized), batch), batch, target, by_word)
        scores = word_scores(standardized, batch)
        if not (settings.halo or settings.shrink or settings.closing):
            return scores, words.scores
        spans = _Candidate.of(span_order(z, anchor, batch, settings), batch, target, settings)
        use_words = (words.loss <= spans.loss)[mask_rows(batch.rows.input, batch)][:, None]
        return scores, torch.where(use_words, words.scores, spans.scores)


@dataclass(frozen=True, eq=False)
class _Candidate:
    """The rationale that an order of the units leads to."""

    order: Tensor  # (M, n)
    scores: Tensor  # (M, n) above 0.5 in the rationale
    loss: Tensor  # (I,) with a penalty for each span

    @classmethod
    def of(cls, order: Tensor, batch: Batch, target: Tensor, settings: MaskSettings) -> _Candidate:
        choice = best_size(order, batch, target, settings)
        group = row_groups(batch)[: batch.masks]
        q, deviation = (
            value[group][:, None]
            for value in edge(order, batch, choice.size.repeat_interleave(batch.views), CUT_SOFTNESS)
        )
        loss = choice.loss + SPAN_PENALTY * span_count(order > q, batch)
        shaping = clause_shaping(batch, settings)[mask_rows(batch.rows.input, batch)][:, None]
        steep = torch.sigmoid(_compressed((order - q) / (CLAUSE_EDGE * deviation)))
        return cls(order, shaping * steep + (1 - shaping) * _linear_scores(order, q, batch), loss)


def _linear_scores(order: Tensor, q: Tensor, batch: Batch) -> Tensor:
    """(M, n) in [0, 1]: linear from 0 at an input's lowest value to 0.5 at `q` (M, 1), and on to 1 at its highest.

    Unlike a steep edge, it keeps the distances between values, which count where several units form one word.
    """
    real, mask_input = mask_rows(batch.rows.real, batch), mask_rows(batch.rows.input, batch)

    def extreme(fill: float, reduce: str) -> Tensor:
        rows = torch.where(real, order, fill)
        by_row = rows.amin(1) if reduce == "amin" else rows.amax(1)
        start = torch.full((batch.inputs,), fill, device=order.device, dtype=order.dtype)
        return start.scatter_reduce(0, mask_input, by_row, reduce)[mask_input][:, None]

    lowest, highest = extreme(torch.inf, "amin"), extreme(-torch.inf, "amax")
    below = 0.5 * ((order - lowest) / (q - lowest).clamp(min=LEAST_RANGE)).clamp(0, 1)
    above = 0.5 + 0.5 * ((order - q) / (highest - q).clamp(min=LEAST_RANGE)).clamp(0, 1)
    return torch.where(order > q, above, below)


def _positive(order: Tensor) -> Tensor:
    """Values above 0, nearly equal to positive values of `order`; negative ones keep their order."""
    return softplus(order, beta=SOFTPLUS_SLOPE, threshold=1e6)


def word_scores(order: Tensor, batch: Batch) -> Tensor:
    """(M, n) standardised values -> (M, n) scores in (0, 1]: positive values relative to the highest, squared.

    Squares, because evidence adds up: many words of little value would else outweigh the few that decide.
    """
    positive = _positive(order)
    real, mask_input = mask_rows(batch.rows.real, batch), mask_rows(batch.rows.input, batch)
    largest = torch.zeros(batch.inputs, device=order.device, dtype=order.dtype)
    largest = largest.scatter_reduce(0, mask_input, torch.where(real, positive, 0.0).amax(1), "amax")
    return (positive / largest.clamp(min=1e-12)[mask_input][:, None]) ** SCORE_POWER


def span_order(z: Tensor, anchor: Tensor, batch: Batch, settings: MaskSettings) -> Tensor:
    """(M, n): values by which units are ranked as parts of spans.

    In a short input the scores of words are smoothed a little (`SHORT_SPAN_SIGMA`). In a long one the field is smoothed
    over more neighbouring units, the warm-up gradient is added, smoothed over still more, and clauses are shaped
    (`unit_order`).
    """
    longness = (1 - shortness(batch))[mask_rows(batch.rows.input, batch)][:, None]
    standardized = scaled(z, batch)

    def smoothed(values: Tensor, sigma: float) -> Tensor:
        return scaled(smooth(values[batch.rows.mask], batch, sigma)[: batch.masks], batch)

    spread = smoothed(standardized, settings.span_sigma) + settings.anchor * smoothed(anchor, settings.anchor_sigma)
    word_values = smooth(word_scores(standardized, batch)[batch.rows.mask], batch, SHORT_SPAN_SIGMA)[: batch.masks]
    short = scaled(word_values.sqrt(), batch)  # the root, so that the highest value does not outweigh all others
    return unit_order(short + longness * (spread - short), batch, settings)


def clause_scores(scores: Tensor, batch: Batch) -> Tensor:
    """(S, n) scores of any method -> (S, n): shaped by clauses as MaRC's spans are; not in short inputs."""
    with torch.no_grad():
        mean = torch.zeros_like(scores[: batch.masks]).index_add(0, batch.rows.mask, scores) / batch.views
        return unit_order(mean, batch, DEFAULT)[batch.rows.mask]


def span_count(selected: Tensor, batch: Batch) -> Tensor:
    """(M, n) booleans -> (I,): number of connected runs of selected units of an input.

    Where segments overlap, a unit counts as selected if the segments that select it have more than half of its weight.
    """
    real, unit = mask_rows(batch.rows.real, batch), mask_rows(batch.rows.unit, batch)
    width = int(unit.max()) + 1
    index = mask_rows(batch.rows.input, batch)[:, None] * width + unit
    weight = selected * mask_rows(batch.rows.blend, batch) * batch.views
    total = torch.zeros(batch.inputs * width, device=selected.device, dtype=weight.dtype)
    in_rationale = total.index_add(0, index[real], weight[real]).view(batch.inputs, width) > 0.5
    first = in_rationale.clone()
    first[:, 1:] &= ~in_rationale[:, :-1]
    return first.sum(1).to(batch.dtype)


def clause_shaping(batch: Batch, settings: MaskSettings) -> Tensor:
    """(I,): weight of the shaping by clauses in [0, 1]; 0 where every unit ranks by its value."""
    longness = 1 - shortness(batch)
    return longness if settings.halo or settings.shrink or settings.closing else torch.zeros_like(longness)


def _compressed(values: Tensor) -> Tensor:
    """Compress values beyond ±LINEAR_RANGE to COMPRESSED_RANGE more, so that their sigmoids stay distinct."""
    magnitude = values.abs()
    beyond = (magnitude - LINEAR_RANGE).clamp(min=0)
    return values.sign() * (magnitude.clamp(max=LINEAR_RANGE) + COMPRESSED_RANGE * beyond / (beyond + COMPRESSED_RANGE))


def unit_order(z: Tensor, batch: Batch, settings: MaskSettings) -> Tensor:
    """(M, n): values by which units are ranked, in standard deviations of the field.

    In long inputs a unit's value is soft-thresholded (`shrink`), the mean positive value around it is added (`halo`),
    and gaps are filled (`closing`), as people mark clauses.
    """
    standardized = scaled(z, batch)
    longness = (1 - shortness(batch))[mask_rows(batch.rows.input, batch)][:, None]
    order = standardized - SHRINK_STRENGTH * longness * standardized.clamp(-settings.shrink, settings.shrink)
    if settings.halo:
        halo = smooth(standardized.clamp(min=0)[batch.rows.mask], batch, settings.halo_sigma)[: batch.masks]
        order = order + settings.halo * longness * halo
    if settings.closing and batch.pixel_grid is None:
        filling = grey_closing(order, mask_rows(batch.rows.real, batch), settings.closing) - order
        order = order + CLOSING_STRENGTH * longness * filling
    return order


def grey_closing(values: Tensor, real: Tensor, size: int) -> Tensor:
    """(M, n): gaps of fewer than `size` units raised to the lower one of their sides.

    Grey-scale closing (Serra 1982): the minimum, over all windows of `size` units around a unit, of their maximum.
    """
    padded = pad(torch.where(real, values, -torch.inf), (size - 1, size - 1), value=-torch.inf)  # ends are not sides
    highest = max_pool1d(padded[:, None], size, 1)
    return torch.where(real, -max_pool1d(-highest, size, 1)[:, 0], values)


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


def best_size(order: Tensor, batch: Batch, target: Tensor, settings: MaskSettings) -> SizeChoice:
    """Size of the rationale of lowest loss (Eq. 8) among those that suffice; units enter in descending `order`.

    A rationale suffices if the target has `SUFFICIENT` of its probability in the full input, and `EVIDENCE_SHARE` of
    its log-odds or `ALWAYS_SUFFICIENT` of its probability. A size whose complement has the full probability contradicts
    the rationale and is selected only where no other suffices. Without any, it is the size of highest probability.

    Without clause shaping, a complement below `LOST_TARGET_SHARE` counts as empty: weak evidence is everywhere, and a
    rationale with all of it would hide the word that decides.
    """
    candidates = size_candidates(batch)
    kept, left, full, empty = _probabilities(order, batch, target, candidates)
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


def _probabilities(
    order: Tensor, batch: Batch, target: Tensor, candidates: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(sizes, I) twice, (I,) twice: probability of the target in rationales of these sizes (sizes, I), in their
    complements, in the full input and in the baseline."""
    q, _ = edge(order, batch, candidates.repeat_interleave(batch.views, 1), CUT_SOFTNESS)

    def predict(keeps: Tensor) -> Tensor:
        return batch.predict(keeps.to(batch.dtype)).gather(-1, target.expand(len(keeps), -1)[..., None]).squeeze(-1)

    def rationale_keep(thresholds: Tensor) -> Tensor:
        return (order[batch.rows.mask] > thresholds[:, row_groups(batch), None]) & batch.rows.real

    real = batch.rows.real
    if batch.pixel_grid is not None:  # masks of images are large: as many sizes at a time as memory is set aside for
        at_once = max(1, GRID_KEEPS_AT_ONCE.get(batch.device.type, 0) // (2 * real.numel()))
        keeps = (rationale_keep(thresholds) for thresholds in torch.split(q, at_once))
        pairs = [predict(torch.cat([keep, ~keep & real])).view(2, len(keep), -1) for keep in keeps]
        kept, left = torch.cat(pairs, 1)
        full, empty = predict(torch.stack([real, torch.zeros_like(real)]))
        return kept, left, full, empty
    keep = rationale_keep(q)
    probabilities = predict(torch.cat([keep, ~keep & real, real[None], torch.zeros_like(keep[:1])]))
    return probabilities[: len(q)], probabilities[len(q) : -2], probabilities[-2], probabilities[-1]


def _required_probability(full: Tensor, empty: Tensor) -> Tensor:
    """(I,): probability of the target that suffices, from that in the full input and in the baseline."""
    full_odds, empty_odds = torch.logit(full, LOGIT_EPSILON), torch.logit(empty, LOGIT_EPSILON)
    restored = torch.sigmoid(empty_odds + EVIDENCE_SHARE * (full_odds - empty_odds)).clamp(max=ALWAYS_SUFFICIENT * full)
    return torch.maximum(SUFFICIENT * full, restored)
