"""Trained networks as models for every method, and the explanation that a network gives itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from rationales.errors import ModelError
from rationales.groundtruth.encoded_examples import MEAN, STD, EncodedExamples
from rationales.methods import Attribution, Method
from rationales.methods.method import Progress
from rationales.models.batch import Batch
from rationales.models.image.feature_maps import watch_outputs
from rationales.models.image.loading import from_pixels
from rationales.models.image.model import ImageModel
from rationales.models.image.reading import Fit
from rationales.models.text.model import TextModel, text_model


def image_model(
    module: nn.Module, size: int, labels: Sequence[str], name: str = "", baselines: Sequence[str] | None = None
) -> ImageModel:
    """The model of a network that reads normalised images of size x size; images of that size are not resized."""
    return from_pixels(module, Fit("squash", size, size), MEAN, STD, labels, name or type(module).__name__, baselines)


def word_model(module: nn.Module, tokenizer: Any, name: str = "", baseline: str | Tensor | None = None) -> TextModel:
    """The model of a network that reads words, with the tokenizer that it was trained with."""
    return text_model([module], tokenizer, name=name or type(module).__name__, baseline=baseline)


@dataclass(frozen=True)
class Inherent(Method):
    """The explanation that the network gives itself: its attention weights, or the words that it selects.

    For networks with a submodule `explanation` whose output is (rows, tokens). The scores do not depend on the target.
    """

    name: ClassVar[str] = "inherent"
    summary: ClassVar[str] = "the model's own explanation: attention weights or selected words"

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        scores = batch.zeros()

        def compute() -> None:
            for block in batch.blocks():
                recorded: list[Tensor] = []
                with torch.no_grad(), watch_outputs(_explanation(batch.modules[block.view]), recorded.append):
                    batch.forward(block.piece(1), batch.ones()[block.row], None)
                scores[block.row] = batch.to_units(recorded[-1].to(scores)[..., None], "sum", block.row)

        batch.fit(compute)
        if progress is not None:
            progress(1.0)
        return Attribution(scores)


def selection_rate(module: nn.Module, examples: EncodedExamples, batch_size: int = 256) -> float:
    """The share of all words that a rationale model selects, %Sel."""
    n_selected, n_words = 0, 0
    recorded: list[Tensor] = []
    with torch.no_grad(), watch_outputs(_explanation(module), recorded.append):
        for index in examples.batches(batch_size, torch.arange(len(examples))):
            examples.logits(module, index)
            n_selected += int((recorded.pop() > 0).sum())
            n_words += int(examples.model_arguments(index)[1]["attention_mask"].sum())
    return n_selected / n_words


def near_rate(rate: float, tolerance: float = 0.02) -> Callable[[nn.Module, EncodedExamples], bool]:
    """A stop condition for `train`: the selection rate of the model is within `tolerance` of `rate`."""

    def is_near(module: nn.Module, examples: EncodedExamples) -> bool:
        return abs(selection_rate(module, examples) - rate) <= tolerance

    return is_near


def _explanation(module: nn.Module) -> nn.Module:
    submodule = getattr(module, "explanation", None)
    if not isinstance(submodule, nn.Module):
        raise ModelError(f"{type(module).__name__} does not explain itself: it has no submodule called explanation")
    return submodule
