"""What the figures of a stability check say, in a few sentences; every threshold is named here."""

from __future__ import annotations

import math

import numpy as np

from rationales.evaluation.stability.results import (
    ALL,
    RATE_ONLY,
    SEED_ONLY,
    MethodStability,
    StabilityResult,
)
from rationales.evaluation.tables.markdown import estimate, number

STABLE, MODERATE = 0.8, 0.6  # mean agreement from which runs count as stable, or as stable in part
UNSTABLE_INPUT = 0.5  # inputs with a mean IoU below this are counted
LARGER_EFFECT = 0.05  # difference of mean IoU from which one cause is called larger than the other
MANY_UNCONVERGED = 0.1  # share of inputs of a run whose mask was still moving
MAX_NAMED_LABELS = 3


def interpret(result: StabilityResult, method: MethodStability) -> list[str]:
    """Sentences on the runs of a method, then on its baselines."""
    return [*_runs(result, method), *_baselines(result, method)]


def _runs(result: StabilityResult, method: MethodStability) -> list[str]:
    if ALL not in method.summary:
        return ["There is one run only, so there is nothing to compare it with."]
    unit = "pixels" if result.kind == "image" else "words"
    rank, iou, chance = (method.summary[ALL][name] for name in ("rank", "iou", "chance"))
    sentences = [
        f"The order of the {unit} is {_degree(rank.mean)}: mean rank correlation {estimate(rank)} between two runs.",
        f"The rationales are {_degree(iou.mean)}: mean IoU {estimate(iou)}; by chance {number(chance.mean)}.",
    ]
    seed, rate = (method.summary.get(group, {}).get("iou") for group in (SEED_ONLY, RATE_ONLY))
    if seed is not None and rate is not None:
        sentences.append(_larger_effect(seed.mean, rate.mean))
    unstable = int((method.agreement.per_input(method.agreement.iou) < UNSTABLE_INPUT).sum())
    if unstable:
        sentences.append(
            f"{unstable} of {len(result.inputs)} inputs have a mean IoU below {number(UNSTABLE_INPUT)}: do not rest a "
            "conclusion on one run of these."
        )
    else:
        sentences.append(f"No input has a mean IoU below {number(UNSTABLE_INPUT)}.")
    moving = [
        f"{run.title} ({values.unconverged.mean():.0%})"
        for run, values in zip(method.runs, method.values, strict=True)
        if values.unconverged.mean() > MANY_UNCONVERGED
    ]
    if moving:
        sentences.append(
            f"Masks were still moving at the last step in {', '.join(moving)} of the inputs: raise steps before you "
            "call this instability."
        )
    return sentences


def _larger_effect(seed: float, rate: float) -> str:
    figures = f"IoU {number(seed)} if only the seed differs, {number(rate)} if only the learning rate does"
    if abs(seed - rate) < LARGER_EFFECT:
        return f"Seed and learning rate matter about equally: {figures}."
    cause = "seed" if seed < rate else "learning rate"
    return f"The {cause} matters more: {figures}."


def _baselines(result: StabilityResult, method: MethodStability) -> list[str]:
    compared = [baseline for baseline in method.baselines if not baseline.is_reference]
    if not compared:
        return []
    means = {baseline.name: float(np.mean(baseline.iou)) for baseline in compared}
    lowest, highest = min(means, key=lambda name: means[name]), max(means, key=lambda name: means[name])
    sentence = f"With the baseline {lowest} alone the IoU with the reference run is {number(means[lowest])}"
    sentences = [f"{sentence}, with {highest} {number(means[highest])}." if len(means) > 1 else f"{sentence}."]
    for baseline in method.baselines:
        if baseline.carries_evidence:
            label, probability = baseline.favoured
            sentences.append(
                f"The baseline {baseline.name} carries evidence for {label}: with nothing of the input left the model "
                f"gives it {number(probability)}. Rationales for {label} look sufficient on it whatever they contain."
            )
    sentences += _sensitive_labels(result, method)
    return sentences


def _sensitive_labels(result: StabilityResult, method: MethodStability) -> list[str]:
    """Labels whose rationales depend clearly more on the baseline than those of the others; with two inputs or more."""
    labels = [label for label in result.predicted_labels if result.members(label).sum() > 1]
    if len(labels) < 2:
        return []
    compared = [baseline.iou for baseline in method.baselines if not baseline.is_reference]
    per_input = np.mean(compared, axis=0)
    means = {label: float(per_input[result.members(label)].mean()) for label in labels}
    sensitive = sorted(
        (label for label in labels if means[label] < float(per_input.mean()) - LARGER_EFFECT), key=lambda x: means[x]
    )
    if not sensitive:
        return ["No predicted label depends clearly more on the baseline than the others."]
    named = ", ".join(f"{label} ({number(means[label])})" for label in sensitive[:MAX_NAMED_LABELS])
    return [f"More sensitive to the baseline than the average ({number(float(per_input.mean()))}): {named}."]


def _degree(value: float) -> str:
    if math.isnan(value):
        return "not comparable"
    return "stable" if value >= STABLE else "stable in part" if value >= MODERATE else "not stable"
