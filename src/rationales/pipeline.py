"""How data walks through: inputs -> units and rows -> a method's scores -> rationales. One way, no back and forth."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, overload

import numpy as np
import torch
from torch import Tensor

from rationales.errors import InputError, OptionError
from rationales.masks.field import smooth as smoothed
from rationales.methods import Method, build
from rationales.models.batch import Batch
from rationales.models.text import TextModel, check_finite
from rationales.models.tokens import Encoded, TextInput
from rationales.options import check_option
from rationales.rationale import Note, Rationale, Rule, by_label
from rationales.version import __version__

Text = str | tuple[str, str]

SUFFICIENT = 0.9  # a rationale alone should give the target this share of what the whole input gives it
INFORMATIVE = 0.7  # a baseline that gives the target this much is not uninformative
AT_ONCE = 512  # inputs prepared together; the engine decides how many of them are in flight


@overload
def explain(
    model: TextModel,
    inputs: Text,
    *,
    method: str = ...,
    target: str | int | None = ...,
    seed: int = ...,
    options: Mapping[str, Any] | None = ...,
    smooth: float | None = ...,
    names: str | None = ...,
    progress: Callable[[float], None] | None = ...,
) -> Rationale: ...


@overload
def explain(
    model: TextModel,
    inputs: list[str] | list[tuple[str, str]] | list[Text],
    *,
    method: str = ...,
    target: str | int | Sequence[str | int | None] | None = ...,
    seed: int = ...,
    options: Mapping[str, Any] | None = ...,
    smooth: float | None = ...,
    names: Sequence[str] | None = ...,
    progress: Callable[[float], None] | None = ...,
) -> list[Rationale]: ...


def explain(
    model: TextModel,
    inputs: Text | list[str] | list[tuple[str, str]] | list[Text],
    *,
    method: str = "marc",
    target: str | int | Sequence[str | int | None] | None = None,
    seed: int = 0,
    options: Mapping[str, Any] | None = None,
    smooth: float | None = None,
    names: str | Sequence[str] | None = None,
    progress: Callable[[float], None] | None = None,
) -> Rationale | list[Rationale]:
    """Why the model decided so.

    `inputs`: a text, a tuple (text, pair), or a list of these; a list in, a list out, all explained in one batch.
    `target`: the label to explain, or one for each input; by default what the model predicts. `options`: the method's
    own. `smooth`: width of a Gaussian over neighbouring units, for any method. `progress` is called with the share
    done, from 0 to 1.
    """
    if not isinstance(inputs, (str, tuple, list)):
        raise InputError(f"give a text, a tuple of two texts, or a list of these, not {type(inputs).__name__}")
    alone = isinstance(inputs, (str, tuple))
    listed: Sequence[Text] = [inputs] if isinstance(inputs, (str, tuple)) else inputs
    titles = [names] if isinstance(names, str) else names
    if titles is not None and len(titles) != len(listed):
        raise OptionError(f"{len(titles)} names for {len(listed)} inputs")
    wanted = _targets(model, target, len(listed))
    if smooth is not None:
        check_option("smooth", smooth, "float", ())
    if smooth is not None and smooth <= 0:
        raise OptionError(f"smooth must be a number greater than 0, not {smooth!r}")
    if not isinstance(seed, int):
        raise OptionError(f"the seed must be a whole number, not {seed!r}")
    found = build(method, dict(options or {}))
    sources = [_input(one, titles[number] if titles else None) for number, one in enumerate(listed)]
    results: list[Rationale] = []
    for begin in range(0, len(sources), AT_ONCE):
        some = slice(begin, begin + AT_ONCE)
        report = _shifted(progress, begin / len(sources), len(sources[some]) / len(sources))
        results += _explain_some(model, sources[some], found, wanted[some], seed, smooth, report)
    return results[0] if alone else results


def _explain_some(
    model: TextModel,
    sources: Sequence[TextInput],
    method: Method,
    wanted: Sequence[int | None],
    seed: int,
    smooth: float | None,
    progress: Callable[[float], None] | None,
) -> list[Rationale]:
    started = time.perf_counter()
    encoded = model.encode(sources)
    with torch.inference_mode(False), model.borrowed():
        batch = model.batch(encoded, seed)
        with torch.no_grad():
            logits = batch.logits(batch.ones())
        check_finite(logits, batch.rows, encoded)
        full = batch.pool(batch.probabilities(logits)).mean(-2)
        chosen = torch.tensor([-1 if one is None else one for one in wanted], device=batch.device)
        target = torch.where(chosen < 0, full.argmax(-1), chosen)
        found = method.scores(batch, target, progress)
        scores = found.scores
        if smooth is not None:
            scores = smoothed(scores, batch.rows.position, batch.rows.real, smooth)
        per_input = [values.detach().float().cpu().numpy() for values in batch.gather(scores)]
        _check_scores(per_input, encoded, method)
        rules = _rules(batch, method, per_input, target, full)
        kept = [rule.select(values) for rule, values in zip(rules, per_input, strict=True)]
        hard = _hard(batch, kept)
        shown = {
            "full": full,
            "rationale": batch.predict(hard),
            "complement": batch.predict((1 - hard) * batch.rows.real),
            "baseline": batch.predict(batch.zeros()),
        }
        table = {name: values.cpu() for name, values in shown.items()}
    _check_probabilities(table, encoded)
    seconds = (time.perf_counter() - started) / len(sources)
    versions = _versions()
    options = {one.name: getattr(method, one.name) for one in fields(method)}
    if smooth is not None:
        options["smooth"] = smooth
    results = []
    for number, one in enumerate(encoded):
        decided = int(target[number])
        said = {name: by_label(model.labels, values[number].tolist()) for name, values in table.items()}
        notes = (found.notes[number] if found.notes else []) + _notes(model, said, decided)
        results.append(
            Rationale(
                text=one.source.text,
                pair=one.source.pair,
                name=one.source.name,
                units=one.units,
                scores=per_input[number],
                target=model.labels[decided],
                labels=model.labels,
                probabilities=said,
                method=method.name,
                model=model.name,
                rule=rules[number],
                baseline=model.baseline,
                unit=model.unit,
                options=options,
                seed=seed,
                steps=found.steps[number] if found.steps else 0,
                stop=found.stop[number] if found.stop else "",
                segments=len(one.rows),
                seconds=round(seconds, 6),
                notes=tuple(notes),
                versions=versions,
            )
        )
    return results


def _rules(batch: Batch, method: Method, scores: Sequence[np.ndarray], target: Tensor, full: Tensor) -> list[Rule]:
    """For each input the first rule whose units alone give the target nearly what the whole input gives it."""
    wanted = SUFFICIENT * full.gather(1, target[:, None]).squeeze(1)
    chosen = [method.rules[0]] * batch.inputs
    open_ = set(range(batch.inputs))
    for rule in method.rules:
        alone = batch.predict(_hard(batch, [rule.select(values) for values in scores]))
        enough = (alone.gather(1, target[:, None]).squeeze(1) >= wanted).tolist()
        for number in [number for number in open_ if enough[number]]:
            chosen[number] = rule
            open_.remove(number)
        if not open_:
            break
    return chosen


def _hard(batch: Batch, kept: Sequence[np.ndarray]) -> Tensor:
    """(S, n) of 0/1 from one selection per input."""
    return batch.spread([torch.from_numpy(one.astype(np.float32)) for one in kept])


def _notes(model: TextModel, said: Mapping[str, Mapping[str, float]], target: int) -> list[Note]:
    """What every method's result is checked for."""
    label = model.labels[target]
    full, alone, empty = (said[name][label] for name in ("full", "rationale", "baseline"))
    notes = []
    if empty > INFORMATIVE:
        message = f"the baseline {model.baseline} alone already gives {label} {empty:.2f}, so it is not uninformative"
        notes.append(Note("informative-baseline", f"{message}; try another baseline (mask, unk, zero, mean)"))
    best = max(said["rationale"], key=lambda name: said["rationale"][name])
    if alone < 0.5 * full or (len(model.labels) > 1 and best != label and full == max(said["full"].values())):
        message = f"the selected words alone give {label} {alone:.2f}, the whole text {full:.2f}: not sufficient"
        notes.append(Note("not-sufficient", f"{message}; select more (a lower threshold) or lower sparsity"))
    return notes


def _targets(model: TextModel, target: Any, count: int) -> list[int | None]:
    if isinstance(target, Sequence) and not isinstance(target, str):
        if len(target) != count:
            raise OptionError(f"{len(target)} targets for {count} inputs")
        return [model.target(one) for one in target]
    return [model.target(target)] * count


def _input(given: Any, name: str | None) -> TextInput:
    if isinstance(given, str):
        source = TextInput(given, None, name)
    elif isinstance(given, tuple) and len(given) == 2 and all(isinstance(part, str) for part in given):
        source = TextInput(given[0], given[1], name)
    else:
        raise InputError(f"an input is a text or a tuple of two texts, not {type(given).__name__}")
    for text in (source.text, source.pair or ""):
        if any("\ud800" <= mark <= "\udfff" for mark in text):
            raise InputError(f"{name or 'the text'} holds half a character (a lone surrogate)")
    return source


def _check_probabilities(table: Mapping[str, Tensor], encoded: Sequence[Encoded]) -> None:
    for number, one in enumerate(encoded):
        if not all(torch.isfinite(values[number]).all() for values in table.values()):
            raise InputError(
                f"the model gives NaN or infinite logits for {one.source.title} when words are replaced; "
                "check its weights, or try another baseline"
            )


def _check_scores(scores: Sequence[np.ndarray], encoded: Sequence[Encoded], method: Method) -> None:
    for values, one in zip(scores, encoded, strict=True):
        if not np.isfinite(values).all():
            raise InputError(
                f"{method.name} found no finite scores for {one.source.title}: gradients are NaN or infinite"
            )


def _shifted(progress: Callable[[float], None] | None, begin: float, share: float) -> Callable[[float], None] | None:
    return None if progress is None else lambda done: progress(begin + share * done)


def _versions() -> dict[str, str]:
    import transformers

    return {
        "rationales": __version__,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "python": platform.python_version(),
    }
