"""Attributive Masking Learning: a pretrained attribution network (pAML), and one fine-tuned on each input (fAML)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from torch import Tensor

from rationales.errors import OptionError
from rationales.masks.instant.aml.example_metrics import EXAMPLE_METRICS, to_rows
from rationales.masks.instant.aml.finetuning import FinetuneSettings, finetune, select_checkpoint
from rationales.masks.instant.aml.input_deltas import TUNED
from rationales.masks.instant.aml.masker import TRAIN_COMMAND, AmlMasker, load_aml_masker
from rationales.methods.method import Attribution, Method, Progress
from rationales.models.batch import Batch
from rationales.models.text.batch import TextBatch
from rationales.options import check_settings, option


@dataclass(frozen=True)
class AmlMethod(Method):
    """What both methods share: the masker."""

    needs: ClassVar[tuple[str, ...]] = ("an AML masker",)
    uses_baselines: ClassVar[bool] = False
    contrasts: ClassVar[bool] = False

    masker: str = option("", "file of a masker that was trained for the model by train-masker --kind aml")

    def trained_part_fingerprint(self) -> str:
        """Fingerprint of the masker's file, so that another file of the same name is another method."""
        path = Path(self.masker).expanduser()
        return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest() if path.is_file() else ""

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        if not isinstance(batch, TextBatch):
            raise OptionError(f"{self.name} has maskers for text models only; use marc")
        if batch.rows.contrast is not None:
            raise OptionError(
                f"{self.name} explains one class, and its maskers do not learn one against another; leave out against, "
                "or use marc"
            )
        if not self.masker:
            raise OptionError(
                f"{self.name} needs a masker that was trained for this model; train one with '{TRAIN_COMMAND}', then "
                "set the option masker to its file (--set masker=F)"
            )
        maps, steps, stop = self._maps(load_aml_masker(self.masker, batch.device), batch, target, progress)
        return Attribution(to_rows(batch, maps).to(batch.dtype), steps, stop)

    def _maps(
        self, masker: AmlMasker, batch: TextBatch, target: Tensor, progress: Progress | None
    ) -> tuple[Tensor, list[int], list[str]]:
        """Attribution maps (inputs, units), and of each input the step and the stop reason."""
        raise NotImplementedError


@dataclass(frozen=True)
class AmlPretrained(AmlMethod):
    """One pass through the pretrained attribution network (Barkan et al. 2024, Eq. 1)."""

    name: ClassVar[str] = "aml-pretrained"
    summary: ClassVar[str] = "an attribution network that was trained for the model, in one pass (texts only)"

    def _maps(
        self, masker: AmlMasker, batch: TextBatch, target: Tensor, progress: Progress | None
    ) -> tuple[Tensor, list[int], list[str]]:
        return masker.attributions(batch, target), [0] * batch.inputs, []


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

    def _maps(
        self, masker: AmlMasker, batch: TextBatch, target: Tensor, progress: Progress | None
    ) -> tuple[Tensor, list[int], list[str]]:
        settings = FinetuneSettings(self.steps, self.tune, self.rank, self.learning_rate)
        finetuned = finetune(masker, batch, target, settings, progress)
        if not self.select_by:
            return finetuned.maps[-1], [self.steps] * batch.inputs, ["steps"] * batch.inputs
        maps, step = select_checkpoint(finetuned, batch, target, self.select_by)
        return maps, step.tolist(), ["selected"] * batch.inputs
