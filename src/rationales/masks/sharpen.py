"""A second optimisation, with nearly hard masks, for inputs of which no small rationale suffices.

The first optimisation uses soft masks. Some models react to the edge of a hard mask, and then no size of the soft field
suffices; an optimisation with nearly hard masks, on all baselines at once, takes these edges into account.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from rationales.masks.objective import mask_rows
from rationales.masks.optimize import MaskResult, optimize
from rationales.masks.optimizer import field_of
from rationales.masks.postprocess import unit_order
from rationales.masks.settings import MaskSettings
from rationales.masks.sizes import SizeChoice, best_size
from rationales.models.batch import Batch

LARGE_SIZE = 0.8  # inputs with a larger rationale are optimised again
SOFTNESS = 0.02  # of the edge, in standard deviations of the field


def sharpen(
    z: Tensor, batch: Batch, target: Tensor, settings: MaskSettings, result: MaskResult
) -> tuple[Tensor, Tensor, list[int]]:
    """Fields (M, n), the rationale's share of each input's units (I,) and the steps of each input (I,).

    `z` (M, n): the fields of the first optimisation, `result`. An input whose rationale suffices with at most
    `LARGE_SIZE` of its units keeps its field; the others are optimised for as many steps again, and the better field of
    the two is selected.
    """
    first = best_size(unit_order(z, batch, settings), batch, target, settings)
    unsolved = ~(first.sufficient & (first.size <= LARGE_SIZE))
    numbers = torch.nonzero(unsolved).flatten()
    if len(numbers) == 0:
        return z, first.size, result.steps
    subset = batch.take(numbers.tolist())
    sharp = replace(settings, mask_weight=0.0, softness=SOFTNESS, warmup_steps=0, views="all", stop="steps")
    masks = torch.nonzero(unsolved[mask_rows(batch.rows.input, batch)]).flatten()
    second_result = optimize(subset, target[numbers], sharp, start=(result.w[masks], result.sigma[masks]))
    with torch.no_grad():
        second_field = field_of(subset, settings.on(batch.pixel_grid), second_result.w, second_result.sigma)
        second = best_size(unit_order(second_field, subset, settings), subset, target[numbers], settings)
        better = _better(second, first, numbers)
        fields, sizes = z.clone(), first.size.clone()
        sizes[numbers] = torch.where(better, second.size, first.size[numbers])
        mask_input = mask_rows(subset.rows.input, subset)
        fields[masks] = torch.where(better[mask_input][:, None], second_field, z[masks])
    steps = list(result.steps)
    for number, count in zip(numbers.tolist(), second_result.steps, strict=True):
        steps[number] += count
    return fields, sizes, steps


def _better(second: SizeChoice, first: SizeChoice, numbers: Tensor) -> Tensor:
    """(numbers,) bool: suffices where the first does not, or is smaller; where neither does, is more probable."""
    both = second.sufficient & first.sufficient[numbers]
    neither = ~second.sufficient & ~first.sufficient[numbers]
    smaller = both & (second.size < first.size[numbers])
    stronger = neither & (second.probability > first.probability[numbers])
    return (second.sufficient & ~first.sufficient[numbers]) | smaller | stronger
