"""Solvex: beam search for the order of units that is best by faithfulness itself (Zhou and Shah 2023)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, cast

import torch
from torch import Tensor

from rationales.errors import OptionError
from rationales.methods.method import Attribution, Method, Presets, Progress
from rationales.methods.support.feature_groups import FeatureGroups, feature_groups
from rationales.models.batch import Batch
from rationales.models.batch.queries import outputs_under_keeps
from rationales.models.batch.rows import fold
from rationales.models.classes import OUTPUTS, explained_output
from rationales.models.text.batch import TextBatch
from rationales.options import option

DELETE = "delete"
REMOVAL = ("baseline", DELETE)
EDITS = 2**13  # texts with deleted words that are prepared at once
METRICS = ("comp-suff", "comprehensiveness", "sufficiency")


@dataclass(frozen=True)
class Solvex(Method):
    """The order u_1, u_2, ... that maximises the sum of g(S_k) over k, where S_k holds its first k units.

    g(S) is p(S alone) - p(all but S): comprehensiveness minus sufficiency, up to a constant. A beam holds the best sets
    of k units; each is extended by every further unit, orders that lead to the same set are merged to the best of them,
    and the best sets of k + 1 units go on. A unit's score is (n - k) / n for the k-th of n units, from 0.
    """

    name: ClassVar[str] = "solvex"
    summary: ClassVar[str] = "beam search for the order of units with the best comprehensiveness and sufficiency"
    scores_are_ranks: ClassVar[bool] = True
    presets: ClassVar[Presets] = {
        "text": {"default": {}, **{f"beam-{beams}": {"beams": beams, "passes": 10**6} for beams in (10, 50, 100)}},
        "image": {"default": {}},
    }

    beams: int = option(10, "sets of units that are extended in each step; 50 and 100 are usual too")
    metric: str = option("comp-suff", "what the order is best by", *METRICS)
    passes: int = option(
        20_000, "most forward passes for a row; when they are used up, the remaining units follow by their value alone"
    )
    removal: str = option("baseline", "units are replaced by the baseline or, in texts, deleted", *REMOVAL)
    baseline: str = option("", "what replaces units, in place of the model's baseline; for an image blur-N")
    cell: int = option(0, "on an image: side of a cell in pixels; 0: 14 cells along the longer side")
    output: str = option("probability", "output of the model that is explained, for the target", *OUTPUTS)

    def __post_init__(self) -> None:
        if self.beams < 1:
            raise OptionError(f"solvex needs at least 1 beam, not {self.beams}")
        if self.passes < 1:
            raise OptionError(f"solvex needs a budget of at least 1 forward pass, not {self.passes}")
        if self.baseline and self.removal == DELETE:
            raise OptionError(
                f"solvex deletes units (removal=delete) or replaces them by {self.baseline} (baseline=), not both"
            )

    @property
    def removal_operation(self) -> str:
        """The option `baseline`, or the option `removal`."""
        return self.baseline or self.removal

    @property
    def passes_per_set(self) -> int:
        """Forward passes to evaluate a set: with it alone, without it, or both."""
        return 2 if self.metric == "comp-suff" else 1

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        if self.baseline:
            return replace(self, baseline="").scores_on(self.baseline, batch, target, progress)
        if self.removal == DELETE and not isinstance(batch, TextBatch):
            raise OptionError("solvex deletes units of text models only; use removal=baseline")
        groups = feature_groups(batch, self.cell)
        min_passes = self.passes_per_set * int(groups.count.max())
        if self.passes < min_passes:
            raise OptionError(
                f"solvex needs {min_passes} forward passes for the first step on a row of {int(groups.count.max())} "
                f"units, and the budget is {self.passes}; set passes={min_passes} or more"
            )
        search = _Search(self, batch, target, groups)
        order = search.run(progress)  # (S, g) position of each group
        count = groups.count[:, None].clamp(min=1)
        scores = ((count - order) / count).to(torch.promote_types(batch.dtype, torch.float32)) * groups.real
        searched = torch.zeros(batch.inputs, device=batch.device, dtype=torch.long)
        searched.scatter_reduce_(0, batch.rows.input, search.steps, "amax")
        cut = torch.zeros(batch.inputs, device=batch.device, dtype=torch.long)
        cut.scatter_reduce_(0, batch.rows.input, (search.steps < groups.count).long(), "amax")
        stop = ["budget" if short else "complete" for short in cut.tolist()]
        return Attribution(groups.spread(scores), steps=searched.tolist(), stop=stop)


class _Search:
    """The beams of all S rows: up to B sets of g groups each."""

    def __init__(self, method: Solvex, batch: Batch, target: Tensor, groups: FeatureGroups) -> None:
        self.method, self.batch, self.target, self.groups = method, batch, target, groups
        rows, self.size = groups.real.shape
        self.rows = torch.arange(rows, device=batch.device)
        self.sets = torch.zeros(rows, 1, self.size, dtype=torch.bool, device=batch.device)
        self.value = torch.zeros(rows, 1, dtype=torch.float64, device=batch.device)  # sum of g over the order's sets
        self.order = torch.full((rows, 1, self.size), self.size, device=batch.device)  # position of each group
        # a number per group; the sum over a set tells sets apart, as in Zobrist hashing
        self.keys = fold(torch.arange(self.size, device=batch.device), 1)
        self.steps = torch.zeros(rows, dtype=torch.long, device=batch.device)
        self.passes = torch.zeros(rows, dtype=torch.long, device=batch.device)
        self.alone = torch.zeros(rows, self.size, dtype=torch.float64, device=batch.device)  # g of single groups

    def run(self, progress: Progress | None) -> Tensor:
        """(S, g): the position of every group in the best order that was found."""
        total = int(self.groups.count.max())
        for step in range(total):
            candidates = self._candidates(step)
            if not candidates.count.any():
                break
            self._extend(candidates, step)
            if progress is not None:
                progress((step + 1) / total)
        best = self.order[self.rows, self.value.argmax(1)]
        return self._completed(best)

    def _candidates(self, step: int) -> _Candidates:
        """Every set of the beams with one more group, equal sets once, for the rows that go on."""
        beams = self.sets.shape[1]
        free = ~self.sets & self.groups.real[:, None] & self.value.isfinite()[..., None]  # (S, B, g)
        key = (self.sets * self.keys).sum(-1, keepdim=True) + self.keys
        value = self.value[..., None].expand(-1, -1, self.size)
        key, value, free = (values.reshape(len(self.rows), beams * self.size) for values in (key, value, free))
        # by value, then by set: the first of equal sets is the best one
        by_value = value.masked_fill(~free, -torch.inf).sort(descending=True, stable=True).indices
        by_set = by_value.gather(1, key.gather(1, by_value).sort(stable=True).indices)
        sorted_key, sorted_free = key.gather(1, by_set), free.gather(1, by_set)
        repeated = torch.zeros_like(sorted_free)
        repeated[:, 1:] = (sorted_key[:, 1:] == sorted_key[:, :-1]) & sorted_free[:, :-1]
        distinct = torch.zeros_like(free).scatter(1, by_set, sorted_free & ~repeated)
        count = distinct.sum(1)
        affordable = self.passes + self.method.passes_per_set * count <= self.method.passes
        count = torch.where(affordable & (self.steps == step), count, 0)
        index = torch.argsort(distinct.long(), dim=1, descending=True, stable=True)[:, : int(count.max())]
        self.passes += self.method.passes_per_set * count
        return _Candidates(index // self.size, index % self.size, count)

    def _extend(self, candidates: _Candidates, step: int) -> None:
        """Evaluate the candidates and keep the best."""
        row = self.rows[:, None]
        gain = self._gain(candidates)
        if step == 0:
            self.alone.scatter_(1, candidates.group, gain)
        exists = torch.arange(gain.shape[1], device=gain.device) < candidates.count[:, None]
        value = (self.value[row, candidates.beam] + gain).masked_fill(~exists, -torch.inf)
        best = value.sort(descending=True, stable=True).indices[:, : self.method.beams]
        beam, group = candidates.beam.gather(1, best), candidates.group.gather(1, best)[..., None]
        order = self.order[row, beam].scatter(2, group, step)
        active = candidates.count > 0
        self.sets = _merged(active, self._extended(row, beam, group), self.sets)
        self.order = _merged(active, order, self.order)
        self.value = _merged(active, value.gather(1, best), self.value)
        self.steps += active

    def _extended(self, row: Tensor, beam: Tensor, group: Tensor) -> Tensor:
        """(..., g): the sets of these rows' beams with one more group each."""
        return self.sets[row, beam].scatter(-1, group, torch.ones_like(group, dtype=torch.bool))

    def _gain(self, candidates: _Candidates) -> Tensor:
        """(S, C): g of every candidate, in double precision; sets are made block by block."""

        def outputs(removed: bool) -> Tensor:
            if self.method.removal == DELETE:
                return self._outputs_of_deletions(cast("TextBatch", self.batch), candidates, removed)

            def keeps(row: Tensor, variant: Tensor) -> Tensor:
                beam, group = (index[row][:, variant].T for index in (candidates.beam, candidates.group))  # (k, R)
                return self.groups.spread(self._extended(row, beam, group[..., None]) ^ removed)

            output = self.method.output
            return outputs_under_keeps(self.batch, self.target, keeps, candidates.count, output=output).T.double()

        if self.method.metric == "comprehensiveness":
            return -outputs(removed=True)
        if self.method.metric == "sufficiency":
            return outputs(removed=False)
        return outputs(removed=False) - outputs(removed=True)

    def _outputs_of_deletions(self, batch: TextBatch, candidates: _Candidates, removed: bool) -> Tensor:
        """(S, C): the explained output with the words of each candidate alone, or with all but them."""
        shape = candidates.beam.shape
        values = torch.zeros(shape, device=batch.device, dtype=torch.float64)
        exists = torch.arange(shape[1], device=batch.device) < candidates.count[:, None]
        for row, variant in (pairs.unbind(1) for pairs in torch.split(torch.nonzero(exists), EDITS)):
            beam, group = (index[row, variant] for index in (candidates.beam, candidates.group))
            with torch.no_grad():
                logits = batch.logits_of_edits(row, self._extended(row, beam, group[:, None]) ^ removed)
            target = self.target[batch.rows.input[row]]
            values[row, variant] = explained_output(batch.head, logits, target, self.method.output).double()
        return values

    def _completed(self, order: Tensor) -> Tensor:
        """(S, g): groups that the search did not reach follow in the order of their value alone."""
        missing = (order == self.size) & self.groups.real
        rank = self.alone.masked_fill(~missing, -torch.inf).argsort(dim=1, descending=True, stable=True).argsort(dim=1)
        return torch.where(missing, self.steps[:, None] + rank, order)


@dataclass(frozen=True, eq=False)
class _Candidates:
    """Extensions of the sets in the beams: (S, C) each, of which the first `count` (S,) exist."""

    beam: Tensor
    group: Tensor
    count: Tensor


def _merged(active: Tensor, new: Tensor, before: Tensor) -> Tensor:
    """(S, B, ...): `new` for active rows and `before` for others, padded to the same number of beams."""
    beams = max(new.shape[1], before.shape[1])

    def padded(values: Tensor) -> Tensor:
        filler = -torch.inf if values.is_floating_point() else 0
        shape = (values.shape[0], beams - values.shape[1], *values.shape[2:])
        return torch.cat([values, values.new_full(shape, filler)], 1)

    return torch.where(active.view(-1, *[1] * (new.dim() - 1)), padded(new), padded(before))
