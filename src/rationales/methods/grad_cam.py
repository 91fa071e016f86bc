"""Grad-CAM: the last feature maps, weighted by how the target's logit answers to them (Selvaraju et al. 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from rationales.errors import ModelError, OptionError
from rationales.methods.method import Attribution, Method, Progress
from rationales.models.batch import Batch
from rationales.models.features import Feature, find_feature, outputs
from rationales.models.probing import NO_GRADIENTS, OF, expanded, explained
from rationales.models.rows import Block, Piece
from rationales.options import option


@dataclass(frozen=True)
class GradCam(Method):
    """relu(sum_k alpha_k A_k), alpha_k the mean slope at map A_k (Eq. 1 and 2), up-sampled to the picture."""

    name: ClassVar[str] = "grad-cam"
    summary: ClassVar[str] = "the last feature maps of an image model, weighted by their gradients"
    needs: ClassVar[tuple[str, ...]] = ("gradients", "feature maps")

    of: str = option("logit", "what of the target is explained", *OF)
    layer: str = option("", "name of the sub-module whose output is taken; by default the last with feature maps")

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        if batch.grid is None:
            raise OptionError(
                "grad-cam reads feature maps over a picture, which a text model or one of waveforms does not have; "
                "use integrated-gradients, saliency or marc"
            )
        rows = batch.distinct
        first = torch.zeros(1, dtype=torch.long, device=batch.device)
        read = batch.embedded(first)
        feature = find_feature(
            batch.modules[0],
            lambda given: batch.forward_from(Piece(first, first, 0, batch.cost()[0]), given),
            read,
            batch.grid,
            self.layer,
        )

        def work() -> Tensor:
            found = torch.zeros(rows, batch.size[1], device=batch.device, dtype=read.dtype)
            done = 0
            for block in batch.blocks(rows):
                found[block.row] = self._maps(batch, block, feature, target)
                done += len(block.row)
                if progress is not None:
                    progress(done / rows)
            return found * batch.rows.real[:rows]

        return Attribution(expanded(batch, batch.fit(work)))

    def _maps(self, batch: Batch, block: Block, feature: Feature, target: Tensor) -> Tensor:
        """(R, n)."""
        seen: list[Tensor] = []
        with torch.enable_grad(), outputs(feature.module, seen.append):
            pixels = batch.embedded(block.row).requires_grad_()
            logits = batch.forward_from(block.piece(1), pixels.clone())
            value = explained(batch, logits, target[batch.rows.input[block.row]], self.of)
        if not value.requires_grad:
            raise ModelError(NO_GRADIENTS)
        slope = torch.autograd.grad(value.sum(), seen[-1], allow_unused=True)[0]
        if slope is None:
            raise ModelError(f"the model's answer does not depend on what {feature.name} gives out; name another layer")
        maps, slopes = (feature.layout.maps(part.detach().to(pixels.dtype)) for part in (seen[-1], slope))
        found = (slopes.mean((2, 3), keepdim=True) * maps).sum(1, keepdim=True).relu()
        return interpolate(found, size=batch.grid, mode="bilinear", align_corners=False).flatten(1)
