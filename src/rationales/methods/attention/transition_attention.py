"""Transition attention maps: a Markov chain over attention, weighted by integrated gradients (Yuan et al. 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rationales.errors import ModelError, OptionError
from rationales.methods.attention.attention_method import AttentionMethod
from rationales.methods.attention.trace import EncoderTrace, by_head, trace_encoder
from rationales.methods.gradient.gradient_method import DEFAULT_OUTPUT
from rationales.methods.method import Presets
from rationales.models.batch import Batch
from rationales.models.batch.batch import NO_GRADIENTS
from rationales.models.batch.rows import Block
from rationales.models.classes import OUTPUTS, explained_output
from rationales.options import option


@dataclass(frozen=True)
class TransitionAttention(AttentionMethod):
    """s * W: where the chain from the first token is, times the integrated gradients of the last attention.

    s starts as the first token's row of the last attention and goes s <- s A + s down the layers, A the mean attention
    of the heads. W = mean over heads of relu(mean over steps of dy/dA at a x), a from 0 to 1, A the first row of the
    last attention and y the explained output; the gradient at A is that at the attention's output times the values.
    """

    name: ClassVar[str] = "transition-attention"
    summary: ClassVar[str] = "a Markov chain over attention, weighted by integrated gradients of the last layer"
    needs: ClassVar[tuple[str, ...]] = ("gradients", "attention")
    class_specific: ClassVar[bool] = True
    presets: ClassVar[Presets] = {
        "text": {"default": {}},
        "image": {"default": {}, "paper": {"start_layer": 4, "output": "logit"}},
    }

    steps: int = option(20, "points on the line from an input of zeros")
    start_layer: int = option(0, "first layer of the chain; those before it are left out")
    output: str = option(DEFAULT_OUTPUT, "output of the model that is explained, for the target", *OUTPUTS)

    def __post_init__(self) -> None:
        if self.steps < 1 or self.start_layer < 0:
            raise OptionError("transition-attention needs at least 1 step and a start_layer of at least 0")

    def token_scores(self, trace: EncoderTrace, batch: Batch, block: Block, target: Tensor) -> Tensor:
        count = len(trace.layers)
        if self.start_layer >= count:
            raise OptionError(f"transition-attention: the encoder has {count} layers; start_layer is 0 to {count - 1}")
        attention = [layer.attention.mean(1) for layer in trace.layers]  # (R, T, T) each
        state = attention[-1][:, : trace.encoder.read_tokens]
        for transition in attention[self.start_layer : -1][::-1]:
            state = state @ transition + state
        return (state * self._integrated_gradients(batch, block, target)).mean(1)

    def _integrated_gradients(self, batch: Batch, block: Block, target: Tensor) -> Tensor:
        """(R, read, T): the positive part of the mean gradient at the last attention of the read tokens, over heads."""
        encoder = self.encoder(batch.modules[block.view])
        values = batch.input_embeddings(block.row)
        total: Tensor | None = None
        for share in torch.linspace(0, 1, self.steps).tolist():
            with torch.enable_grad():
                scaled = (share * values).requires_grad_()
                trace = trace_encoder(self.name, batch, block, encoder, scaled.clone())
                value = explained_output(batch.head, trace.logits, target, self.output).sum()
            if not value.requires_grad:
                raise ModelError(NO_GRADIENTS)
            last = trace.layers[-1]
            gradient = torch.autograd.grad(value, last.context)[0].to(last.value.dtype)
            read = by_head(gradient, encoder.heads)[:, :, : encoder.read_tokens]
            first = read @ last.value.detach().transpose(-1, -2)
            total = first if total is None else total + first  # (R, H, read, T)
        if total is None:  # there is at least one step
            raise OptionError("transition-attention needs at least 1 step")
        return (total / self.steps).relu().mean(1)
