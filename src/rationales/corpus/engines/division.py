"""Finds the records that end their workers, for instance for their memory, by dividing the records of a shard."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rationales.corpus.engines.engine import WorkerError
from rationales.corpus.explaining import Outcomes
from rationales.corpus.manifest import ADVICE
from rationales.corpus.records import WORKER_DIED, BadRecord, Record

MESSAGE = "its worker died while explaining it alone: the system ended it, perhaps for its memory, or a library crashed"


def divided_outcomes(
    records: Sequence[Record], explain: Callable[[Sequence[Record]], Outcomes | None], survives: Callable[[], bool]
) -> Outcomes:
    """The outcomes of records of which some may end the worker that explains them.

    `explain`: the outcomes of records in a worker of their own; None where it died. `survives`: whether a worker
    explains a plain input; where it does not, no record is to blame, and a WorkerError is raised.
    """
    outcomes = explain(records)
    if outcomes is not None:
        return outcomes
    if len(records) == 1:
        (record,) = records
        if not survives():
            raise WorkerError(
                f"workers die on every input, not only on {record.location}; the system may be out of memory: use "
                f"fewer --workers. {ADVICE}"
            )
        bad = BadRecord(record.position, record.location, WORKER_DIED, MESSAGE, record.id)
        return Outcomes({}, {record.position: bad})
    middle = len(records) // 2
    first, second = (divided_outcomes(half, explain, survives) for half in (records[:middle], records[middle:]))
    return first.joined(second)
