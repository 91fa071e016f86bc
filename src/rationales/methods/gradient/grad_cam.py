"""Grad-CAM: the last feature maps, weighted by the gradients of the target's log-odds (Selvaraju et al. 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from rationales.errors import ModelError, OptionError
from rationales.methods.gradient.gradient_method import DEFAULT_OUTPUT
from rationales.methods.method import Attribution, Method, Progress
from rationales.models.batch import Batch
from rationales.models.batch.batch import NO_GRADIENTS
from rationales.models.batch.queries import to_rows
from rationales.models.batch.rows import Block, Piece
from rationales.models.classes import OUTPUTS, explained_output
from rationales.models.image.feature_maps import FeatureMap, find_feature_map, watch_outputs
from rationales.options import option


@dataclass(frozen=True)
class GradCam(Method):
    """relu(sum_k alpha_k A_k), alpha_k the mean gradient of map A_k (Eq. 1 and 2), up-sampled to the image."""

    name: ClassVar[str] = "grad-cam"
    summary: ClassVar[str] = "the last feature maps of an image model, weighted by their gradients"
    uses_baselines: ClassVar[bool] = False
    needs: ClassVar[tuple[str, ...]] = ("gradients", "feature maps")

    output: str = option(DEFAULT_OUTPUT, "output of the model that is explained, for the target", *OUTPUTS)
    layer: str = option("", "name of the sub-module whose output is used; by default the last one with feature maps")

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        if batch.grid is None:
            raise OptionError(
                "grad-cam needs feature maps of an image, which text models and models of waveforms do not have; "
                "use integrated-gradients, saliency or marc"
            )
        rows = batch.distinct
        first = torch.zeros(1, dtype=torch.long, device=batch.device)
        embedded = batch.input_embeddings(first)
        feature = find_feature_map(
            batch.modules[0],
            lambda pixels: batch.forward_from(Piece(first, first, 0, batch.cost()[0]), pixels),
            embedded,
            batch.grid,
            self.layer,
        )

        def compute_maps() -> Tensor:
            maps = torch.zeros(rows, batch.size[1], device=batch.device, dtype=embedded.dtype)
            done = 0
            for block in batch.blocks(rows):
                maps[block.row] = self._maps(batch, block, feature, target)
                done += len(block.row)
                if progress is not None:
                    progress(done / rows)
            return maps * batch.rows.real[:rows]

        return Attribution(to_rows(batch, batch.fit(compute_maps)))

    def _maps(self, batch: Batch, block: Block, feature: FeatureMap, target: Tensor) -> Tensor:
        """(R, n): the maps of a block's rows, up-sampled."""
        feature_outputs: list[Tensor] = []
        with torch.enable_grad(), watch_outputs(feature.module, feature_outputs.append):
            pixels = batch.input_embeddings(block.row).requires_grad_()
            logits = batch.forward_from(block.piece(1), pixels.clone())
            value = explained_output(batch.head, logits, target[batch.rows.input[block.row]], self.output)
        if not value.requires_grad:
            raise ModelError(NO_GRADIENTS)
        gradient = torch.autograd.grad(value.sum(), feature_outputs[-1], allow_unused=True)[0]
        if gradient is None:
            raise ModelError(f"the model's logits do not depend on the output of {feature.name}; name another layer")
        maps, gradients = (feature.layout.maps(x.detach().to(pixels.dtype)) for x in (feature_outputs[-1], gradient))
        weighted_map = (gradients.mean((2, 3), keepdim=True) * maps).sum(1, keepdim=True).relu()
        return interpolate(weighted_map, size=batch.grid, mode="bilinear", align_corners=False).flatten(1)
