"""Base class of the class activation maps: their options, the search for the layer, and one map per row."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from rationales.errors import ModelError
from rationales.methods.gradient.gradient_method import DEFAULT_OUTPUT
from rationales.methods.method import Attribution, Method, Progress
from rationales.models.batch import Batch
from rationales.models.batch.batch import NO_GRADIENTS
from rationales.models.batch.queries import to_rows
from rationales.models.batch.rows import Block
from rationales.models.classes import OUTPUTS, explained_output
from rationales.models.image.feature_maps import FeatureMap, feature_maps_of, watch_outputs
from rationales.options import option
from rationales.rationale import Note

NEGLIGIBLE = 1e-7  # sum of a map that counts as zero, relative to the explained output, or to 1 where that is smaller


@dataclass(frozen=True)
class CamMethod(Method):
    """A method whose map is relu(sum_k weight_k A_k), up-sampled to the image; A_k are the maps of one layer."""

    needs: ClassVar[tuple[str, ...]] = ("gradients", "feature maps")
    uses_baselines: ClassVar[bool] = False

    output: str = option(DEFAULT_OUTPUT, "output of the model that is explained, for the target", *OUTPUTS)
    layer: str = option("", "name of the sub-module whose output is used; by default the last one with feature maps")

    @abstractmethod
    def channel_weights(self, maps: Tensor, gradients: Tensor) -> Tensor:
        """(R, C, h, w) maps and their gradients -> (R, C, 1, 1) weights."""

    def class_maps(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        """(S, n): the map of every row, 0 for padding; a note for every input whose map is zero up to rounding."""
        feature = feature_maps_of(self.name, batch, self.layer)[-1]
        rows = batch.distinct
        zero = torch.zeros(rows, device=batch.device, dtype=torch.bool)

        def compute() -> Tensor:
            single = torch.promote_types(batch.dtype, torch.float32)
            scores = torch.zeros(rows, batch.size[1], device=batch.device, dtype=single)
            done = 0
            for block in batch.blocks(rows):
                maps, gradients, value = self._maps_and_gradients(batch, block, feature, target)
                weights = self.channel_weights(maps, gradients)
                scores[block.row] = weighted_map(maps, weights, batch.grid).to(single)
                positive = (weights * maps).sum(1).relu().flatten(1).sum(1)
                zero[block.row] = positive <= NEGLIGIBLE * value.abs().clamp(min=1)
                done += len(block.row)
                if progress is not None:
                    progress(done / rows)
            return scores * batch.rows.real[:rows]

        scores = to_rows(batch, batch.fit(compute))
        message = (
            f"the map of {self.name} is zero up to rounding: at the layer {feature.name} nothing speaks for the class; "
            "set another layer (layer), or use integrated-gradients, occlusion or marc"
        )
        zero_inputs = set(batch.rows.input[:rows][zero].tolist())
        notes = [[Note("zero-map", message)] if number in zero_inputs else [] for number in range(batch.inputs)]
        return Attribution(scores, notes=notes)

    def _maps_and_gradients(
        self, batch: Batch, block: Block, feature: FeatureMap, target: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """(R, C, h, w) twice: the maps of a block's rows, and the gradients of the explained output; (R,): it."""
        feature_outputs: list[Tensor] = []
        with torch.enable_grad(), watch_outputs(feature.module, feature_outputs.append):
            pixels = batch.input_embeddings(block.row).requires_grad_()
            logits = batch.forward_from(block.piece(1), pixels.clone())
            value = explained_output(batch.head, logits, target[batch.rows.input[block.row]], self.output)
        if not value.requires_grad:
            raise ModelError(NO_GRADIENTS)
        output = feature_outputs[feature.call]
        gradient = torch.autograd.grad(value.sum(), output, allow_unused=True)[0]
        if gradient is None:
            raise ModelError(f"the model's logits do not depend on the output of {feature.name}; name another layer")
        maps, gradients = (feature.layout.maps(x.detach().to(pixels.dtype)) for x in (output, gradient))
        return maps, gradients, value.detach()


def weighted_map(maps: Tensor, weights: Tensor, grid: tuple[int, int] | None) -> Tensor:
    """(R, C, h, w), (R, C, 1, 1) -> (R, n): the positive part of the weighted sum, up-sampled to the image."""
    combined = (weights * maps).sum(1, keepdim=True).relu()
    return interpolate(combined, size=grid, mode="bilinear", align_corners=False).flatten(1)
