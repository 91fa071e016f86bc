"""RISE: the mean of random soft masks, weighted by the output that each leaves (Petsiuk, Das and Saenko 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rationales.errors import OptionError
from rationales.methods.method import Attribution, Method, Presets, Progress
from rationales.models.batch import Batch
from rationales.models.batch.queries import outputs_under_keeps
from rationales.models.batch.rows import fold, uniform
from rationales.models.classes import OUTPUTS
from rationales.options import option

MASK_NUMBERS = 2**24  # numbers of masks in memory at once, when they are added up


@dataclass(frozen=True)
class Rise(Method):
    """Mean output under random masks M_i, weighted by M_i at a pixel, minus the mean output under all of them.

    sum_i f(x under M_i) M_i / sum_i M_i - mean_i f(x under M_i). With `normaliser=expected` the paper's Eq. 6, which
    divides by N p, the expected sum of N masks, and subtracts nothing: the same in expectation but for a constant.
    A mask is a grid of `cells` x `cells` random bits, 1 with `probability`, up-sampled bilinearly to one cell more than
    the image and cut out at a random place (section 3.2). Masks are made from the random key of each row, block by
    block, and never stored.
    """

    name: ClassVar[str] = "rise"
    summary: ClassVar[str] = "mean of random soft masks, weighted by the output that each leaves"
    needs: ClassVar[tuple[str, ...]] = ("images",)
    presets: ClassVar[Presets] = {
        "image": {"default": {}, "paper": {"samples": 4000, "normaliser": "expected"}},
    }

    samples: int = option(1000, "random masks")
    cells: int = option(7, "cells of a mask along each side")
    probability: float = option(0.5, "share of the cells that are kept")
    normaliser: str = option(
        "coverage",
        "divide by the sum of a pixel's masks and subtract the mean output, or divide by the expected sum",
        "coverage",
        "expected",
    )
    output: str = option("probability", "output of the model that is explained, for the target", *OUTPUTS)

    def __post_init__(self) -> None:
        if self.samples < 1 or self.cells < 1 or not 0 < self.probability < 1:
            raise OptionError("rise needs at least 1 sample and 1 cell, and a probability between 0 and 1")

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        if batch.grid is None and batch.pixel_grid is not None:
            raise OptionError(
                "rise masks the plane of an image and no words beside it; use integrated-gradients, occlusion or lime"
            )
        if batch.grid is None:
            raise OptionError(
                "rise masks the plane of an image, which text models and models of waveforms do not have; "
                "use integrated-gradients, occlusion or lime"
            )

        def keeps(row: Tensor, sample: Tensor) -> Tensor:
            return self.masks(batch, row, sample)

        outputs = outputs_under_keeps(batch, target, keeps, self.samples, output=self.output, progress=progress)
        all_samples = torch.arange(self.samples, device=batch.device)
        scores = torch.zeros(batch.size, device=batch.device, dtype=outputs.dtype)
        for number in torch.arange(batch.size[0], device=batch.device):
            row = number[None]
            weighted, covered = (torch.zeros(batch.size[1], device=batch.device, dtype=outputs.dtype) for _ in "12")
            for sample in torch.split(all_samples, max(1, MASK_NUMBERS // batch.size[1])):
                masks = self.masks(batch, row, sample)[:, 0].to(outputs.dtype)
                weighted += outputs[sample, number] @ masks
                covered += masks.sum(0)
            if self.normaliser == "expected":
                scores[number] = weighted / (self.samples * self.probability)
            else:
                scores[number] = weighted / covered.clamp(min=1e-6) - outputs[:, number].mean()
        return Attribution(scores * batch.rows.real)

    def masks(self, batch: Batch, row: Tensor, sample: Tensor) -> Tensor:
        """(k, R, n) in [0, 1]: the masks of these samples (k,) for these rows (R,)."""
        number = sample[:, None].expand(-1, len(row))
        keys = fold(batch.rows.key[row].expand_as(number).flatten(), number.flatten())
        random_numbers = uniform(keys, self.cells**2 + 2)
        bits = (random_numbers[:, 2:] < self.probability).to(batch.dtype).view(-1, self.cells, self.cells)
        height, width = batch.grid or (1, 1)
        down, across = (
            self._interpolation(random_numbers[:, axis], size).to(batch.dtype)
            for axis, size in enumerate((height, width))
        )
        return (down @ bits @ across.mT).view(len(sample), len(row), height * width)

    def _interpolation(self, random_number: Tensor, size: int) -> Tensor:
        """(K,) -> (K, size, cells): the bilinear weights of the cells along an axis, cut out at a random place.

        The cells are spread over (cells + 1) * side pixels, side the pixels of a cell, of which `size` are cut out.
        """
        side = -(-size // self.cells)
        offset = (random_number * side).long()
        pixel = offset[:, None] + torch.arange(size, device=random_number.device)  # (K, size)
        position = (pixel.double() + 0.5) * self.cells / ((self.cells + 1) * side) - 0.5
        position = position.clamp(0, self.cells - 1)
        cell = torch.arange(self.cells, device=random_number.device)
        return (1 - (position[..., None] - cell).abs()).clamp(min=0)
