"""What is kept of a run: how it was trained, and what every method says of every input. One JSON file each."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rationales.errors import InputError
from rationales.experiments.ground_truth.runs.run_spec import Plan
from rationales.files import read_text, write_text

FORMAT = 1  # raised when files would be misread
DIGITS = 6  # that are kept of a number
FOLDER = "runs"


@dataclass(frozen=True)
class Attempt:
    """One training."""

    seed: int
    where: str  # the plant and its place, and what it was put into
    accuracy: float  # on the test part
    tested: int
    epochs: int
    seconds: float
    p: float  # of the binomial test that the model uses the plant
    why: str = ""  # it does not count


@dataclass(frozen=True)
class Told:
    """What one method says."""

    print: str  # of the method, its options and its code
    seconds: float = math.nan  # per input
    values: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # measure -> a number for each input
    failures: Mapping[str, str] = field(default_factory=dict)  # input -> why it has no scores
    unfit: str = ""  # why the method cannot explain this network at all


@dataclass(frozen=True)
class Stage:
    """What methods say of a model on the way."""

    epoch: int
    accuracy: float  # on the test part
    told: Mapping[str, Told]


@dataclass(frozen=True)
class Record:
    """One run."""

    plan: Plan
    print: str  # of everything that it depends on but the methods
    attempts: tuple[Attempt, ...]
    bound: float  # accuracy without the plant, at most
    failed: str = ""  # why it has no part in any figure
    weights: str = ""  # a print of the trained model
    names: tuple[str, ...] = ()  # of the explained inputs
    which: tuple[int, ...] = ()  # the manipulation of each
    units: tuple[int, ...] = ()  # pixels or words
    region: tuple[int, ...] = ()  # of them, those of the plant
    idle: tuple[int, ...] = ()  # and those that only look like it
    told: Mapping[str, Told] = field(default_factory=dict)
    stages: tuple[Stage, ...] = ()
    seconds: float = 0.0
    note: str = ""

    @property
    def area(self) -> float:
        """The share of the units that the plant covers: what a random scorer reaches."""
        shares = [one / all_ for one, all_ in zip(self.region, self.units, strict=True) if one]
        return sum(shares) / len(shares) if shares else math.nan

    @property
    def last(self) -> Attempt:
        """The training that counts, or the last one that was tried."""
        return self.attempts[-1]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        made: dict[str, Any] = _plain(asdict(self))
        return {"format": FORMAT, **made}

    @classmethod
    def from_dict(cls, data: Any) -> Record:
        """The inverse of `to_dict`."""
        known = data.get("format") if isinstance(data, Mapping) else None
        if known != FORMAT:
            raise InputError(f"a run of format {known!r}; this version reads format {FORMAT}")
        given = {name: value for name, value in data.items() if name != "format"}
        try:
            return cls(
                **{
                    **given,
                    "plan": Plan.from_dict(given["plan"]),
                    "attempts": tuple(Attempt(**_numbers(one)) for one in given["attempts"]),
                    "told": {key: _told(one) for key, one in given["told"].items()},
                    "stages": tuple(
                        Stage(one["epoch"], one["accuracy"], {key: _told(own) for key, own in one["told"].items()})
                        for one in given["stages"]
                    ),
                    **{name: tuple(given[name]) for name in ("names", "which", "units", "region", "idle")},
                }
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(f"this is no whole run: {type(error).__name__} {error}") from None


@dataclass(frozen=True)
class Store:
    """A folder of runs; without a folder nothing is kept."""

    out: Path | None

    def get(self, plan: Plan) -> Record | None:
        """The run, if it is there and whole."""
        path = self._path(plan)
        if path is None or not path.is_file():
            return None
        try:
            return Record.from_dict(json.loads(read_text(path)))
        except (InputError, json.JSONDecodeError):
            return None

    def put(self, record: Record) -> None:
        """Keep a run."""
        path = self._path(record.plan)
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(path, json.dumps(record.to_dict(), ensure_ascii=False, allow_nan=False) + "\n")

    def _path(self, plan: Plan) -> Path | None:
        return None if self.out is None else self.out / FOLDER / f"{plan.key}.json"


def counted(records: Sequence[Record]) -> list[Record]:
    """The runs that were accurate, rely on the plant, and so can judge methods."""
    return [one for one in records if not one.failed]


def _told(data: Mapping[str, Any]) -> Told:
    values = {name: tuple(math.nan if one is None else one for one in own) for name, own in data["values"].items()}
    return Told(**{**_numbers(data), "values": values})


def _numbers(data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: math.nan if value is None else value for name, value in data.items()}


def _plain(value: Any) -> Any:
    """NaN as null, numbers with few digits."""
    if isinstance(value, float):
        return round(value, DIGITS) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value
