"""ALTI: contributions to the attention blocks by their closeness to the output (Ferrando et al. 2022)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rationales.methods.attention.attention_method import AttentionMethod, rollout
from rationales.methods.attention.block_vectors import checked_block_vectors, normalised_rows
from rationales.methods.attention.trace import EncoderTrace, LayerTrace
from rationales.models.batch import Batch
from rationales.models.batch.rows import Block


@dataclass(frozen=True)
class Alti(AttentionMethod):
    """c_ij = max(0, |y_i| - |y_i - T_i(x_j)|) in the L1 norm, rows normalised, multiplied through all layers.

    T_i(x_j) is the vector that token j contributes to the output y_i of the attention block.
    """

    name: ClassVar[str] = "alti"
    summary: ClassVar[str] = (
        "closeness of each token's vector to the attention blocks' outputs; the same for all classes"
    )
    adds_tokens: ClassVar[bool] = True
    norm_last_only: ClassVar[bool] = True
    reads_weights: ClassVar[bool] = True

    def token_scores(self, trace: EncoderTrace, batch: Batch, block: Block, target: Tensor) -> Tensor:
        last = trace.layers[-1]  # of which only the first token is read
        return rollout(
            [contributions(trace, layer, 1 if layer is last else layer.states.shape[1]) for layer in trace.layers]
        )


def contributions(trace: EncoderTrace, layer: LayerTrace, count: int) -> Tensor:
    """(R, count, T): the contribution of every token to the first tokens' block outputs; rows sum to 1."""
    shares = []
    for queries, vectors in checked_block_vectors(trace, layer, count, value_bias=False):
        output = layer.attention_norm_output[:, queries, None]  # (R, I, 1, d)
        shares.append((output.abs().sum(-1) - (output - vectors).abs().sum(-1)).relu())
    return normalised_rows(torch.cat(shares, 1))
