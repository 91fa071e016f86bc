"""Planted examples as tensors, read by training in batches."""

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
from rationales.errors import DataError
from rationales.groundtruth.image_examples import read_pixels
from rationales.groundtruth.networks.vocabulary import PADDING_ID
from rationales.models.classes import output_logits

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet, for pixels in [0, 1]
SORTED_BATCHES = 20  # batches within which texts are sorted by length


@dataclass(frozen=True, eq=False)
class EncodedExamples(ABC):
    """N examples as tensors, all on one device."""

    labels: Tensor  # (N,) class indices

    kind: ClassVar[str]

    def __len__(self) -> int:
        return len(self.labels)

    @abstractmethod
    def model_arguments(self, index: Tensor) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The positional and keyword arguments of a module for these examples."""

    @abstractmethod
    def to(self, device: torch.device) -> EncodedExamples:
        """A copy on another device."""

    def logits(self, module: nn.Module, index: Tensor) -> Tensor:
        """(R, classes): the logits of these examples."""
        arguments, keywords = self.model_arguments(index)
        output: Any = module(*arguments, **keywords)
        return output_logits(output, "example")

    def loss(self, module: nn.Module, index: Tensor, training_progress: float) -> Tensor:
        """The training loss: `module.loss(..., labels=, training_progress=)` if it exists, else the cross-entropy."""
        labels = self.labels[index]
        module_loss: Any = getattr(module, "loss", None)
        if callable(module_loss):
            arguments, keywords = self.model_arguments(index)
            loss: Tensor = module_loss(*arguments, **keywords, labels=labels, training_progress=training_progress)
            return loss
        return functional.cross_entropy(self.logits(module, index).float(), labels)

    def batches(self, size: int, order: Tensor) -> Iterator[Tensor]:
        """The indices of `order`, `size` at a time."""
        yield from torch.split(order.to(self.labels.device), size)


@dataclass(frozen=True, eq=False)
class EncodedImages(EncodedExamples):
    """Images of one size."""

    pixels: Tensor  # (N, 3, H, W) uint8

    kind: ClassVar[str] = "image"

    def model_arguments(self, index: Tensor) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (normalize(self.pixels[index]),), {}

    def to(self, device: torch.device) -> EncodedImages:
        return EncodedImages(self.labels.to(device), self.pixels.to(device))


@dataclass(frozen=True, eq=False)
class EncodedTexts(EncodedExamples):
    """Texts as rows of token ids."""

    ids: Tensor  # (N, T), padded on the right
    lengths: Tensor  # (N,)

    kind: ClassVar[str] = "text"

    def model_arguments(self, index: Tensor) -> tuple[tuple[Any, ...], dict[str, Any]]:
        lengths = self.lengths[index]
        max_length = int(lengths.max())
        attention_mask = (torch.arange(max_length, device=lengths.device) < lengths[:, None]).long()
        return (), {"input_ids": self.ids[index, :max_length], "attention_mask": attention_mask}

    def to(self, device: torch.device) -> EncodedTexts:
        return EncodedTexts(self.labels.to(device), self.ids.to(device), self.lengths.to(device))

    def batches(self, size: int, order: Tensor) -> Iterator[Tensor]:
        """Batches of texts of similar length; their members and their sequence are as random as `order`."""
        order = order.to(self.labels.device)
        rank = torch.argsort(order).tolist()
        batches = [
            batch
            for pool in torch.split(order, size * SORTED_BATCHES)
            for batch in torch.split(pool[torch.argsort(self.lengths[pool], stable=True)], size)
        ]
        yield from sorted(batches, key=lambda batch: rank[int(batch[0])])


def normalize(pixels: Tensor) -> Tensor:
    """(..., 3, H, W) uint8 -> float32, normalised for the networks."""
    mean, std = (torch.tensor(values, device=pixels.device)[:, None, None] for values in (MEAN, STD))
    return (pixels.float() / 255 - mean) / std


def encode_images(examples: Sequence[Example], labels: Sequence[str]) -> EncodedImages:
    """Encode images of one size and the indices of their labels."""
    images = [read_pixels(example) for example in examples]
    if len({pixels.shape for pixels in images}) > 1:
        raise DataError("images must have one size to be trained on; read them with load_images(examples, size)")
    pixels = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).contiguous()
    return EncodedImages(_label_indices(examples, labels), pixels)


def encode_texts(examples: Sequence[Example], labels: Sequence[str], tokenizer: Any) -> EncodedTexts:
    """Encode texts; a text that exceeds the tokenizer's limit is an error, since its plant might be cut off."""
    label_indices = _label_indices(examples, labels)
    encoded = tokenizer([example.text for example in examples], add_special_tokens=False, verbose=False)["input_ids"]
    lengths = torch.tensor([len(row) for row in encoded])
    max_length, limit = int(lengths.max()), int(tokenizer.model_max_length)
    if max_length > limit:
        name = examples[int(lengths.argmax())].name
        raise DataError(
            f"{name} has {max_length} tokens, the model takes {limit}; cut texts first: truncate_texts(examples, …)"
        )
    if int(lengths.min()) < 1:
        raise DataError(f"{examples[int(lengths.argmin())].name} has no tokens")
    return EncodedTexts(label_indices, pad_rows(encoded, PADDING_ID), lengths)


def pad_rows(rows: Sequence[Sequence[int]], padding_id: int) -> Tensor:
    """(N, T): the rows of token ids, padded on the right to the longest."""
    ids = torch.full((len(rows), max(len(row) for row in rows)), padding_id)
    for index, row in enumerate(rows):
        ids[index, : len(row)] = torch.tensor(row)
    return ids


def _label_indices(examples: Sequence[Example], labels: Sequence[str]) -> Tensor:
    if not examples:
        raise DataError("there are no examples to train or to test on")
    indices = {label: index for index, label in enumerate(labels)}
    for example in examples:
        if example.label not in indices:
            raise DataError(f"{example.name} has the label {example.label!r}; it must be one of {', '.join(labels)}")
    return torch.tensor([indices[str(example.label)] for example in examples])
