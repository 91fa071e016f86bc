"""Base class of the methods of Attributive Masking Learning: the masker, and its maps as scores."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from torch import Tensor

from rationales.errors import OptionError
from rationales.masks.instant.aml.example_metrics import to_rows
from rationales.masks.instant.aml.masker import TRAIN_COMMAND, AmlMasker, load_aml_masker
from rationales.masks.instant.aml.settings import AmlLosses
from rationales.methods.method import Attribution, Method, Progress
from rationales.models.batch import Batch
from rationales.models.text.batch import TextBatch
from rationales.options import option

OPERATIONS = {  # loss option `replacement` -> removal; a random token and a learned vector are no removal of a metric
    "auto": "reference",
    "mask": "mask",
    "unk": "unk",
    "context": "fill",
    "omission": "delete",
}


@dataclass(frozen=True)
class AmlMethod(Method):
    """What both methods share: the masker."""

    needs: ClassVar[tuple[str, ...]] = ("an AML masker",)
    uses_baselines: ClassVar[bool] = False
    contrasts: ClassVar[bool] = False

    masker: str = option("", "file of a masker that was trained for the model by train-masker --kind aml")

    @property
    def training_operation(self) -> str:
        """What the masker's loss replaces masked units by."""
        losses = load_aml_masker(self.masker).card.losses if self.masker else AmlLosses()
        return OPERATIONS.get(losses.replacement, "")

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
        maps, steps, stop = self.maps(load_aml_masker(self.masker, batch.device), batch, target, progress)
        return Attribution(to_rows(batch, maps).to(batch.dtype), steps, stop)

    @abstractmethod
    def maps(
        self, masker: AmlMasker, batch: TextBatch, target: Tensor, progress: Progress | None
    ) -> tuple[Tensor, list[int], list[str]]:
        """Attribution maps (inputs, units), and of each input the step and the stop reason."""
