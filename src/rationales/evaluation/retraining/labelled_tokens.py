"""Labelled texts as tokens, the rectangles that a classifier reads, and the order in which training reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rationales.evaluation.retraining.settings import RetrainingSettings
from rationales.evaluation.retraining.starting_points import StartingPoint
from rationales.models.text.tokens import TextInput

SORTED_BATCHES = 50  # with by_length: batches whose texts are sorted together, as Hugging Face's trainer does it


@dataclass(frozen=True, eq=False)
class LabelledTokens:
    """N labelled texts as tokens, not padded."""

    ids: Sequence[Sequence[int]]
    types: Sequence[Sequence[int]] | None
    labels: Tensor  # (N,) long

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def lengths(self) -> np.ndarray:
        """(N,): tokens of each text."""
        return np.array([len(line) for line in self.ids], dtype=np.int64)

    def rectangle(self, padding: int, device: torch.device, width: int = 0) -> TokenRectangle:
        """All texts as rectangles on a device, padded to the longest of them or to `width`."""
        size = max(width, int(self.lengths.max()))
        attended = np.arange(size) < self.lengths[:, None]
        ids, types = np.full(attended.shape, padding, dtype=np.int64), np.zeros(attended.shape, dtype=np.int64)
        ids[attended] = np.concatenate([np.asarray(line, dtype=np.int64) for line in self.ids])
        if self.types is not None:
            pairs = zip(self.types, self.ids, strict=True)
            types[attended] = np.concatenate(
                [np.asarray(line, dtype=np.int64)[: len(tokens)] for line, tokens in pairs]
            )
        ids_tensor, types_tensor, mask = (torch.from_numpy(array).to(device) for array in (ids, types, attended))
        return TokenRectangle(ids_tensor, None if self.types is None else types_tensor, mask, self.labels.to(device))


@dataclass(frozen=True, eq=False)
class TokenRectangle:
    """N padded texts on a device: ids, types and attended are (N, T), labels (N,)."""

    ids: Tensor
    types: Tensor | None
    attended: Tensor  # bool
    labels: Tensor

    def arguments(self, rows: Tensor | slice, width: int) -> dict[str, Tensor]:
        """Arguments of a classifier for these rows, cut to `width` tokens."""
        types = {} if self.types is None else {"token_type_ids": self.types[rows, :width]}
        return {"input_ids": self.ids[rows, :width], "attention_mask": self.attended[rows, :width].long()} | types


def tokenize_texts(start: StartingPoint, texts: Sequence[TextInput], labels: Sequence[int]) -> LabelledTokens:
    """The texts as the classifier reads them, cut off at its limit; an empty text has its special tokens only."""
    tokens = _tokenize(start, texts, truncation=True, max_length=start.limit)
    ids = [list(line) or [start.padding] for line in tokens["input_ids"]]
    types = tokens.get("token_type_ids") if start.takes_types else None
    return LabelledTokens(ids, types, torch.tensor(list(labels), dtype=torch.long))


def count_cut_texts(start: StartingPoint, texts: Sequence[TextInput]) -> int:
    """How many of the texts have more tokens than the classifier reads."""
    return sum(len(line) > start.limit for line in _tokenize(start, texts)["input_ids"])


def _tokenize(start: StartingPoint, texts: Sequence[TextInput], **options: Any) -> dict[str, list[list[int]]]:
    """The tokenizer's lists by name, in the order of the texts; single texts and pairs may be mixed."""
    lists: dict[str, list[list[int]]] = {}
    for paired in (False, True):
        numbers = [number for number, source in enumerate(texts) if (source.pair is not None) is paired]
        if not numbers:
            continue
        sides = [[texts[number].text for number in numbers], [texts[number].pair for number in numbers]]
        tokens = start.tokenizer(*sides[: 2 if paired else 1], verbose=False, **options)
        for name in {"input_ids", "token_type_ids"} & {*tokens}:
            for number, line in zip(numbers, tokens[name], strict=True):
                lists.setdefault(name, [[]] * len(texts))[number] = line
    return lists


def batch_order(count: int, seed: int, settings: RetrainingSettings, lengths: np.ndarray | None = None) -> list[Tensor]:
    """Numbers of the texts in every step of all epochs; each epoch has an order of its own.

    With `by_length` the texts of some batches are sorted by their `lengths` (count,), and the batches then put into a
    random order that is the same for all seeds, so that classifiers trained together read texts of like lengths.
    """
    generator = torch.Generator().manual_seed(seed)
    steps: list[Tensor] = []
    for epoch in range(settings.epochs):
        order = torch.randperm(count, generator=generator)
        if not settings.by_length or lengths is None:
            steps += torch.split(order, settings.batch_size)
            continue
        for number, chunk in enumerate(torch.split(order, SORTED_BATCHES * settings.batch_size)):
            rising = torch.from_numpy(np.argsort(lengths[chunk.numpy()], kind="stable"))
            batches = torch.split(chunk[rising], settings.batch_size)
            shared = torch.Generator().manual_seed(1000 * epoch + number)
            steps += [batches[position] for position in torch.randperm(len(batches), generator=shared).tolist()]
    return steps
