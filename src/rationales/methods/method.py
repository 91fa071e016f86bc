"""What a method is: a frozen dataclass of documented options with one verb, `scores`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

from torch import Tensor

from rationales.errors import OptionError
from rationales.models.batch import Batch
from rationales.options import check_option, suggestion
from rationales.rationale import Note, Rule

Progress = Callable[[float], None]


@dataclass(frozen=True)
class Attribution:
    """What a method found: scores (S, n), and per input how it came about."""

    scores: Tensor
    steps: list[int] = field(default_factory=list)  # per input; empty: the method has no steps
    stop: list[str] = field(default_factory=list)
    notes: list[list[Note]] = field(default_factory=list)

    def detached(self) -> Attribution:
        """The same with scores that no gradient flows through."""
        return replace(self, scores=self.scores.detach())


@dataclass(frozen=True)
class Method(ABC):
    """A method with its options; subclasses are frozen dataclasses whose fields carry `help` in their metadata."""

    name: ClassVar[str]
    summary: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()  # gradients, attention, training data, ...
    rules: ClassVar[tuple[Rule, ...]] = tuple(Rule(share=share) for share in (0.2, 0.3, 0.4, 0.5))
    # what of the scores belongs to the rationale: the first of these rules whose units alone suffice, else the best
    presets: ClassVar[Mapping[str, Mapping[str, Mapping[str, Any]]]] = {}  # kind of input -> name -> options

    def brings(self) -> str:
        """A fingerprint of what else the scores depend on, beside the options: a trained part's file."""
        return ""

    @abstractmethod
    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        """Score every unit of every row; `target` is (inputs,)."""


@dataclass(frozen=True)
class OptionInfo:
    """An option as a person reads it."""

    name: str
    type: str
    default: Any
    help: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class MethodInfo:
    """A method as a person reads it."""

    name: str
    summary: str
    needs: tuple[str, ...]
    presets: Mapping[str, tuple[str, ...]]  # by the kind of input
    options: tuple[OptionInfo, ...]


def describe(method: type[Method]) -> MethodInfo:
    """What `rationales methods` shows."""
    options = tuple(
        OptionInfo(one.name, str(one.type), one.default, one.metadata.get("help", ""), one.metadata.get("choices", ()))
        for one in fields(method)
    )
    return MethodInfo(
        method.name,
        method.summary,
        method.needs,
        {kind: tuple(named) for kind, named in method.presets.items()},
        options,
    )


def make(method: type[Method], options: Mapping[str, Any], kind: str = "text") -> Method:
    """The method with these options for this kind of input; `preset` names the values of those that are not given."""
    given = dict(options)
    presets = method.presets.get(kind, {})
    preset = given.pop("preset", "default" if presets else None)
    if preset is not None and preset not in presets:
        known, similar = ", ".join(presets) or "none", suggestion(preset, presets)
        message = f"{method.name} has no preset {preset!r} for this kind of input{similar}"
        raise OptionError(f"{message}; its presets are: {known}")
    known_fields = {one.name: one for one in fields(method)}
    for name, value in given.items():
        if name not in known_fields:
            names = [*known_fields, *(["preset"] if method.presets else [])]
            known, similar = ", ".join(names) or "none", suggestion(name, names)
            raise OptionError(f"{method.name} has no option {name!r}{similar}; its options are: {known}")
        one = known_fields[name]
        check_option(name, value, str(one.type), one.metadata.get("choices", ()))
    base = method(**(presets[preset] if preset is not None else {}))
    return replace(base, **given)
