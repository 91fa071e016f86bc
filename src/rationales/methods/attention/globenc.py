"""GlobEnc: norms of the vectors that tokens contribute to an encoder's layers (Modarressi et al. 2022)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rationales.methods.attention.attention_method import AttentionMethod, rollout
from rationales.methods.attention.block_vectors import checked_block_vectors, normalised_rows, through_norm
from rationales.methods.attention.trace import EncoderTrace, LayerTrace, norm_scale
from rationales.models.batch import Batch
from rationales.models.batch.rows import Block


@dataclass(frozen=True)
class GlobEnc(AttentionMethod):
    """L2 norms of the attention block's vectors after the layer's second norm, rows normalised, through all layers.

    The feed-forward network counts only in the standard deviation that the second norm divides by.
    """

    name: ClassVar[str] = "globenc"
    summary: ClassVar[str] = "norms of the vectors that tokens contribute to each layer; the same for all classes"
    adds_tokens: ClassVar[bool] = True
    norm_last_only: ClassVar[bool] = True
    reads_weights: ClassVar[bool] = True

    def token_scores(self, trace: EncoderTrace, batch: Batch, block: Block, target: Tensor) -> Tensor:
        last = trace.layers[-1]  # of which only the first token is read
        return rollout(
            [contribution_norms(trace, layer, 1 if layer is last else layer.states.shape[1]) for layer in trace.layers]
        )


def contribution_norms(trace: EncoderTrace, layer: LayerTrace, count: int) -> Tensor:
    """(R, count, T): the norm of every token's vector in the first tokens' layer outputs; rows sum to 1."""
    scale = norm_scale(layer.layer.output_norm, layer.output_norm_input)
    norms = [
        through_norm(layer.layer.output_norm, vectors, scale[:, queries]).norm(dim=-1)
        for queries, vectors in checked_block_vectors(trace, layer, count, value_bias=True)
    ]
    return normalised_rows(torch.cat(norms, 1))
