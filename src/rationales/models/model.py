"""What a model must offer to be explained, whatever it reads."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from torch import Tensor

from rationales.models.batch import Batch


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
