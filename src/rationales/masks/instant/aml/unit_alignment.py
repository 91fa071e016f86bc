"""Texts as the attribution network reads them: tokens of its own tokenizer, assigned to units by their characters.

Long texts are read in overlapping windows. One token in several units counts for each of them; several tokens in a
unit give their mean or maximum. Shapes: I inputs of up to U units, R windows of up to T tokens, P pairs of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rationales.models.text.tokens import EncodedText, encode, tokenize
from rationales.rationale_parts import Unit

OVERLAP_SHARE = 0.25  # of a window, that neighbouring windows share


@dataclass(frozen=True, eq=False)
class BackboneRows:
    """Windows of tokens, and which unit each token belongs to."""

    ids: Tensor  # (R, T)
    types: Tensor | None  # (R, T)
    lengths: Tensor  # (R,)
    input: Tensor  # (R,) the input of each window
    pair_row: Tensor  # (P,) window of a pair, in rising order
    pair_token: Tensor  # (P,) position of its token in the window
    pair_unit: Tensor  # (P,) unit in the input
    pair_weight: Tensor  # (P,) weight of the window there
    units: Tensor  # (I,) number of units

    @property
    def real(self) -> Tensor:
        """(I, U) bool: units that exist."""
        return torch.arange(int(self.units.max()), device=self.units.device) < self.units[:, None]

    def take(self, inputs: Sequence[int]) -> BackboneRows:
        """The windows of these inputs alone; their indices are in rising order."""
        chosen = torch.tensor(list(inputs), device=self.input.device)
        row = torch.nonzero(torch.isin(self.input, chosen)).flatten()
        longest = int(self.lengths[row].max())
        pairs = torch.isin(self.pair_row, row)
        return replace(
            self,
            ids=self.ids[row, :longest],
            types=None if self.types is None else self.types[row, :longest],
            lengths=self.lengths[row],
            input=torch.searchsorted(chosen, self.input[row]),
            pair_row=torch.searchsorted(row, self.pair_row[pairs]),
            pair_token=self.pair_token[pairs],
            pair_unit=self.pair_unit[pairs],
            pair_weight=self.pair_weight[pairs],
            units=self.units[chosen],
        )

    def to_units(self, values: Tensor, merge: str) -> Tensor:
        """(R, T') of tokens -> (I, U): the mean of a unit's tokens, weighted by their windows, or the maximum."""
        inputs, width = len(self.units), int(self.units.max())
        index = self.input[self.pair_row] * width + self.pair_unit
        token_values = values[self.pair_row, self.pair_token]
        if merge == "max":
            largest = torch.zeros(inputs * width, device=values.device, dtype=values.dtype)
            return largest.scatter_reduce(0, index, token_values, "amax").view(inputs, width)
        # double precision where supported, so that the result does not depend on the order of a GPU's additions
        wide = token_values if values.device.type == "mps" else token_values.double()
        weight = self.pair_weight.to(wide.dtype)
        total = torch.zeros(inputs * width, device=values.device, dtype=wide.dtype)
        total = total.index_add(0, index, wide * weight) / torch.zeros_like(total).index_add(0, index, weight).clamp(
            min=1e-9
        )
        return total.view(inputs, width).to(values.dtype)


def read_windows(encoded: Sequence[EncodedText], tokenizer: Any, limit: int, device: torch.device) -> BackboneRows:
    """Windows of at most `limit` tokens of these texts."""
    sources = [text.source for text in encoded]
    readings = [
        encode(source, tokenizer, "token", limit, int(OVERLAP_SHARE * limit), tokenization)
        for source, tokenization in zip(sources, tokenize(sources, tokenizer), strict=True)
    ]
    windows = [(number, row) for number, reading in enumerate(readings) for row in reading.rows]
    longest, padding = max(len(row.ids) for _, row in windows), getattr(tokenizer, "pad_token_id", None) or 0
    ids = np.full((len(windows), longest), padding)
    types = np.zeros_like(ids)
    overlaps = [_overlaps(text.units, reading.units) for text, reading in zip(encoded, readings, strict=True)]
    pairs: list[np.ndarray] = []
    for index, (number, row) in enumerate(windows):
        ids[index, : len(row.ids)] = row.ids
        types[index, : len(row.ids)] = row.types or 0
        owner = np.asarray(row.owner)
        positions = np.flatnonzero(owner >= 0)
        first, unit = overlaps[number]  # the units of token j are unit[first[j]:first[j + 1]]
        token, weight = np.asarray(row.units)[owner[positions]], np.asarray(row.weight)[owner[positions]]
        count = first[token + 1] - first[token]
        begin = np.repeat(first[token] - (np.cumsum(count) - count), count)
        units = unit[begin + np.arange(int(count.sum()))]
        pairs.append(
            np.stack([np.full(len(units), index), np.repeat(positions, count), units, np.repeat(weight, count)])
        )
    table = np.concatenate(pairs, 1)

    def tensor(values: Any, dtype: torch.dtype = torch.long) -> Tensor:
        return torch.as_tensor(np.asarray(values)).to(dtype).to(device)

    has_types = all(row.types is not None for _, row in windows)
    return BackboneRows(
        ids=tensor(ids),
        types=tensor(types) if has_types else None,
        lengths=tensor([len(row.ids) for _, row in windows]),
        input=tensor([number for number, _ in windows]),
        pair_row=tensor(table[0]),
        pair_token=tensor(table[1]),
        pair_unit=tensor(table[2]),
        pair_weight=tensor(table[3], torch.float32),
        units=tensor([len(text.units) for text in encoded]),
    )


def _overlaps(units: Sequence[Unit], tokens: Sequence[Unit]) -> tuple[np.ndarray, np.ndarray]:
    """For every token the units that share a character with it, as offsets (tokens + 1,) and units (pairs,).

    A unit without any token goes with the last token that begins before its end, or the first of its text.
    """
    token_units: list[list[int]] = [[] for _ in tokens]
    for text_index in (0, 1):
        unit_numbers = [number for number, unit in enumerate(units) if unit.text_index == text_index]
        token_numbers = [number for number, token in enumerate(tokens) if token.text_index == text_index]
        if not unit_numbers or not token_numbers:
            continue
        starts = np.array([tokens[number].start for number in token_numbers])
        ends = np.maximum.accumulate([tokens[number].end for number in token_numbers])
        for number in unit_numbers:
            first = int(np.searchsorted(ends, units[number].start, side="right"))
            last = int(np.searchsorted(starts, units[number].end, side="left"))
            for position in range(first, last) if last > first else [max(last - 1, 0)]:
                token_units[token_numbers[position]].append(number)
    offsets = np.concatenate([[0], np.cumsum([len(numbers) for numbers in token_units])]).astype(np.int64)
    return offsets, np.array([number for numbers in token_units for number in numbers], dtype=np.int64)
