"""Which class a person means."""

from __future__ import annotations

import difflib
import operator
from collections.abc import Sequence

from torch import nn

from rationales.errors import OptionError

SHOWN = 12  # labels listed in a message
SUGGESTED, SIMILAR = 3, 0.7  # labels suggested for one that is not known, and how alike they must be spelled


def class_names(module: nn.Module, given: Sequence[str] | None) -> Sequence[str]:
    """The names of the classes: as given, or as the module's configuration says."""
    if given is not None:
        return given
    named = getattr(getattr(module, "config", None), "id2label", None)
    if not named:
        raise OptionError("the module does not name its classes; pass labels=[...]")
    return [str(named[index]) for index in sorted(named, key=int)]


def label_number(labels: Sequence[str], wanted: str | int | None) -> int | None:
    """The number of a class given by its label (any case) or its number; None stays None."""
    if wanted is None:
        return None
    if hasattr(wanted, "__index__") and not isinstance(wanted, bool):  # NumPy's and tensors' integers, too
        number = operator.index(wanted)
        if 0 <= number < len(labels):
            return number
    if isinstance(wanted, str):
        lowered = [label.lower() for label in labels]
        if wanted in labels:
            return list(labels).index(wanted)
        if wanted.lower() in lowered:
            return lowered.index(wanted.lower())
        if wanted.isdecimal() and int(wanted) < len(labels):
            return int(wanted)
    known = ", ".join(labels[:SHOWN]) + (f" and {len(labels) - SHOWN} more" if len(labels) > SHOWN else "")
    raise OptionError(f"the model has no label {wanted!r}{_suggestion(labels, wanted)}; its labels are: {known}")


def _suggestion(labels: Sequence[str], wanted: object) -> str:
    """The labels that are spelled nearly like this one, or hold it as a part, as a question; else nothing."""
    if not isinstance(wanted, str) or not wanted.strip():
        return ""
    by_lower_case = {label.lower(): label for label in labels}
    parts = [label for label in by_lower_case if wanted.lower() in label]
    similar = difflib.get_close_matches(wanted.lower(), by_lower_case, SUGGESTED, SIMILAR)
    close = list(dict.fromkeys([*similar, *parts]))[:SUGGESTED]
    return f" (did you mean {' or '.join(by_lower_case[label] for label in close)}?)" if close else ""
