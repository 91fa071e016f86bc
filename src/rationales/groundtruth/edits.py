"""Changes of a text at exact places: what stands outside of them stays as it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from rationales.data.example import Example, Extent, joined
from rationales.errors import DataError
from rationales.groundtruth.plant import Plant, Planted
from rationales.models.units import trim, words


@dataclass(frozen=True)
class Edit:
    """The characters start..end of a text become `new`; equal start and end insert it."""

    start: int
    end: int
    new: str
    tells: bool = True  # whether it depends on the class; else it is a distractor


@dataclass(frozen=True)
class TextPlant(Plant):
    """A plant of texts: subclasses say which edits a manipulation makes."""

    kind: ClassVar[str] = "text"

    def fits(self, example: Example) -> str:
        """Why the plant cannot be put into this example."""
        return "it is a picture" if example.picture is not None else self.misses(example.text)

    def misses(self, text: str) -> str:
        """Why the plant cannot be put into this text."""
        return ""

    def edits(self, text: str, rng: np.random.Generator, which: int) -> Sequence[Edit]:
        """What manipulation number `which` does to the text, in any order, apart from each other."""
        raise NotImplementedError

    def apply(self, example: Example, rng: np.random.Generator, which: int = 1) -> Planted:
        self.check_which(which)
        why = self.fits(example)
        if why:
            raise DataError(f"{self.name} cannot be planted in {example.name}: {why}")
        made = edited(example.text, self.edits(example.text, rng, which))
        region = joined(made.telling)
        return Planted(
            example=replace(
                example, text=made.text, spans=region, pair_spans=None, others=(), pair_others=(), boxes=()
            ),
            region=region,
            changed=joined(made.changed),
            distractors=joined(made.idle),
            which=which,
        )


@dataclass
class Edited:
    """A changed text, and where the new pieces stand in it, white space at their ends not included."""

    text: str
    telling: list[Extent] = field(default_factory=list)
    idle: list[Extent] = field(default_factory=list)
    changed: list[Extent] = field(default_factory=list)  # pieces that differ from what stood there


def edited(text: str, edits: Sequence[Edit]) -> Edited:
    """The text with all edits made."""
    pieces: list[str] = []
    made = Edited("")
    cursor = length = 0
    for edit in sorted(edits, key=lambda one: (one.start, one.end)):
        if not cursor <= edit.start <= edit.end <= len(text):
            raise DataError(f"an edit at {edit.start}..{edit.end} overlaps another, or lies outside of the text")
        kept = text[cursor : edit.start]
        begin = length + len(kept)
        pieces += [kept, edit.new]
        cursor, length = edit.end, begin + len(edit.new)
        first, last = trim(edit.new, 0, len(edit.new))
        if first < last:
            extent = (begin + first, begin + last)
            (made.telling if edit.tells else made.idle).append(extent)
            if edit.new != text[edit.start : edit.end]:
                made.changed.append(extent)
    made.text = "".join([*pieces, text[cursor:]])
    return made


def plain_words(text: str) -> Iterator[Extent]:
    """Words that stand free: letters with white space, the text's end or a usual mark on either side."""
    for start, end in words(text):
        before, after = text[start - 1 : start], text[end : end + 1]
        if text[start:end].isalpha() and _free(before, "([\"'“‘") and _free(after, ")]\"'”’.,;:!?"):
            yield start, end


def _free(neighbour: str, marks: str) -> bool:
    return not neighbour or neighbour.isspace() or neighbour in marks
