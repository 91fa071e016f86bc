"""The class that is explained for each input, and the class that it is contrasted with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from rationales.errors import OptionError
from rationales.models.model import Model


def target_numbers(model: Model, target: Any, count: int) -> list[int | None]:
    """The index of the class to explain for each input; None: the predicted class."""
    if isinstance(target, Sequence) and not isinstance(target, str):
        if len(target) != count:
            raise OptionError(f"{len(target)} targets for {count} inputs")
        return [model.target(label) for label in target]
    return [model.target(target)] * count


def rival_numbers(model: Model, against: Any, count: int) -> list[int] | None:
    """The index of the class that each input's target is contrasted with; None without a contrast."""
    if against is None:
        return None
    if len(model.labels) < 2:
        raise OptionError(f"{model.name} has one class, {model.labels[0]}, and nothing to set it against")
    listed = against if isinstance(against, Sequence) and not isinstance(against, str) else [against] * count
    if len(listed) != count:
        raise OptionError(f"{len(listed)} labels in against for {count} inputs")
    numbers = [model.target(label) for label in listed]
    rivals = [number for number in numbers if number is not None]
    if len(rivals) < count:
        raise OptionError("against needs a label for every input, or None for all of them")
    return rivals


def check_rivals(model: Model, target: Tensor, against: Tensor, titles: Sequence[str]) -> None:
    """Raise an OptionError where a target (inputs,) is contrasted with itself."""
    same = torch.nonzero(target == against).flatten().tolist()
    if same:
        label = model.labels[int(target[same[0]])]
        raise OptionError(
            f"the target of {titles[same[0]]} and the label it is set against are both {label}; "
            "give another label as target or as against"
        )


def two_class_probabilities(
    probabilities: Mapping[str, Mapping[str, float]], target: str, against: str
) -> dict[str, dict[str, float]]:
    """The probabilities of two labels normalised to sum 1; 1/2 each where both are 0."""
    shares = {}
    for name, by_label in probabilities.items():
        total = by_label[target] + by_label[against]
        share = by_label[target] / total if total > 0 else 0.5
        shares[name] = {target: share, against: 1 - share}
    return shares
