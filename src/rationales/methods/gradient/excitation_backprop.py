"""Excitation backpropagation: the probability that a neuron wins, from the class down (Zhang et al. 2016)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from rationales.methods.gradient.gradient_method import DEFAULT_OUTPUT
from rationales.methods.method import Attribution, Method, Progress
from rationales.methods.support.winning_probabilities import winning_probabilities
from rationales.models.batch import Batch
from rationales.models.batch.queries import to_rows
from rationales.models.batch.rows import Block
from rationales.models.classes import OUTPUTS, explained_output
from rationales.models.fast.precision import weights_fingerprint
from rationales.models.image.feature_maps import FeatureMap, feature_maps_of, noise_like
from rationales.options import option
from rationales.rationale import Note

INPUT = "input"  # as a layer: the pixels themselves
MIN_CELLS = 14  # along the longer side, of the layer that is used by default: 16 pixels each at 224
FULL_SHARE = 0.999  # of the largest sum of probabilities that any layer has
NOTED_LOSS = 0.5  # a note says if more than this probability ends at neurons without excitation
PASSES = 4  # memory of the two passes and what is kept of them, in forward and backward passes

_remembered: WeakKeyDictionary[nn.Module, tuple[object, FeatureMap]] = WeakKeyDictionary()


@dataclass(frozen=True)
class ExcitationBackprop(Method):
    """Winning probabilities of a layer's neurons, summed over channels and up-sampled; they add up to 1.

    They do so at every layer, but for what ends at neurons that no input excites (they are active by their bias): the
    scores are the probabilities given that this is not so. With `contrastive` those of a neuron with the opposite
    weights are subtracted, and what is negative is 0.
    """

    name: ClassVar[str] = "excitation-backprop"
    summary: ClassVar[str] = "probability that a neuron wins, carried back through positive weights"
    uses_baselines: ClassVar[bool] = False
    needs: ClassVar[tuple[str, ...]] = ("gradients", "feature maps")

    output: str = option(DEFAULT_OUTPUT, "output of the model that is explained, for the target", *OUTPUTS)
    layer: str = option("", "sub-module whose neurons are shown, or input; by default one with 14 cells in a row")
    contrastive: bool = option(False, "subtract the probabilities of the class's opposite")

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        feature = self._feature(batch, target)
        rows = batch.distinct
        lost = torch.zeros(rows, device=batch.device, dtype=torch.float64)

        def compute() -> Tensor:
            single = torch.promote_types(batch.dtype, torch.float32)
            scores = torch.zeros(rows, batch.size[1], device=batch.device, dtype=single)
            done = 0
            for block in batch.blocks(rows, PASSES):
                probabilities, lost[block.row] = self._block_scores(batch, block, feature, target)
                scores[block.row] = probabilities.to(single)
                done += len(block.row)
                if progress is not None:
                    progress(done / rows)
            return scores

        scores = batch.fit(compute)
        notes: list[list[Note]] = [[] for _ in range(batch.inputs)]
        for row, share in enumerate(lost.tolist()):
            if share > NOTED_LOSS:
                message = f"{share:.0%} of the winning probability ended at neurons that are active by their bias alone"
                notes[int(batch.rows.input[row])].append(Note("lost-probability", message))
        return Attribution(to_rows(batch, scores * batch.rows.real[:rows]), notes=notes)

    def _block_scores(
        self, batch: Batch, block: Block, feature: FeatureMap | None, target: Tensor
    ) -> tuple[Tensor, Tensor]:
        """(R, n): the probabilities of a block's rows; (R,): the share that was lost on the way."""
        forward = _explained(batch, block, target, self.output)
        pixels = batch.input_embeddings(block.row)
        features = [] if feature is None else [feature]

        def summed(opposite: bool) -> tuple[Tensor, Tensor]:
            probability = winning_probabilities(batch.modules[0], forward, pixels, features, opposite)[0]
            cells = (probability if feature is None else feature.layout.maps(probability)).sum(1, keepdim=True)
            return _with_sum_one(cells.to(pixels.dtype)), 1 - cells.flatten(1).double().sum(1)

        cells, lost = summed(opposite=False)
        if self.contrastive:
            cells = (cells - summed(opposite=True)[0]).clamp(min=0)
        large = interpolate(cells, size=batch.grid, mode="bilinear", align_corners=False)
        total = cells.flatten(1).sum(1)
        return (_with_sum_one(large) * total.view(-1, 1, 1, 1)).flatten(1), lost

    def _feature(self, batch: Batch, target: Tensor) -> FeatureMap | None:
        """The layer whose neurons are shown; None for the pixels.

        By default, of the layers with enough cells, the last that all probability goes through: not one branch of two.
        """
        if self.layer == INPUT and batch.grid is not None:
            return None
        features = feature_maps_of(self.name, batch, self.layer)
        if self.layer:
            return features[-1]
        module = batch.modules[0]
        state = (batch.grid, batch.dtype, weights_fingerprint(module))
        remembered = _remembered.get(module)
        if remembered is None or remembered[0] != state:
            remembered = _remembered[module] = (state, self._last_complete(batch, features, target))
        return remembered[1]

    def _last_complete(self, batch: Batch, features: list[FeatureMap], target: Tensor) -> FeatureMap:
        """The last of the fine layers whose probabilities have the largest sum, on an image of noise."""
        fine = [feature for feature in features if max(feature.layout.height, feature.layout.width) >= MIN_CELLS]
        fine = fine or features
        block = next(iter(batch.blocks(1)))
        noise = noise_like(batch.input_embeddings(block.row))
        forward = _explained(batch, block, torch.zeros_like(target), DEFAULT_OUTPUT)
        probabilities = winning_probabilities(batch.modules[0], forward, noise, fine)[:-1]
        totals = torch.stack([probability.sum() for probability in probabilities]).tolist()
        return [feature for feature, total in zip(fine, totals, strict=True) if total >= FULL_SHARE * max(totals)][-1]


def _with_sum_one(cells: Tensor) -> Tensor:
    """(R, 1, h, w), divided by the sum of each row if that is positive."""
    total = cells.flatten(1).sum(1).view(-1, 1, 1, 1)
    return torch.where(total > 0, cells / total, torch.zeros_like(cells))


def _explained(batch: Batch, block: Block, target: Tensor, output: str) -> Callable[[Tensor], Tensor]:
    """Function from the pixels of a block's rows to their explained output (R,)."""

    def forward(pixels: Tensor) -> Tensor:
        logits = batch.forward_from(block.piece(1), pixels)
        return explained_output(batch.head, logits, target[batch.rows.input[block.row]], output)

    return forward
