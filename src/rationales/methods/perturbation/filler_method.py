"""What the methods that write a filler's words into a text share."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, ClassVar

from rationales.errors import OptionError
from rationales.methods.method import Method
from rationales.models.batch import Batch
from rationales.models.text.batch import TextBatch
from rationales.models.text.filling.filler import Filler
from rationales.models.text.filling.loading import filler_names, load_filler, required_filler
from rationales.models.weights_digest import weights_digest
from rationales.options import option


@dataclass(frozen=True)
class FillerMethod(Method):
    """A method with the option `filler`."""

    needs: ClassVar[tuple[str, ...]] = ("texts", "a filler")

    filler: str | Filler = option(  # noqa: RUF009  # a field with its documentation, not a shared value
        "", "masked language model: a name, an id, a folder or (module, tokenizer); by default the first of ours"
    )

    def __post_init__(self) -> None:
        source: Any = self.filler
        if not isinstance(source, str):  # objects are checked at once, names when they are loaded
            checked = str(source) if isinstance(source, os.PathLike) else load_filler(source)
            object.__setattr__(self, "filler", "" if checked is None else checked)

    def trained_part_fingerprint(self) -> str:
        """Fingerprint of the filler's weights, so that another filler of the same name is another method."""
        names = filler_names()
        filler = load_filler(self.filler or (names[0] if names else None))
        return "" if filler is None else weights_digest(filler.module).hex()

    def open(self, batch: Batch) -> tuple[TextBatch, Filler]:
        """The batch, checked to consist of words, and the filler."""
        if not isinstance(batch, TextBatch):
            raise OptionError(f"{self.name} writes other words into texts and is for text models only; use occlusion")
        if batch.unit != "word":
            raise OptionError(f"{self.name} needs words as units, not {batch.unit}s; load the model with unit='word'")
        return batch, required_filler(self.filler, self.name, batch.device)
