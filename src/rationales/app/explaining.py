"""From what a visitor asks for to rationales, method by method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from rationales.app.jobs import Job, JobStoppedError
from rationales.app.limits import MAX_METHODS, MAX_STEPS, Limits, check_text
from rationales.app.model_choices import ModelChoices, ServedModel
from rationales.app.uploads import decode_upload, read_upload_image, read_upload_sound
from rationales.errors import InputError, OptionError, RationalesError
from rationales.methods import ALIASES, METHODS
from rationales.options import suggestion
from rationales.pipeline.explain import explain
from rationales.rationale import Rationale

HOOKED = frozenset({"attention", "feature maps"})  # methods that read inside the network, where no one else may run it
HOOKED_METHODS = frozenset({"deep-lift", "guided-backpropagation"})
PREDICTED = "the predicted class"


@dataclass(frozen=True)
class VisitorRequest:
    """What a visitor asks for; all of it is checked by `prepare`."""

    model: str
    text: str = ""
    pair: str = ""
    upload: str = ""  # an image or a sound, see uploads.py
    methods: Sequence[str] = ("marc",)
    target: str = ""  # empty: the predicted class
    seed: int = 0
    steps: int | None = None  # of methods that have this option; None: as the method does it


@dataclass(frozen=True, eq=False)
class PreparedRequest:
    """A request that can be carried out."""

    served: ServedModel
    raw_input: Any  # as `explain` takes it
    name: str | None
    methods: tuple[str, ...]
    target: str | None
    seed: int = 0
    steps: int | None = None
    options: dict[str, dict[str, Any]] = field(default_factory=dict)  # by method


def prepare(request: VisitorRequest, choices: ModelChoices, limits: Limits) -> PreparedRequest:
    """The request with its model and its input; raises a RationalesError that tells the visitor what to change."""
    served = choices.get(request.model)
    methods = _checked_methods(request.methods, served)
    if not 0 <= int(request.seed) < 2**31:
        raise OptionError("the seed is a whole number from 0 to 2,147,483,647")
    if request.steps is not None and not 1 <= int(request.steps) <= MAX_STEPS:
        raise OptionError(f"steps is a whole number from 1 to {MAX_STEPS:,}")
    target = request.target.strip()
    label = None if target in ("", PREDICTED) else target
    if label is not None:
        served.model.target(label)  # reports a label that the model does not have
    raw_input, name = read_input(request, served, limits)
    options = {method: _options(method, request.steps) for method in methods}
    return PreparedRequest(served, raw_input, name, methods, label, int(request.seed), request.steps, options)


def read_input(request: VisitorRequest, served: ServedModel, limits: Limits) -> tuple[Any, str | None]:
    """The input as `explain` takes it, and its name."""
    if served.noun == "text":
        text = check_text(request.text, limits)
        if not text.strip():
            raise InputError("there is no text to explain; type or paste one")
        if request.pair.strip():
            return (text, check_text(request.pair, limits, "the second text")), None
        return text, None
    if not request.upload:
        raise InputError(f"{served.title} reads {served.noun}s; choose a file")
    upload = decode_upload(request.upload, limits.upload_bytes, f"the {served.noun}")
    if served.noun == "image":
        return read_upload_image(upload, limits).pixels, upload.name
    return read_upload_sound(upload, limits), upload.name


def run_methods(prepared: PreparedRequest, job: Job) -> None:
    """Explain the input with every method; each rationale is appended to the results of the job when it is there.

    The reason of a method that cannot explain this input is appended to its problems; it is raised if none can.
    """
    plain = not any(METHODS[name].uses_baselines for name in prepared.methods)
    for number, name in enumerate(prepared.methods):
        job.message = name
        try:
            job.results.append(_run_method(prepared, name, job, number, plain))
        except JobStoppedError:
            raise
        except RationalesError as error:
            job.problems.append(str(error))
            if len(job.problems) == len(prepared.methods):
                raise
        job.report((number + 1) / len(prepared.methods))


def _run_method(prepared: PreparedRequest, name: str, job: Job, number: int, plain_baseline: bool) -> Rationale:
    served, total = prepared.served, len(prepared.methods)
    hooked = bool(HOOKED & set(METHODS[name].needs)) or name in HOOKED_METHODS

    def report(share: float) -> None:
        job.report((number + share) / total)
        if not hooked:
            served.lock.pause()

    with served.lock.long():
        job.report(number / total)  # it may have waited for the model
        rationale: Rationale = explain(
            served.model,
            prepared.raw_input,
            method=name,
            target=prepared.target,
            seed=prepared.seed,
            options=prepared.options.get(name),
            curve=True,
            plain_baseline=plain_baseline,
            names=prepared.name,
            progress=report,
        )
    return rationale


def _checked_methods(methods: Sequence[str], served: ServedModel) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(ALIASES.get(name, name) for name in methods))
    if not names:
        raise OptionError("choose at least one method")
    if len(names) > MAX_METHODS:
        raise OptionError(f"choose at most {MAX_METHODS} methods, not {len(names)}")
    fitting = served.methods
    for name in names:
        if name not in fitting:
            known = ", ".join(fitting)
            raise OptionError(f"{name!r} cannot explain {served.title}{suggestion(name, fitting)}; there is: {known}")
    return names


def _options(method: str, steps: int | None) -> dict[str, Any]:
    """The options of a method for a number of steps, where it has steps."""
    names = {spec.name for spec in fields(METHODS[method])}
    if steps is None or "steps" not in names:
        return {}
    return {"steps": int(steps), **({"stop": "steps"} if "stop" in names else {})}
