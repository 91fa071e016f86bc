"""Edits of a text at exact positions; all other characters stay unchanged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from rationales.data.example import Example, Extent, joined
from rationales.errors import DataError
from rationales.groundtruth.plants.plant import Plant, PlantedExample
from rationales.models.text.units import trim, words


@dataclass(frozen=True)
class Edit:
    """Replaces the characters start..end of a text by `replacement`; start == end inserts it."""

    start: int
    end: int
    replacement: str
    informative: bool = True  # whether it depends on the class; otherwise it is a distractor


@dataclass(frozen=True)
class TextPlant(Plant):
    """Base class of plants for texts; subclasses define the edits of each manipulation."""

    kind: ClassVar[str] = "text"

    def reason_unfit(self, example: Example) -> str:
        """Why the plant cannot be put into this example; empty if it can."""
        return "it is an image" if example.image is not None else self.reason_text_unfit(example.text)

    def reason_text_unfit(self, text: str) -> str:
        """Why the plant cannot be put into this text; empty if it can."""
        return ""

    def edits(self, text: str, rng: np.random.Generator, manipulation: int) -> Sequence[Edit]:
        """The edits of one manipulation, disjoint and in any order."""
        raise NotImplementedError

    def apply(self, example: Example, rng: np.random.Generator, manipulation: int = 1) -> PlantedExample:
        self.check_manipulation(manipulation)
        reason = self.reason_unfit(example)
        if reason:
            raise DataError(f"{self.name} cannot be planted in {example.name}: {reason}")
        edited = apply_edits(example.text, self.edits(example.text, rng, manipulation))
        region = joined(edited.informative)
        unmarked = replace(example, pair_spans=None, annotator_spans=(), pair_annotator_spans=(), boxes=())
        planted = replace(unmarked, text=edited.text, spans=region)
        return PlantedExample(planted, region, joined(edited.changed), joined(edited.distractors), manipulation)


@dataclass
class EditedText:
    """A text after its edits, and the extents of the replacements in it, without white space at their ends."""

    text: str
    informative: list[Extent] = field(default_factory=list)
    distractors: list[Extent] = field(default_factory=list)
    changed: list[Extent] = field(default_factory=list)  # replacements that differ from the original characters


def apply_edits(text: str, edits: Sequence[Edit]) -> EditedText:
    """Apply all edits to the text."""
    pieces: list[str] = []
    edited = EditedText("")
    cursor = length = 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        if not cursor <= edit.start <= edit.end <= len(text):
            raise DataError(f"an edit at {edit.start}..{edit.end} overlaps another, or lies outside of the text")
        unchanged = text[cursor : edit.start]
        begin = length + len(unchanged)
        pieces += [unchanged, edit.replacement]
        cursor, length = edit.end, begin + len(edit.replacement)
        first, last = trim(edit.replacement, 0, len(edit.replacement))
        if first < last:
            extent = (begin + first, begin + last)
            (edited.informative if edit.informative else edited.distractors).append(extent)
            if edit.replacement != text[edit.start : edit.end]:
                edited.changed.append(extent)
    edited.text = "".join([*pieces, text[cursor:]])
    return edited


def plain_words(text: str) -> Iterator[Extent]:
    """Words of letters only, with white space, an end of the text or common punctuation on either side."""
    for start, end in words(text):
        before, after = text[start - 1 : start], text[end : end + 1]
        if text[start:end].isalpha() and _separates(before, "([\"'“‘") and _separates(after, ")]\"'”’.,;:!?"):
            yield start, end


def _separates(neighbour: str, punctuation: str) -> bool:
    return not neighbour or neighbour.isspace() or neighbour in punctuation
