"""Sequential integrated gradients: one path per word, all other words being as they are (Enguehard 2023)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from rationales.errors import OptionError
from rationales.methods.gradient.gradient_method import GradientMethod
from rationales.methods.method import Attribution, Progress
from rationales.models.batch import Batch
from rationales.models.batch.queries import gradient_at
from rationales.models.batch.rows import Block, Piece
from rationales.models.text.batch import TextBatch
from rationales.options import option


@dataclass(frozen=True)
class SequentialIg(GradientMethod):
    """(x_i - b_i) times the mean gradient at word i, while i alone goes from the baseline to the text.

    All tokens of a word go together. The paths of all words of all texts are run in the same batches.
    """

    name: ClassVar[str] = "sequential-ig"
    summary: ClassVar[str] = "integrated gradients with a path for each word, the others unchanged (texts only)"
    needs: ClassVar[tuple[str, ...]] = ("gradients", "texts")

    steps: int = option(50, "points on the path of each word")

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise OptionError(f"sequential-ig needs at least 1 step, not {self.steps}")

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        if not isinstance(batch, TextBatch):
            raise OptionError(
                "sequential-ig runs a path for every unit, which is feasible for text models only; use occlusion or "
                "integrated-gradients"
            )

        def compute() -> Tensor:
            single = torch.promote_types(batch.dtype, torch.float32)
            scores = torch.zeros(batch.size, device=batch.device, dtype=single)
            done, total = 0, int(batch.rows.real.sum())
            for block in batch.blocks():
                paths = torch.nonzero(batch.rows.real[block.row])  # (P, 2): row within the block, and unit
                capacity = block.variants * len(block.row)  # rows that fit at once
                for chunk in torch.split(paths, max(1, capacity // self.steps)):
                    row, unit = block.row[chunk[:, 0]], chunk[:, 1]
                    scores[row, unit] = self._path_scores(batch, block, target, row, unit, capacity).to(single)
                    done += len(chunk)
                    if progress is not None:
                        progress(done / total)
            return scores

        return Attribution(batch.fit(compute))

    def _path_scores(
        self, batch: TextBatch, block: Block, target: Tensor, row: Tensor, unit: Tensor, capacity: int
    ) -> Tensor:
        """(P,): the scores of these units of these rows of the block."""
        nodes, weights = (torch.from_numpy(values) / 2 for values in np.polynomial.legendre.leggauss(self.steps))
        full = batch.input_embeddings(row)  # (P, T, hidden)
        moves = batch.owner[row, : full.shape[1]] == unit[:, None]  # (P, T): the word's tokens
        difference = (full - batch.all_replaced(row)) * moves[..., None]
        total, size = torch.zeros_like(full), full.shape[1]
        for steps in torch.split(torch.arange(self.steps), max(1, capacity // len(row))):
            position = (0.5 - nodes[steps]).to(full)  # the distance from the text, of 1
            points = full - position[:, None, None, None] * difference
            rows = row.repeat(len(steps))
            lengths_equal = min(batch.lengths[index] for index in row.tolist()) == size
            piece = Piece(torch.arange(len(rows), device=rows.device), rows, block.view, size, lengths_equal)
            gradient = gradient_at(batch, piece, points.flatten(0, 1), target, self.output).view_as(points)
            total += torch.einsum("k,kpth->pth", weights[steps].to(full), gradient)
        product = total * difference
        return (product.abs() if self.reduce == "norm" else product).sum((1, 2))
