"""Decomposed states: every state of an encoder as a sum of one vector per input token, carried through the modules.

A decomposition is (R, I, T, d): the vectors that the T tokens of the input contribute to the states of I tokens. Linear
modules act on each vector. A bias is divided among the vectors. Attention weights, the standard deviations of layer
norms and the slopes of activations are those of the forward pass, so that the vectors always add up to the state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from rationales.methods.attention.block_vectors import through_norm
from rationales.methods.attention.trace import EncoderTrace, LayerTrace, norm_scale

CHUNK_NUMBERS = 2**25  # numbers in the vectors of the feed-forward network that are computed at once
BIAS = ("dot", "norm", "equal")
_EPSILON = 1e-20  # of all weights: vectors that are all orthogonal to a bias share it equally


@dataclass(frozen=True, eq=False)
class Propagation:
    """The rules for a forward pass: `bias` says by what a bias b is divided among vectors x_k.

    `dot`: |b . x_k|; `norm`: |x_k|; `equal`: equally among the tokens.
    """

    trace: EncoderTrace
    bias: str = "dot"

    def embedded(self) -> Tensor:
        """(R, T, T, d): the input of the first layer, every token being its own."""
        return torch.diag_embed(self.trace.layers[0].states.transpose(1, 2)).permute(0, 2, 3, 1)

    def through_layer(self, vectors: Tensor, layer: LayerTrace, count: int) -> Tensor:
        """(R, T, T, d) -> (R, count, T, d): the decomposed output of a layer, for its first tokens."""
        parts, residual = layer.layer, vectors[:, :count]
        first_scale = norm_scale(parts.attention_norm, layer.attention_norm_input)
        second_scale = norm_scale(parts.output_norm, layer.output_norm_input[:, :count])
        if self.trace.encoder.norm_first:
            normed = self._norm(vectors, parts.attention_norm, first_scale)
            attended = residual + self._attend(normed, layer, count)
            return attended + self._feed_forward(self._norm(attended, parts.output_norm, second_scale), layer)
        attended = residual + self._attend(vectors, layer, count)
        attended = self._norm(attended, parts.attention_norm, first_scale[:, :count])
        return self._norm(attended + self._feed_forward(attended, layer), parts.output_norm, second_scale)

    def through_head(self, vectors: Tensor) -> Tensor:
        """(R, read, T, d) -> (R, T, outputs): the model's decomposed logits, from the read tokens' last states."""
        encoder = self.trace.encoder
        if encoder.final_norm is not None and self.trace.final_norm_input is not None:
            scale = norm_scale(encoder.final_norm, self.trace.final_norm_input[:, : encoder.read_tokens])
            vectors = self._norm(vectors, encoder.final_norm, scale)
        logits = []
        for token, (readout, slopes) in enumerate(zip(encoder.readouts, self.trace.head_slopes, strict=True)):
            states = vectors[:, token : token + 1]
            for linear, slope in zip(readout[:-1], slopes, strict=True):
                states = self._linear(states, linear) * slope[:, None, None]
            logits.append(self._linear(states, readout[-1])[:, 0])
        return torch.stack(logits).mean(0)

    def _attend(self, vectors: Tensor, layer: LayerTrace, count: int) -> Tensor:
        """(R, T, T, d) -> (R, count, T, d): values, weighted by attention, and the linear layer after it."""
        heads = self.trace.encoder.heads
        rows, tokens = vectors.shape[:2]
        value = self._linear(vectors, layer.layer.value).view(rows, tokens, tokens, heads, -1)  # (R, J, T, H, s)
        by_head = value.permute(0, 3, 1, 2, 4).flatten(3)  # (R, H, J, T * s)
        context = layer.attention[:, :, :count] @ by_head  # (R, H, I, T * s)
        context = context.view(rows, heads, count, tokens, -1).permute(0, 2, 3, 1, 4).flatten(3)
        return self._linear(context, layer.layer.attention_output)

    def _feed_forward(self, vectors: Tensor, layer: LayerTrace) -> Tensor:
        """(R, I, T, d) -> the same shape; the activation is a line through the origin for every number."""

        def compute(chunk: Tensor, slope: Tensor) -> Tensor:
            return self._linear(self._linear(chunk, layer.layer.intermediate) * slope[:, :, None], layer.layer.output)

        rows, count, tokens, _ = vectors.shape
        step = max(1, CHUNK_NUMBERS // (rows * tokens * layer.activation_slope.shape[-1]))
        slopes = torch.split(layer.activation_slope[:, :count], step, 1)
        chunks = zip(torch.split(vectors, step, 1), slopes, strict=True)
        return torch.cat([compute(*chunk) for chunk in chunks], 1)

    def _norm(self, vectors: Tensor, norm: nn.LayerNorm, scale: Tensor) -> Tensor:
        return self._with_bias(through_norm(norm, vectors, scale), norm.bias)

    def _linear(self, vectors: Tensor, linear: nn.Linear) -> Tensor:
        return self._with_bias(nn.functional.linear(vectors, linear.weight.to(vectors)), linear.bias)

    def _with_bias(self, vectors: Tensor, bias: Tensor | None) -> Tensor:
        """The vectors x_k + w_k b, where the weights w_k sum to 1."""
        if bias is None:
            return vectors
        bias = bias.to(vectors)
        weight: dict[str, Callable[[], Tensor]] = {
            "dot": lambda: (vectors @ bias).abs(),
            "norm": lambda: vectors.norm(dim=-1),
            "equal": lambda: torch.zeros_like(vectors[..., 0]),
        }
        shares = (weight[self.bias]() + _EPSILON) * self.trace.tokens[:, None]  # (R, I, T)
        return vectors + (shares / shares.sum(-1, keepdim=True))[..., None] * bias
