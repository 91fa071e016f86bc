"""Guided Grad-CAM: the guided gradient of every pixel times the map of Grad-CAM (Selvaraju et al. 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from rationales.methods.cam.grad_cam import GradCam
from rationales.methods.gradient.gradient_method import REDUCE
from rationales.methods.method import Attribution, Progress
from rationales.methods.support.guided_gradients import guided_gradients
from rationales.models.batch import Batch
from rationales.options import option


@dataclass(frozen=True)
class GuidedGradCam(GradCam):
    """Grad-CAM's map times the L1 norm (with `reduce=sum` the sum) of the guided gradient over a pixel's colours."""

    name: ClassVar[str] = "guided-grad-cam"
    summary: ClassVar[str] = "the map of grad-cam times the guided gradient of each pixel"

    reduce: str = option("norm", "reduction of the guided gradient over colours: signed sum or L1 norm", *REDUCE)

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        class_maps = self.class_maps(batch, target)
        gradients, notes = guided_gradients(batch, target, self.output, self.reduce, progress)
        notes = [[*first, *second] for first, second in zip(class_maps.notes, notes, strict=True)]
        return Attribution(class_maps.scores * gradients, notes=notes)
