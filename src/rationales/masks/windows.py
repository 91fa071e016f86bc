"""One connected span that grows from the unit of highest value: a rationale where scattered words do not suffice.

Language models, and others that drift to their prior as soon as many words are replaced, often keep a decision only if
the words around the deciding one stay as they are.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rationales.masks.field import smooth
from rationales.masks.objective import mask_rows
from rationales.models.batch import Batch

SIDE_SIGMA = 2.0  # of the smoothing, in units: a side is judged by the few units that would join next
REACH = 4.0  # distance from the highest unit at which a side counts half, so that equal sides grow alike


def window_order(values: Tensor, batch: Batch) -> Tensor:
    """(M, n) values of units -> (M, n): the earlier a unit joins the span of its row, the higher."""
    sides = smooth(values[batch.rows.mask], batch, SIDE_SIGMA)[: batch.masks]
    return growth_order(values, sides, mask_rows(batch.rows.real, batch))


def growth_order(values: Tensor, sides: Tensor, real: Tensor) -> Tensor:
    """(M, n): n for the unit of highest value, and one less for each unit that joins next.

    It joins on the side of the higher `sides` (M, n), which are at least 0 and count less with the distance (`REACH`).
    `real` (M, n) bool: the first units of a row; all others have 0.
    """
    count = values.shape[1]
    row = torch.arange(len(values), device=values.device)
    beyond = torch.full_like(sides[:, :1], -torch.inf)
    padded = torch.cat([beyond, torch.where(real, sides, -torch.inf), beyond], 1)  # unit u stands at u + 1
    left = right = first = torch.where(real, values, -torch.inf).argmax(1) + 1
    order = torch.zeros_like(padded)
    order[row, left] = count
    for rank in range(count - 1, 0, -1):
        left_value = padded[row, left - 1] / (1 + (first - left + 1) / REACH)
        right_value = padded[row, right + 1] / (1 + (right + 1 - first) / REACH)
        joins = torch.maximum(left_value, right_value) > -torch.inf
        to_left = joins & (left_value > right_value)
        to_right = joins & ~to_left
        left, right = left - to_left.long(), right + to_right.long()
        joined = torch.where(to_left, left, right)
        order[row, joined] = torch.where(joins, torch.full_like(left_value, rank), order[row, joined])
    return order[:, 1:-1]


def single_rows(batch: Batch) -> Tensor:
    """(I,) bool: inputs of one segment, in which a span can be connected."""
    mask_input = mask_rows(batch.rows.input, batch)
    return torch.bincount(mask_input, minlength=batch.inputs) == 1
