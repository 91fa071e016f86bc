"""Moves the edges of spans to those of word groups where the loss allows it: "[[falls]] apart" -> "[[falls apart]]".

The scores do not change, only the selection. At every edge where a span cuts a phrase (`cuts` in models/text/units.py)
at most two words are added or removed, never across punctuation, and never the span's best word. Each change, and all
of them together, are accepted by their loss: the evidence in the rationale and in the complement (Eq. 2 and 4).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rationales.masks.objective import complement_term, squeeze, sufficiency_term
from rationales.masks.optimize import faster_copy
from rationales.masks.sizes import LOSS_SLACK, LOST_TARGET_SHARE, SUFFICIENT
from rationales.models.batch import Batch
from rationales.models.batch.execution import garbage_collection_paused
from rationales.models.batch.queries import outputs_of_rows
from rationales.models.text.units import Cuts, cuts
from rationales.rationale_parts import Unit

MAX_MOVED_WORDS = 2  # of one edge
MAX_CHANGES = 10  # of one input whose loss is computed: with the complements, a tenth of the cost of an optimisation
LOSS_MARGIN = 0.01  # of two changes whose losses differ by less, the one with the longer span is preferred


@dataclass(frozen=True)
class EdgeChange:
    """Units first..last added to the selection, or removed."""

    first: int
    last: int
    added: bool

    def apply(self, selected: np.ndarray) -> np.ndarray:
        """A copy of `selected` (n,) with the change."""
        changed = selected.copy()
        changed[self.first : self.last + 1] = self.added
        return changed


def snap_selections(
    batch: Batch,
    target: Tensor,
    full: Tensor,
    units: Sequence[Sequence[Unit]],
    scores: Sequence[np.ndarray],
    selections: Sequence[np.ndarray],
    row_outputs: Tensor | None = None,
) -> list[np.ndarray]:
    """Each input's selection (n,), with edges at word groups where its loss rises by at most `LOSS_SLACK`.

    `target`: (inputs,); `full`: (inputs, classes) probabilities of the full inputs. `row_outputs` (2, S): probabilities
    of the target in every row, given the selections and given their complements, where the model was asked before.
    """
    with garbage_collection_paused():
        edges = [
            list(_limit_changes(edge_changes(cuts(words), values, selected)))
            for words, values, selected in zip(units, scores, selections, strict=True)
        ]
    moving = [number for number, alternatives in enumerate(edges) if alternatives]
    results = [selected.copy() for selected in selections]
    if not moving:
        return results
    moving_batch = batch if len(moving) == batch.inputs else batch.take(moving)
    initial = [selections[number] for number in moving]
    known_outputs = None if row_outputs is None else row_outputs[:, batch.rows_of(moving)]
    query = _LossQuery.of(moving_batch, target[moving], full[moving], initial, known_outputs)
    tried_changes = [[change for alternatives in edges[number] for change in alternatives] for number in moving]
    single = [[selected, *(change.apply(selected) for change in tried)]
              for selected, tried in zip(initial, tried_changes, strict=True)]  # fmt: skip
    accepted_changes: list[list[EdgeChange]] = []
    for number, losses in zip(moving, query.losses(single), strict=True):
        rises = iter(losses[1:] - losses[0])
        best = [_best_change([(next(rises), change) for change in alternatives]) for alternatives in edges[number]]
        accepted = sorted((pair for pair in best if pair is not None), key=lambda pair: pair[0])
        accepted_changes.append([change for _, change in accepted])
    for number, selected in zip(moving, _largest_prefixes(query, initial, accepted_changes), strict=True):
        results[number] = selected
    return results


def _largest_prefixes(
    query: _LossQuery, initial: Sequence[np.ndarray], accepted_changes: Sequence[Sequence[EdgeChange]]
) -> list[np.ndarray]:
    """Each selection with as many of its accepted changes together as its loss allows: all, half of them, and so on.

    The first change alone was accepted by its loss before.
    """
    results = list(initial)
    sizes = [_prefix_sizes(len(changes)) for changes in accepted_changes]
    while any(sizes):
        prefixes = [
            _combine(selected, changes[: remaining[0]]) if remaining else selected
            for selected, changes, remaining in zip(initial, accepted_changes, sizes, strict=True)
        ]
        tried = [
            [selected, prefix] if len(remaining) > 1 else [selected]
            for selected, prefix, remaining in zip(initial, prefixes, sizes, strict=True)
        ]
        for number, losses in enumerate(query.losses(tried)):
            if sizes[number] and losses[-1] - losses[0] <= LOSS_SLACK:  # of the first change alone both are 0
                results[number], sizes[number] = prefixes[number], []
        sizes = [remaining[1:] for remaining in sizes]
    return results


def edge_changes(cut: Cuts, scores: np.ndarray, selected: np.ndarray) -> Iterator[list[EdgeChange]]:
    """For every edge that cuts a phrase, the changes after which it cuts none; edges of the best spans first."""
    runs = list(_selected_runs(selected, cut))
    for first, last in sorted(runs, key=lambda run: -float(scores[run[0] : run[1] + 1].max())):
        best = first + int(scores[first : last + 1].argmax())
        if cut.ends[last] and not _is_selected(selected, last + 1):
            yield from _non_empty(_widening(cut, selected, last, 1), _narrowing(cut, last, best, -1))
        if cut.begins[first] and not _is_selected(selected, first - 1):
            yield from _non_empty(_widening(cut, selected, first, -1), _narrowing(cut, first, best, 1))


def _non_empty(*alternatives: EdgeChange | None) -> Iterator[list[EdgeChange]]:
    listed = [change for change in alternatives if change is not None]
    if listed:
        yield listed


def _limit_changes(edges: Iterator[list[EdgeChange]]) -> list[list[EdgeChange]]:
    """At most `MAX_CHANGES` changes; where there are more, only the first one of each edge."""
    listed = list(edges)
    if sum(map(len, listed)) <= MAX_CHANGES:
        return listed
    return [alternatives[:1] for alternatives in listed[:MAX_CHANGES]]


def _widening(cut: Cuts, selected: np.ndarray, edge: int, step: int) -> EdgeChange | None:
    """The fewest units beyond the edge after which no phrase is cut, or the next span begins."""
    bad = cut.ends if step > 0 else cut.begins
    position, words = edge, 0
    while words < MAX_MOVED_WORDS:
        position += step
        if not 0 <= position < len(selected) or cut.clause[position] != cut.clause[edge]:
            return None
        words += not cut.joints[position]
        if not bad[position] or _is_selected(selected, position + step):
            return EdgeChange(min(edge + step, position), max(edge + step, position), added=True)
    return None


def _narrowing(cut: Cuts, edge: int, best: int, step: int) -> EdgeChange | None:
    """The fewest units at the edge without which no phrase is cut; the span's best unit stays."""
    bad = cut.ends if step < 0 else cut.begins
    position, words = edge, 0
    while words < MAX_MOVED_WORDS and position != best:
        words += not cut.joints[position]
        position += step
        if not bad[position] and cut.clause[position] >= 0:
            return EdgeChange(min(edge, position - step), max(edge, position - step), added=False)
    return None


def _best_change(alternatives: Sequence[tuple[float, EdgeChange]]) -> tuple[float, EdgeChange] | None:
    """The change of lowest loss, with its rise; None where all rise too much."""
    fitting = [(rise, change) for rise, change in alternatives if rise <= LOSS_SLACK]
    return min(fitting, key=lambda candidate: candidate[0] - LOSS_MARGIN * candidate[1].added, default=None)


def _combine(selected: np.ndarray, accepted: Sequence[EdgeChange]) -> np.ndarray:
    """Selection with all changes except those that touch an earlier one, since their loss was computed without it."""
    result, touched = selected, np.zeros(len(selected) + 2, dtype=bool)  # one more unit on either side
    for change in accepted:
        around = slice(change.first, change.last + 3)
        if not touched[around].any():
            result = change.apply(result)
            touched[change.first + 1 : change.last + 2] = True
    return result


def _prefix_sizes(count: int) -> list[int]:
    """Numbers of changes that are tried together: all, half of them, and so on."""
    sizes = []
    while count:
        sizes.append(count)
        count //= 2
    return sizes


def _selected_runs(selected: np.ndarray, cut: Cuts) -> Iterator[tuple[int, int]]:
    """(first, last) of every run of selected units without the punctuation at its ends."""
    steps = np.diff(selected.astype(np.int8), prepend=0, append=0)
    for first, last in zip(np.flatnonzero(steps > 0).tolist(), (np.flatnonzero(steps < 0) - 1).tolist(), strict=True):
        if (cut.clause[first : last + 1] >= 0).any():
            yield first, last


def _is_selected(selected: np.ndarray, index: int) -> bool:
    return 0 <= index < len(selected) and bool(selected[index])


@dataclass(eq=False)
class _LossQuery:
    """Computes the loss of selections from the model's probabilities for them and for their complements."""

    batch: Batch
    target: Tensor  # (inputs,)
    full: Tensor  # (inputs, classes)
    unchanged_keep: Tensor  # (S, n) bool: the selections that all others are compared with
    # (2, S): probabilities of the target given these, and given their complements; asked with the first changes
    unchanged_outputs: Tensor | None = None

    @classmethod
    def of(
        cls,
        batch: Batch,
        target: Tensor,
        full: Tensor,
        selections: Sequence[np.ndarray],
        outputs: Tensor | None = None,
    ) -> _LossQuery:
        """A query about changes of these selections, one (n,) for each input; `outputs` (2, S): theirs, if known."""
        batch = faster_copy(batch)
        return cls(batch, target, full, batch.spread(list(map(torch.from_numpy, selections))) > 0.5, outputs)

    def losses(self, selections: Sequence[Sequence[np.ndarray]]) -> list[np.ndarray]:
        """For each input the losses (k,) of its k selections, the first unchanged; infinite where one does not suffice.

        Losses of inputs with fewer than two selections are not computed; they are 0. A segment that a change leaves as
        it is has the outputs of the unchanged selection, and is not run again.
        """
        counts = [len(tried) if len(tried) > 1 else 0 for tried in selections]
        losses = [np.zeros(len(tried)) for tried in selections]
        if not any(counts):
            return losses
        batch = self.batch
        # each input's last selection stands in for the ones it lacks
        by_number = [[tried[min(number, len(tried) - 1)] for tried in selections] for number in range(max(counts))]
        keep = torch.stack([batch.spread(list(map(torch.from_numpy, tried))) > 0.5 for tried in by_number])  # (k, S, n)
        count = torch.tensor(counts, device=batch.device)[batch.rows.input]
        is_used = torch.arange(len(keep), device=batch.device)[:, None] < count
        variant, row = torch.nonzero((keep != self.unchanged_keep).any(-1) & is_used, as_tuple=True)
        unchanged, changed = self._outputs(row, keep[variant, row])
        probabilities = unchanged[:, None].repeat(1, len(keep), 1)  # (2, k, S)
        probabilities[:, variant, row] = changed
        kept, left = batch.pool(probabilities[..., None]).mean(-2).squeeze(-1)  # (k, inputs) each
        full = self.full.gather(1, self.target[:, None]).squeeze(1)
        floored = torch.maximum(squeeze(left), LOST_TARGET_SHARE * squeeze(full))
        loss = sufficiency_term(squeeze(kept)) + complement_term(floored, "bounded")
        required = torch.minimum(SUFFICIENT * full, kept[0])
        table = torch.where(kept >= required, loss, torch.inf).T.double().cpu().numpy()
        rows = zip(table, losses, counts, strict=True)
        return [values[: len(zeros)] if count else zeros for values, zeros, count in rows]

    def _outputs(self, row: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
        """(2, S), (2, P): outputs of the unchanged selections, and of the rows `row` (P,) under keep (P, n) bool."""
        batch = self.batch
        if self.unchanged_outputs is not None:
            changed = _both_sides(batch, self.target, row, keep) if len(row) else self.unchanged_outputs[:, :0]
            return self.unchanged_outputs, changed
        count = batch.size[0]
        rows = torch.cat([torch.arange(count, device=batch.device), row])
        outputs = _both_sides(batch, self.target, rows, torch.cat([self.unchanged_keep, keep]))
        self.unchanged_outputs = outputs[:, :count]
        return self.unchanged_outputs, outputs[:, count:]


def _both_sides(batch: Batch, target: Tensor, row: Tensor, keep: Tensor) -> Tensor:
    """(2, P): probability of the target in the rows `row` (P,) under keep (P, n) bool, and under its complement."""
    sides = torch.cat([keep, ~keep & batch.rows.real[row]])
    return outputs_of_rows(batch, target, row.repeat(2), sides).view(2, -1)
