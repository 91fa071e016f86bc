"""Texts as a Batch for a function that returns probabilities: words are deleted or replaced in the text itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from rationales.errors import ModelError, OptionError
from rationales.models.batch import Batch, Noise, Piece
from rationales.models.classes import Head
from rationales.models.function.sources import TextFunction
from rationales.models.text.text_sources import rewrite
from rationales.models.text.tokens import EncodedText

DELETE = "delete"  # the baseline of a word that is taken out of the text
SMALLEST_PROBABILITY = 1e-12  # has a finite logit
SUM_TOLERANCE = 1e-3  # by which probabilities of exclusive classes may miss the sum 1
KNOWN_TEXTS = 2**16  # whose outputs a batch remembers
ALLOWED_NEEDS = ("texts",)  # of methods; a function gives nothing but outputs for texts
METHODS_WITHOUT_GRADIENTS = "loo-empty, occlusion, lime, lime-text, kernel-shap, shapley-sampling or solvex"


@dataclass(eq=False)
class FunctionBatch(Batch):
    """Rows of one text each; keeps are 0 or 1, and equal texts go through the function once."""

    function: TextFunction
    texts: Sequence[EncodedText]
    baseline: str
    known_outputs: dict[Any, np.ndarray] = field(default_factory=dict, repr=False)

    deletes_units: ClassVar[bool] = True

    def cost(self) -> list[int]:
        return [len(text.units) for text in self.texts]

    def forward(self, piece: Piece, keep: Tensor, noise: Noise | None) -> Tensor:
        if keep.requires_grad or noise is not None:
            raise _no_inside("an optimised mask", ("gradients",), self.function.name)
        return self.class_logits(piece, self._outputs(piece.row, keep, self.baseline))

    def logits_deleted(self, keep: Tensor, rows: Tensor | None = None) -> Tensor:
        row = torch.arange(self.size[0], device=self.device) if rows is None else rows
        variants = keep.shape[0] if keep.dim() == 3 else 1
        repeated = row.repeat(variants)
        piece = Piece(repeated, repeated, 0, self.size[1])
        logits = self.class_logits(piece, self._outputs(repeated, keep.reshape(-1, self.size[1]), DELETE))
        return logits.reshape(*keep.shape[:-1], self.classes)

    def _outputs(self, row: Tensor, keep: Tensor, baseline: str) -> Tensor:
        """(R, outputs): logits of the texts of these rows under hard keeps (R, n)."""
        if not bool(((keep == 0) | (keep == 1)).all()):
            raise OptionError(
                f"{self.function.name} reads texts, in which a word is kept or not; this method needs soft keeps "
                f"between 0 and 1, so use {METHODS_WITHOUT_GRADIENTS}"
            )
        hard = keep.bool().numpy()
        texts = [self._text(number, kept, baseline) for number, kept in zip(row.tolist(), hard, strict=True)]
        unknown = list(dict.fromkeys(text for text in texts if text not in self.known_outputs))
        if len(self.known_outputs) + len(unknown) > KNOWN_TEXTS:
            self.known_outputs.clear()
            unknown = list(dict.fromkeys(texts))
        if unknown:
            self.known_outputs.update(zip(unknown, self._logits(unknown), strict=True))
        return torch.from_numpy(np.stack([self.known_outputs[text] for text in texts]))

    def _text(self, number: int, kept: np.ndarray, baseline: str) -> str | tuple[str, str]:
        """The text, or the tuple of two, in which the words that are not kept are deleted or replaced."""
        encoded = self.texts[number]
        units = len(encoded.units)
        if kept[:units].all():
            source = encoded.source
        else:
            words = {} if baseline == DELETE else dict.fromkeys(np.flatnonzero(~kept[:units]).tolist(), baseline)
            source = rewrite(encoded, kept[:units], words)
        return source.text if source.pair is None else (source.text, source.pair)

    def _logits(self, texts: Sequence[Any]) -> np.ndarray:
        """(texts, outputs) float64."""
        probabilities = self.function.outputs(texts)
        contrast = self.rows.contrast
        head, classes = (self.head, self.classes) if contrast is None else (contrast.head, contrast.classes)
        columns = 1 if head is Head.SIGMOID else classes
        if probabilities.shape[1] != columns:
            raise ModelError(
                f"{self.function.name} returned {columns} columns at first and now {probabilities.shape[1]}; it must "
                "always return one column for each class"
            )
        if head is Head.SOFTMAX:
            sums = probabilities.sum(1)
            if np.abs(sums - 1).max() > SUM_TOLERANCE:
                raise ModelError(
                    f"the probabilities that {self.function.name} returns sum to {sums.min():.3g} for one text and to "
                    "1 for another; return probabilities that always sum to 1 (or never, for several labels at once)"
                )
            return np.asarray(np.log(np.maximum(probabilities, SMALLEST_PROBABILITY)))
        inside = np.clip(probabilities, SMALLEST_PROBABILITY, 1 - SMALLEST_PROBABILITY)
        return np.asarray(np.log(inside) - np.log1p(-inside))

    def check_access(self, method: str, needs: Sequence[str]) -> None:
        """Raise a ModelError for a method that needs more than outputs for texts."""
        missing = [need for need in needs if need not in ALLOWED_NEEDS]
        if missing:
            raise _no_inside(method, missing, self.function.name)

    def check_gradients(self) -> None:
        """Raise a ModelError: a function has none."""
        raise _no_inside("this method", ("gradients",), self.function.name)

    def with_baseline(self, name: str) -> FunctionBatch:
        """The same rows with another word in place of replaced ones; an OptionError for a token of a tokenizer."""
        if name in ("pad", "mask", "unk", "zero", "mean"):
            raise OptionError(
                f"{self.function.name} has no tokenizer, and thus no {name} token; give a word, or delete"
            )
        return replace(self, baseline=name, known_outputs={})

    def take(self, inputs: Sequence[int]) -> FunctionBatch:
        row = self.rows_of(inputs)
        width = int(self.rows.real[row].sum(1).max())
        texts = [self.texts[number] for number in inputs]
        return replace(self, rows=self.rows.take(row, width), inputs=len(inputs), texts=texts)


def _no_inside(method: str, needs: Sequence[str], name: str) -> ModelError:
    return ModelError(
        f"{method} needs {' and '.join(needs)}, and {name} is a function that gives probabilities and nothing else; "
        f"use a method that needs no more: {METHODS_WITHOUT_GRADIENTS}"
    )
