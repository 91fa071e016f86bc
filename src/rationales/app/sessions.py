"""What the server remembers of each visitor: the last results, for downloads and edits."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rationales.app.editing import EditableInput
from rationales.rationale import Rationale


@dataclass(frozen=True, eq=False)
class VisitorResults:
    """The last results of one visitor."""

    rationales: Sequence[Rationale] = ()  # of one input, by method
    editable: EditableInput | None = None
    table: Sequence[Rationale] = field(default=())  # of the rows of a table


NOTHING = VisitorResults()


class VisitorStore:
    """Results by visitor, at most `capacity` of them, each for at most `seconds` after its last use."""

    def __init__(self, capacity: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._capacity, self._seconds, self._clock = capacity, seconds, clock
        self._entries: OrderedDict[str, tuple[float, VisitorResults]] = OrderedDict()  # the last used one is last
        self._lock = threading.Lock()

    def get(self, visitor: str) -> VisitorResults:
        """The results of this visitor; empty ones where nothing is remembered."""
        with self._lock:
            self._forget_old()
            if visitor not in self._entries:
                return NOTHING
            results = self._entries.pop(visitor)[1]
            self._entries[visitor] = (self._clock(), results)
            return results

    def put(self, visitor: str, results: VisitorResults) -> None:
        """Remember results; the visitor that was away longest is forgotten where there are too many."""
        with self._lock:
            self._entries.pop(visitor, None)
            self._entries[visitor] = (self._clock(), results)
            self._forget_old()
            while len(self._entries) > self._capacity:
                self._entries.popitem(last=False)

    def forget(self, visitor: str) -> None:
        """Remove everything of this visitor."""
        with self._lock:
            self._entries.pop(visitor, None)

    def __len__(self) -> int:
        return len(self._entries)

    def _forget_old(self) -> None:
        oldest = self._clock() - self._seconds
        while self._entries and next(iter(self._entries.values()))[0] < oldest:
            self._entries.popitem(last=False)
