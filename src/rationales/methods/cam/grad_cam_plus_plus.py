"""Grad-CAM++: feature maps weighted by their positive gradients, place by place (Chattopadhyay et al. 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rationales.methods.cam.cam_method import CamMethod
from rationales.methods.method import Attribution, Progress
from rationales.models.batch import Batch


@dataclass(frozen=True)
class GradCamPlusPlus(CamMethod):
    """relu(sum_k w_k A_k) with w_k = sum_ij a_ij relu(g_ij), a_ij = g_ij^2 / (2 g_ij^2 + g_ij^3 sum A_k) (Eq. 10, 19).

    g is the gradient of the explained output S. The paper explains exp(S), whose first three derivatives are exp(S)
    times the powers of g; the common factor exp(S) does not change the order of the pixels and is left out. The paper's
    maps are those after a ReLU: negative values, which other layers have, count as 0 in the sum of A_k.
    """

    name: ClassVar[str] = "grad-cam-plus-plus"
    summary: ClassVar[str] = "the last feature maps, weighted by their positive gradients, place by place"

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        return self.class_maps(batch, target, progress)

    def channel_weights(self, maps: Tensor, gradients: Tensor) -> Tensor:
        positive = gradients.relu()
        activation = maps.relu().sum((2, 3), keepdim=True)
        denominator = 2 + positive * activation  # g^2 cancels
        share = torch.where(positive > 0, 1 / denominator, torch.zeros_like(positive))
        return (share * positive).sum((2, 3), keepdim=True)
