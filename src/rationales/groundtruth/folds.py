"""Planted examples as tensors: what training reads, batch by batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from rationales.data.example import Example
from rationales.errors import DataError, ModelError
from rationales.groundtruth.networks.vocabulary import PADDING
from rationales.groundtruth.shots import pixels_of

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of natural photographs, in [0, 1]
POOL = 20  # batches within which texts are sorted by length


@dataclass(frozen=True, eq=False)
class Fold(ABC):
    """Examples of one part of the data; all tensors lie on one device."""

    labels: Tensor  # (N,) numbers of the classes

    kind: ClassVar[str]

    def __len__(self) -> int:
        return len(self.labels)

    @abstractmethod
    def arguments(self, index: Tensor) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What a module is called with for these examples."""

    @abstractmethod
    def to(self, device: torch.device) -> Fold:
        """The same on another device."""

    def logits(self, module: nn.Module, index: Tensor) -> Tensor:
        """(R, classes) of these examples."""
        plain, named = self.arguments(index)
        output: Any = module(*plain, **named)
        found: Any = getattr(output, "logits", output[0] if isinstance(output, tuple) else output)
        if not isinstance(found, Tensor) or found.dim() != 2:
            raise ModelError("the model does not give one row of logits for each example; is it a classifier?")
        return found

    def loss(self, module: nn.Module, index: Tensor, done: float) -> Tensor:
        """What is made small: a module's own `loss(..., labels=, done=)` where it has one, else the cross-entropy."""
        labels = self.labels[index]
        own: Any = getattr(module, "loss", None)
        if callable(own):
            plain, named = self.arguments(index)
            told: Tensor = own(*plain, **named, labels=labels, done=done)
            return told
        return functional.cross_entropy(self.logits(module, index).float(), labels)

    def batches(self, size: int, order: Tensor) -> Iterator[Tensor]:
        """The examples in this order, `size` at a time."""
        yield from torch.split(order.to(self.labels.device), size)


@dataclass(frozen=True, eq=False)
class PictureFold(Fold):
    """Pictures of one size."""

    pixels: Tensor  # (N, 3, H, W) uint8

    kind: ClassVar[str] = "image"

    def arguments(self, index: Tensor) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (normalised(self.pixels[index]),), {}

    def to(self, device: torch.device) -> PictureFold:
        return PictureFold(self.labels.to(device), self.pixels.to(device))


@dataclass(frozen=True, eq=False)
class TextFold(Fold):
    """Texts as rows of tokens."""

    ids: Tensor  # (N, T), PADDING on the right
    lengths: Tensor  # (N,)

    kind: ClassVar[str] = "text"

    def arguments(self, index: Tensor) -> tuple[tuple[Any, ...], dict[str, Any]]:
        lengths = self.lengths[index]
        longest = int(lengths.max())
        attention = (torch.arange(longest, device=lengths.device) < lengths[:, None]).long()
        return (), {"input_ids": self.ids[index, :longest], "attention_mask": attention}

    def to(self, device: torch.device) -> TextFold:
        return TextFold(self.labels.to(device), self.ids.to(device), self.lengths.to(device))

    def batches(self, size: int, order: Tensor) -> Iterator[Tensor]:
        """Texts of like length together; which ones, and the order of the batches, is as random as `order`."""
        order = order.to(self.labels.device)
        rank = torch.argsort(order).tolist()
        found = [
            batch
            for pool in torch.split(order, size * POOL)
            for batch in torch.split(pool[torch.argsort(self.lengths[pool], stable=True)], size)
        ]
        yield from sorted(found, key=lambda batch: rank[int(batch[0])])


def normalised(pixels: Tensor) -> Tensor:
    """(..., 3, H, W) uint8 -> float32 as the networks read them."""
    mean, std = (torch.tensor(values, device=pixels.device)[:, None, None] for values in (MEAN, STD))
    return (pixels.float() / 255 - mean) / std


def picture_fold(examples: Sequence[Example], labels: Sequence[str]) -> PictureFold:
    """Pictures of one size as they are, and the numbers of their labels."""
    found = [pixels_of(one) for one in examples]
    shapes = {pixels.shape for pixels in found}
    if len(shapes) > 1:
        raise DataError("pictures must have one size to be trained on; read them with load_shots(examples, size)")
    return PictureFold(_numbers(examples, labels), torch.from_numpy(np.stack(found)).permute(0, 3, 1, 2).contiguous())


def text_fold(examples: Sequence[Example], labels: Sequence[str], tokenizer: Any) -> TextFold:
    """Texts as tokens; one that is longer than the tokenizer allows is an error, since its plant might not be seen."""
    numbers = _numbers(examples, labels)
    made = tokenizer([one.text for one in examples], add_special_tokens=False, verbose=False)["input_ids"]
    lengths = torch.tensor([len(row) for row in made])
    longest, limit = int(lengths.max()), int(tokenizer.model_max_length)
    if longest > limit:
        name = examples[int(lengths.argmax())].name
        raise DataError(
            f"{name} has {longest} tokens, the model takes {limit}; cut texts first: shortened(examples, …)"
        )
    if int(lengths.min()) < 1:
        raise DataError(f"{examples[int(lengths.argmin())].name} has no tokens")
    ids = torch.full((len(made), longest), PADDING)
    for row, own in enumerate(made):
        ids[row, : len(own)] = torch.tensor(own)
    return TextFold(numbers, ids, lengths)


def _numbers(examples: Sequence[Example], labels: Sequence[str]) -> Tensor:
    if not examples:
        raise DataError("there are no examples to train or to test on")
    known = {label: number for number, label in enumerate(labels)}
    for one in examples:
        if one.label not in known:
            raise DataError(f"{one.name} has the label {one.label!r}; it must be one of {', '.join(labels)}")
    return torch.tensor([known[str(one.label)] for one in examples])
