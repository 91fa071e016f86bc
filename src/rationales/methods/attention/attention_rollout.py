"""Attention rollout: attention weights multiplied through all layers (Abnar and Zuidema 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rationales.methods.attention.attention_method import AttentionMethod, rollout
from rationales.methods.attention.trace import EncoderTrace
from rationales.models.batch import Batch
from rationales.models.batch.rows import Block


@dataclass(frozen=True)
class AttentionRollout(AttentionMethod):
    """The first row of the product of (A + I) / 2 over all layers, A the mean attention of the heads."""

    name: ClassVar[str] = "attention-rollout"
    summary: ClassVar[str] = "attention multiplied through all layers; the same for all classes"

    def token_scores(self, trace: EncoderTrace, batch: Batch, block: Block, target: Tensor) -> Tensor:
        identity = torch.eye(trace.tokens.shape[1], device=trace.tokens.device)
        return rollout([(layer.attention.mean(1) + identity) / 2 for layer in trace.layers], trace.encoder.read_tokens)
