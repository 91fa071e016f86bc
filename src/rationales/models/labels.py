"""Names of classes, and the class that a label or index refers to."""

from __future__ import annotations

import difflib
import operator
from collections.abc import Sequence

from torch import nn

from rationales.errors import OptionError

LISTED_LABELS = 12  # in a message
MAX_SUGGESTIONS, MIN_SIMILARITY = 3, 0.7  # of labels for an unknown label; difflib's ratio of their spelling


def class_names(module: nn.Module, labels: Sequence[str] | None) -> Sequence[str]:
    """`labels`, or the class names in the module's configuration."""
    if labels is not None:
        return labels
    configured = getattr(getattr(module, "config", None), "id2label", None)
    if not configured:
        raise OptionError("the module does not name its classes; pass labels=[...]")
    return [str(configured[index]) for index in sorted(configured, key=int)]


def label_index(labels: Sequence[str], label: str | int | None) -> int | None:
    """Index of a class given by its label (in any case) or index; None for None."""
    if label is None:
        return None
    if hasattr(label, "__index__") and not isinstance(label, bool):  # NumPy's and tensors' integers, too
        number = operator.index(label)
        if 0 <= number < len(labels):
            return number
    if isinstance(label, str):
        lowered = [name.lower() for name in labels]
        if label in labels:
            return list(labels).index(label)
        if label.lower() in lowered:
            return lowered.index(label.lower())
        if label.isdecimal() and int(label) < len(labels):
            return int(label)
    beyond = f" and {len(labels) - LISTED_LABELS} more" if len(labels) > LISTED_LABELS else ""
    known = ", ".join(labels[:LISTED_LABELS]) + beyond
    raise OptionError(f"the model has no label {label!r}{_suggestion(labels, label)}; its labels are: {known}")


def _suggestion(labels: Sequence[str], label: object) -> str:
    """A question that suggests labels with a similar spelling or that contain this label; else empty."""
    if not isinstance(label, str) or not label.strip():
        return ""
    by_lower_case = {name.lower(): name for name in labels}
    containing = [name for name in by_lower_case if label.lower() in name]
    similar = difflib.get_close_matches(label.lower(), by_lower_case, MAX_SUGGESTIONS, MIN_SIMILARITY)
    close = list(dict.fromkeys([*similar, *containing]))[:MAX_SUGGESTIONS]
    return f" (did you mean {' or '.join(by_lower_case[name] for name in close)}?)" if close else ""
