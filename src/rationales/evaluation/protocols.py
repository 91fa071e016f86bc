"""The exact recipe of a metric: every choice that changes a number is a field, and published recipes have names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from rationales.errors import OptionError
from rationales.models.kinds import kind_named
from rationales.options import option, suggestion

TOKENS = ("pad", "mask", "unk", "zero", "mean")  # what a word can be replaced by, at the word embeddings
REMOVALS = ("baseline", "reference", *TOKENS, "delete", "fill")
NORMALISERS = ("mean", "count+1", "area")  # or sum/N
DELETE, FILL = "delete", "fill"
TOGETHER, IN_TURN = "together", "in-turn"  # how several words are filled in
AS_MARKED, UNITS, WHITESPACE_TOKENS = "as-marked", "units", "whitespace-tokens"  # what agreement is measured on


@dataclass(frozen=True)
class Protocol:
    """How units are removed, at which levels, and how the drops of a probability become one number."""

    name: str = option("custom", "what tables call it")
    removal: str | tuple[str, ...] = option(
        "baseline",
        "what removed units become: baseline (the model's own), reference (the first of mask, unk, pad that the "
        "tokenizer has), pad, mask, unk, zero or mean at the word embeddings; delete; fill (a masked language model's "
        "words); for images baseline, or the names of several, each measured apart, then averaged",
    )
    retokenise: bool = option(
        False, "delete: write the text anew without the words and encode it again, instead of taking their tokens out"
    )
    filler: str | None = option(None, "fill: the masked language model, an id or a folder")
    fill_order: str = option(
        TOGETHER,
        "fill: removed words are masked together, or in turn: the best first, the next one given the words filled in "
        "before it",
        TOGETHER,
        IN_TURN,
    )
    special: str = option("keep", "special tokens in reduced inputs: keep, or remove like any word", "keep", "remove")
    levels: tuple[float, ...] = option((), "shares of the units, each a rationale; rising")
    each: float | None = option(None, "instead of levels: one unit after the other, up to this share of them")
    count: str = option("ceil", "how level x units becomes a number of units", "ceil", "floor", "round")
    min_units: int = option(0, "minimum number of units selected at every level")
    positive: bool = option(False, "only units that score above 0 can be selected")
    distinct: bool = option(False, "levels that select the same units count once")
    empty: str = option(
        "evaluate", "a level that selects nothing: evaluate it, let it count 0, or skip it", "evaluate", "zero", "skip"
    )
    normaliser: str = option(
        "mean", "how differences over the levels become one: mean, count+1, sum/N, area (trapezoids from share 0)"
    )
    level: float | None = option(
        None, "what sufficiency and comprehensiveness read off: one level, or all by the normaliser"
    )
    curve: str = option("area", "how deletion and insertion curves become one number", "area", "mean")
    to_end: bool = option(True, "areas go on to share 1, where deletion has left nothing and insertion everything")
    label: str = option(
        "predicted", "whose probability is measured: gold, predicted, or explained", "gold", "predicted", "explained"
    )
    only_correct: bool = option(False, "only inputs that the model classifies correctly")
    ties: str = option(
        "left", "equal scores: left first, random order, or noise on all scores", "left", "random", "noise"
    )
    noise: float = option(1e-5, "ties by noise: its width as a share of the input's largest absolute score")
    odds: str = option("probability", "log-odds: of the probability p itself, or p / (1 - p)", "probability", "odds")
    odds_removal: str | None = option(None, "log-odds: another removal than the one above")
    odds_level: float | None = option(None, "log-odds: one level, or all by the normaliser")
    clip: float = option(1e-6, "log-odds: probabilities are kept this far from 0 and 1")
    selection: str = option("gold-length", "which units token and span agreement select (see `selection`)")
    agreement_on: str = option(
        AS_MARKED,
        "what agreement with people is measured on: units (without punctuation that nobody marked), whitespace-tokens "
        "(each with the mean of its units), or as-marked: units, but white-space tokens where people marked those",
        AS_MARKED,
        UNITS,
        WHITESPACE_TOKENS,
    )

    def __post_init__(self) -> None:
        # lists come from JSON, and one name of several is still a tuple of names
        object.__setattr__(self, "levels", tuple(float(level) for level in self.levels))
        if not isinstance(self.removal, str):
            object.__setattr__(self, "removal", tuple(self.removal))
        for spec in fields(self):
            choices = spec.metadata.get("choices", ())
            if choices and getattr(self, spec.name) not in choices:
                raise self._error(f"{spec.name} is one of {', '.join(choices)}, not {getattr(self, spec.name)!r}")
        self._check_levels()
        self._check_removal()
        self.divisor(1)  # checks the normaliser

    def _check_levels(self) -> None:
        if self.each is None and not self.levels:
            raise self._error("give levels, or each")
        if self.each is not None and (self.levels or not 0 < self.each <= 1):
            raise self._error("each is a share above 0 and up to 1, and goes without levels")
        if any(not 0 < level <= 1 for level in self.levels) or list(self.levels) != sorted(set(self.levels)):
            raise self._error(f"levels are rising shares above 0 and up to 1, not {self.levels}")
        for name in ("level", "odds_level"):
            level = getattr(self, name)
            if level is not None and level not in self.levels:
                raise self._error(f"{name} {level} is none of the levels {self.levels}")
        if self.min_units < 0:
            raise self._error(f"min_units must not be negative, got {self.min_units}")
        if self.noise < 0 or not 0 < self.clip < 0.5:
            raise self._error("noise must not be negative, and clip lies between 0 and 0.5")

    def _check_removal(self) -> None:
        if isinstance(self.removal, str) and self.removal not in REMOVALS:
            known = f"{', '.join(REMOVALS)}, or a tuple of baselines for images"
            raise self._error(f"there is no removal {self.removal!r}; there is: {known}")
        if not self.removal:
            raise self._error("a tuple of baselines needs at least one name")
        if self.odds_removal is not None and self.odds_removal not in REMOVALS:
            raise self._error(f"there is no removal {self.odds_removal!r}; there is: {', '.join(REMOVALS)}")

    def _error(self, message: str) -> OptionError:
        return OptionError(f"protocol {self.name}: {message}")

    @property
    def images(self) -> bool:
        """Whether the removal names baselines of images."""
        return not isinstance(self.removal, str)

    def divisor(self, levels: int) -> float | None:
        """What a sum over so many levels is divided by; None for an area."""
        if self.normaliser == "area":
            return None
        if self.normaliser == "mean":
            return float(levels)
        if self.normaliser == "count+1":
            return float(levels + 1)
        kind, _, number = self.normaliser.partition("/")
        try:
            value = float(number)
        except ValueError:
            value = 0.0
        if kind != "sum" or not 0 < value < float("inf"):
            known = f"{', '.join(NORMALISERS)} or sum/N"
            raise self._error(f"there is no normaliser {self.normaliser!r}; there is: {known}")
        return value

    def describe(self) -> str:
        """The recipe in one line."""
        removal = self.removal if isinstance(self.removal, str) else " + ".join(self.removal)
        if removal == DELETE:
            removal = "deleted, text encoded anew" if self.retokenise else "deleted, tokens taken out"
        elif removal == FILL:
            in_turn = " one after the other" if self.fill_order == IN_TURN else ""
            removal = f"filled in{in_turn} by {self.filler or 'a masked language model'}"
        elif removal == "baseline":
            removal = "replaced by the model's baseline"
        else:
            removal = f"replaced by {removal}"
        parts = [removal, self._steps(), f"{self.label} label", f"special tokens {_PAST_PARTICIPLES[self.special]}"]
        ties = {"left": "ties left first", "random": "ties at random", "noise": f"tie noise {self.noise:g}"}
        parts.append(ties[self.ties])
        flags = {
            "positive": "positive scores only",
            "distinct": "distinct rationales only",
            "only_correct": "correctly classified inputs only",
        }
        parts += [text for name, text in flags.items() if getattr(self, name)]
        if self.empty != "evaluate":
            parts.append({"zero": "an empty rationale counts 0", "skip": "empty rationales skipped"}[self.empty])
        parts += [self._curves(), self._odds(), f"selection {self.selection}"]
        parts += [] if self.images else [f"agreement on {_AGREEMENT_TEXTS[self.agreement_on]}"]
        return f"{self.name}: {', '.join(parts)}"

    def _steps(self) -> str:
        normaliser = "sum / (levels + 1)" if self.normaliser == "count+1" else self.normaliser
        at_least = f", at least {self.min_units}" if self.min_units else ""
        if self.each is not None:
            return f"one unit at a time up to {self.each:.0%} ({self.count}{at_least}), {normaliser}"
        if len(self.levels) <= 6:
            levels = " ".join(f"{100 * level:g}" for level in self.levels) + " %"
        else:
            levels = f"{len(self.levels)} levels {100 * self.levels[0]:g}..{100 * self.levels[-1]:g} %"
        at_level = f", plain names at {self.level:.0%}" if self.level is not None and len(self.levels) > 1 else ""
        return f"{levels} ({self.count}{at_least}), {normaliser}{at_level}"

    def _curves(self) -> str:
        if self.curve == "mean":
            return "curves by their mean"
        return "curves by area" if self.to_end else "curves by area up to the last level"

    def _odds(self) -> str:
        at = f" at {self.odds_level:.0%}" if self.odds_level is not None else ""
        by = f" with {self.odds_removal}" if self.odds_removal is not None else ""
        return f"log-odds of {'p' if self.odds == 'probability' else 'p/(1-p)'}{at}{by}, p clipped at {self.clip:g}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Protocol:
        """The inverse of `to_dict`; fields that are left out have their defaults."""
        known = {spec.name for spec in fields(cls)}
        if unknown := sorted(set(data) - known):
            close, names = suggestion(unknown[0], known), ", ".join(sorted(known))
            raise OptionError(f"a protocol has no field {unknown[0]!r}{close}; its fields are: {names}")
        try:
            return cls(**data)
        except (TypeError, ValueError) as error:
            raise OptionError(f"the fields of protocol {data.get('name', 'custom')} cannot be read: {error}") from None


_PAST_PARTICIPLES = {"keep": "kept", "remove": "removed"}
_AGREEMENT_TEXTS = {
    AS_MARKED: "units (on white-space tokens where people marked those)",
    UNITS: "units",
    WHITESPACE_TOKENS: "white-space tokens",
}
_NINETEEN = tuple(number / 20 for number in range(1, 20))
_ERASER = (0.01, 0.05, 0.1, 0.2, 0.5)

_MARC = Protocol(
    name="marc", removal="pad", levels=_NINETEEN, label="gold", ties="noise", curve="mean", selection="fitted"
)
_AML = Protocol(
    name="aml",
    removal=DELETE,
    levels=_ERASER,
    count="floor",
    empty="zero",
    normaliser="sum/6",
    level=0.2,
    odds_removal="reference",
    odds_level=0.2,
)

_IM = Protocol(
    name="im",
    removal=DELETE,
    retokenise=True,
    each=0.2,
    count="floor",
    min_units=1,
    normaliser="area",
    to_end=False,
    only_correct=True,
    selection="best-threshold",
)

PRESETS: dict[str, Protocol] = {
    preset.name: preset
    for preset in (
        _MARC,
        replace(_MARC, name="marc-images", removal=("blur-10", "black", "mean", "white")),
        replace(_MARC, name="marc-functions", removal="baseline"),
        Protocol(
            name="eraser-paper",
            removal=DELETE,
            levels=_ERASER,
            normaliser="count+1",
            selection="gold-share",
            agreement_on=WHITESPACE_TOKENS,
        ),
        Protocol(name="eraser-code", levels=_ERASER, selection="gold-share", agreement_on=WHITESPACE_TOKENS),
        _AML,
        _IM,
        replace(_IM, name="im-bert", removal=FILL, retokenise=False, fill_order=IN_TURN),
        Protocol(name="sequential-ig", removal=DELETE, levels=(0.2,), count="floor", empty="zero", odds_removal="pad"),
        Protocol(
            name="ferret",
            removal=DELETE,
            retokenise=True,
            levels=tuple(number / 10 for number in range(1, 11)),
            count="floor",
            positive=True,
            distinct=True,
            empty="skip",
            label="explained",
            selection="gold-share",
        ),
    )
}
FUNCTION_VARIANTS = {"marc": "marc-functions"}  # a function of texts has no padding token
_IMAGE_VARIANTS = {"marc": "marc-images"}  # the same recipe with the baselines of the paper's image experiment


def unknown_protocol(name: str) -> OptionError:
    """The error for a name that no protocol has."""
    return OptionError(f"there is no protocol {name!r}{suggestion(name, PRESETS)}; there are: {', '.join(PRESETS)}")


def find_protocol(requested: str | Protocol, kind: str = "text") -> Protocol:
    """The protocol of this name for models that read this kind of input; a Protocol is taken as it is."""
    if isinstance(requested, Protocol):
        resolved = requested
    elif requested in PRESETS:
        resolved = PRESETS[_IMAGE_VARIANTS.get(requested, requested) if kind == "image" else requested]
    else:
        raise unknown_protocol(requested)
    if resolved.images and kind != "image":
        advice = "use marc" if kind == "text" else "use one with removal='baseline'"
        raise OptionError(
            f"protocol {resolved.name} is for images, and this model reads {kind_named(kind).noun}s; {advice}"
        )
    if kind != "text" and not resolved.images and resolved.removal != "baseline":
        raise OptionError(
            f"protocol {resolved.name} removes words ({resolved.removal}) from texts, and this model reads "
            f"{kind_named(kind).noun}s; use {'marc-images, or ' if kind == 'image' else ''}a protocol with "
            "removal='baseline'"
        )
    return resolved
