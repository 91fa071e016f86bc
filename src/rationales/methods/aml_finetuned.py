"""Attributive Masking Learning, fine-tuned (fAML): the attribution network after a few steps on each input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from rationales.masks.instant.aml.example_metrics import EXAMPLE_METRICS
from rationales.masks.instant.aml.finetuning import FinetuneSettings, finetune, select_checkpoint
from rationales.masks.instant.aml.input_deltas import TUNED
from rationales.masks.instant.aml.masker import AmlMasker
from rationales.methods.aml_method import AmlMethod
from rationales.methods.method import Progress
from rationales.models.text.batch import TextBatch
from rationales.options import check_settings, option


@dataclass(frozen=True)
class AmlFinetuned(AmlMethod):
    """The pretrained network, fine-tuned on each input by a fixed number of steps (section 3.1).

    With `select_by`, of all steps the one whose metric on the explained input itself is the best, as in the paper's
    figures: to be compared only with methods that are selected in the same way (`selected_by_metric`).
    """

    name: ClassVar[str] = "aml-finetuned"
    summary: ClassVar[str] = "the same network, fine-tuned on each input; many inputs go together (texts only)"
    needs: ClassVar[tuple[str, ...]] = ("an AML masker", "gradients")

    steps: int = option(10, "steps on each input")
    tune: str = option("all", "the weights that each input has of its own", *TUNED)
    rank: int = option(4, "rank of the changes, where tune=low-rank")
    learning_rate: float = option(0.0, "learning rate of Adam; 0: 1e-2 for head, 3e-3 for low-rank, 4e-5 for all")
    select_by: str = option(
        "", "metric on the explained input that selects the step; empty: always the last step", "", *EXAMPLE_METRICS
    )

    def __post_init__(self) -> None:
        check_settings(self, ("rank",), ("steps", "learning_rate"))

    @property
    def removal_operation(self) -> str:
        """What the masker's loss replaces masked units by, in the steps on each input."""
        return self.training_operation if self.steps else ""

    @property
    def selected_by(self) -> str:
        """The option `select_by`."""
        return self.select_by

    def maps(
        self, masker: AmlMasker, batch: TextBatch, target: Tensor, progress: Progress | None
    ) -> tuple[Tensor, list[int], list[str]]:
        settings = FinetuneSettings(self.steps, self.tune, self.rank, self.learning_rate)
        finetuned = finetune(masker, batch, target, settings, progress)
        if not self.select_by:
            return finetuned.maps[-1], [self.steps] * batch.inputs, ["steps"] * batch.inputs
        maps, step = select_checkpoint(finetuned, batch, target, self.select_by)
        return maps, step.tolist(), ["selected"] * batch.inputs
