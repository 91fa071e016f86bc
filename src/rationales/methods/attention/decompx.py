"""DecompX: decomposed token states carried through all layers and the classifier (Modarressi et al. 2023)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rationales.methods.attention.attention_method import AttentionMethod
from rationales.methods.attention.propagation import BIAS, Propagation
from rationales.methods.attention.trace import EncoderTrace
from rationales.models.batch import Batch
from rationales.models.batch.rows import Block, Piece
from rationales.models.classes import Head
from rationales.options import option

# a decomposition takes some six states per pair of tokens, a forward pass stores about 22 per token and layer
STORED_STATES, DECOMPOSED_STATES = 22, 6


@dataclass(frozen=True)
class DecompX(AttentionMethod):
    """The part of the target's log-odds, or logit, that each token contributes.

    The parts of all tokens sum to the logit, and with two classes to the log-odds. With more classes the log-sum-exp of
    the other logits is replaced by their mean, weighted by their probabilities: its tangent at the input.

    A token's part is a vector in every state of the encoder. Feed-forward networks, biases, layer norms, the pooler and
    the classifier are included (`Propagation` has the rules).
    """

    name: ClassVar[str] = "decompx"
    summary: ClassVar[str] = "the logit as a sum over tokens, carried through all layers and the classifier"
    class_specific: ClassVar[bool] = True
    adds_tokens: ClassVar[bool] = True
    reads_weights: ClassVar[bool] = True
    reads_head: ClassVar[bool] = True

    output: str = option("log-odds", "output of the model that is explained, for the target", "log-odds", "logit")
    bias: str = option("dot", "how a bias is divided among tokens: by |bias . vector|, by |vector|, or equally", *BIAS)

    def weight(self, batch: Batch) -> int:
        layers = min(len(self.encoder(module).layers) for module in batch.modules)
        tokens = max(batch.positions())
        return 1 + tokens * DECOMPOSED_STATES // (STORED_STATES * layers)

    def token_scores(self, trace: EncoderTrace, batch: Batch, block: Block, target: Tensor) -> Tensor:
        outputs = decomposed_outputs(trace, self.bias)  # (R, T, outputs)
        row = block.row.repeat_interleave(outputs.shape[1])
        # class logits, contrasted or not, are linear in the outputs
        logits = batch.class_logits(Piece(row, row, block.view, block.size), outputs.flatten(0, 1))
        by_token = logits.view(*outputs.shape[:2], -1)
        trace.check_sum(by_token.sum(1), trace.logits, by_token.abs().sum(1), "the logits")
        index = target.repeat_interleave(outputs.shape[1])[:, None]
        parts = logits.gather(-1, index).view(outputs.shape[:2])
        if self.output == "log-odds" and batch.head is Head.SOFTMAX and batch.classes > 1:
            rivals = trace.logits.scatter(-1, target[:, None], -torch.inf).softmax(-1)  # (R, classes)
            parts = parts - (by_token * rivals[:, None]).sum(-1)
        return parts


def decomposed_outputs(trace: EncoderTrace, bias: str = "dot") -> Tensor:
    """(R, T, outputs): the contribution of each token to each of the model's outputs."""
    propagation = Propagation(trace, bias)
    vectors = propagation.embedded()
    for number, layer in enumerate(trace.layers):
        # of the last, only what the classifier reads
        count = trace.encoder.read_tokens if layer is trace.layers[-1] else vectors.shape[1]
        vectors = propagation.through_layer(vectors, layer, count)
        states, real = layer.result[:, :count], trace.tokens[:, :count, None]
        trace.check_sum(vectors.sum(2) * real, states * real, states * real, f"the states after layer {number}")
    return propagation.through_head(vectors)


__all__ = ["DecompX", "decomposed_outputs"]
