"""From a batch to scores, selections and the model's predictions for them, for all inputs of the batch together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rationales.errors import InputError
from rationales.masks.optimize import faster_copy
from rationales.masks.snapping import snap_selections
from rationales.methods.method import Attribution, Method
from rationales.models.batch import Batch
from rationales.models.batch.contrast import CHOSEN
from rationales.models.model import Model
from rationales.pipeline import scoring, selection
from rationales.pipeline.scoring import first_nonfinite, run_method, shaped_scores
from rationales.pipeline.selection import RuleChoice, choose_rules
from rationales.rationale import Note, Rule, rounded_probabilities

PROBABILITIES = ("full", "rationale", "complement", "baseline")


@dataclass(frozen=True)
class ExplanationRequest:
    """The arguments of `explain`, checked; the same for all inputs but for their targets and rivals."""

    method: Method
    targets: Sequence[int | None]  # None: the predicted class
    rivals: Sequence[int] | None  # the class that each target is set against
    seed: int
    smooth: float | None
    shape: str | None
    snap: bool
    rule: Rule | None  # the user's selection in place of the method's
    curve: bool
    plain_baseline: bool  # rationales are checked on one plain baseline, not on those chosen for the input

    def chunk(self, begin: int, end: int) -> ExplanationRequest:
        """The request for the inputs from `begin` to `end`."""
        rivals = None if self.rivals is None else self.rivals[begin:end]
        return replace(self, targets=self.targets[begin:end], rivals=rivals)

    @property
    def options(self) -> dict[str, Any]:
        """The method's options and what else shaped the result, for the record."""
        values = {option.name: getattr(self.method, option.name) for option in fields(self.method)}
        plain = (str, int, float, bool, type(None))
        options = {name: value if isinstance(value, plain) else str(value) for name, value in values.items()}
        if self.smooth is not None:
            options["smooth"] = self.smooth
        if self.shape is not None:
            options["shape"] = self.shape
        return options if self.snap else options | {"snap": False}


@dataclass(frozen=True, eq=False)
class ScoredInputs:
    """Scores, selections and predictions of a chunk of inputs."""

    target: Tensor  # (inputs,), on the CPU
    scores: list[Tensor]  # (units,) for each input; those of images on the device
    selections: Selections
    probabilities: dict[str, np.ndarray]  # full, rationale, complement, baseline -> (inputs, classes), rounded
    thresholds: list[list[float]]  # of the curve; empty without one
    curve: Tensor | None  # (2, sizes, inputs, classes)
    steps: list[int]
    stop: list[str]
    notes: list[list[Note]]


@dataclass(frozen=True, eq=False)
class Question:
    """What is explained: the target among all classes, or against its rival alone."""

    batch: Batch
    target: Tensor  # (inputs,)
    full: Tensor  # (inputs, classes) probabilities of the full inputs


@dataclass(frozen=True, eq=False)
class UnitScores:
    """(units,) for each input."""

    on_device: list[Tensor]
    on_host: list[Tensor]
    spans: list[Tensor] | None  # what a rationale is selected by where it is not the scores; on the device


@dataclass(frozen=True, eq=False)
class Selections:
    """The rationale of each input."""

    rules: list[Rule]
    by_rule: list[np.ndarray]  # (units,) bool for each input: what its rule selects by the scores
    chosen: list[np.ndarray]  # (units,) bool for each input: what its rule selects by the scores or the spans
    final: list[np.ndarray]  # (units,) bool for each input: the rationale, after snapping to word groups
    selected_by: list[str]  # scores or spans
    predicted: RuleChoice | None  # with the predictions for `chosen`, where they have full precision


def score_inputs(
    model: Model,
    batch: Batch,
    encoded: Sequence[Any],
    titles: Sequence[str],
    request: ExplanationRequest,
    progress: Callable[[float], None] | None,
) -> ScoredInputs:
    """Scores, selections and the model's predictions for them."""
    logits = request.method.full_logits(batch) if request.rivals is None else batch.full_logits()
    _check_logits(logits, batch, titles)
    full = batch.pool(batch.probabilities(logits)).mean(-2)
    requested = torch.tensor([-1 if target is None else target for target in request.targets], device=batch.device)
    target = torch.where(requested < 0, full.argmax(-1), requested)
    question = _question(model, batch, target, full, request, titles)
    attribution = run_method(question.batch, request.method, question.target, progress)
    scores = _unit_scores(batch, attribution, request, titles)
    selections = _select(model, question, encoded, scores, request)
    measured = torch.cat([full[None], _predict_selections(batch, selections)]).cpu()  # (4, inputs, classes)
    thresholds = [selection.curve_thresholds(values.numpy()) for values in scores.on_host] if request.curve else []
    curve = selection.curve_probabilities(batch, scores.on_host, thresholds) if request.curve else None
    _check_probabilities([*measured, *([] if curve is None else [curve.movedim(2, 0)])], titles)
    resized = model.kind in ("image", "image-text")  # to the image, which the device does faster
    return ScoredInputs(
        target=target.cpu(),
        scores=scores.on_device if resized else scores.on_host,
        selections=selections,
        probabilities=dict(zip(PROBABILITIES, rounded_probabilities(measured.numpy()), strict=True)),
        thresholds=thresholds,
        curve=curve,
        steps=attribution.steps or [0] * batch.inputs,
        stop=attribution.stop or [""] * batch.inputs,
        notes=attribution.notes or [[] for _ in range(batch.inputs)],
    )


def _question(
    model: Model, batch: Batch, target: Tensor, full: Tensor, request: ExplanationRequest, titles: Sequence[str]
) -> Question:
    if request.rivals is None:
        return Question(batch, target, full)
    against = torch.tensor(request.rivals, device=batch.device)
    scoring.check_rivals(model, target, against, titles)
    contrasted = batch.contrasted(target, against)
    return Question(contrasted, torch.full_like(target, CHOSEN), contrasted.predict())


def _unit_scores(
    batch: Batch, attribution: Attribution, request: ExplanationRequest, titles: Sequence[str]
) -> UnitScores:
    """The scores of units, and of spans where the rationale is selected by them, checked."""
    row_scores, row_span_scores = shaped_scores(batch, attribution, request.smooth, request.shape)
    scores = _by_input(batch, row_scores)
    on_host = selection.on_host(scores)
    _check_scores(on_host, titles, request.method)
    if request.rule is not None or row_span_scores is None:
        return UnitScores(scores, on_host, None)
    spans = _by_input(batch, row_span_scores)
    _check_scores(selection.on_host(spans), titles, request.method)
    has_thresholds = any(rule.threshold is not None for rule in request.method.rules)
    if attribution.span_scores is None and has_thresholds:  # shaped scores have another range
        spans = [*map(selection.with_values_of, spans, scores)]
    return UnitScores(scores, on_host, spans)


def _by_input(batch: Batch, row_scores: Tensor) -> list[Tensor]:
    """(S, n) -> (units,) in float32 for each input, on the device."""
    scores = batch.gather(row_scores)
    return list(torch.split(torch.cat(scores).float(), [len(values) for values in scores]))


def _select(
    model: Model, question: Question, encoded: Sequence[Any], scores: UnitScores, request: ExplanationRequest
) -> Selections:
    """The units that make the rationales: by the user's rule, or by the first of the method's that suffices."""
    if request.rule is not None:
        chosen = selection.select_by_rule(request.rule, scores.on_host, question.batch)
        return Selections([request.rule] * len(chosen), chosen, chosen, chosen, ["scores"] * len(chosen), None)
    batch, target, full = question.batch, question.target, question.full
    # on a GPU the rules of texts are tried in half precision; what is reported is computed afterwards
    in_half = model.kind == "text" and batch.device.type == "cuda"
    trial_batch = faster_copy(batch) if in_half else batch
    ranked_by = scores.on_device if scores.spans is None else scores.spans
    choice = choose_rules(trial_batch, request.method.rules, ranked_by, target, full)
    rules, chosen = choice.rules, choice.selected
    by_rule, selected_by = chosen, ["scores"] * len(chosen)
    if scores.spans is not None:
        rules = [selection.rule_on_scores(rule, units) for rule, units in zip(rules, chosen, strict=True)]
        by_rule = [rule.select(values.numpy()) for rule, values in zip(rules, scores.on_host, strict=True)]
        selected_by = ["scores" if same else "spans" for same in map(np.array_equal, by_rule, chosen)]
    final = chosen
    if request.snap and model.kind == "text" and model.unit == "word":
        words, values = [text.units for text in encoded], [input_scores.numpy() for input_scores in scores.on_host]
        final = snap_selections(batch, target, full, words, values, chosen, choice.row_outputs)
    reusable = request.rivals is None and trial_batch is batch
    return Selections(rules, by_rule, chosen, final, selected_by, choice if reusable else None)


def _predict_selections(batch: Batch, selections: Selections) -> Tensor:
    """(3, inputs, classes): probabilities of the rationales, of their complements and of the baseline."""
    choice = selections.predicted
    if choice is None:
        keep = batch.spread([torch.from_numpy(units) for units in selections.final])
        sides = batch.predict(torch.stack([keep, (1 - keep) * batch.rows.real]))
        return torch.cat([sides, batch.predict_baseline()[None]])
    empty = batch.predict_baseline() if batch.known_baseline is None else batch.known_baseline
    predicted = torch.stack([choice.rationale, choice.complement, empty.to(choice.rationale)])
    pairs = zip(selections.final, selections.chosen, strict=True)
    moved = [number for number, (final, chosen) in enumerate(pairs) if not np.array_equal(final, chosen)]
    if moved:  # the others have the predictions of their rule
        subset = batch if len(moved) == batch.inputs else batch.take(moved)
        keep = subset.spread([torch.from_numpy(selections.final[number]) for number in moved])
        predicted[:2, moved] = subset.predict(torch.stack([keep, (1 - keep) * subset.rows.real]))
    return predicted


def _check_logits(logits: Tensor, batch: Batch, titles: Sequence[str]) -> None:
    row = first_nonfinite(logits)
    if row is not None:
        raise InputError(
            f"the model gives NaN or infinite logits for {titles[int(batch.rows.input[row])]}; check its weights, "
            "or load it in float32 if it is in half precision"
        )


def _check_probabilities(measured: Sequence[Tensor], titles: Sequence[str]) -> None:
    """`measured`: tensors whose first axis is that of the inputs."""
    for values in measured:
        number = first_nonfinite(values)
        if number is not None:
            raise InputError(
                f"the model gives NaN or infinite logits for {titles[number]} when parts of it are replaced; "
                "check its weights, or try another baseline"
            )


def _check_scores(scores: Sequence[Tensor], titles: Sequence[str], method: Method) -> None:
    """`scores`: (units,) of each input, on the CPU."""
    if first_nonfinite(torch.cat(list(scores))) is None:
        return
    title = next(title for values, title in zip(scores, titles, strict=True) if first_nonfinite(values) is not None)
    causes = {"gradients": "its gradients", "attention": "its hidden states"}
    replaced = "its predictions when parts are replaced"
    cause = next((text for need, text in causes.items() if need in method.needs), replaced)
    raise InputError(f"{method.name} gives no finite scores for {title}: {cause} are NaN or infinite")
