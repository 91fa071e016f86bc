"""What a model must offer to be explained, whatever it reads."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from rationales.models.batch import Batch
from rationales.rationale import Note


@dataclass(frozen=True, eq=False)
class InputDescription:
    """What a result says of an input, in the input's own units."""

    text: str
    units: Any
    scores: np.ndarray  # (units,)
    pair: str | None = None
    image: np.ndarray | None = None  # (height, width, 3) uint8
    sound: np.ndarray | None = None  # (samples,) float32
    name: str | None = None
    baseline: str | None = None  # where each input has its own
    segments: int = 1
    notes: tuple[Note, ...] = ()
    read_mask: np.ndarray | None = None  # (units,) bool: what the model reads, where results have other units

    @classmethod
    def of(cls, fields: dict[str, Any]) -> InputDescription:
        """From the fields that `Model.describe` gives."""
        known = dict(fields)
        return cls(read_mask=known.pop("read", None), notes=tuple(known.pop("notes", ())), **known)


class Model(Protocol):
    """A classifier with everything around it that turns inputs into rows and scores into results."""

    name: str
    labels: tuple[str, ...]

    @property
    def kind(self) -> str:
        """What it reads: text, image, audio or spectrogram."""

    @property
    def unit(self) -> str:
        """What is kept or replaced."""

    @property
    def baseline(self) -> str:
        """What a replaced unit becomes."""

    def read(self, given: Any, name: str | None) -> Any:
        """An input from what the user gave, checked."""

    def title(self, source: Any) -> str:
        """What to call an input in a message."""

    def encode(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """Inputs cut into units and rows; each has its `source`."""

    def batch(self, encoded: Sequence[Any], seed: int = 0) -> Batch:
        """The rows of these inputs together."""

    def describe(self, encoded: Any, scores: Tensor) -> dict[str, Any]:
        """The fields of a Rationale that depend on the kind of input; `scores` is (units,).

        Where results have other units than the batch, `read` (units,) says which of them the model reads.
        """

    def target(self, wanted: str | int | None) -> int | None:
        """The number of a class given by label or number."""

    def borrowed(self) -> AbstractContextManager[None]:
        """Frozen inside the block, given back as it was."""
