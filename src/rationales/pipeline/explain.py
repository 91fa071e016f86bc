"""From inputs to rationales: inputs -> units and rows -> a method's scores -> selections -> rationales."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, overload

import numpy as np
import torch

from rationales.errors import InputError, OptionError
from rationales.methods import Method, resolve_method
from rationales.models.batch.execution import garbage_collection_paused, limited_threads
from rationales.models.kinds import kind_named
from rationales.models.load import as_model
from rationales.models.model import Model
from rationales.options import check_option, checked_seed, whole_number
from rationales.pipeline import scoring, selection
from rationales.pipeline.scoring import check_shape, encode_inputs, open_batch
from rationales.pipeline.selection import SelectionSummary, selection_notes
from rationales.pipeline.stages import ExplanationRequest, ScoredInputs, score_inputs
from rationales.rationale import Rationale, Rule, TextAndImage
from rationales.version import __version__, installed_version

Input = Any  # a text, a tuple of two texts; a path, a PIL image or an array of an image; a path or (samples, rate)
Progress = Callable[[float], None]
DESCRIBING_THREADS = 8  # that fetch scores of images from a GPU and resize and sort them


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
        plain_baseline = not resolved_method.depends_on_baselines
    check_option("plain_baseline", plain_baseline, "bool", ())
    request = ExplanationRequest(
        method=resolved_method,
        targets=scoring.target_numbers(model, target, len(raw_inputs)),
        rivals=scoring.rival_numbers(model, against, len(raw_inputs)),
        seed=checked_seed(seed),
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
    model: Model, sources: Sequence[Any], request: ExplanationRequest, progress: Progress | None
) -> list[Rationale]:
    """The rationales of inputs that are explained together."""
    started = time.perf_counter()
    encoded = encode_inputs(model, sources, request.plain_baseline)
    titles = [model.title(source) for source in sources]
    with open_batch(model, encoded, request.seed) as batch:
        scored = score_inputs(model, batch, encoded, titles, request, progress)
    seconds = round((time.perf_counter() - started) / len(sources), 6)
    describe = partial(
        make_rationale, model, encoded, scored=scored, request=request, seconds=seconds, versions=_versions()
    )
    threads = DESCRIBING_THREADS if scored.scores[0].device.type != "cpu" else 1
    # small work on the host: more threads would only wait for each other
    with limited_threads(0), garbage_collection_paused():
        if threads == 1 or len(encoded) == 1:
            return [describe(number) for number in range(len(encoded))]
        with ThreadPoolExecutor(min(threads, len(encoded))) as pool:  # copies and sorting release the interpreter lock
            return list(pool.map(describe, range(len(encoded))))


def make_rationale(
    model: Model,
    all_encoded: Sequence[Any],
    number: int,
    scored: ScoredInputs,
    request: ExplanationRequest,
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
    selections, method = scored.selections, request.method
    rule = selections.rules[number]
    if description.read_mask is not None:
        words = len(description.units.words) if isinstance(description.units, TextAndImage) else 0
        rule = selection.rule_at_image_size(rule, description.scores, description.read_mask, words)
    selected, by_rule = selections.final[number], selections.by_rule[number]
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
            suggested_baselines=getattr(model, "suggested_baselines", None),
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
        tokens=description.tokens,
        prompt=description.prompt,
        baseline=baseline,
        target=target,
        against=against,
        labels=model.labels,
        probabilities=probabilities,
        method=method.name,
        model=model.name,
        rule=rule,
        selection=None if np.array_equal(selected, by_rule) else selected,
        selected_by=selections.selected_by[number],
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


def _shifted(progress: Progress | None, begin: float, share: float) -> Progress | None:
    return None if progress is None else lambda done: progress(begin + share * done)


def _versions() -> dict[str, str]:
    """Versions of the packages that a result depends on."""
    return {
        "rationales": __version__,
        "torch": torch.__version__,
        "transformers": installed_version("transformers"),
        "python": platform.python_version(),
    }
