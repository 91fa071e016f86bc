"""A model's predictions for many rewritten texts, equal ones evaluated once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from rationales.evaluation.faithfulness.rewriting import plain_rows
from rationales.models.text.model import TextModel
from rationales.models.text.tokens import EncodedText, TextInput
from rationales.rationale_parts import Unit

TEXTS_AT_ONCE = 2048


def predicted_classes(model: TextModel, texts: Sequence[TextInput]) -> np.ndarray:
    """(N,): the class that the model predicts for each text; an empty text has its special tokens only."""
    numbers: dict[tuple[str, str | None], int] = {}
    index = [numbers.setdefault((source.text, source.pair), len(numbers)) for source in texts]
    different = [TextInput(text, pair) for text, pair in numbers]
    classes: list[np.ndarray] = []
    with model.frozen(), torch.no_grad():
        for begin in range(0, len(different), TEXTS_AT_ONCE):
            chunk = different[begin : begin + TEXTS_AT_ONCE]
            rows = plain_rows(model, chunk, bare=False)
            encoded = [
                EncodedText(source, (Unit("", 0, 0),), text_rows) for source, text_rows in zip(chunk, rows, strict=True)
            ]
            classes.append(model.batch(encoded).predict().argmax(-1).cpu().numpy())
    return np.concatenate(classes)[index] if classes else np.zeros(0, dtype=np.int64)
