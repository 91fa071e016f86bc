"""What a dry run found: for each plant the model, the test that it relies on it, and a verdict on each method."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from rationales.evaluation.statistics import Estimate
from rationales.groundtruth.dryrun.verdict import VERDICTS, Verdict, gain_on
from rationales.groundtruth.metrics import Case, Share, attribution_share
from rationales.groundtruth.plant import Plant, Planted
from rationales.groundtruth.theory import Reliance
from rationales.rationale import Rationale


@dataclass(frozen=True, eq=False)
class Explained:
    """One input, what a method said of it, and how far that is from chance (0) to perfect (1)."""

    planted: Planted
    rationale: Rationale
    case: Case

    @property
    def share(self) -> float:
        """Attr% on the plant."""
        return attribution_share(self.case.scores, self.case.region)

    @property
    def gain(self) -> float:
        """See `verdict.gain_on`; NaN where there is nothing to be found."""
        return gain_on(self.case.scores, self.case.region)


@dataclass(frozen=True, eq=False)
class Row:
    """One method on one plant."""

    title: str
    verdict: Verdict | None  # None: not enough inputs, or it failed
    region: Share  # Attr% on the plant
    distractors: Share  # and on what only looks like it
    labels: Mapping[str, Share]  # Attr% on the plant, for each label apart
    top: Estimate  # share of inputs whose strongest unit lies in the plant
    seconds: float  # an input
    explained: tuple[Explained, ...]
    failed: str = ""

    def ranked(self) -> list[Explained]:
        """Best first; inputs without a value are left out."""
        known = [one for one in self.explained if not math.isnan(one.gain)]
        return sorted(known, key=lambda one: -one.gain)


@dataclass(frozen=True, eq=False)
class Outcome:
    """One plant: what was trained, whether it may be used to judge, and the rows."""

    plant: Plant
    labels: tuple[str, ...]
    r: float | None  # None: labels were drawn anew
    bound: float
    area: float
    parts: tuple[int, int, int]  # examples to train, to stop, to test
    left_out: tuple[tuple[str, str], ...]
    network: str
    epochs: int
    reached: bool
    wanted: float  # accuracy
    best: float  # validation accuracy
    reliance: Reliance
    seconds: float  # of training
    why: str  # there is no verdict; empty where there is one
    rows: tuple[Row, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def parameters(self) -> dict[str, Any]:
        """The plant's own."""
        return {one.name: getattr(self.plant, one.name) for one in fields(self.plant)}

    def by_verdict(self) -> dict[str, list[str]]:
        """The titles of the rows, chance left aside, by what was said of them."""
        return {
            name: [
                row.title
                for row in self.rows
                if row.title != "random" and row.verdict is not None and row.verdict.name == name
            ]
            for name in VERDICTS
        }


@dataclass(frozen=True, eq=False)
class DryRun:
    """All plants, and where the data came from."""

    data: str
    kind: str
    examples: int
    seed: int
    device: str
    seconds: float
    versions: Mapping[str, str]
    notes: tuple[str, ...]
    outcomes: tuple[Outcome, ...]

    @property
    def judged(self) -> bool:
        """Whether there is a verdict on any method."""
        return any(not one.why for one in self.outcomes)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, without the inputs."""
        return {
            "data": self.data,
            "kind": self.kind,
            "examples": self.examples,
            "seed": self.seed,
            "device": self.device,
            "seconds": round(self.seconds, 1),
            "notes": list(self.notes),
            "versions": dict(self.versions),
            "plants": [_outcome(one) for one in self.outcomes],
        }

    def to_json(self) -> str:
        """`to_dict` as one line of JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False) + "\n"

    def to_markdown(self) -> str:
        """Tables and what must be said below them."""
        from rationales.groundtruth.dryrun.words import markdown

        return markdown(self)

    def to_html(self) -> str:
        """A self-contained page with the tables, the choices, and the best and worst cases of each method."""
        from rationales.report.dry_run import page

        return page(self)

    def __str__(self) -> str:
        return self.to_markdown()


def _outcome(one: Outcome) -> dict[str, Any]:
    return {
        "plant": one.plant.name,
        "parameters": {
            name: list(value) if isinstance(value, tuple) else value for name, value in one.parameters.items()
        },
        "labels": list(one.labels),
        "r": one.r,
        "bound": one.bound,
        "area": round(one.area, 6),
        "train": one.parts[0],
        "val": one.parts[1],
        "test": one.parts[2],
        "left_out": [{"name": name, "why": why} for name, why in one.left_out],
        "network": one.network,
        "epochs": one.epochs,
        "accuracy_wanted": one.wanted,
        "accuracy_validation": round(one.best, 6),
        "accuracy_test": round(one.reliance.accuracy, 6),
        "reliance": {
            "correct": one.reliance.correct,
            "n": one.reliance.n,
            "p": one.reliance.p,
            "level": one.reliance.level,
            "relies": one.reliance.relies,
        },
        "seconds": round(one.seconds, 1),
        "verdict": not one.why,
        "why": one.why,
        "notes": list(one.notes),
        "methods": [_row(row) for row in one.rows],
    }


def _row(row: Row) -> dict[str, Any]:
    made = row.verdict
    return {
        "method": row.title,
        "verdict": None if made is None else made.name,
        "sure": None if made is None else made.sure,
        "attribution": _estimate(row.region.attribution),
        "area": _number(row.region.area.mean),
        "gain": None if made is None else _estimate(made.gain),
        "distractors": _estimate(row.distractors.attribution) if row.distractors.attribution.n else None,
        "labels": {label: _estimate(share.attribution) for label, share in row.labels.items()},
        "top": _estimate(row.top),
        "inputs": len(row.explained),
        "seconds": _number(row.seconds),
        "failed": row.failed,
        "best": _names(row.ranked()[:3]),
        "worst": _names(row.ranked()[::-1][:3]),
    }


def _names(explained: Sequence[Explained]) -> list[dict[str, Any]]:
    return [{"name": one.planted.example.name, "gain": round(one.gain, 6)} for one in explained]


def _estimate(one: Estimate) -> dict[str, Any]:
    return {"mean": _number(one.mean), "low": _number(one.low), "high": _number(one.high), "n": one.n}


def _number(value: float) -> float | None:
    return None if math.isnan(value) else round(float(value), 6)
