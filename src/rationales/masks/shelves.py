"""Training texts ready on the device: texts of similar length lie together on a shelf, made when first asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rationales.errors import InputError
from rationales.models.rows import pack
from rationales.models.text import TextModel
from rationales.models.text_batch import TextBatch
from rationales.models.tokens import Encoded, TextInput

SHELF = 256  # texts
WINDOW = 8  # shelves whose texts are mixed


@dataclass(frozen=True, eq=False)
class Shelf:
    """Some texts as one batch, what the model says of them, and how long they are."""

    batch: TextBatch
    predicted: Tensor  # (inputs,) classes
    length: list[int]  # tokens of each input, over all of its segments

    def groups(self, inputs: int, tokens: int, order: Sequence[int] | None = None) -> Iterator[list[int]]:
        """Numbers of inputs that go together: at most `inputs` of them, at most `tokens` tokens with padding."""
        order = range(self.batch.inputs) if order is None else order
        least = -(-tokens // inputs)  # a shorter text counts as much, so that there are never more than `inputs`
        for group in pack([max(self.length[number], least) for number in order], tokens):
            yield sorted(order[member] for member in group)


class Shelves:
    """All shelves of some texts; a text of which the tokenizer makes nothing is left out."""

    def __init__(self, model: TextModel, sources: Sequence[TextInput], seed: int) -> None:
        self.model, self.seed = model, seed
        ordered = sorted(sources, key=lambda one: len(one.text) + len(one.pair or ""))
        self.texts = [ordered[begin : begin + SHELF] for begin in range(0, len(ordered), SHELF)]
        self.ready: dict[int, Shelf | None] = {}

    def __iter__(self) -> Iterator[Shelf]:
        """Every shelf that holds something."""
        return (shelf for number in range(len(self.texts)) if (shelf := self.shelf(number)) is not None)

    def shelf(self, number: int) -> Shelf | None:
        """One shelf; None if nothing is left of its texts."""
        if number not in self.ready:
            self.ready[number] = self._prepared(self.texts[number])
        return self.ready[number]

    def drawn(self, inputs: int, tokens: int, draw: torch.Generator) -> Iterator[tuple[Shelf, list[int]]]:
        """Every text once, in groups of similar length; shelves, texts and groups in random order."""
        order = torch.randperm(len(self.texts), generator=draw).tolist()
        for begin in range(0, len(order), WINDOW):
            some = [shelf for number in order[begin : begin + WINDOW] if (shelf := self.shelf(number)) is not None]
            groups = [
                (shelf, group)
                for shelf in some
                for group in shelf.groups(inputs, tokens, torch.randperm(shelf.batch.inputs, generator=draw).tolist())
            ]
            for place in torch.randperm(len(groups), generator=draw).tolist():
                yield groups[place]

    def _prepared(self, sources: Sequence[TextInput]) -> Shelf | None:
        encoded = [made for source in sources if (made := self._encoded(source)) is not None]
        if not encoded:
            return None
        batch = self.model.batch(encoded, self.seed)
        said = batch.predict()
        bad = torch.nonzero(~torch.isfinite(said).all(-1)).flatten().tolist()
        if bad:
            title = encoded[bad[0]].source.title
            raise InputError(f"the model gives NaN or infinite logits for {title}; check its weights")
        length = [0] * batch.inputs
        for number, cost in zip(batch.rows.input.tolist(), batch.cost(), strict=True):
            length[number] += cost
        return Shelf(batch, said.argmax(-1), length)

    def _encoded(self, source: TextInput) -> Encoded | None:
        try:
            return self.model.encode([source])[0]
        except InputError:
            return None
