"""A second optimisation for inputs of which no small part suffices, with the hard edges that a rationale has.

The first one sees soft masks. Some models take the edge of a hard mask for something in the picture, and then no size
of the soft field suffices; masks that are nearly hard, on all baselines at once, find one that does.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from rationales.masks.descent import field_of
from rationales.masks.finish import SizeChoice, best_size, ordered
from rationales.masks.objective import mask_rows
from rationales.masks.optimize import MaskResult, optimize
from rationales.masks.settings import MaskSettings
from rationales.models.batch import Batch

LARGE = 0.8  # a rationale with more of its input than this is optimised further
SOFTNESS = 0.02  # of the edge, in standard deviations of the field


def sharpen(
    z: Tensor, batch: Batch, target: Tensor, settings: MaskSettings, result: MaskResult
) -> tuple[Tensor, Tensor, list[int]]:
    """The fields (M, n), the share of each input's units in its rationale (I,) and the steps taken (I,).

    `z` (M, n): the fields that `optimize` ended with. An input whose rationale suffices without taking more than
    `LARGE` of it keeps its field; the others are optimised for as many steps again, and the better one of the two is
    taken.
    """
    first = best_size(ordered(z, batch, settings), batch, target, settings)
    unsolved = ~(first.sufficient & (first.size <= LARGE))
    numbers = torch.nonzero(unsolved).flatten()
    if len(numbers) == 0:
        return z, first.size, result.steps
    part = batch.take(numbers.tolist())
    sharp = replace(settings, own=0.0, softness=SOFTNESS, warm=0, views="all", stop="steps")
    masks = torch.nonzero(unsolved[mask_rows(batch.rows.input, batch)]).flatten()
    again = optimize(part, target[numbers], sharp, start=(result.w[masks], result.sigma[masks]))
    with torch.no_grad():
        z_again = field_of(part, settings.on(batch.grid), again.w, again.sigma)
        second = best_size(ordered(z_again, part, settings), part, target[numbers], settings)
        better = _better(second, first, numbers)
        fields, sizes = z.clone(), first.size.clone()
        sizes[numbers] = torch.where(better, second.size, first.size[numbers])
        owner = mask_rows(part.rows.input, part)
        fields[masks] = torch.where(better[owner][:, None], z_again, z[masks])
    steps = list(result.steps)
    for number, count in zip(numbers.tolist(), again.steps, strict=True):
        steps[number] += count
    return fields, sizes, steps


def _better(second: SizeChoice, first: SizeChoice, numbers: Tensor) -> Tensor:
    """(numbers,) bool: suffices where the first does not, or with less; where neither does, gives the target more."""
    both = second.sufficient & first.sufficient[numbers]
    neither = ~second.sufficient & ~first.sufficient[numbers]
    smaller = both & (second.size < first.size[numbers])
    stronger = neither & (second.probability > first.probability[numbers])
    return (second.sufficient & ~first.sufficient[numbers]) | smaller | stronger
