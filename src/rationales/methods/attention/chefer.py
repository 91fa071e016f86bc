"""Relevance from attention and its gradients (Chefer, Gur and Wolf 2021, "Generic Attention", for encoders)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rationales.errors import ModelError
from rationales.methods.attention.attention_method import AttentionMethod
from rationales.methods.attention.trace import EncoderTrace, by_head, trace_encoder
from rationales.methods.gradient.gradient_method import DEFAULT_OUTPUT
from rationales.models.batch import Batch
from rationales.models.batch.batch import NO_GRADIENTS
from rationales.models.batch.rows import Block
from rationales.models.classes import OUTPUTS, explained_output
from rationales.options import option


@dataclass(frozen=True)
class Chefer(AttentionMethod):
    """R <- R + mean over heads of relu(dy/dA * A) R, from R = I, layer by layer; the first row of R.

    A is the attention of a layer and y the explained output. The gradient at A is that at the attention's output times
    the values, so that no layer needs to store A for the backward pass.
    """

    name: ClassVar[str] = "chefer"
    summary: ClassVar[str] = "attention weighted by its positive gradients, through all layers"
    needs: ClassVar[tuple[str, ...]] = ("gradients", "attention")
    class_specific: ClassVar[bool] = True

    output: str = option(DEFAULT_OUTPUT, "output of the model that is explained, for the target", *OUTPUTS)

    def trace(self, batch: Batch, block: Block) -> EncoderTrace:
        encoder = self.encoder(batch.modules[block.view])
        with torch.enable_grad():
            values = batch.input_embeddings(block.row).requires_grad_()
            return trace_encoder(self.name, batch, block, encoder, values.clone())

    def token_scores(self, trace: EncoderTrace, batch: Batch, block: Block, target: Tensor) -> Tensor:
        with torch.enable_grad():
            value = explained_output(batch.head, trace.logits, target, self.output).sum()
        if not value.requires_grad:
            raise ModelError(NO_GRADIENTS)
        gradients = torch.autograd.grad(value, [layer.context for layer in trace.layers])
        # the rows of R of the tokens that are read, from the last layer on
        first = torch.zeros_like(trace.layers[0].attention[:, 0, : trace.encoder.read_tokens])
        first.diagonal(dim1=1, dim2=2).fill_(1)
        for layer, gradient in zip(reversed(trace.layers), reversed(gradients), strict=True):
            gradient_by_head = by_head(gradient.to(layer.value.dtype), trace.encoder.heads)
            weighted = (gradient_by_head @ layer.value.transpose(-1, -2) * layer.attention).relu().mean(1)  # (R, T, T)
            first = first + first @ weighted
        return first.mean(1)
