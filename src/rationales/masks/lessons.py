"""What a masker learns from where a mask has no size of its own: the field that MaRC finds, 0 where the rationale ends.

A field like that is more than a low loss. It is anchored to the gradients it started from, and that, not the loss,
makes its spans the ones that people mark; so it is imitated. Each text is optimised once, when it is first asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from rationales.masks.descent import field_of
from rationales.masks.finish import SHARP, best_size, ordered
from rationales.masks.levels import edge, groups, scaled
from rationales.masks.masker import Network, predict
from rationales.masks.objective import mask_rows, mean_over_masks, mean_over_units
from rationales.masks.optimize import optimize, quick
from rationales.masks.settings import MaskSettings
from rationales.masks.shelves import Shelf
from rationales.models.randomness import fold, uniform
from rationales.models.text_batch import TextBatch

OTHERS = 4  # purpose, so that no random number is used twice


@dataclass(eq=False)
class Lessons:
    """Fields by shelf, made when first asked for."""

    objective: MaskSettings
    others: float  # share of texts whose lesson is of another class than the predicted one
    held: dict[int, _Held] = field(default_factory=dict)

    def loss(self, network: Network, shelf: Shelf, group: Sequence[int]) -> Tensor:
        """(I,): the mean squared difference between what is predicted and the field that was found."""
        own = self._of(shelf, group)
        part, target = shelf.batch.take(group), own.target[torch.tensor(list(group), device=own.target.device)]
        wanted = own.field[_rows(shelf, group), : part.size[1]]
        z = field_of(part, self.objective, *predict(network, part, target, self.objective))
        return mean_over_masks(mean_over_units((z - wanted).square(), part), part)

    def _of(self, shelf: Shelf, group: Sequence[int]) -> _Held:
        own = self.held.setdefault(id(shelf), _Held.empty(shelf, self.others))
        wanted = range(shelf.batch.inputs) if shelf.batch.device.type == "cuda" else group  # many at once, or soon
        missing = [number for number in wanted if not own.known[number]]
        if missing:
            part = shelf.batch.take(missing)
            target = own.target[torch.tensor(missing, device=own.target.device)]
            found = lesson(part, target, self.objective)
            own.field[_rows(shelf, missing)[:, None], torch.arange(found.shape[1], device=found.device)] = found
            for number in missing:
                own.known[number] = True
        return own


@dataclass(eq=False)
class _Held:
    shelf: Shelf  # held, so that no other gets its number
    field: Tensor  # (M, n)
    target: Tensor  # (I,)
    known: list[bool]

    @classmethod
    def empty(cls, shelf: Shelf, others: float) -> _Held:
        batch = shelf.batch
        return cls(shelf, batch.zeros()[: batch.masks], targets(batch, shelf.predicted, others), [False] * batch.inputs)


def _rows(shelf: Shelf, group: Sequence[int]) -> Tensor:
    """The masks of these inputs among those of the shelf."""
    owner = mask_rows(shelf.batch.rows.input, shelf.batch)
    return torch.nonzero(torch.isin(owner, torch.tensor(list(group), device=owner.device))).flatten()


def lesson(batch: TextBatch, target: Tensor, objective: MaskSettings) -> Tensor:
    """(M, n): the optimised field in standard deviations, moved so that the rationale is what lies above 0."""
    found = optimize(batch, target, objective)
    with torch.no_grad():
        z = scaled(torch.logit(found.keep, eps=1e-7), batch)
        asked, _ = quick(batch, objective)
        size = best_size(ordered(z, asked, objective), asked, target, objective).size.repeat_interleave(batch.views)
        q, _ = edge(z, batch, size, SHARP)
        return (z - q[groups(batch)[: batch.masks]][:, None]) * mask_rows(batch.rows.real, batch)


def targets(batch: TextBatch, predicted: Tensor, others: float, step: int = 0) -> Tensor:
    """(inputs,): what the model predicts, or for a share of the texts another class, drawn anew for every `step`."""
    if batch.classes < 2:
        return predicted
    rows = torch.arange(len(batch.rows.input), device=batch.device)
    first = torch.full_like(predicted, len(rows)).scatter_reduce(0, batch.rows.input, rows, "amin")
    places = uniform(fold(batch.rows.key[first], OTHERS, step), 2)
    other = (predicted + 1 + (places[:, 1] * (batch.classes - 1)).long()) % batch.classes
    return torch.where(places[:, 0] < others, other, predicted)
