"""Score-CAM: feature maps weighted by the output that the image keeps under each of them (Wang et al. 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from rationales.methods.cam.cam_method import weighted_map
from rationales.methods.gradient.gradient_method import DEFAULT_OUTPUT
from rationales.methods.method import Attribution, Method, Progress
from rationales.models.batch import Batch
from rationales.models.batch.queries import outputs_under_keeps
from rationales.models.classes import OUTPUTS
from rationales.models.image.feature_maps import FeatureMap, feature_maps_of, watch_outputs
from rationales.options import option

_SMALLEST_RANGE = 1e-12  # of a map; one that is constant keeps nothing


@dataclass(frozen=True)
class ScoreCam(Method):
    """relu(sum_k alpha_k A_k), alpha the softmax over k of f(x under keep H_k) (Eq. 7 to 9).

    H_k is the map A_k, up-sampled to the image and scaled to [0, 1]. What it does not keep becomes the baseline. The
    paper's f(baseline), which it subtracts, is the same for all k and cancels in the softmax.
    """

    name: ClassVar[str] = "score-cam"
    summary: ClassVar[str] = "the last feature maps, weighted by the output that the image keeps under each"
    needs: ClassVar[tuple[str, ...]] = ("feature maps",)

    output: str = option(DEFAULT_OUTPUT, "output of the model that is explained, for the target", *OUTPUTS)
    layer: str = option("", "name of the sub-module whose output is used; by default the last one with feature maps")

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        feature = feature_maps_of(self.name, batch, self.layer)[-1]
        maps = batch.fit(lambda: self._maps(batch, feature))  # (M, C, h, w)

        def keeps(row: Tensor, channel: Tensor) -> Tensor:
            selected = maps[batch.rows.mask[row]][:, channel].transpose(0, 1)  # (k, R, h, w)
            large = interpolate(selected, size=batch.grid, mode="bilinear", align_corners=False)
            low, high = large.amin((2, 3), keepdim=True), large.amax((2, 3), keepdim=True)
            return ((large - low) / (high - low).clamp(min=_SMALLEST_RANGE)).flatten(2)

        outputs = outputs_under_keeps(batch, target, keeps, maps.shape[1], output=self.output, progress=progress)
        weights = outputs.T.softmax(1).to(maps.dtype)  # (S, C)
        scores = [
            weighted_map(maps[batch.rows.mask[row]], weights[row, :, None, None], batch.grid)
            for row in torch.split(torch.arange(batch.size[0], device=batch.device), max(1, batch.budget))
        ]
        return Attribution(torch.cat(scores) * batch.rows.real)

    def _maps(self, batch: Batch, feature: FeatureMap) -> Tensor:
        """(M, C, h, w): the maps of the distinct rows."""
        maps: list[Tensor] = []
        order: list[Tensor] = []
        with torch.no_grad():
            for block in batch.blocks(batch.distinct):
                feature_outputs: list[Tensor] = []
                with watch_outputs(feature.module, feature_outputs.append):
                    pixels = batch.input_embeddings(block.row)
                    batch.forward_from(block.piece(1), pixels.clone())
                maps.append(feature.layout.maps(feature_outputs[feature.call]).relu().to(pixels.dtype))
                order.append(block.row)
        return torch.cat(maps)[torch.cat(order).argsort()]
