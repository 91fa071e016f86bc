"""The classes of a model: how its outputs become class logits and probabilities, and which class a label names."""

from __future__ import annotations

import difflib
import operator
from collections.abc import Sequence
from enum import Enum
from typing import Any

import torch
from torch import Tensor, nn

from rationales.errors import ModelError, OptionError

OUTPUTS = ("logit", "log-odds", "log-probability", "probability")


class Head(Enum):
    """How logits become probabilities."""

    SOFTMAX = "softmax"  # one class of several
    SIGMOID = "sigmoid"  # one logit: the second class against the first
    MULTI_LABEL = "multi-label"  # every class on its own


def output_logits(output: Any, kind: str, rows: int | None = None) -> Tensor:
    """(R, outputs): the logits in a module's output, which has `.logits`, is a tuple that begins with them or a tensor.

    `kind`: what a row is (text, image), for the message if there are no logits. `rows`: R, where a module with one
    logit may return (R,).
    """
    logits = getattr(output, "logits", output[0] if isinstance(output, tuple) else output)
    if rows is not None and isinstance(logits, Tensor) and logits.shape == (rows,):
        logits = logits[:, None]
    if not isinstance(logits, Tensor) or logits.dim() != 2:
        raise ModelError(f"the model does not give one row of logits for each {kind}; is it a classifier?")
    return logits


def class_logits(head: Head, logits: Tensor) -> Tensor:
    """(..., outputs) -> (..., classes): the single logit z of a sigmoid head becomes the pair (-z, z)."""
    return torch.cat([-logits, logits], dim=-1) if head is Head.SIGMOID else logits


def probabilities(head: Head, logits: Tensor) -> Tensor:
    """(..., classes) logits of `class_logits` -> probabilities of the same shape."""
    return logits.softmax(-1) if head is Head.SOFTMAX else logits.sigmoid()


def explained_output(head: Head, logits: Tensor, target: Tensor, output: str) -> Tensor:
    """(..., R, classes), (R,) -> (..., R): the explained output of the target class.

    `logit`; `log-odds`, the logit minus the log-sum-exp of all other logits (of a single class its logit);
    `log-probability`; `probability`.
    """
    index = target.expand(logits.shape[:-1]).unsqueeze(-1)
    independent = head is not Head.SOFTMAX  # of each other: a class's logit is its log-odds
    if output == "probability":
        logits = probabilities(head, logits)
    elif output == "log-probability":
        logits = torch.nn.functional.logsigmoid(logits) if independent else logits.log_softmax(-1)
    elif output == "log-odds" and not independent and logits.shape[-1] > 1:
        logits = logits - logits.scatter(-1, index, -torch.inf).logsumexp(-1, keepdim=True)
    return logits.gather(-1, index).squeeze(-1)


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
