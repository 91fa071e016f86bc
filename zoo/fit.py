"""Pieces of a training step that teacher and student share."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn

from rationales.models.fast.precision import forward_dtype
from zoo.batches import Tokens
from zoo.text import NEUTRAL


def half_precision(device: torch.device) -> AbstractContextManager[None]:
    """bfloat16 arithmetic on a GPU, or on a processor with instructions for it."""
    return torch.autocast(device.type, torch.bfloat16, enabled=forward_dtype(device) is not None)


def classify(model: nn.Module, tokens: Tokens, hidden: bool = False) -> Any:
    """The model's output for a batch; the four-dimensional mask spares the library a look at the device's values."""
    return model(input_ids=tokens.ids, attention_mask=tokens.attended, output_hidden_states=hidden)


def gold_target(label: Tensor, empty: Tensor, smoothing: float) -> Tensor:
    """(B, 2) target distribution: even for neutral and empty texts, smoothed labels for the rest."""
    positive = torch.where((label == NEUTRAL) | empty, 0.5, label.float())
    positive = positive * (1 - smoothing) + 0.5 * smoothing
    return torch.stack([1 - positive, positive], 1)


def cross_entropy(logits: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
    """Mean cross entropy to a target distribution, over the rows with weight."""
    loss = -(target * logits.float().log_softmax(1)).sum(1)
    return loss.mean() if weight is None else (loss * weight).sum() / weight.sum().clamp(min=1)


def optimiser(parameters: Iterable[nn.Parameter], rate: float, decay: float) -> torch.optim.AdamW:
    """AdamW that decays matrices only."""
    trained = [p for p in parameters if p.requires_grad]
    groups = [
        {"params": [p for p in trained if p.ndim > 1], "weight_decay": decay},
        {"params": [p for p in trained if p.ndim == 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.98), fused=True)


def update(optimiser: torch.optim.AdamW, loss: Tensor, rate: float) -> None:
    """One step down `loss` at learning rate `rate`, gradients clipped to norm one."""
    loss.backward()
    trained = [p for group in optimiser.param_groups for p in group["params"]]
    nn.utils.clip_grad_norm_(trained, 1.0)
    for group in optimiser.param_groups:
        group["lr"] = rate
    optimiser.step()
    optimiser.zero_grad(set_to_none=True)
