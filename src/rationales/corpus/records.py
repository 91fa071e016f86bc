"""Records of a corpus: what is read from the input, good or bad, and which of them are explained."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rationales.errors import OptionError

MAX_ID = 1000  # characters of an id
OUT_OF_MEMORY, WORKER_DIED = "out-of-memory", "worker-died"  # reasons
DOUBTFUL_REASONS = ("nan", "model-failure", OUT_OF_MEMORY, WORKER_DIED)  # may lie in the machine, not in the record
_CONDITION = re.compile(r"(?P<column>[^=!]+)(?P<negation>!?)=(?P<value>.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Record:
    """An input that can be explained: a text, perhaps with a pair, or the path of an image."""

    position: int  # in the input, from 0, bad and skipped records included
    id: str
    location: str  # "reviews.csv, line 7"
    text: str = ""
    pair: str | None = None
    image: str | None = None
    content: str = ""  # hash of the image's bytes

    @property
    def raw_input(self) -> Any:
        """The record as `rationales.explain` takes it."""
        if self.image is not None:
            return self.image
        return self.text if self.pair is None else (self.text, self.pair)

    @property
    def size(self) -> int:
        """Characters held in memory."""
        return len(self.text) + len(self.pair or "")

    def identity(self) -> tuple[Any, ...]:
        """Everything of the record that decides its row."""
        return (self.position, self.id, self.location, self.text, self.pair, self.image, self.content)


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that cannot be explained; `reason` is one of a few words, `message` a sentence."""

    position: int
    location: str
    reason: str
    message: str
    id: str | None = None
    method: str | None = None  # the method that failed, where reading did not

    def identity(self) -> tuple[Any, ...]:
        """Everything of the record that decides its line in errors.jsonl."""
        return (self.position, self.id, self.location, self.reason, self.message)

    def to_dict(self) -> dict[str, Any]:
        """The record as a line of errors.jsonl."""
        method = {} if self.method is None else {"method": self.method}
        return {
            "position": self.position,
            "id": self.id,
            "location": self.location,
            "reason": self.reason,
            **method,
            "message": self.message,
        }


@dataclass(frozen=True, slots=True)
class Condition:
    """A column must have a value, or must not."""

    column: str
    value: str
    negated: bool = False

    def holds(self, values: Mapping[str, Any]) -> bool:
        """Whether a row meets the condition; a number is compared as it is written."""
        cell = values[self.column]
        return (("" if cell is None else str(cell)) == self.value) != self.negated


def parse_condition(text: str) -> Condition:
    """A condition from 'column=value' or 'column!=value'."""
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise OptionError(f"a filter is column=value or column!=value, not {text!r}")
    return Condition(match["column"].strip(), match["value"].strip(), bool(match["negation"]))


@dataclass(frozen=True)
class Selection:
    """Which records are explained; the others are counted as skipped."""

    where: tuple[Condition, ...] = ()
    sample: float | None = None  # share of all records
    limit: int | None = None
    min_words: int | None = None
    max_words: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.sample is not None and not 0 < self.sample <= 1:
            raise OptionError(f"sample is a share of the records, greater than 0 and at most 1; not {self.sample}")
        for name in ("limit", "min_words", "max_words"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise OptionError(f"{name} must be at least 1, not {value}")

    def samples(self, position: int) -> bool:
        """Whether the record at this position belongs to the sample: decided by a hash, so that nothing is counted."""
        if self.sample is None:
            return True
        digest = hashlib.blake2b(f"{self.seed} {position}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") < self.sample * 2**64

    def admits(self, record: Record, values: Mapping[str, Any]) -> bool:
        """Whether a record meets all conditions."""
        if not all(condition.holds(values) for condition in self.where):
            return False
        if self.min_words is None and self.max_words is None:
            return True
        words = len(record.text.split()) + len((record.pair or "").split())
        return (self.min_words or 0) <= words and (self.max_words is None or words <= self.max_words)

    def to_dict(self) -> dict[str, Any]:
        """The selection as plain data, for the manifest."""
        where = [f"{rule.column}{'!' if rule.negated else ''}={rule.value}" for rule in self.where]
        options = {name: getattr(self, name) for name in ("sample", "limit", "min_words", "max_words")}
        return {"where": where, **options, "seed": self.seed if self.sample is not None else 0}


def digest_of(items: Sequence[Record | BadRecord], skipped: int) -> str:
    """Hash of the records of a shard: another input has another digest."""
    digest = hashlib.blake2b(digest_size=20)
    for item in items:
        raw = repr(item.identity()).encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8, "little") + raw)
    digest.update(f"skipped {skipped}".encode())
    return digest.hexdigest()
