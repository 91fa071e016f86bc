"""Trained networks as models that every method can explain, and what such a network says of itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from rationales.errors import ModelError
from rationales.groundtruth.folds import MEAN, STD, Fold
from rationales.methods import Attribution, Method
from rationales.methods.method import Progress
from rationales.models.batch import Batch
from rationales.models.features import outputs
from rationales.models.image import ImageModel
from rationales.models.image_loading import from_pixels
from rationales.models.pictures import Fit
from rationales.models.text import TextModel, text_model


def picture_model(
    module: nn.Module, size: int, labels: Sequence[str], name: str = "", baselines: Sequence[str] | None = None
) -> ImageModel:
    """A network that reads normalised pictures of size x size; planted pictures of that size are read as they are."""
    return from_pixels(module, Fit("squash", size, size), MEAN, STD, labels, name or type(module).__name__, baselines)


def word_model(module: nn.Module, tokenizer: Any, name: str = "", baseline: str | Tensor | None = None) -> TextModel:
    """A network that reads words, with the tokenizer it was trained with."""
    return text_model([module], tokenizer, name=name or type(module).__name__, baseline=baseline)


@dataclass(frozen=True)
class Inherent(Method):
    """What the network itself says it looked at: attention weights, or the words it selected.

    For networks with a part called `telling` whose output is (rows, tokens). The target plays no part.
    """

    name: ClassVar[str] = "inherent"
    summary: ClassVar[str] = "what the model says of itself: attention weights or selected words"

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        found = batch.zeros()

        def work() -> None:
            for block in batch.blocks():
                seen: list[Tensor] = []
                with torch.no_grad(), outputs(_telling(batch.modules[block.view]), seen.append):
                    batch.forward(block.piece(1), batch.ones()[block.row], None)
                found[block.row] = batch.to_units(seen[-1].to(found)[..., None], "sum", block.row)

        batch.fit(work)
        if progress is not None:
            progress(1.0)
        return Attribution(found)


def selected_share(module: nn.Module, fold: Fold, batch: int = 256) -> float:
    """The share of all words that a rationale model selects, %Sel."""
    chosen, count = 0, 0
    seen: list[Tensor] = []
    with torch.no_grad(), outputs(_telling(module), seen.append):
        for index in fold.batches(batch, torch.arange(len(fold))):
            fold.logits(module, index)
            chosen += int((seen.pop() > 0).sum())
            count += int(fold.arguments(index)[1]["attention_mask"].sum())
    return chosen / count


def near_rate(rate: float, tolerance: float = 0.02) -> Callable[[nn.Module, Fold], bool]:
    """A further condition for `train`: the model selects about this share of the words."""

    def settled(module: nn.Module, fold: Fold) -> bool:
        return abs(selected_share(module, fold) - rate) <= tolerance

    return settled


def _telling(module: nn.Module) -> nn.Module:
    part = getattr(module, "telling", None)
    if not isinstance(part, nn.Module):
        raise ModelError(f"{type(module).__name__} says nothing of itself: it has no part called telling")
    return part
