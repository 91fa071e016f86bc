"""How data walks through: inputs -> units and rows -> a method's scores -> rationales. One way, no back and forth."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, ValuesView
from contextlib import ExitStack
from dataclasses import fields
from importlib.metadata import version
from typing import Any, overload

import numpy as np
import torch
from torch import Tensor

from rationales.errors import InputError, OptionError
from rationales.masks.field import smooth as smoothed
from rationales.methods import Method, build
from rationales.models.batch import Batch
from rationales.models.front import as_model
from rationales.models.model import Model
from rationales.models.probing import check_gradients
from rationales.options import check_option, whole
from rationales.rationale import Note, Rationale, Rule, by_label
from rationales.version import __version__

Input = Any  # a text, a tuple of two texts; a path, a PIL image or an array of a picture; a path or (samples, rate)

SUFFICIENT = 0.9  # a rationale alone should give the target this share of what the whole input gives it
INFORMATIVE = 0.7  # a baseline that gives the target this much is not uninformative
AT_ONCE = {
    "text": 512,
    "image": 64,
    "audio": 64,
    "spectrogram": 16,
}  # inputs prepared together; the engine decides how many of them are in flight

_OTHERS = {"text": "mask, unk, zero, mean", "image": "black, white, mean, blur-20, noise"}  # baselines to try
_WHOLE = {"text": "text", "image": "picture"}


@overload
def explain(
    model: Model | str | os.PathLike[str] | tuple[Any, Any],
    inputs: list[Any],
    *,
    method: str = ...,
    target: str | int | Sequence[str | int | None] | None = ...,
    seed: int = ...,
    options: Mapping[str, Any] | None = ...,
    smooth: float | None = ...,
    names: Sequence[str] | None = ...,
    progress: Callable[[float], None] | None = ...,
) -> list[Rationale]: ...


@overload
def explain(
    model: Model | str | os.PathLike[str] | tuple[Any, Any],
    inputs: Input,
    *,
    method: str = ...,
    target: str | int | None = ...,
    seed: int = ...,
    options: Mapping[str, Any] | None = ...,
    smooth: float | None = ...,
    names: str | None = ...,
    progress: Callable[[float], None] | None = ...,
) -> Rationale: ...


def explain(
    model: Model | str | os.PathLike[str] | tuple[Any, Any],
    inputs: Input,
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

    `model`: of `rationales.load`, or what it loads: a name, a folder or a tuple (module, tokenizer). `inputs`: for a
    text model a text or a tuple (text, pair), for an image model a path, a PIL image or an array, for a model of sounds
    a path or a tuple (samples, rate); or a list of these, or anything that lists them (a generator, an array of texts,
    a column of a data frame): then a list comes out, all explained together. `target`: the label to explain, or one for
    each input;
    by default what the model predicts. `options`: the method's own. `smooth`: width of a Gaussian over neighbouring
    units, for any method. `progress` is called with the share done, from 0 to 1.
    """
    model = as_model(model)
    alone = not lists_inputs(inputs)
    listed: list[Any] = [inputs] if alone else list(inputs)
    titles = None if names is None else [names] if isinstance(names, str) else list(names)
    if titles is not None and len(titles) != len(listed):
        raise OptionError(f"{len(titles)} names for {len(listed)} inputs")
    wanted = _targets(model, target, len(listed))
    if smooth is not None:
        check_option("smooth", smooth, "float", ())
    if smooth is not None and smooth <= 0:
        raise OptionError(f"smooth must be a number greater than 0, not {smooth!r}")
    seed = whole("the seed", seed)
    found = build(method, dict(options or {}), model.kind)
    sources = [model.read(one, titles[number] if titles else None) for number, one in enumerate(listed)]
    for number, source in enumerate(sources):
        if not alone and titles is None and not getattr(source, "text", "a picture").strip():
            raise InputError(f"input {number} of the list is empty; there is nothing to explain")
    results: list[Rationale] = []
    at_once = AT_ONCE[model.kind]
    for begin in range(0, len(sources), at_once):
        some = slice(begin, begin + at_once)
        report = _shifted(progress, begin / len(sources), len(sources[some]) / len(sources))
        results += _explain_some(model, sources[some], found, wanted[some], seed, smooth, report)
    return results[0] if alone else results


def _explain_some(
    model: Model,
    sources: Sequence[Any],
    method: Method,
    wanted: Sequence[int | None],
    seed: int,
    smooth: float | None,
    progress: Callable[[float], None] | None,
) -> list[Rationale]:
    started = time.perf_counter()
    encoded = model.encode(sources)
    titles = [model.title(source) for source in sources]
    with ExitStack() as threads, torch.inference_mode(False), model.borrowed():
        batch = model.batch(encoded, seed)
        threads.enter_context(batch.threads())
        with torch.no_grad():
            logits = batch.logits(batch.ones())
        _check_logits(logits, batch, titles)
        if "gradients" in method.needs:
            check_gradients(batch)
        full = batch.pool(batch.probabilities(logits)).mean(-2)
        chosen = torch.tensor([-1 if one is None else one for one in wanted], device=batch.device)
        target = torch.where(chosen < 0, full.argmax(-1), chosen)
        found = method.scores(batch, target, progress)
        scores = found.scores if smooth is None else smoothed(found.scores, batch, smooth)
        per_input = [values.detach().float().cpu() for values in batch.gather(scores)]
        _check_scores(per_input, titles, method)
        rules = _rules(batch, method, per_input, target, full)
        hard = _hard(batch, rules, per_input)
        shown = batch.predict(torch.stack([hard, (1 - hard) * batch.rows.real, batch.zeros()]))
        answers = torch.cat([full[None], shown]).cpu()
        table = dict(zip(("full", "rationale", "complement", "baseline"), answers, strict=True))
    _check_probabilities(table, titles)
    seconds = (time.perf_counter() - started) / len(sources)
    versions = _versions()
    options = {one.name: getattr(method, one.name) for one in fields(method)}
    if smooth is not None:
        options["smooth"] = smooth
    results = []
    for number, one in enumerate(encoded):
        decided = int(target[number])
        said = {name: by_label(model.labels, values[number].tolist()) for name, values in table.items()}
        described = model.describe(one, per_input[number])
        notes = [*described.pop("notes", ()), *(found.notes[number] if found.notes else [])]
        described.setdefault("baseline", model.baseline)
        rule, read = rules[number], described.pop("read", None)
        if read is not None:  # a share of what the model reads is another share of the whole picture
            rule = rule.as_threshold(described["scores"][read])
        notes += _notes(model, described["baseline"], said, decided)
        results.append(
            Rationale(
                **described,
                target=model.labels[decided],
                labels=model.labels,
                probabilities=said,
                method=method.name,
                model=model.name,
                rule=rule,
                unit=model.unit,
                options=options,
                seed=seed,
                steps=found.steps[number] if found.steps else 0,
                stop=found.stop[number] if found.stop else "",
                seconds=round(seconds, 6),
                notes=tuple(notes),
                versions=versions,
            )
        )
    return results


def _rules(batch: Batch, method: Method, scores: Sequence[Tensor], target: Tensor, full: Tensor) -> list[Rule]:
    """For each input the first rule whose units alone give the target nearly what the whole input gives it.

    Where none does, the one whose units give it most.
    """
    wanted = (SUFFICIENT * full.gather(1, target[:, None]).squeeze(1)).tolist()
    rules = method.rules
    chosen, most = [rules[0]] * batch.inputs, [-1.0] * batch.inputs
    open_ = set(range(batch.inputs))
    for rule in rules:
        asked = sorted(open_)
        part = batch if len(asked) == batch.inputs else batch.take(asked)
        keep = _hard(part, [rule] * len(asked), [scores[number] for number in asked])
        alone = part.predict(keep).gather(1, target[asked][:, None]).squeeze(1)
        for number, value in zip(asked, alone.tolist(), strict=True):
            if value > most[number]:
                chosen[number], most[number] = rule, value
        open_ = {number for number in open_ if not most[number] >= wanted[number]}
        if not open_:
            break
    return chosen


def _hard(batch: Batch, rules: Sequence[Rule], scores: Sequence[Tensor]) -> Tensor:
    """(S, n) of 0/1: what each input's rule selects."""
    chosen = [torch.from_numpy(rule.select(values.numpy())) for rule, values in zip(rules, scores, strict=True)]
    return batch.spread([one.float() for one in chosen])


def _notes(model: Model, baseline: str, said: Mapping[str, Mapping[str, float]], target: int) -> list[Note]:
    """What every method's result is checked for."""
    label = model.labels[target]
    full, alone, empty = (said[name][label] for name in ("full", "rationale", "baseline"))
    notes = []
    if empty > INFORMATIVE:
        message = f"the baseline {baseline} alone already gives {label} {empty:.2f}, so it is not uninformative"
        others = _OTHERS.get(model.kind, "silence, noise, blur-20")
        notes.append(Note("informative-baseline", f"{message}; try another baseline ({others})"))
    best = max(said["rationale"], key=lambda name: said["rationale"][name])
    if alone < 0.5 * full or (len(model.labels) > 1 and best != label and full == max(said["full"].values())):
        message = f"the selected {model.unit}s alone give {label} {alone:.2f}"
        message += f", the whole {_WHOLE.get(model.kind, 'sound')} {full:.2f}"
        notes.append(
            Note("not-sufficient", f"{message}: not sufficient; select more (a lower threshold) or lower sparsity")
        )
    return notes


def lists_inputs(inputs: Any) -> bool:
    """Whether these are several inputs: a list, an iterator, an array of texts, a column of a data frame.

    A tuple is one input (a pair of texts, or samples and their rate), and so is an array of numbers (a picture).
    """
    if isinstance(inputs, (str, bytes, bytearray, memoryview, tuple)):
        return False
    if isinstance(inputs, (Sequence, Iterator, ValuesView)):
        return True
    if callable(getattr(inputs, "to_list", None)):  # a series of pandas or polars
        return True
    return isinstance(inputs, np.ndarray) and inputs.ndim == 1 and inputs.dtype.kind in "OUT"  # objects or texts


def _targets(model: Model, target: Any, count: int) -> list[int | None]:
    if lists_inputs(target) or isinstance(target, tuple) or getattr(target, "ndim", 0) == 1:
        target = list(target)
        if len(target) != count:
            raise OptionError(f"{len(target)} targets for {count} inputs")
        return [model.target(one) for one in target]
    return [model.target(target)] * count


def _check_logits(logits: Tensor, batch: Batch, titles: Sequence[str]) -> None:
    """A model that answers NaN or infinity is reported, with the input it did so for."""
    bad = ~torch.isfinite(logits).all(-1)
    if bad.any():
        raise InputError(
            f"the model gives NaN or infinite logits for {titles[int(batch.rows.input[bad][0])]}; check its weights, "
            "or load it in float32 if it is in half precision"
        )


def _check_probabilities(table: Mapping[str, Tensor], titles: Sequence[str]) -> None:
    for number, title in enumerate(titles):
        if not all(torch.isfinite(values[number]).all() for values in table.values()):
            raise InputError(
                f"the model gives NaN or infinite logits for {title} when parts of it are replaced; "
                "check its weights, or try another baseline"
            )


def _check_scores(scores: Sequence[Tensor], titles: Sequence[str], method: Method) -> None:
    for values, title in zip(scores, titles, strict=True):
        if not torch.isfinite(values).all():
            where = "its gradients" if "gradients" in method.needs else "its answers when parts are replaced"
            raise InputError(f"{method.name} found no finite scores for {title}: {where} are NaN or infinite")


def _shifted(progress: Callable[[float], None] | None, begin: float, share: float) -> Callable[[float], None] | None:
    return None if progress is None else lambda done: progress(begin + share * done)


def _versions() -> dict[str, str]:
    return {
        "rationales": __version__,
        "torch": torch.__version__,
        "transformers": version("transformers"),
        "python": platform.python_version(),
    }
