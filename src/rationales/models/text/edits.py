"""Rows of tokens with words deleted or replaced by other tokens: what follows moves up or back, nothing else changes.

Special tokens stay. All functions work on many edits at once, on the device of the tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from rationales.models.batch.rows import distinct_rows


@dataclass(frozen=True, eq=False)
class TokenTable:
    """S rows of tokens, padded on the right, and the unit of each token."""

    ids: Tensor  # (S, T)
    types: Tensor | None  # (S, T)
    owner: Tensor  # (S, T) the unit of each token; `units` for special tokens and padding
    lengths: Tensor  # (S,)
    units: int
    limit: int  # most tokens of an edited row
    padding: int  # token id

    @cached_property
    def first_tokens(self) -> Tensor:
        """(S, units + 1): position of the first token of each unit; T for a unit that a row does not have."""
        rows, size = self.ids.shape
        position = torch.arange(size, device=self.ids.device).expand(rows, -1)
        first = torch.full((rows, self.units + 1), size, device=self.ids.device)
        return first.scatter_reduce_(1, self.owner, position, "amin")


@dataclass(frozen=True, eq=False)
class Insertions:
    """I tokens in the place of units that are not kept."""

    edit: Tensor  # (I,) index of the edit
    unit: Tensor  # (I,) the unit that the token replaces, within its row
    order: Tensor  # (I,) its position among the tokens that replace the same unit: 0, 1, ...
    ids: Tensor  # (I,)

    def between(self, first: int, last: int) -> Insertions:
        """Those of the edits `first` to `last` - 1, renumbered from 0."""
        chosen = (self.edit >= first) & (self.edit < last)
        return Insertions(self.edit[chosen] - first, self.unit[chosen], self.order[chosen], self.ids[chosen])


@dataclass(frozen=True, eq=False)
class EditedRows:
    """E rows of tokens, padded on the right."""

    ids: Tensor  # (E, T)
    types: Tensor | None  # (E, T)
    lengths: Tensor  # (E,)
    inserted_at: Tensor  # (I,) position of each inserted token in its row; -1 for a token that did not fit

    def distinct(self, *group: Tensor) -> tuple[Tensor, Tensor]:
        """(U,) indices of rows that differ, and (E,) for every row the number of its equal among these.

        `group`: further (E,) numbers that equal rows must share.
        """
        columns = [self.ids, self.lengths[:, None], *(numbers[:, None] for numbers in group)]
        if self.types is not None:
            columns.append(self.types)
        return distinct_rows(torch.cat(columns, 1).to(torch.int32))


def edit_rows(table: TokenTable, row: Tensor, keep: Tensor, insertions: Insertions | None = None) -> EditedRows:
    """Rows of `table`, each without the tokens of the units that it does not keep, with other tokens in their place.

    row: (E,) indices; keep: (E, units) bool. A unit that is not kept and has no insertions is deleted. A row that would
    exceed the limit loses its last units; a row without any token reads one padding token, since no model reads none.
    """
    owner, edits, size = table.owner[row], len(row), table.ids.shape[1]
    position = torch.arange(size, device=row.device)
    present = position < table.lengths[row][:, None]
    is_unit = owner < table.units
    kept = torch.cat([keep, keep.new_ones(edits, 1)], 1).gather(1, owner) & present
    width = torch.zeros(edits, size + 1, dtype=torch.long, device=row.device)  # tokens at each old position
    width[:, :size] = kept
    at = None
    if insertions is not None:
        at = table.first_tokens[
            row[insertions.edit], insertions.unit
        ]  # `size`, a column of its own, where there is none
        width.index_put_((insertions.edit, at), torch.ones_like(at), accumulate=True)
    width = width[:, :size]
    unit_capacity = table.limit - (present & ~is_unit).sum(1, keepdim=True)
    width = torch.where(is_unit & ((width * is_unit).cumsum(1) > unit_capacity), 0, width)
    start, total = width.cumsum(1) - width, width.sum(1)
    longest = max(int(total.max()), 1)
    target = torch.where(kept & (width > 0), start, longest)  # the last column is dropped
    ids = torch.full((edits, longest + 1), table.padding, device=row.device).scatter_(1, target, table.ids[row])
    types = None
    if table.types is not None:
        types = torch.zeros_like(ids).scatter_(1, target, table.types[row])
    inserted_at = torch.zeros(0, dtype=torch.long, device=row.device)
    if insertions is not None and at is not None:
        edit, old = insertions.edit, at.clamp(max=size - 1)
        fits = (at < size) & (width[edit, old] > 0)
        inserted_at = torch.where(fits, start[edit, old] + insertions.order, -1)
        column = torch.where(fits, inserted_at, longest)
        ids[edit, column] = insertions.ids
        if types is not None and table.types is not None:
            types[edit, column] = table.types[row[edit], old]
    ids = ids[:, :longest]
    ids[:, 0] = torch.where(total == 0, table.padding, ids[:, 0])
    return EditedRows(ids, None if types is None else types[:, :longest], total.clamp(min=1), inserted_at)
