"""How data walks through: inputs -> units and rows -> a method's scores -> rationales. One way, no back and forth."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import fields
from importlib.metadata import version
from typing import Any, overload

import numpy as np
import torch
from torch import Tensor

from rationales.checks import Selection, selection_notes
from rationales.curves import curve as make_curve
from rationales.curves import curve_probabilities, curve_thresholds
from rationales.errors import InputError, OptionError
from rationales.masks.field import smooth as smoothed
from rationales.masks.snapping import snapped
from rationales.methods import Method, build
from rationales.models.batch import Batch
from rationales.models.contrast import CHOSEN
from rationales.models.front import as_model
from rationales.models.model import Model
from rationales.models.probing import check_gradients
from rationales.options import check_option, whole
from rationales.rationale import Rationale, Rule, by_label
from rationales.selection import choose_rules
from rationales.targets import check_rivals, lists_inputs, of_the_two, rival_numbers, target_numbers
from rationales.version import __version__

Input = Any  # a text, a tuple of two texts; a path, a PIL image or an array of a picture; a path or (samples, rate)

AT_ONCE = {
    "text": 512,
    "image": 64,
    "audio": 64,
    "spectrogram": 16,
}  # inputs prepared together; the engine decides how many of them are in flight


@overload
def explain(
    model: Model | str | os.PathLike[str] | tuple[Any, Any],
    inputs: list[Any],
    *,
    method: str = ...,
    target: str | int | Sequence[str | int | None] | None = ...,
    against: str | int | Sequence[str | int] | None = ...,
    seed: int = ...,
    options: Mapping[str, Any] | None = ...,
    smooth: float | None = ...,
    snap: bool = ...,
    threshold: float | None = ...,
    share: float | None = ...,
    top: int | None = ...,
    curve: bool = ...,
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
    against: str | int | None = ...,
    seed: int = ...,
    options: Mapping[str, Any] | None = ...,
    smooth: float | None = ...,
    snap: bool = ...,
    threshold: float | None = ...,
    share: float | None = ...,
    top: int | None = ...,
    curve: bool = ...,
    names: str | None = ...,
    progress: Callable[[float], None] | None = ...,
) -> Rationale: ...


def explain(
    model: Model | str | os.PathLike[str] | tuple[Any, Any],
    inputs: Input,
    *,
    method: str = "marc",
    target: str | int | Sequence[str | int | None] | None = None,
    against: str | int | Sequence[str | int] | None = None,
    seed: int = 0,
    options: Mapping[str, Any] | None = None,
    smooth: float | None = None,
    snap: bool = True,
    threshold: float | None = None,
    share: float | None = None,
    top: int | None = None,
    curve: bool = False,
    names: str | Sequence[str] | None = None,
    progress: Callable[[float], None] | None = None,
) -> Rationale | list[Rationale]:
    """Why the model decided so.

    `model`: of `rationales.load`, or what it loads: a name, a folder or a tuple (module, tokenizer). `inputs`: for a
    text model a text or a tuple (text, pair), for an image model a path, a PIL image or an array, for a model of sounds
    a path or a tuple (samples, rate); or a list of these, or anything that lists them (a generator, an array of texts,
    a column of a data frame): then a list comes out, all explained together. `target`: the label to explain, or one for
    each input; by default what the model predicts. `against`: another label, or one for each input: why the target
    rather than this one; explained is then logit(target) - logit(against) alone. `options`: the method's own. `smooth`:
    width of a Gaussian over neighbouring units, for any method. `snap`: spans of words that cut a phrase are moved by a
    word or two where the model does not mind; scores stay as they are. `threshold`, `share` or `top`: which units make
    the rationale (score above it, that share of all units, that many), in place of the method's own rule; the
    probabilities are those of this selection. `curve`: also ask the model about selections of other sizes
    (`Rationale.curve`). `progress` is called with the share done, from 0 to 1.
    """
    model = as_model(model)
    alone = not lists_inputs(inputs)
    listed: list[Any] = [inputs] if alone else list(inputs)
    titles = None if names is None else [names] if isinstance(names, str) else list(names)
    if titles is not None and len(titles) != len(listed):
        raise OptionError(f"{len(titles)} names for {len(listed)} inputs")
    wanted = target_numbers(model, target, len(listed))
    rivals = rival_numbers(model, against, len(listed))
    if smooth is not None:
        check_option("smooth", smooth, "float", ())
    if smooth is not None and smooth <= 0:
        raise OptionError(f"smooth must be a number greater than 0, not {smooth!r}")
    check_option("snap", snap, "bool", ())
    seed = whole("the seed", seed)
    rule = _requested_rule(threshold, share, top)
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
        against_some = None if rivals is None else rivals[some]
        results += _explain_some(
            model, sources[some], found, wanted[some], against_some, seed, smooth, snap, rule, curve, report
        )
    return results[0] if alone else results


def _explain_some(
    model: Model,
    sources: Sequence[Any],
    method: Method,
    wanted: Sequence[int | None],
    rivals: Sequence[int] | None,
    seed: int,
    smooth: float | None,
    snap: bool,
    rule: Rule | None,
    with_curve: bool,
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
        # what is asked about: the target among all classes, or it and its rival alone
        asked, asked_target, asked_full = batch, target, full
        if rivals is not None:
            against = torch.tensor(rivals, device=batch.device)
            check_rivals(model, target, against, titles)
            asked = batch.contrasted(target, against)
            asked_target, asked_full = torch.full_like(target, CHOSEN), asked.predict()
        found = method.scores(asked, asked_target, progress)
        scores = found.scores if smooth is None else smoothed(found.scores, batch, smooth)
        per_input = [values.detach().float().cpu() for values in batch.gather(scores)]
        _check_scores(per_input, titles, method)
        if rule is None:
            rules = choose_rules(asked, method.rules, per_input, asked_target, asked_full)
        else:
            rules = [rule] * batch.inputs
        selections = [selecting.select(values.numpy()) for selecting, values in zip(rules, per_input, strict=True)]
        whole_groups = selections
        if snap and rule is None and model.kind == "text" and model.unit == "word":
            words, values = [text.units for text in encoded], [one.numpy() for one in per_input]
            whole_groups = snapped(asked, asked_target, asked_full, words, values, selections)
        hard = batch.spread([torch.from_numpy(selected).float() for selected in whole_groups])
        shown = batch.predict(torch.stack([hard, (1 - hard) * batch.rows.real, batch.zeros()]))
        answers = torch.cat([full[None], shown]).cpu()
        table = dict(zip(("full", "rationale", "complement", "baseline"), answers, strict=True))
        thresholds = [curve_thresholds(values.numpy()) for values in per_input] if with_curve else []
        sizes = curve_probabilities(batch, per_input, thresholds) if with_curve else None
    _check_probabilities([*table.values(), *([] if sizes is None else [sizes.movedim(2, 0)])], titles)
    seconds = (time.perf_counter() - started) / len(sources)
    versions = _versions()
    options = {one.name: getattr(method, one.name) for one in fields(method)}
    if smooth is not None:
        options["smooth"] = smooth
    if not snap:
        options["snap"] = snap
    results = []
    for number, one in enumerate(encoded):
        decided = int(target[number])
        said = {name: by_label(model.labels, values[number].tolist()) for name, values in table.items()}
        described = model.describe(one, per_input[number])
        notes = [*described.pop("notes", ()), *(found.notes[number] if found.notes else [])]
        described.setdefault("baseline", model.baseline)
        selecting, read = rules[number], described.pop("read", None)
        if read is not None:  # a share of what the model reads is another share of the whole picture
            selecting = selecting.as_threshold(described["scores"][read])
        rival = None if rivals is None else rivals[number]
        judged = said if rival is None else of_the_two(said, model.labels[decided], model.labels[rival])
        notes += selection_notes(
            Selection(
                model.kind,
                model.unit,
                model.labels[decided],
                judged,
                described["baseline"],
                int(whole_groups[number].sum()),
                len(whole_groups[number]),
                getattr(method, "sparsity", None) if getattr(method, "own", 0.0) else None,
            )
        )
        results.append(
            Rationale(
                **described,
                target=model.labels[decided],
                against=None if rival is None else model.labels[rival],
                labels=model.labels,
                probabilities=said,
                method=method.name,
                model=model.name,
                rule=selecting,
                selection=None if np.array_equal(whole_groups[number], selections[number]) else whole_groups[number],
                unit=model.unit,
                options=options,
                seed=seed,
                steps=found.steps[number] if found.steps else 0,
                stop=found.stop[number] if found.stop else "",
                seconds=round(seconds, 6),
                notes=tuple(notes),
                curve=None
                if sizes is None
                else make_curve(model.labels, described["scores"], thresholds[number], sizes[:, :, number]),
                versions=versions,
            )
        )
    return results


def _requested_rule(threshold: float | None, share: float | None, top: int | None) -> Rule | None:
    """The rule that the user gives in place of the method's, if any."""
    if threshold is None and share is None and top is None:
        return None
    for name, value in (("threshold", threshold), ("share", share)):
        if value is not None:
            check_option(name, value, "float", ())
    return Rule(threshold, share, None if top is None else whole("top", top))


def _check_logits(logits: Tensor, batch: Batch, titles: Sequence[str]) -> None:
    """A model that answers NaN or infinity is reported, with the input it did so for."""
    bad = ~torch.isfinite(logits).all(-1)
    if bad.any():
        raise InputError(
            f"the model gives NaN or infinite logits for {titles[int(batch.rows.input[bad][0])]}; check its weights, "
            "or load it in float32 if it is in half precision"
        )


def _check_probabilities(measured: Sequence[Tensor], titles: Sequence[str]) -> None:
    """`measured`: tensors whose first axis is that of the inputs."""
    for number, title in enumerate(titles):
        if not all(torch.isfinite(values[number]).all() for values in measured):
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
