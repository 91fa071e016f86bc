"""Grad-CAM: the last feature maps, weighted by the gradients of the target's log-odds (Selvaraju et al. 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from rationales.methods.cam.cam_method import CamMethod
from rationales.methods.method import Attribution, Progress
from rationales.models.batch import Batch


@dataclass(frozen=True)
class GradCam(CamMethod):
    """relu(sum_k alpha_k A_k), alpha_k the mean gradient of map A_k (Eq. 1 and 2), up-sampled to the image."""

    name: ClassVar[str] = "grad-cam"
    summary: ClassVar[str] = "the last feature maps of an image model, weighted by their gradients"

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        return self.class_maps(batch, target, progress)

    def channel_weights(self, maps: Tensor, gradients: Tensor) -> Tensor:
        return gradients.mean((2, 3), keepdim=True)
