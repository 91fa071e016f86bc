"""What a classifier's logits mean: one of many classes, one yes or no, or many yes or no."""

from __future__ import annotations

from enum import Enum

import torch
from torch import Tensor


class Head(Enum):
    """How logits become probabilities."""

    SOFTMAX = "softmax"  # one class of several
    SIGMOID = "sigmoid"  # one logit: the second class against the first
    MULTI_LABEL = "multi-label"  # every class on its own


def class_logits(head: Head, logits: Tensor) -> Tensor:
    """(..., outputs) -> (..., classes): one logit z of a sigmoid head becomes the pair (-z, z)."""
    return torch.cat([-logits, logits], dim=-1) if head is Head.SIGMOID else logits


def probabilities(head: Head, logits: Tensor) -> Tensor:
    """(..., classes) logits of `class_logits` -> probabilities of the same shape."""
    return logits.softmax(-1) if head is Head.SOFTMAX else logits.sigmoid()
