"""The result of a stability check as plain data: one dictionary for JSON, and rows for data frames."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from rationales.evaluation.stability.results import BaselineResult, Disagreement, MethodStability, StabilityResult
from rationales.evaluation.tables.statistics import Estimate

MAX_EVIDENCE_LABELS = 5  # likeliest labels of a baseline that are written


def to_dict(result: StabilityResult) -> dict[str, Any]:
    """The result for JSON; what is not defined is null."""
    return {
        "model": result.model,
        "kind": result.kind,
        "device": result.device,
        "inputs": [
            {"name": name, "target": target} for name, target in zip(result.inputs, result.targets, strict=True)
        ],
        "methods": [_method(result, method) for method in result.methods],
        "seconds": round(result.seconds, 1),
        "versions": dict(result.versions),
    }


def pair_rows(result: StabilityResult) -> list[dict[str, Any]]:
    """One row for each method, pair of runs and input."""
    return [
        {
            "method": method.title,
            "first": method.runs[first].title,
            "second": method.runs[second].title,
            "input": name,
            "target": target,
            "rank": float(method.agreement.rank[first, second, number]),
            "iou": float(method.agreement.iou[first, second, number]),
            "chance": float(method.agreement.chance[first, second, number]),
        }
        for method in result.methods
        for first, second in method.agreement.pairs
        for number, (name, target) in enumerate(zip(result.inputs, result.targets, strict=True))
    ]


def baseline_rows(result: StabilityResult) -> list[dict[str, Any]]:
    """One row for each method, baseline and input."""
    return [
        {
            "method": method.title,
            "baseline": baseline.name,
            "input": name,
            "target": target,
            "full": float(baseline.values.full[number]),
            "rationale": float(baseline.values.rationale[number]),
            "complement": float(baseline.values.complement[number]),
            "empty": float(baseline.values.baseline[number]),
            "rank": float(baseline.rank[number]),
            "iou": float(baseline.iou[number]),
        }
        for method in result.methods
        for baseline in method.baselines
        for number, (name, target) in enumerate(zip(result.inputs, result.targets, strict=True))
    ]


def _method(result: StabilityResult, method: MethodStability) -> dict[str, Any]:
    agreement = method.agreement
    per_input = {"rank": agreement.per_input(agreement.rank), "iou": agreement.per_input(agreement.iou)}
    return {
        "title": method.title,
        "method": method.method,
        "options": dict(method.options),
        "reference": method.runs[method.reference].title,
        "agreement": {
            group: {name: _estimate(value) for name, value in columns.items()}
            for group, columns in method.summary.items()
        },
        "runs": [
            {
                "seed": run.seed,
                "learning_rate": run.learning_rate,
                "rationale": _number(values.rationale.mean()),
                "complement": _number(values.complement.mean()),
                "selected_share": _number(values.selected.mean()),
                "not_converged": int(values.unconverged.sum()),
            }
            for run, values in zip(method.runs, method.values, strict=True)
        ],
        "matrix": {name: [[_number(x) for x in row] for row in method.mean_matrix(name)] for name in ("rank", "iou")},
        "per_input": {name: [_number(x) for x in values] for name, values in per_input.items()},
        "least_stable": [_disagreement(case) for case in method.disagreements],
        "baselines": [_baseline(result, baseline) for baseline in method.baselines],
        "remarks": list(method.remarks),
        "interpretation": result.interpretation()[method.title],
    }


def _baseline(result: StabilityResult, baseline: BaselineResult) -> dict[str, Any]:
    def summary(label: str | None) -> dict[str, Any]:
        return {name: _estimate(value) for name, value in baseline.summary(result.members(label)).items()}

    likeliest = sorted(baseline.evidence.items(), key=lambda item: -item[1])[:MAX_EVIDENCE_LABELS]
    return {
        "name": baseline.name,
        "is_reference": baseline.is_reference,
        "carries_evidence": baseline.carries_evidence,
        "evidence": {label: _number(probability) for label, probability in likeliest},
        "all": summary(None),
        "labels": {label: summary(label) for label in result.predicted_labels},
    }


def _disagreement(case: Disagreement) -> dict[str, Any]:
    described: dict[str, Any] = {
        "name": case.name,
        "mean_iou": _number(case.mean_iou),
        "iou": _number(case.iou),
        "rank": _number(case.rank),
        "runs": list(case.runs),
    }
    if case.rationales[0].text:
        described["spans"] = [[span.text for span in rationale.spans()] for rationale in case.rationales]
    return described


def _estimate(value: Estimate) -> Mapping[str, Any]:
    return {"mean": _number(value.mean), "low": _number(value.low), "high": _number(value.high), "n": value.n}


def _number(value: float | np.floating[Any]) -> float | None:
    return None if math.isnan(value) else round(float(value), 6)
