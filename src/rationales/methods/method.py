"""The interface of a method: a frozen dataclass of documented options with one function, `scores`."""

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
Presets = Mapping[str, Mapping[str, Mapping[str, Any]]]  # kind of input -> name -> options


@dataclass(frozen=True)
class Attribution:
    """Result of a method: scores (S, n), and per input the number of steps, the stop reason and notes."""

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
    uses_baselines: ClassVar[bool] = True  # False: scores do not depend on what replaced units become
    rules: ClassVar[tuple[Rule, ...]] = tuple(Rule(share=share) for share in (0.2, 0.3, 0.4, 0.5))
    # selection of the rationale: the first of these rules whose units alone suffice, else the best one
    presets: ClassVar[Presets] = {}

    def trained_part_fingerprint(self) -> str:
        """Fingerprint of a trained file that the scores depend on besides the options; empty if there is none."""
        return ""

    @abstractmethod
    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        """Score every unit of every row; `target` is (inputs,)."""


@dataclass(frozen=True)
class OptionInfo:
    """Description of an option."""

    name: str
    type: str
    default: Any
    help: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class MethodInfo:
    """Description of a method."""

    name: str
    summary: str
    needs: tuple[str, ...]
    presets: Mapping[str, tuple[str, ...]]  # by the kind of input
    options: tuple[OptionInfo, ...]


def describe(method: type[Method]) -> MethodInfo:
    """Description of a method, as `rationales methods` prints it."""
    options = []
    for spec in fields(method):
        line, choices = spec.metadata.get("help", ""), spec.metadata.get("choices", ())
        options.append(OptionInfo(spec.name, str(spec.type), spec.default, line, choices))
    presets = {kind: tuple(named) for kind, named in method.presets.items()}
    return MethodInfo(method.name, method.summary, method.needs, presets, tuple(options))


def make(method: type[Method], options: Mapping[str, Any], kind: str = "text") -> Method:
    """Method with these options for this kind of input; the option `preset` sets the others."""
    values = dict(options)
    presets = method.presets.get(kind, {})
    preset = values.pop("preset", "default" if presets else None)
    if preset is not None and preset not in presets:
        known, similar = ", ".join(presets) or "none", suggestion(preset, presets)
        message = f"{method.name} has no preset {preset!r} for this kind of input{similar}"
        raise OptionError(f"{message}; its presets are: {known}")
    known_fields = {spec.name: spec for spec in fields(method)}
    for name, value in values.items():
        if name not in known_fields:
            names = [*known_fields, *(["preset"] if method.presets else [])]
            known, similar = ", ".join(names) or "none", suggestion(name, names)
            raise OptionError(f"{method.name} has no option {name!r}{similar}; its options are: {known}")
        spec = known_fields[name]
        check_option(name, value, str(spec.type), spec.metadata.get("choices", ()))
    base = method(**(presets[preset] if preset is not None else {}))
    return replace(base, **values)
