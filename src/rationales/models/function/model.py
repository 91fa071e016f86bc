"""A function from texts to probabilities as a Model: texts are cut into words or sentences, never into tokens."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rationales.errors import InputError, ModelError, OptionError
from rationales.models.batch import Rows
from rationales.models.batch.rows import content_key
from rationales.models.classes import Head, label_index
from rationales.models.display import ModelDisplay, label_list
from rationales.models.function.batch import DELETE, SUM_TOLERANCE, FunctionBatch
from rationales.models.function.sources import TextFunction, text_function
from rationales.models.model import InputDescription
from rationales.models.text.tokens import PART_GAP, EncodedText, TextInput, TokenRow, read_text_input
from rationales.models.text.units import sentences, words
from rationales.rationale_parts import Unit

PROBE = "a text"  # whose probabilities tell how many classes there are, and whether they exclude each other
WORDS_AT_ONCE = 2**15


@dataclass(eq=False, repr=False)
class FunctionModel(ModelDisplay):
    """A classifier of texts that is known by its probabilities alone; methods that need no gradients explain it."""

    function: TextFunction
    head: Head
    labels: tuple[str, ...]
    name: str
    unit: str = "word"
    baseline: str = DELETE
    kind: str = field(default="text", init=False)

    def facts(self) -> dict[str, str]:
        """The properties shown in a shell or notebook."""
        return {
            "reads": "texts",
            "labels": label_list(self.labels),
            "unit": self.unit,
            "baseline": self.baseline,
            "gradients": "none",
        }

    def read(self, raw_input: Any, name: str | None) -> TextInput:
        """A checked input made from a text or a tuple of two texts."""
        return read_text_input(raw_input, name)

    def title(self, source: TextInput) -> str:
        """The name of a text in messages."""
        return source.title

    def encode(self, inputs: Sequence[TextInput]) -> list[EncodedText]:
        """The units of each input; every input is one row, however long."""
        return [self._encode(source) for source in inputs]

    def _encode(self, source: TextInput) -> EncodedText:
        texts = [source.text] if source.pair is None else [source.text, source.pair]
        cut = words if self.unit == "word" else sentences
        extents = [cut(text) for text in texts]
        if not all(extents):
            raise InputError(f"{source.name or 'the text'} is empty; there is nothing to explain")
        units = tuple(
            Unit(text[start:end], start, end, number)
            for number, text in enumerate(texts)
            for start, end in extents[number]
        )
        gaps = [PART_GAP * unit.text_index for unit in units]
        position = [number + gap for number, gap in enumerate(gaps)]
        row = TokenRow([], None, [], list(range(len(units))), [1.0] * len(units), position)
        return EncodedText(source, units, (row,))

    def batch(self, encoded: Sequence[EncodedText], seed: int = 0) -> FunctionBatch:
        """One batch, a row for each text."""
        count, width = len(encoded), max(len(text.units) for text in encoded)
        lengths = torch.tensor([len(text.units) for text in encoded])
        real = torch.arange(width) < lengths[:, None]
        position = np.zeros((count, width))
        for number, text in enumerate(encoded):
            position[number, : len(text.units)] = text.rows[0].position
        keys = [content_key(seed, text.source.text, text.source.pair, 0) for text in encoded]
        rows = Rows(
            input=torch.arange(count),
            mask=torch.arange(count),
            view=torch.zeros(count, dtype=torch.long),
            key=torch.tensor(keys),
            unit=torch.arange(width).expand(count, -1) * real,
            real=real,
            position=torch.from_numpy(position),
            blend=real.double(),
        )
        return FunctionBatch(
            rows=rows,
            inputs=count,
            views=1,
            classes=len(self.labels),
            head=self.head,
            grid=None,
            budget=WORDS_AT_ONCE,
            function=self.function,
            texts=list(encoded),
            baseline=self.baseline,
        )

    def describe(self, encoded: EncodedText, scores: Tensor) -> InputDescription:
        """What a result says of the text."""
        source = encoded.source
        return InputDescription(source.text, encoded.units, scores.numpy(), pair=source.pair, name=source.name)

    def target(self, label: str | int | None) -> int | None:
        """Index of a class given by its label or index; None for None."""
        return label_index(self.labels, label)

    def frozen(self) -> AbstractContextManager[None]:
        """A context without effect: there is no network to freeze."""
        return nullcontext()


def load_function(
    source: Any,
    encoder: Any = None,
    *,
    device: Any = None,
    unit: str = "word",
    baseline: Any = None,
    labels: Sequence[str] | None = None,
    trust_remote_code: bool = False,
) -> FunctionModel:
    """Make a function from texts to probabilities explainable; the options are those of `rationales.load`.

    `baseline`: "delete", the default, or a word that replaced words become.
    """
    del trust_remote_code  # nothing is loaded
    if device is not None:
        raise OptionError("a function of texts runs where its author lets it run; leave device out")
    if unit not in ("word", "sentence"):
        raise OptionError(f"a function of texts has words or sentences as units, not {unit!r}: it has no tokenizer")
    if baseline is not None and (not isinstance(baseline, str) or not baseline.strip()):
        raise OptionError(f"the baseline of a function of texts is 'delete' or a word, not {baseline!r}")
    function = text_function(source, encoder, labels)
    probe = function.outputs([PROBE])[0]
    if len(probe) == 1:
        head, names = Head.SIGMOID, function.labels or ("0", "1")
        if len(names) == 1:
            names = (f"not {names[0]}", names[0])
    else:
        exclusive = abs(float(probe.sum()) - 1) <= SUM_TOLERANCE
        head, names = Head.SOFTMAX if exclusive else Head.MULTI_LABEL, function.labels or _numbers(len(probe))
    if len(names) != max(len(probe), 2 if head is Head.SIGMOID else 1):
        raise ModelError(f"{function.name} returns {len(probe)} probabilities, and there are {len(names)} labels")
    return FunctionModel(function, head, names, function.name, unit, baseline or DELETE)


def _numbers(count: int) -> tuple[str, ...]:
    return tuple(map(str, range(count)))
