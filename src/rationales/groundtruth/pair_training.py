"""Trains networks of pictures and texts on pairs in memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rationales.models.multimodal.pair_network import picture_tensor

REPORT_EVERY = 250  # steps


@dataclass(frozen=True, eq=False)
class PairData:
    """N pictures with texts and labels, as tensors."""

    pixels: Tensor  # (N, 3, H, W)
    ids: Tensor  # (N, T)
    attention: Tensor  # (N, T)
    labels: Tensor  # (N,)

    @classmethod
    def of(
        cls, pictures: Sequence[np.ndarray], texts: Sequence[str], labels: Sequence[int], tokenizer: Any
    ) -> PairData:
        """From pictures (H, W, 3) uint8, texts and class numbers."""
        tokens = tokenizer(list(texts), padding=True, return_tensors="pt")
        return cls(picture_tensor(pictures), tokens["input_ids"], tokens["attention_mask"], torch.tensor(list(labels)))

    def __len__(self) -> int:
        return len(self.labels)

    def logits(self, module: nn.Module, index: Tensor) -> Tensor:
        """(R, classes) of the pairs `index` (R,)."""
        logits: Tensor = module(
            pixel_values=self.pixels[index], input_ids=self.ids[index], attention_mask=self.attention[index]
        )
        return logits


@dataclass(frozen=True)
class TrainingSettings:
    """AdamW with a learning rate that falls to 0 as a cosine."""

    steps: int = 1000
    batch_size: int = 64
    learning_rate: float = 3e-3
    seed: int = 0


def train_pairs(
    module: nn.Module, data: PairData, settings: TrainingSettings, report: Callable[[str], None] | None = None
) -> list[float]:
    """Train in place, and return the share of correct predictions in every step; the module ends in eval mode."""
    generator = torch.Generator().manual_seed(settings.seed)
    optimizer = torch.optim.AdamW(module.parameters(), lr=settings.learning_rate, weight_decay=1e-4)
    module.train()
    shares: list[float] = []
    while len(shares) < settings.steps:
        for index in torch.split(torch.randperm(len(data), generator=generator), settings.batch_size):
            if len(shares) == settings.steps:
                break
            for group in optimizer.param_groups:
                group["lr"] = settings.learning_rate * (1 + math.cos(math.pi * len(shares) / settings.steps)) / 2
            logits = data.logits(module, index)
            loss = torch.nn.functional.cross_entropy(logits, data.labels[index])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]  # torch has no types for it
            optimizer.step()
            shares.append(float((logits.argmax(-1) == data.labels[index]).float().mean()))
            if report is not None and len(shares) % REPORT_EVERY == 0:
                report(f"step {len(shares)}: training accuracy {np.mean(shares[-REPORT_EVERY:]):.3f}")
    module.eval()
    return shares


def accuracy(module: nn.Module, data: PairData, batch_size: int = 500) -> float:
    """Share of pairs whose label the module predicts."""
    with torch.no_grad():
        predicted = [
            data.logits(module, index).argmax(-1) for index in torch.split(torch.arange(len(data)), batch_size)
        ]
    return float((torch.cat(predicted) == data.labels).float().mean())
