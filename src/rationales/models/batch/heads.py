"""What a classifier's output means: single-label, binary or multi-label logits."""

from __future__ import annotations

from enum import Enum
from typing import Any

import torch
from torch import Tensor

from rationales.errors import ModelError


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
