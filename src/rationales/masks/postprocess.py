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
    edge,
    mask_rows,
    row_groups,
    scaled,
    shortness,
)
from rationales.masks.settings import DEFAULT, MaskSettings
from rationales.masks.sizes import (
    CUT_SOFTNESS,
    SelectionProbabilities,
    SizeProbabilities,
    asks_in_turn,
    best_size,
    clause_shaping,
    may_have_lower_loss,
    needed_probabilities,
    size_candidates,
    size_probabilities,
    size_thresholds,
)
from rationales.masks.windows import single_rows, window_order
from rationales.models.batch import Batch

CLAUSE_EDGE, UNIT_EDGE = 0.3, 0.15  # softness of the scores, in standard deviations: with clause shaping, and without
LINEAR_RANGE, COMPRESSED_RANGE = 10.0, 4.0  # see `compressed`
SHRINK_STRENGTH = 0.98  # of values below the threshold; below 1, so that their order is kept
CLOSING_STRENGTH = 0.99  # of the step to the lower side; below 1, so that the order inside a gap is kept
SCORE_POWER = 2.0  # of a word's positive value relative to the highest, in scores word by word
SOFTPLUS_SLOPE = 3.0  # of the function that makes values positive before the power; negative values keep their order
SHORT_SPAN_SIGMA = 0.6  # of spans in short inputs, in units: a neighbour counts a sixteenth
SPAN_PENALTY = 0.2  # added to the loss for each span of a rationale, when words are compared with spans
LEAST_RANGE = 1e-9  # of values on one side of the edge


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
            return torch.sigmoid(compressed(z - q[group][:, None]))
        q, deviation = (value[group][:, None] for value in edge(order, batch, size, CUT_SOFTNESS))
        shaping = clause_shaping(batch, settings)[mask_rows(batch.rows.input, batch)][:, None]
        soft = UNIT_EDGE + (CLAUSE_EDGE - UNIT_EDGE) * shaping
        return torch.sigmoid(compressed((order - q) / (soft * deviation)))


def words_and_spans(
    z: Tensor, anchor: Tensor, batch: Batch, target: Tensor, settings: MaskSettings
) -> tuple[Tensor, Tensor]:
    """(M, n) fields and warm-up gradients -> (M, n) scores of single words, and of spans; both in [0, 1].

    Span scores above 0.5 are the rationale. For each input they are those of its single words, or of its clauses: the
    rationale with the lower loss, where each span counts `SPAN_PENALTY`. Where that one does not suffice, it is the
    connected span of lowest loss, if that is lower.
    """
    with torch.no_grad():
        by_word = replace(settings, halo=0.0, shrink=0.0, closing=0, anchor=0.0)
        standardized = scaled(z, batch)
        word_order = scaled(positive_part(standardized), batch)
        scores = word_scores(standardized, batch)
        if not (settings.halo or settings.shrink or settings.closing):
            return scores, RationaleCandidate.of(word_order, batch, target, by_word).scores
        order_of_spans = span_order(z, anchor, batch, settings)
        selections = SelectionProbabilities(batch, target) if asks_in_turn(batch) else None
        if selections is not None:
            words, spans = _candidates_in_turn((word_order, by_word), (order_of_spans, settings), target, selections)
        else:
            by_order = size_probabilities([word_order, order_of_spans], batch, target, size_candidates(batch))
            words = RationaleCandidate.of(word_order, batch, target, by_word, by_order[0])
            spans = RationaleCandidate.of(order_of_spans, batch, target, settings, by_order[1])
        best = spans.replaced(words, words.loss <= spans.loss, batch)
        if not bool(best.sufficient.all()):
            inputs = ~best.sufficient & single_rows(batch)
            window = _connected_span(scores, batch, target, by_word, selections, inputs)
            best = best.replaced(window, inputs & (window.loss < best.loss), batch)
        return scores, best.scores


@dataclass(frozen=True, eq=False)
class RationaleCandidate:
    """The rationale that an order of the units leads to."""

    scores: Tensor  # (M, n) above 0.5 in the rationale
    loss: Tensor  # (I,) with a penalty for each span
    sufficient: Tensor  # (I,) bool, see `best_size`

    @classmethod
    def of(
        cls,
        order: Tensor,
        batch: Batch,
        target: Tensor,
        settings: MaskSettings,
        probabilities: SizeProbabilities | None = None,
        by_loss: bool = False,
    ) -> RationaleCandidate:
        choice = best_size(order, batch, target, settings, probabilities, by_loss)
        edges, _ = edge(order, batch, choice.size.repeat_interleave(batch.views), CUT_SOFTNESS)
        q = edges[row_groups(batch)[: batch.masks]][:, None]
        loss = choice.loss + SPAN_PENALTY * span_count(order > q, batch)
        return cls(linear_scores(order, q, batch), loss, choice.sufficient)

    def replaced(self, other: RationaleCandidate, where: Tensor, batch: Batch) -> RationaleCandidate:
        """This candidate with `other` in its place in the inputs `where` (I,) bool."""
        by_mask = where[mask_rows(batch.rows.input, batch)][:, None]
        return RationaleCandidate(
            torch.where(by_mask, other.scores, self.scores),
            torch.where(where, other.loss, self.loss),
            torch.where(where, other.sufficient, self.sufficient),
        )


def _connected_span(
    scores: Tensor,
    batch: Batch,
    target: Tensor,
    settings: MaskSettings,
    selections: SelectionProbabilities | None,
    inputs: Tensor,
) -> RationaleCandidate:
    """The rationale that is one span around the word of highest score (M, n), for the inputs `inputs` (I,) bool."""
    order = window_order(scores.sqrt(), batch)
    if selections is not None:
        probabilities = needed_probabilities(order, settings, selections, inputs, by_loss=True)
    else:
        (probabilities,) = size_probabilities([order], batch, target, size_candidates(batch))
    return RationaleCandidate.of(order, batch, target, settings, probabilities, by_loss=True)


def _candidates_in_turn(
    words: tuple[Tensor, MaskSettings],
    spans: tuple[Tensor, MaskSettings],
    target: Tensor,
    selections: SelectionProbabilities,
) -> tuple[RationaleCandidate, RationaleCandidate]:
    """The rationales of these orders (M, n); words that cannot have a lower loss than spans have an infinite one."""
    batch = selections.batch
    all_inputs = torch.ones(batch.inputs, dtype=torch.bool)
    span_probabilities = needed_probabilities(*spans, selections, all_inputs)
    span_candidate = RationaleCandidate.of(spans[0], batch, target, spans[1], span_probabilities)
    order, settings = words
    thresholds = size_thresholds(order, batch, size_candidates(batch))[:, row_groups(batch)[: batch.masks], None]
    penalty = SPAN_PENALTY * torch.stack([span_count(order > q, batch) for q in thresholds])
    possible = may_have_lower_loss(order, settings, selections, penalty, span_candidate.loss)
    word_probabilities = needed_probabilities(order, settings, selections, possible)
    word_candidate = RationaleCandidate.of(order, batch, target, settings, word_probabilities)
    word_loss = torch.where(possible, word_candidate.loss, torch.inf)
    return replace(word_candidate, loss=word_loss), span_candidate


def linear_scores(order: Tensor, q: Tensor, batch: Batch) -> Tensor:
    """(M, n) in [0, 1]: linear from 0 at an input's lowest value to 0.5 at `q` (M, 1), and on to 1 at its highest.

    Unlike a steep edge, it keeps the order of all units in single precision, and the distances between values, which
    count where several units form one word.
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


def positive_part(order: Tensor) -> Tensor:
    """Values above 0, nearly equal to positive values of `order`; negative ones keep their order."""
    return softplus(order, beta=SOFTPLUS_SLOPE, threshold=1e6)


def word_scores(order: Tensor, batch: Batch) -> Tensor:
    """(M, n) standardised values -> (M, n) scores in (0, 1]: positive values relative to the highest, squared.

    Squares, because evidence adds up: many words of little value would else outweigh the few that decide.
    """
    positive = positive_part(order)
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
    """(M, n) booleans -> (I,): number of connected runs of selected units of an input; a pair's border ends a run.

    Where segments overlap, a unit counts as selected if the segments that select it have more than half of its weight.
    """
    real, unit, stretch = (
        mask_rows(values, batch) for values in (batch.rows.real, batch.rows.unit, batch.rows.stretch)
    )
    width = int(unit.max()) + 1
    index = mask_rows(batch.rows.input, batch)[:, None] * width + unit
    weight = selected * mask_rows(batch.rows.blend, batch) * batch.views
    total = torch.zeros(batch.inputs * width, device=selected.device, dtype=weight.dtype)
    in_rationale = total.index_add(0, index[real], weight[real]).view(batch.inputs, width) > 0.5
    begins_text = torch.zeros_like(in_rationale).flatten()  # the first unit of a second text
    next_unit = real[:, 1:] & (unit.diff(dim=1) == 1)
    begins_text[index[:, 1:][next_unit & (stretch.diff(dim=1) > 0)]] = True
    first = in_rationale.clone()
    first[:, 1:] &= ~in_rationale[:, :-1] | begins_text.view_as(first)[:, 1:]
    return first.sum(1).to(batch.dtype)


def compressed(values: Tensor) -> Tensor:
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
        filling = grey_closing(order, mask_rows(batch.rows.stretch, batch), settings.closing) - order
        order = order + CLOSING_STRENGTH * longness * filling
    return order


def grey_closing(values: Tensor, stretch: Tensor, size: int) -> Tensor:
    """(M, n): gaps of fewer than `size` units raised to the lower one of their sides, in each stretch by itself.

    Grey-scale closing (Serra 1982): the minimum, over all windows of `size` units around a unit, of their maximum.
    `stretch` (M, n): see `Rows.stretch`.
    """
    closed = values
    for number in range(int(stretch.max()) + 1):
        inside = stretch == number
        padded = pad(torch.where(inside, values, -torch.inf), (size - 1, size - 1), value=-torch.inf)  # ends: no sides
        highest = max_pool1d(padded[:, None], size, 1)
        closed = torch.where(inside, -max_pool1d(-highest, size, 1)[:, 0], closed)
    return closed
