"""Options that carry their own documentation, and the check that a value fits."""

from __future__ import annotations

import difflib
import operator
from collections.abc import Iterable
from dataclasses import field, fields
from typing import Any

from rationales.errors import OptionError

NOUNS = {"int": "a whole number", "float": "a number", "str": "text", "bool": "true or false"}  # of an option's type
SIMILAR = 0.7  # of two names, by difflib's ratio: "size" is not offered "stride"


def option(default: Any, line: str, *choices: str) -> Any:
    """A dataclass field with a line of help and, if there are any, the values it can take."""
    return field(default=default, metadata={"help": line, "choices": choices})


def suggestion(name: str, names: Iterable[str]) -> str:
    """ " (did you mean 'occlusion'?)" for a name that resembles one of these; else nothing."""
    known = {known_name.lower(): known_name for known_name in names}
    similar = difflib.get_close_matches(str(name).lower(), known, n=1, cutoff=SIMILAR)
    return f" (did you mean {known[similar[0]]!r}?)" if similar else ""


def whole_number(name: str, value: Any) -> int:
    """A whole number, whatever type of integer it comes as (NumPy's, a tensor's)."""
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise OptionError(f"{name} must be a whole number, not {value!r}") from None


def checked_seed(value: Any, name: str = "the seed") -> int:
    """A whole number from 0 on."""
    seed = whole_number(name, value)
    if seed < 0:
        raise OptionError(f"{name} must be a whole number from 0 on, not {seed}")
    return seed


def check_option(name: str, value: Any, kind: str, choices: tuple[str, ...]) -> None:
    """Raise an OptionError unless `value` is of the kind and one of the choices, if there are any."""
    fits = {
        "int": isinstance(value, int) and not isinstance(value, bool),
        "float": isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < float("inf"),
        "str": isinstance(value, str),
        "bool": isinstance(value, bool),
    }
    if not fits.get(kind, True):
        raise OptionError(f"option {name} must be {NOUNS.get(kind, kind)}, not {value!r}")
    if choices and value not in choices:
        listed = ", ".join(choice for choice in choices if choice) + (", or empty" if "" in choices else "")
        raise OptionError(f"option {name} is one of {listed}, not {value!r}")


def check_settings(settings: Any, positive: Iterable[str] = (), non_negative: Iterable[str] = ()) -> None:
    """Check every field of a dataclass by its type and choices, and these fields by their sign."""
    for spec in fields(settings):
        check_option(spec.name, getattr(settings, spec.name), str(spec.type), spec.metadata.get("choices") or ())
    for name in positive:
        if getattr(settings, name) <= 0:
            raise OptionError(f"{name} must be greater than 0, not {getattr(settings, name)}")
    for name in non_negative:
        if getattr(settings, name) < 0:
            raise OptionError(f"{name} must not be negative, but is {getattr(settings, name)}")
