"""Spans moved to the edges of word groups where the loss does not mind: "[[falls]] apart" becomes "[[falls apart]]".

The scores stay what the method says; only the selection is moved. At every edge where a span cuts a phrase
(models/word_groups.py) at most two words are taken in or left out, never across punctuation, and never the span's best
word. The model is asked about each such change, and about them together: the evidence in the rationale and the evidence
left in the complement (Eq. 2 and 4) decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rationales.masks.finish import GONE, SLACK, SUFFICIENT
from rationales.masks.objective import complement, squeeze, sufficiency
from rationales.models.batch import Batch
from rationales.models.probing import answers
from rationales.models.word_groups import Cuts, cuts
from rationales.rationale_parts import Unit

REACH = 2  # words that an edge moves at most
MOST = 10  # changes of one input that the model is asked about: with a complement each, a tenth of an optimisation
NEAR = 0.01  # of two losses that differ by less, the one of the longer span


@dataclass(frozen=True)
class Change:
    """Units first..last taken in, or left out."""

    first: int
    last: int
    taken: bool

    def applied(self, selected: np.ndarray) -> np.ndarray:
        """A copy of `selected` (n,) with the change."""
        changed = selected.copy()
        changed[self.first : self.last + 1] = self.taken
        return changed


def snapped(
    batch: Batch,
    target: Tensor,
    full: Tensor,
    units: Sequence[Sequence[Unit]],
    scores: Sequence[np.ndarray],
    selections: Sequence[np.ndarray],
) -> list[np.ndarray]:
    """Each input's selection (n,), moved to word groups where its loss rises by `SLACK` at most.

    `target`: (inputs,); `full`: (inputs, classes) the probabilities of the whole inputs.
    """
    edges = [
        list(_limited(changes(cuts(words), values, selected)))
        for words, values, selected in zip(units, scores, selections, strict=True)
    ]
    moving = [number for number, alternatives in enumerate(edges) if alternatives]
    results = [selected.copy() for selected in selections]
    if not moving:
        return results
    part = batch if len(moving) == batch.inputs else batch.take(moving)
    ask = _Question(part, target[moving], full[moving])
    started = [selections[number] for number in moving]
    each = [[change for alternatives in edges[number] for change in alternatives] for number in moving]
    judged = ask.losses(
        [[own, *(change.applied(own) for change in tried)] for own, tried in zip(started, each, strict=True)]
    )
    kept: list[list[Change]] = []
    for number, losses in zip(moving, judged, strict=True):
        rises = iter(losses[1:] - losses[0])
        chosen = [_best([(next(rises), change) for change in alternatives]) for alternatives in edges[number]]
        accepted = sorted((one for one in chosen if one is not None), key=lambda one: one[0])
        kept.append([change for _, change in accepted])
    prefixes = [[_combined(own, steps[:size]) for size in _sizes(len(steps))]
                for own, steps in zip(started, kept, strict=True)]  # fmt: skip
    together = ask.losses([[own, *tried] for own, tried in zip(started, prefixes, strict=True)], least=3)
    for number, losses, tried in zip(moving, together, prefixes, strict=True):
        fitting = [selected for rise, selected in zip(losses[1:] - losses[0], tried, strict=True) if rise <= SLACK]
        if fitting:
            results[number] = fitting[0]
    return results


def changes(cut: Cuts, scores: np.ndarray, selected: np.ndarray) -> Iterator[list[Change]]:
    """For every edge that cuts a phrase the ways to move it to where none is cut; edges of the best spans first."""
    runs = list(_runs(selected, cut))
    for first, last in sorted(runs, key=lambda run: -float(scores[run[0] : run[1] + 1].max())):
        best = first + int(scores[first : last + 1].argmax())
        if cut.ends[last] and not _chosen(selected, last + 1):
            yield from _listed(_wider(cut, selected, last, 1), _narrower(cut, last, best, -1))
        if cut.begins[first] and not _chosen(selected, first - 1):
            yield from _listed(_wider(cut, selected, first, -1), _narrower(cut, first, best, 1))


def _listed(*alternatives: Change | None) -> Iterator[list[Change]]:
    listed = [change for change in alternatives if change is not None]
    if listed:
        yield listed


def _limited(edges: Iterator[list[Change]]) -> list[list[Change]]:
    """At most `MOST` changes; where there are more, of each edge only the first way."""
    listed = list(edges)
    if sum(map(len, listed)) <= MOST:
        return listed
    return [alternatives[:1] for alternatives in listed[:MOST]]


def _wider(cut: Cuts, selected: np.ndarray, edge: int, step: int) -> Change | None:
    """The fewest units beyond the edge after which no phrase is cut, or the next span begins."""
    bad = cut.ends if step > 0 else cut.begins
    place, words = edge, 0
    while words < REACH:
        place += step
        if not 0 <= place < len(selected) or cut.clause[place] != cut.clause[edge]:
            return None
        words += not cut.joints[place]
        if not bad[place] or _chosen(selected, place + step):
            return Change(min(edge + step, place), max(edge + step, place), taken=True)
    return None


def _narrower(cut: Cuts, edge: int, best: int, step: int) -> Change | None:
    """The fewest units at the edge without which no phrase is cut; the span's best unit stays."""
    bad = cut.ends if step < 0 else cut.begins
    place, words = edge, 0
    while words < REACH and place != best:
        words += not cut.joints[place]
        place += step
        if not bad[place] and cut.clause[place] >= 0:
            return Change(min(edge, place - step), max(edge, place - step), taken=False)
    return None


def _best(alternatives: Sequence[tuple[float, Change]]) -> tuple[float, Change] | None:
    """The change that the loss minds least, and its rise; None where it minds them all."""
    fitting = [(rise, change) for rise, change in alternatives if rise <= SLACK]
    return min(fitting, key=lambda one: one[0] - NEAR * one[1].taken, default=None)


def _combined(selected: np.ndarray, accepted: Sequence[Change]) -> np.ndarray:
    """All changes, but for those that touch an earlier one: what was right at an edge need not be after it moved."""
    result, touched = selected, np.zeros(len(selected) + 2, dtype=bool)  # one more on both sides
    for change in accepted:
        around = slice(change.first, change.last + 3)
        if not touched[around].any():
            result = change.applied(result)
            touched[change.first + 1 : change.last + 2] = True
    return result


def _sizes(count: int) -> list[int]:
    """How many of the changes are tried together: all, else half of them, and so on."""
    sizes = []
    while count:
        sizes.append(count)
        count //= 2
    return sizes


def _runs(selected: np.ndarray, cut: Cuts) -> Iterator[tuple[int, int]]:
    """(first, last) of every run of selected units without the punctuation at its ends."""
    steps = np.diff(selected.astype(np.int8), prepend=0, append=0)
    for first, last in zip(np.flatnonzero(steps > 0).tolist(), (np.flatnonzero(steps < 0) - 1).tolist(), strict=True):
        if (cut.clause[first : last + 1] >= 0).any():
            yield first, last


def _chosen(selected: np.ndarray, index: int) -> bool:
    return 0 <= index < len(selected) and bool(selected[index])


@dataclass(frozen=True, eq=False)
class _Question:
    """Asks a model what it says of selections and of their complements."""

    batch: Batch
    target: Tensor  # (inputs,)
    full: Tensor  # (inputs, classes)

    def losses(self, selections: Sequence[Sequence[np.ndarray]], least: int = 2) -> list[np.ndarray]:
        """For each input the losses (k,) of its k selections, the first its own; infinite where one stops to suffice.

        Inputs with fewer than `least` selections are not asked about; theirs are all 0.
        """
        counts = [len(tried) if len(tried) >= least else 0 for tried in selections]
        losses = [np.zeros(len(tried)) for tried in selections]
        if not any(counts):
            return losses
        batch = self.batch
        keep = torch.stack(
            [
                batch.spread([torch.from_numpy(tried[min(number, len(tried) - 1)]) for tried in selections]) > 0.5
                for number in range(max(counts))
            ]
        )  # (k, S, n)
        both = torch.stack([keep, ~keep & batch.rows.real], 1).flatten(0, 1)  # each before its complement
        count = 2 * torch.tensor(counts, device=batch.device)[batch.rows.input]
        said = answers(batch, self.target, lambda row, variant: both[variant[:, None], row], count)
        pooled = batch.pool(said[..., None]).mean(-2).squeeze(-1)  # (2 k, inputs)
        alone, rest = pooled[0::2], pooled[1::2]
        full = self.full.gather(1, self.target[:, None]).squeeze(1)
        loss = sufficiency(squeeze(alone)) + complement(torch.maximum(squeeze(rest), GONE * squeeze(full)), "bounded")
        enough = torch.minimum(SUFFICIENT * full, alone[0])
        table = torch.where(alone >= enough, loss, torch.inf).T.double().cpu().numpy()
        return [values[: len(own)] if count else own for values, own, count in zip(table, losses, counts, strict=True)]
