"""Attributive Masking Learning, pretrained (pAML): an attribution network in one pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from rationales.masks.instant.aml.masker import AmlMasker
from rationales.methods.aml_method import AmlMethod
from rationales.methods.method import Progress
from rationales.models.text.batch import TextBatch


@dataclass(frozen=True)
class AmlPretrained(AmlMethod):
    """One pass through the pretrained attribution network (Barkan et al. 2024, Eq. 1)."""

    name: ClassVar[str] = "aml-pretrained"
    summary: ClassVar[str] = "an attribution network that was trained for the model, in one pass (texts only)"

    def maps(
        self, masker: AmlMasker, batch: TextBatch, target: Tensor, progress: Progress | None
    ) -> tuple[Tensor, list[int], list[str]]:
        return masker.attributions(batch, target), [0] * batch.inputs, []
