"""The stored result of a run: how the model was trained, and what every method scores. One JSON file per run."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any

from rationales.errors import InputError
from rationales.experiments.ground_truth.runs.run_spec import RunSpec
from rationales.files import read_text, write_text

FORMAT = 1  # incremented when older files could be misread
DIGITS = 6  # decimals that are stored
FOLDER = "runs"
BOTH, WITH, WITHOUT = "all", "with", "without"
SIDES = {BOTH: (0, 1), WITH: (1,), WITHOUT: (0,)}  # numbers of the manipulations: inputs of class 1 have the plant
STORED_KEYS = {
    "spec": "plan",
    "fingerprint": "print",
    "accuracy_bound": "bound",
    "model_fingerprint": "weights",
    "input_names": "names",
    "manipulations": "which",
    "unit_counts": "units",
    "region_sizes": "region",
    "distractor_sizes": "idle",
    "measures": "told",
    "checkpoints": "stages",
    "plant_description": "where",
    "tested_inputs": "tested",
    "p_value": "p",
    "rejection": "why",
    "unsupported": "unfit",
}  # field -> key in the file, where they differ; the keys are those of format 1


@dataclass(frozen=True)
class TrainingAttempt:
    """One training."""

    seed: int
    plant_description: str  # the plant, its position, and the data
    accuracy: float  # on the test set
    tested_inputs: int
    epochs: int
    seconds: float
    p_value: float  # of the binomial test that the model uses the plant
    rejection: str = ""  # why the trained model is not explained; empty: it is


@dataclass(frozen=True)
class MethodMeasures:
    """What one method reaches on the inputs of one model."""

    fingerprint: str  # of the method, its options and its code
    seconds: float = math.nan  # per input
    values: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # measure -> one number per input
    failures: Mapping[str, str] = field(default_factory=dict)  # input -> why it has no scores
    unsupported: str = ""  # why the method cannot explain this network at all
    baseline: str = ""  # the baseline that was chosen on validation inputs; empty: none was chosen
    validation: Mapping[str, float] = field(default_factory=dict)  # baseline -> mean Attr% on the validation inputs


@dataclass(frozen=True)
class TrainingCheckpoint:
    """What methods reach on a model in the middle of its training."""

    epoch: int
    accuracy: float  # on the test set
    measures: Mapping[str, MethodMeasures]


@dataclass(frozen=True)
class RunRecord:
    """Result of one run."""

    spec: RunSpec
    fingerprint: str  # of everything that the run depends on except the methods
    attempts: tuple[TrainingAttempt, ...]
    accuracy_bound: float  # largest accuracy that is possible without the plant
    failed: str = ""  # why the run is left out of all figures; empty: it is not
    model_fingerprint: str = ""
    input_names: tuple[str, ...] = ()  # of the explained inputs
    manipulations: tuple[int, ...] = ()  # number of the manipulation of each input
    unit_counts: tuple[int, ...] = ()  # pixels or words of each input
    region_sizes: tuple[int, ...] = ()  # how many of them belong to the plant
    distractor_sizes: tuple[int, ...] = ()  # how many of them only look like the plant
    measures: Mapping[str, MethodMeasures] = field(default_factory=dict)
    checkpoints: tuple[TrainingCheckpoint, ...] = ()
    seconds: float = 0.0
    note: str = ""

    @property
    def area(self) -> float:
        """Mean share of the units that belong to the plant: the Attr% of random scores."""
        shares = [size / units for size, units in zip(self.region_sizes, self.unit_counts, strict=True) if size]
        return sum(shares) / len(shares) if shares else math.nan

    @property
    def last_attempt(self) -> TrainingAttempt:
        """The training whose model was explained, or the last one that failed."""
        return self.attempts[-1]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, in the keys of the file format."""
        stored: dict[str, Any] = _to_json(self)
        return {"format": FORMAT, **stored}

    @classmethod
    def from_dict(cls, data: Any) -> RunRecord:
        """Inverse of `to_dict`."""
        version = data.get("format") if isinstance(data, Mapping) else None
        if version != FORMAT:
            raise InputError(f"the run has format {version!r}; this version reads format {FORMAT}")
        try:
            values = _field_values({name: value for name, value in data.items() if name != "format"})
            stages = (_field_values(stored) for stored in values["checkpoints"])
            values |= {
                "spec": RunSpec(**values["spec"]),
                "attempts": tuple(TrainingAttempt(**_nan_for_null(attempt)) for attempt in values["attempts"]),
                "measures": _read_measures(values["measures"]),
                "checkpoints": tuple(
                    TrainingCheckpoint(stage["epoch"], stage["accuracy"], _read_measures(stage["measures"]))
                    for stage in stages
                ),
                **{name: tuple(values[name]) for name in _PER_INPUT},
            }
            return cls(**values)
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(f"the run is incomplete: {type(error).__name__} {error}") from None


_PER_INPUT = ("input_names", "manipulations", "unit_counts", "region_sizes", "distractor_sizes")
_FIELD_NAMES = {stored: name for name, stored in STORED_KEYS.items()}


@dataclass(frozen=True)
class RunFolder:
    """Folder of run files; `out` None: nothing is stored."""

    out: Path | None

    def get(self, spec: RunSpec) -> RunRecord | None:
        """The stored run; None if there is none, or its file cannot be read."""
        path = self._path(spec)
        if path is None or not path.is_file():
            return None
        try:
            return RunRecord.from_dict(json.loads(read_text(path)))
        except (InputError, json.JSONDecodeError):
            return None

    def put(self, record: RunRecord) -> None:
        """Write the run to its file."""
        path = self._path(record.spec)
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(path, json.dumps(record.to_dict(), ensure_ascii=False, allow_nan=False) + "\n")

    def _path(self, spec: RunSpec) -> Path | None:
        return None if self.out is None else self.out / FOLDER / f"{spec.key}.json"


def _read_measures(stored: Mapping[str, Any]) -> dict[str, MethodMeasures]:
    measures = {}
    for key, data in stored.items():
        values = {
            name: tuple(math.nan if value is None else value for value in per_input)
            for name, per_input in data["values"].items()
        }
        validation = _nan_for_null(data.get("validation", {}))
        measures[key] = MethodMeasures(**{**_nan_for_null(data), "values": values, "validation": validation})
    return measures


def _nan_for_null(stored: Mapping[str, Any]) -> dict[str, Any]:
    return {name: math.nan if value is None else value for name, value in _field_values(stored).items()}


def _field_values(stored: Mapping[str, Any]) -> dict[str, Any]:
    return {_FIELD_NAMES.get(key, key): value for key, value in stored.items()}


def _to_json(value: Any) -> Any:
    """Dataclasses as objects in the keys of the file format, NaN as null, numbers with few digits."""
    if isinstance(value, float):
        return round(value, DIGITS) if math.isfinite(value) else None
    if isinstance(value, RunSpec):
        return _to_json(asdict(value))
    if is_dataclass(value):
        return {STORED_KEYS.get(slot.name, slot.name): _to_json(getattr(value, slot.name)) for slot in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): _to_json(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_to_json(item) for item in value]
    return value
