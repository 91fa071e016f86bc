"""The parts of a rationale: units of a text, an image or a sound, connected selections of them, notes and curves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

INFORMATIONAL = frozenset({"baselines", "reduced", "mixed-down", "words-named"})  # kinds of notes that are no warnings


class Unit(NamedTuple):  # a text has many; building a data class takes three times as long
    """One word (token, sentence) at characters start..end of the text (`text_index` 0) or of its pair (1)."""

    text: str
    start: int
    end: int
    text_index: int = 0


@dataclass(frozen=True, slots=True)
class Grid:
    """The pixels of an image as units, row by row from the top left."""

    height: int
    width: int

    def __len__(self) -> int:
        return self.height * self.width


@dataclass(frozen=True, slots=True)
class TextAndImage:
    """The units of a text and an image together: the words, then the pixels row by row from the top left."""

    words: tuple[Unit, ...]
    grid: Grid

    def __len__(self) -> int:
        return len(self.words) + len(self.grid)


@dataclass(frozen=True, slots=True)
class Spectrogram(Grid):
    """The bins of a spectrogram as units: columns are frames of `seconds`, rows frequencies, the highest on top."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Frames:
    """The frames of a sound as units: `count` of `seconds` each, the last one cut at the end of the sound."""

    count: int
    seconds: float
    duration: float  # of the sound, in seconds

    def __len__(self) -> int:
        return self.count


@dataclass(frozen=True, slots=True)
class Stretch:
    """Frames first..last (inclusive) of a sound, from `start` to `end` seconds; `score` is their mean score."""

    start: float
    end: float
    score: float
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Region:
    """Connected pixels selected together: rows top..bottom-1, columns left..right-1; `score` is their mean score."""

    top: int
    left: int
    bottom: int
    right: int
    area: int
    score: float


@dataclass(frozen=True, slots=True)
class Span:
    """Units first..last (inclusive) selected together; `score` is their mean score."""

    start: int
    end: int
    text: str
    score: float
    first: int
    last: int
    text_index: int = 0


@dataclass(frozen=True, slots=True)
class Note:
    """A message about a result: what to know about it, and what to change."""

    kind: str
    message: str

    @property
    def level(self) -> str:
        """'info' where the note says what was done, 'warning' where the result may mislead."""
        return "info" if self.kind in INFORMATIONAL else "warning"


@dataclass(frozen=True)
class Curve:
    """The probabilities of selections of several sizes, from no unit to all of them.

    Selection k contains the units that score above `thresholds[k]`, `shares[k]` of all units; sizes rise with k. Both
    mappings are label -> its probability at each size.
    """

    shares: tuple[float, ...]
    thresholds: tuple[float, ...]
    rationale: Mapping[str, tuple[float, ...]]  # given the selection alone
    complement: Mapping[str, tuple[float, ...]]  # given everything but it

    def __post_init__(self) -> None:
        lengths = {len(values) for by_label in (self.rationale, self.complement) for values in by_label.values()}
        if {len(self.shares), len(self.thresholds), *lengths} != {len(self.shares)}:
            raise ValueError("a curve needs a threshold and the probabilities for each of its sizes")

    def __len__(self) -> int:
        return len(self.shares)

    def at(self, size: int) -> dict[str, dict[str, float]]:
        """`rationale` and `complement` of one size: label -> probability."""
        both = (("rationale", self.rationale), ("complement", self.complement))
        return {name: {label: values[size] for label, values in by_label.items()} for name, by_label in both}
