"""The results of a dry run: for each plant the trained model, the reliance test, and a verdict on each method."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from rationales.evaluation.tables.statistics import Estimate
from rationales.groundtruth.dryrun.verdict import VERDICTS, MethodVerdict, attribution_gain
from rationales.groundtruth.metrics import AttributionShare, Case, attribution_share
from rationales.groundtruth.plants.plant import Plant, PlantedExample
from rationales.groundtruth.theory import Reliance
from rationales.rationale import Rationale
from rationales.rendering import render


@dataclass(frozen=True, eq=False)
class ExplainedInput:
    """One planted input with its rationale."""

    planted: PlantedExample
    rationale: Rationale
    case: Case

    @property
    def share(self) -> float:
        """Attr% on the plant."""
        return attribution_share(self.case.scores, self.case.region)

    @property
    def gain(self) -> float:
        """0 for random scores, 1 for perfect scores; see `verdict.attribution_gain`."""
        return attribution_gain(self.case.scores, self.case.region)


@dataclass(frozen=True, eq=False)
class MethodResult:
    """The result of one method on one plant."""

    title: str
    verdict: MethodVerdict | None  # None: too few inputs, or the method failed
    region: AttributionShare  # Attr% on the plant
    distractors: AttributionShare  # Attr% on what only looks like the plant
    labels: Mapping[str, AttributionShare]  # Attr% on the plant, for each label
    top_unit: Estimate  # share of inputs whose highest score lies on the plant
    seconds: float  # per input
    explained: tuple[ExplainedInput, ...]
    error: str = ""

    def ranked(self) -> list[ExplainedInput]:
        """The inputs by their gain, best first; inputs without a gain are left out."""
        valid = [explained for explained in self.explained if not math.isnan(explained.gain)]
        return sorted(valid, key=lambda explained: -explained.gain)


@dataclass(frozen=True, eq=False)
class PlantResult:
    """The result for one plant: the trained model, whether it relies on the plant, and the methods."""

    plant: Plant
    labels: tuple[str, ...]
    r: float | None  # None: labels were drawn anew
    bound: float
    area: float
    split_sizes: tuple[int, int, int]  # training, validation and test examples
    left_out: tuple[tuple[str, str], ...]
    network: str
    epochs: int
    reached_target: bool
    target_accuracy: float
    validation_accuracy: float  # of the best epoch
    reliance: Reliance
    seconds: float  # of training
    no_verdict: str  # the reason why there is no verdict; empty if there is one
    methods: tuple[MethodResult, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of the plant."""
        return {parameter.name: getattr(self.plant, parameter.name) for parameter in fields(self.plant)}

    def by_verdict(self) -> dict[str, list[str]]:
        """The titles of the methods for each verdict, without random scores."""
        return {
            name: [
                method.title
                for method in self.methods
                if method.title != "random" and method.verdict is not None and method.verdict.name == name
            ]
            for name in VERDICTS
        }


@dataclass(frozen=True, eq=False)
class DryRun:
    """The results for all plants, and the data they were obtained on."""

    data: str
    kind: str
    examples: int
    seed: int
    device: str
    seconds: float
    versions: Mapping[str, str]
    notes: tuple[str, ...]
    plants: tuple[PlantResult, ...]

    @property
    def judged(self) -> bool:
        """Whether there is a verdict on any method."""
        return any(not plant.no_verdict for plant in self.plants)

    def to_dict(self) -> dict[str, Any]:
        """The results as plain data, without the inputs."""
        return {
            "data": self.data,
            "kind": self.kind,
            "examples": self.examples,
            "seed": self.seed,
            "device": self.device,
            "seconds": round(self.seconds, 1),
            "notes": list(self.notes),
            "versions": dict(self.versions),
            "plants": [_plant_dict(plant) for plant in self.plants],
        }

    def to_json(self) -> str:
        """`to_dict` as one line of JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False) + "\n"

    def to_markdown(self) -> str:
        """The results as Markdown: a table and its settings for each plant."""
        from rationales.groundtruth.dryrun.text_report import markdown

        return markdown(self)

    def to_html(self) -> str:
        """The results as a self-contained page, with the best and worst inputs of each method."""
        return str(render("dry-run-html", self))

    def __str__(self) -> str:
        return self.to_markdown()


def _plant_dict(result: PlantResult) -> dict[str, Any]:
    return {
        "plant": result.plant.name,
        "parameters": {
            name: list(value) if isinstance(value, tuple) else value for name, value in result.parameters.items()
        },
        "labels": list(result.labels),
        "r": result.r,
        "bound": result.bound,
        "area": round(result.area, 6),
        "train": result.split_sizes[0],
        "val": result.split_sizes[1],
        "test": result.split_sizes[2],
        "left_out": [{"name": name, "reason": reason} for name, reason in result.left_out],
        "network": result.network,
        "epochs": result.epochs,
        "accuracy_target": result.target_accuracy,
        "accuracy_validation": round(result.validation_accuracy, 6),
        "accuracy_test": round(result.reliance.accuracy, 6),
        "reliance": {
            "correct": result.reliance.correct,
            "n": result.reliance.n,
            "p_value": result.reliance.p_value,
            "level": result.reliance.level,
            "relies": result.reliance.relies,
        },
        "seconds": round(result.seconds, 1),
        "verdict": not result.no_verdict,
        "reason": result.no_verdict,
        "notes": list(result.notes),
        "methods": [_method_dict(method) for method in result.methods],
    }


def _method_dict(result: MethodResult) -> dict[str, Any]:
    verdict = result.verdict
    return {
        "method": result.title,
        "verdict": None if verdict is None else verdict.name,
        "certain": None if verdict is None else verdict.certain,
        "attribution": _estimate_dict(result.region.attribution),
        "area": _rounded(result.region.area.mean),
        "gain": None if verdict is None else _estimate_dict(verdict.gain),
        "distractors": _estimate_dict(result.distractors.attribution) if result.distractors.attribution.n else None,
        "labels": {label: _estimate_dict(share.attribution) for label, share in result.labels.items()},
        "top_unit": _estimate_dict(result.top_unit),
        "inputs": len(result.explained),
        "seconds": _rounded(result.seconds),
        "error": result.error,
        "best": _names_and_gains(result.ranked()[:3]),
        "worst": _names_and_gains(result.ranked()[::-1][:3]),
    }


def _names_and_gains(inputs: Sequence[ExplainedInput]) -> list[dict[str, Any]]:
    return [{"name": explained.planted.example.name, "gain": round(explained.gain, 6)} for explained in inputs]


def _estimate_dict(value: Estimate) -> dict[str, Any]:
    return {"mean": _rounded(value.mean), "low": _rounded(value.low), "high": _rounded(value.high), "n": value.n}


def _rounded(value: float) -> float | None:
    return None if math.isnan(value) else round(float(value), 6)
