"""What people marked in a text as scores of 1 and 0, so that it is shown beside the scores of methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from rationales.errors import InputError, OptionError
from rationales.methods.method import Attribution, Method, Progress
from rationales.models.batch import Batch
from rationales.models.text.batch import TextBatch
from rationales.models.text.units import trim

PEOPLE = "People"
Spans = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class HumanMarks(Method):
    """1 for every unit that shares a visible character with a mark, else 0; start and end are in characters."""

    name: ClassVar[str] = "people"
    summary: ClassVar[str] = "what people marked"
    needs: ClassVar[tuple[str, ...]] = ("texts",)
    uses_baselines: ClassVar[bool] = False
    class_specific: ClassVar[bool] = False

    spans: Spans
    pair_spans: Spans = ()

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        if not isinstance(batch, TextBatch):
            raise OptionError("people's marks are shown in texts only")
        marks = []
        for item in batch.text_sources().encoded:
            texts = (item.source.text, item.source.pair or "")
            for text, spans in zip(texts, (self.spans, self.pair_spans), strict=True):
                for start, end in spans:
                    if not 0 <= start < end <= len(text):
                        raise InputError(f"the mark {start}..{end} lies outside of the text of {len(text)} characters")
            values = np.zeros(len(item.units), dtype=np.float32)
            for number, unit in enumerate(item.units):
                first, last = trim(texts[unit.text_index], unit.start, unit.end)
                spans = self.pair_spans if unit.text_index else self.spans
                values[number] = any(start < last and first < end for start, end in spans)
            marks.append(torch.from_numpy(values))
        return Attribution(batch.spread(marks))
