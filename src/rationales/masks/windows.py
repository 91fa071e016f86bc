"""One connected span that grows from the unit of highest value: a rationale where scattered words do not suffice.

Language models, and others that drift to their prior as soon as many words are replaced, often keep a decision only if
the words around the deciding one stay as they are.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from rationales.masks.field import smooth
from rationales.masks.objective import mask_rows
from rationales.models.batch import Batch
from rationales.models.batch.rows import PADDING

SIDE_SIGMA = 2.0  # of the smoothing, in units: a side is judged by the few units that would join next
REACH = 4.0  # distance from the highest unit at which a side counts half, so that equal sides grow alike


def window_order(values: Tensor, batch: Batch) -> Tensor:
    """(M, n) values of units -> (M, n): the earlier a unit joins the span of its row, the higher."""
    sides = smooth(values[batch.rows.mask], batch, SIDE_SIGMA)[: batch.masks]
    return growth_order(values, sides, mask_rows(batch.rows.stretch, batch))


def growth_order(values: Tensor, sides: Tensor, stretch: Tensor) -> Tensor:
    """(M, n): n for the unit of highest value, and one less for each unit that joins next.

    It joins on the side of the higher `sides` (M, n), which are at least 0 and count less with the distance (`REACH`).
    `stretch` (M, n): see `Rows.stretch`; padding gets 0. A span does not leave its stretch: when it has all units of
    it, the next span begins at the highest unit outside.
    """
    count = values.shape[1]
    row = torch.arange(len(values), device=values.device)
    stretch = pad(stretch, (1, 1), value=PADDING)  # unit u stands at u + 1
    outside, sides = (torch.where(stretch == PADDING, -torch.inf, pad(by_unit, (1, 1))) for by_unit in (values, sides))
    order = torch.zeros_like(sides)
    joined = left = right = first = outside.argmax(1)
    for rank in range(count, 0, -1):
        order[row, joined] = torch.where(outside[row, joined] > -torch.inf, rank, order[row, joined])
        outside[row, joined] = -torch.inf
        left_value, right_value = (
            torch.where(stretch[row, unit] == stretch[row, first], sides[row, unit], -torch.inf)
            / (1 + (unit - first).abs() / REACH)
            for unit in (left - 1, right + 1)
        )
        grows = torch.maximum(left_value, right_value) > -torch.inf
        to_left = left_value > right_value
        seed = outside.argmax(1)
        joined = torch.where(grows, torch.where(to_left, left - 1, right + 1), seed)
        left, right = torch.where(grows & ~to_left, left, joined), torch.where(grows & to_left, right, joined)
        first = torch.where(grows, first, seed)
    return order[:, 1:-1]


def single_rows(batch: Batch) -> Tensor:
    """(I,) bool: inputs of one segment, in which a span can be connected."""
    mask_input = mask_rows(batch.rows.input, batch)
    return torch.bincount(mask_input, minlength=batch.inputs) == 1
