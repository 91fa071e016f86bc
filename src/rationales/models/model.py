"""The interface of a model that can be explained, whatever its kind of input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from torch import Tensor

from rationales.models.batch import Batch
from rationales.rationale import Note


@dataclass(frozen=True, eq=False)
class InputDescription:
    """The fields of a Rationale that depend on the kind of input."""

    text: str
    units: Any  # tuple of Unit, or Grid, TextAndImage, Frames, Spectrogram
    scores: np.ndarray  # (units,)
    pair: str | None = None
    image: np.ndarray | None = None  # (height, width, 3) uint8
    sound: np.ndarray | None = None
    name: str | None = None
    baseline: str | None = None  # None: the model's
    segments: int = 1
    tokens: int = 0  # of all segments; 0 where the input has none
    notes: tuple[Note, ...] = ()
    prompt: Mapping[str, Any] | None = None  # of a language model, as plain data
    read_mask: np.ndarray | None = None  # (units,) bool: units that the model reads; None: all of them


@runtime_checkable
class Model(Protocol):
    """A classifier together with what turns inputs into rows and scores into results."""

    name: str
    labels: tuple[str, ...]

    @property
    def kind(self) -> str:
        """Kind of input: text, image, image-text, audio or spectrogram."""

    @property
    def unit(self) -> str:
        """What is kept or replaced."""

    @property
    def baseline(self) -> str:
        """What a replaced unit becomes."""

    def read(self, raw_input: Any, name: str | None) -> Any:
        """A checked input made from what the user passed."""

    def title(self, source: Any) -> str:
        """The name of an input in messages."""

    def encode(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """The inputs divided into units and rows; each result has its input as `source`."""

    def batch(self, encoded: Sequence[Any], seed: int = 0) -> Batch:
        """One batch of the rows of these inputs."""

    def describe(self, encoded: Any, scores: Tensor) -> InputDescription:
        """What a result says of the input; `scores` is (units,) over the units of the batch."""

    def target(self, label: str | int | None) -> int | None:
        """Index of a class given by its label or index; None for None."""

    def frozen(self) -> AbstractContextManager[None]:
        """Context in which the networks are frozen; on exit all their flags are restored."""
