"""From inputs to rationales: inputs -> units and rows -> a method's scores -> selections -> rationales."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, overload

import numpy as np
import torch
from torch import Tensor

from rationales.errors import InputError, OptionError
from rationales.masks.optimize import faster_copy
from rationales.masks.snapping import snap_selections
from rationales.methods import Method, resolve_method
from rationales.models.batch import Batch
from rationales.models.batch.contrast import CHOSEN
from rationales.models.batch.execution import garbage_collection_paused, limited_threads
from rationales.models.kinds import kind_named
from rationales.models.load import as_model
from rationales.models.model import Model
from rationales.options import check_option, whole_number
from rationales.pipeline import scoring, selection
from rationales.pipeline.scoring import (
    check_shape,
    encode_inputs,
    first_nonfinite,
    open_batch,
    run_method,
    shaped_scores,
)
from rationales.pipeline.selection import SelectionSummary, choose_rules, selection_notes
from rationales.rationale import Note, Rationale, Rule, TextAndImage, rounded_probabilities
from rationales.version import __version__, installed_version

Input = Any  # a text, a tuple of two texts; a path, a PIL image or an array of an image; a path or (samples, rate)
Progress = Callable[[float], None]
DESCRIBING_THREADS = 8  # that fetch scores of images from a GPU and resize and sort them


@dataclass(frozen=True)
class _Request:
    """What is to be explained, and how; the same for all inputs but for their targets and rivals."""

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

    def chunk(self, begin: int, end: int) -> _Request:
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
class _Scored:
    """What a chunk of inputs was given by the method and the model, before it is described."""

    target: Tensor  # (inputs,), on the CPU
    scores: list[Tensor]  # (units,) for each input; those of images on the device
    rules: list[Rule]
    by_rule: list[np.ndarray]  # (units,) bool for each input: what its rule selects by the scores
    selected: list[np.ndarray]  # (units,) bool for each input: the rationale, after snapping to word groups
    selected_by: list[str]  # scores or spans
    probabilities: dict[str, np.ndarray]  # full, rationale, complement, baseline -> (inputs, classes), rounded
    thresholds: list[list[float]]  # of the curve; empty without one
    curve: Tensor | None  # (2, sizes, inputs, classes)
    steps: list[int]
    stop: list[str]
    notes: list[list[Note]]


@overload
def explain(
    model: Model | str | os.PathLike[str] | tuple[Any, Any],
    inputs: list[Any],
    *,
    method: str | Method = ...,
    target: str | int | Sequence[str | int | None] | None = ...,
    against: str | int | Sequence[str | int] | None = ...,
    seed: int = ...,
    options: Mapping[str, Any] | None = ...,
    smooth: float | None = ...,
    shape: str | None = ...,
    snap: bool = ...,
    threshold: float | None = ...,
    share: float | None = ...,
    top: int | None = ...,
    curve: bool = ...,
    plain_baseline: bool | None = ...,
    names: Sequence[str] | None = ...,
    progress: Progress | None = ...,
) -> list[Rationale]: ...


@overload
def explain(
    model: Model | str | os.PathLike[str] | tuple[Any, Any],
    inputs: Input,
    *,
    method: str | Method = ...,
    target: str | int | None = ...,
    against: str | int | None = ...,
    seed: int = ...,
    options: Mapping[str, Any] | None = ...,
    smooth: float | None = ...,
    shape: str | None = ...,
    snap: bool = ...,
    threshold: float | None = ...,
    share: float | None = ...,
    top: int | None = ...,
    curve: bool = ...,
    plain_baseline: bool | None = ...,
    names: str | None = ...,
    progress: Progress | None = ...,
) -> Rationale: ...


def explain(
    model: Model | str | os.PathLike[str] | tuple[Any, Any],
    inputs: Input,
    *,
    method: str | Method = "marc",
    target: str | int | Sequence[str | int | None] | None = None,
    against: str | int | Sequence[str | int] | None = None,
    seed: int = 0,
    options: Mapping[str, Any] | None = None,
    smooth: float | None = None,
    shape: str | None = None,
    snap: bool = True,
    threshold: float | None = None,
    share: float | None = None,
    top: int | None = None,
    curve: bool = False,
    plain_baseline: bool | None = None,
    names: str | Sequence[str] | None = None,
    progress: Progress | None = None,
) -> Rationale | list[Rationale]:
    """Why the model decided so.

    `model`: of `rationales.load`, or what it loads: a name, a folder or a tuple (module, tokenizer). `inputs`: for a
    text model a text or a tuple (text, pair), for an image model a path, a PIL image or an array, for an image-text
    model a tuple (image, text), for a model of sounds a path or a tuple (samples, rate); or a list of these, or
    anything that lists them (a generator, an array of texts, a column of a data frame): then a list comes out, all
    explained together. `target`: the label to explain, or one for each input; by default what the model predicts.
    `against`: another label, or one for each input: why the target rather than this one; explained is then
    logit(target) - logit(against) alone. `method`: a name, or a method object of your own (`rationales.Method`).
    `options`: those of a method given by name. `smooth`: width of a Gaussian over neighbouring units, for any method.
    `shape`: "clauses" selects the rationale in spans, as people mark clauses, also for a method that scores single
    words (a method that chooses spans itself, as marc does, keeps them); "none" selects it by the scores of single
    units. `snap`: spans that cut a phrase are moved by a word or two where the model does not mind. Scores stay as
    they are with either. `threshold`, `share` or `top`: which units make the rationale (score above it, that share of
    all units, that many), in place of the method's own rule and of its shape; the probabilities are those of this
    selection. `curve`: also ask the model about selections of other sizes (`Rationale.curve`). `plain_baseline`: for
    images whose baselines are chosen by the model, whether a rationale is checked on the least informative plain
    colour alone, at nearly no cost; by default where the method's scores do not depend on baselines (grad-cam,
    saliency). `progress` is called with the share done, from 0 to 1.
    """
    if not isinstance(model, Model):
        model = as_model(model)
    alone = not scoring.lists_inputs(inputs)
    raw_inputs: list[Any] = [inputs] if alone else list(inputs)
    titles = None if names is None else [names] if isinstance(names, str) else list(names)
    if titles is not None and len(titles) != len(raw_inputs):
        raise OptionError(f"{len(titles)} names for {len(raw_inputs)} inputs")
    if smooth is not None:
        check_option("smooth", smooth, "float", ())
    if smooth is not None and smooth <= 0:
        raise OptionError(f"smooth must be a number greater than 0, not {smooth!r}")
    check_shape(shape, model.kind)
    check_option("snap", snap, "bool", ())
    resolved_method = resolve_method(method, options, model.kind)
    if plain_baseline is None:
        plain_baseline = not scoring.depends_on_baselines(resolved_method)
    check_option("plain_baseline", plain_baseline, "bool", ())
    request = _Request(
        method=resolved_method,
        targets=scoring.target_numbers(model, target, len(raw_inputs)),
        rivals=scoring.rival_numbers(model, against, len(raw_inputs)),
        seed=whole_number("the seed", seed),
        smooth=smooth,
        shape=shape,
        snap=snap,
        rule=_requested_rule(threshold, share, top),
        curve=curve,
        plain_baseline=plain_baseline,
    )
    sources = scoring.read_inputs(model, raw_inputs, titles or [None] * len(raw_inputs))
    for number, source in enumerate(sources):
        if not alone and titles is None and not getattr(source, "text", "an image").strip():
            raise InputError(f"input {number} of the list is empty; there is nothing to explain")
    results: list[Rationale] = []
    inputs_at_once = kind_named(model.kind).inputs_at_once
    for begin in range(0, len(sources), inputs_at_once):
        chunk = sources[begin : begin + inputs_at_once]
        report = _shifted(progress, begin / len(sources), len(chunk) / len(sources))
        results += _explain_chunk(model, chunk, request.chunk(begin, begin + len(chunk)), report)
    return results[0] if alone else results


def _explain_chunk(
    model: Model, sources: Sequence[Any], request: _Request, progress: Progress | None
) -> list[Rationale]:
    """The rationales of inputs that are explained together."""
    started = time.perf_counter()
    encoded = encode_inputs(model, sources, request.plain_baseline)
    titles = [model.title(source) for source in sources]
    with open_batch(model, encoded, request.seed) as batch:
        scored = _score(model, batch, encoded, titles, request, progress)
    seconds = round((time.perf_counter() - started) / len(sources), 6)
    describe = partial(_describe, model, encoded, scored=scored, request=request, seconds=seconds, versions=_versions())
    threads = DESCRIBING_THREADS if scored.scores[0].device.type != "cpu" else 1
    # small work on the host: more threads would only wait for each other
    with limited_threads(0), garbage_collection_paused():
        if threads == 1 or len(encoded) == 1:
            return [describe(number) for number in range(len(encoded))]
        with ThreadPoolExecutor(min(threads, len(encoded))) as pool:  # copies and sorting release the interpreter lock
            return list(pool.map(describe, range(len(encoded))))


def _score(
    model: Model,
    batch: Batch,
    encoded: Sequence[Any],
    titles: Sequence[str],
    request: _Request,
    progress: Progress | None,
) -> _Scored:
    """Scores, selections and the model's predictions for them."""
    logits = request.method.full_logits(batch) if request.rivals is None else batch.full_logits()
    _check_logits(logits, batch, titles)
    full = batch.pool(batch.probabilities(logits)).mean(-2)
    requested = torch.tensor([-1 if target is None else target for target in request.targets], device=batch.device)
    target = torch.where(requested < 0, full.argmax(-1), requested)
    # the question that the method answers: the target among all classes, or against its rival alone
    question, question_target, question_full = batch, target, full
    if request.rivals is not None:
        against = torch.tensor(request.rivals, device=batch.device)
        scoring.check_rivals(model, target, against, titles)
        question = batch.contrasted(target, against)
        question_target, question_full = torch.full_like(target, CHOSEN), question.predict()
    attribution = run_method(question, request.method, question_target, progress)
    row_scores, row_span_scores = shaped_scores(batch, attribution, request.smooth, request.shape)
    unit_scores = _unit_scores(batch, row_scores)  # on the device
    scores = selection.on_host(unit_scores)
    _check_scores(scores, titles, request.method)
    choice, trial_batch = None, question
    if request.rule is None:
        span_scores = unit_scores
        if row_span_scores is not None:
            span_scores = _unit_scores(batch, row_span_scores)
            _check_scores(selection.on_host(span_scores), titles, request.method)
            thresholds_of_scores = any(rule.threshold is not None for rule in request.method.rules)
            if attribution.span_scores is None and thresholds_of_scores:  # shaped scores have another range
                span_scores = [*map(selection.with_values_of, span_scores, unit_scores)]
        # on a GPU the rules of texts are tried in half precision; what is reported is computed below
        trial_batch = faster_copy(question) if model.kind == "text" and batch.device.type == "cuda" else question
        choice = choose_rules(trial_batch, request.method.rules, span_scores, question_target, question_full)
        rules, chosen = choice.rules, choice.selected
    else:
        rules = [request.rule] * batch.inputs
        chosen = selection.select_by_rule(request.rule, scores, batch)
    by_rule, selected_by = chosen, ["scores"] * batch.inputs
    if choice is not None and row_span_scores is not None:
        rules = [selection.rule_on_scores(rule, chosen_units) for rule, chosen_units in zip(rules, chosen, strict=True)]
        by_rule = [rule.select(values.numpy()) for rule, values in zip(rules, scores, strict=True)]
        same = map(np.array_equal, by_rule, chosen)
        selected_by = ["scores" if equal else "spans" for equal in same]
    selected = chosen
    if request.snap and request.rule is None and model.kind == "text" and model.unit == "word":
        words, values = [text.units for text in encoded], [input_scores.numpy() for input_scores in scores]
        outputs = None if choice is None else choice.row_outputs
        selected = snap_selections(question, question_target, question_full, words, values, chosen, outputs)
    if choice is not None and trial_batch is batch:
        empty = batch.predict_baseline() if batch.known_baseline is None else batch.known_baseline
        predicted = torch.stack([choice.rationale, choice.complement, empty.to(full)])
        moved = [number for number, units in enumerate(selected) if not np.array_equal(units, chosen[number])]
        if moved:  # the others have the predictions of their rule
            subset = batch if len(moved) == batch.inputs else batch.take(moved)
            keep = subset.spread([torch.from_numpy(selected[number]) for number in moved])
            predicted[:2, moved] = subset.predict(torch.stack([keep, (1 - keep) * subset.rows.real]))
    else:
        keep = batch.spread([torch.from_numpy(units) for units in selected])
        sides = batch.predict(torch.stack([keep, (1 - keep) * batch.rows.real]))
        predicted = torch.cat([sides, batch.predict_baseline()[None]])
    measured = torch.cat([full[None], predicted]).cpu()  # (4, inputs, classes)
    names = ("full", "rationale", "complement", "baseline")
    probabilities = dict(zip(names, rounded_probabilities(measured.numpy()), strict=True))
    thresholds = [selection.curve_thresholds(values.numpy()) for values in scores] if request.curve else []
    curve = selection.curve_probabilities(batch, scores, thresholds) if request.curve else None
    _check_probabilities([*measured, *([] if curve is None else [curve.movedim(2, 0)])], titles)
    steps, stop = attribution.steps or [0] * batch.inputs, attribution.stop or [""] * batch.inputs
    notes = attribution.notes or [[] for _ in range(batch.inputs)]
    if model.kind in ("image", "image-text"):  # resized to the image, which the device does faster
        scores = unit_scores
    return _Scored(
        target=target.cpu(),
        scores=scores,
        rules=rules,
        by_rule=by_rule,
        selected=selected,
        selected_by=selected_by,
        probabilities=probabilities,
        thresholds=thresholds,
        curve=curve,
        steps=steps,
        stop=stop,
        notes=notes,
    )


def _describe(
    model: Model,
    all_encoded: Sequence[Any],
    number: int,
    scored: _Scored,
    request: _Request,
    seconds: float,
    versions: Mapping[str, str],
) -> Rationale:
    """The rationale of input `number`, in the units of the input itself."""
    encoded = all_encoded[number]
    target = model.labels[int(scored.target[number])]
    against = None if request.rivals is None else model.labels[request.rivals[number]]
    probabilities = {
        name: dict(zip(model.labels, values[number].tolist(), strict=True))
        for name, values in scored.probabilities.items()
    }
    contrasted = probabilities
    if against is not None:
        contrasted = scoring.two_class_probabilities(probabilities, target, against)
    description = model.describe(encoded, scored.scores[number])
    baseline = description.baseline or model.baseline
    rule = scored.rules[number]
    if description.read_mask is not None:
        words = len(description.units.words) if isinstance(description.units, TextAndImage) else 0
        rule = selection.rule_at_image_size(rule, description.scores, description.read_mask, words)
    selected, by_rule, method = scored.selected[number], scored.by_rule[number], request.method
    notes = selection_notes(
        SelectionSummary(
            kind=model.kind,
            unit=model.unit,
            target=target,
            probabilities=contrasted,
            baseline=baseline,
            selected=int(selected.sum()),
            units=len(selected),
            sparsity=getattr(method, "sparsity", None) if getattr(method, "mask_weight", 0.0) else None,
        )
    )
    curve = None
    if scored.curve is not None:
        curve = selection.curve(model.labels, description.scores, scored.thresholds[number], scored.curve[:, :, number])
    return Rationale(
        text=description.text,
        pair=description.pair,
        units=description.units,
        scores=description.scores,
        image=description.image,
        sound=description.sound,
        name=description.name,
        segments=description.segments,
        baseline=baseline,
        target=target,
        against=against,
        labels=model.labels,
        probabilities=probabilities,
        method=method.name,
        model=model.name,
        rule=rule,
        selection=None if np.array_equal(selected, by_rule) else selected,
        selected_by=scored.selected_by[number],
        unit=model.unit,
        options=request.options,
        seed=request.seed,
        steps=scored.steps[number],
        stop=scored.stop[number],
        seconds=seconds,
        notes=(*description.notes, *scored.notes[number], *notes),
        curve=curve,
        versions=versions,
    )


def _requested_rule(threshold: float | None, share: float | None, top: int | None) -> Rule | None:
    """The rule that the user gives in place of the method's, if any."""
    if threshold is None and share is None and top is None:
        return None
    for name, value in (("threshold", threshold), ("share", share)):
        if value is not None:
            check_option(name, value, "float", ())
    return Rule(threshold, share, None if top is None else whole_number("top", top))


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


def _unit_scores(batch: Batch, row_scores: Tensor) -> list[Tensor]:
    """(S, n) -> (units,) in float32 for each input, on the device."""
    scores = batch.gather(row_scores)
    return list(torch.split(torch.cat(scores).float(), [len(values) for values in scores]))


def _check_scores(scores: Sequence[Tensor], titles: Sequence[str], method: Method) -> None:
    """`scores`: (units,) of each input, on the CPU."""
    if first_nonfinite(torch.cat(list(scores))) is None:
        return
    title = next(title for values, title in zip(scores, titles, strict=True) if first_nonfinite(values) is not None)
    causes = {"gradients": "its gradients", "attention": "its hidden states"}
    replaced = "its predictions when parts are replaced"
    cause = next((text for need, text in causes.items() if need in method.needs), replaced)
    raise InputError(f"{method.name} gives no finite scores for {title}: {cause} are NaN or infinite")


def _shifted(progress: Progress | None, begin: float, share: float) -> Progress | None:
    return None if progress is None else lambda done: progress(begin + share * done)


def _versions() -> dict[str, str]:
    return {
        "rationales": __version__,
        "torch": torch.__version__,
        "transformers": installed_version("transformers"),
        "python": platform.python_version(),
    }
