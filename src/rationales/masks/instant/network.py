"""The network of a masker: predicts w and sigma of a text, which MaRC would optimise, in one forward pass.

One network that masks any input is the idea of Attributive Masking Learning (Barkan et al. 2024, section 3); its
training objective (training.py) and the field from w and sigma are those of MaRC, so that its masks are as connected.
Shapes: R rows of T tokens, M masks of n units.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, layer_norm, scaled_dot_product_attention

from rationales.errors import ModelError
from rationales.masks.objective import mask_rows
from rationales.masks.settings import MaskSettings
from rationales.models.batch.execution import record_network_passes
from rationales.models.batch.rows import Block
from rationales.models.text.batch import TextBatch
from rationales.models.text.hidden_states import HiddenStates, hidden_states


@dataclass(frozen=True)
class MaskerShape:
    """Sizes of a masker's network; the first four are those of the explained model."""

    embedding_size: int
    state_size: int  # size of the hidden states; 0: the model returns none
    state_layers: int  # layers whose hidden states are read
    classes: int
    width: int = 128
    layers: int = 2
    heads: int = 4
    convolution_reach: int = 4  # tokens to either side
    max_sigma: float = 6.0  # 0: the upper bound of the optimisation's settings

    @classmethod
    def of(cls, batch: TextBatch, **size: Any) -> MaskerShape:
        """Shape for the model of a batch; `size`: width, layers, heads, convolution_reach, max_sigma."""
        internals = hidden_states(batch, next(batch.blocks(1)))
        states = internals.states[0].shape[-1] if internals.states else 0
        return cls(internals.words.shape[-1], states, len(internals.states), batch.classes, **size)


class MaskerNetwork(nn.Module):
    """Maps the explained model's embeddings and hidden states to two numbers per token.

    Inputs are the normalised embeddings and the normalised hidden states, averaged over layers with learned weights;
    the target, the model's probabilities and the row's length are added to every token. A layer has attention over all
    tokens and a convolution over neighbours, which gives the order of words at any length.
    """

    def __init__(self, shape: MaskerShape) -> None:
        super().__init__()
        self.shape = shape
        self.embedding_projection = nn.Linear(shape.embedding_size, shape.width)
        self.state_projection = nn.Linear(shape.state_size, shape.width, bias=False) if shape.state_size else None
        self.layer_mix = nn.Parameter(torch.zeros(shape.state_layers))
        self.target_embedding = nn.Embedding(shape.classes, shape.width)
        self.context_projection = nn.Linear(shape.classes + 1, shape.width)
        self.layers = nn.ModuleList(MaskerLayer(shape) for _ in range(shape.layers))
        self.final_norm = nn.LayerNorm(shape.width)
        self.class_query = nn.Embedding(shape.classes, shape.width)  # one output vector per class
        self.output_head = nn.Linear(shape.width, 2)
        nn.init.normal_(self.target_embedding.weight, std=0.5)
        nn.init.normal_(self.class_query.weight, std=0.02)
        nn.init.normal_(self.output_head.weight, std=0.02)
        nn.init.zeros_(self.output_head.bias)

    def forward(self, internals: HiddenStates, attended: Tensor, target: Tensor, context: Tensor) -> Tensor:
        """(R, T, 2) from the model's internals, attended (R, T) booleans, target (R,) and context (R, classes + 1)."""
        return self.token_outputs(self.features(internals), attended, target, context)

    def features(self, internals: HiddenStates) -> Tensor:
        """(R, T, width): what the network reads of the model's internals, whatever the target."""
        words: Tensor = self.embedding_projection(layer_norm(internals.words, internals.words.shape[-1:]))
        if self.state_projection is None:
            return words
        mixed = torch.zeros_like(internals.states[0])
        for share, state in zip(self.layer_mix.softmax(0), internals.states, strict=True):
            mixed = mixed + share * layer_norm(state, state.shape[-1:])
        states: Tensor = self.state_projection(mixed)
        return words + states

    def token_outputs(self, features: Tensor, attended: Tensor, target: Tensor, context: Tensor) -> Tensor:
        """(R, T, 2) from `features` (R, T, width); the other arguments are those of `forward`."""
        hidden = features + (self.target_embedding(target) + self.context_projection(context))[:, None]
        for layer in self.layers:
            hidden = layer(hidden, attended)
        hidden = self.final_norm(hidden)
        record_network_passes(len(hidden), hidden)
        w_offset, sigma_output = self.output_head(hidden).unbind(-1)
        return torch.stack([torch.einsum("rtd,rd->rt", hidden, self.class_query(target)) + w_offset, sigma_output], -1)


class MaskerLayer(nn.Module):
    """Attention over all tokens, a convolution over neighbours, and a feed-forward network per token."""

    def __init__(self, shape: MaskerShape) -> None:
        super().__init__()
        width, self.heads = shape.width, shape.heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.query_key_value = nn.Linear(width, 3 * width)
        self.attention_output = nn.Linear(width, width)
        self.convolution = nn.Conv1d(
            width, width, 2 * shape.convolution_reach + 1, padding=shape.convolution_reach, groups=width
        )
        self.feed_forward_in = nn.Linear(width, 2 * width)
        self.feed_forward_out = nn.Linear(2 * width, width)

    def forward(self, hidden: Tensor, attended: Tensor) -> Tensor:
        """(R, T, width) -> (R, T, width); tokens that are not attended do not influence others."""
        rows, tokens, width = hidden.shape
        heads = self.query_key_value(self.norms[0](hidden)).view(rows, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mask = attended[:, None, None, :]
        attended_values = scaled_dot_product_attention(heads[0], heads[1], heads[2], attn_mask=mask)
        hidden = hidden + self.attention_output(attended_values.transpose(1, 2).reshape(rows, tokens, width))
        neighbours = self.norms[1](hidden) * attended[..., None]
        hidden = hidden + gelu(self.convolution(neighbours.transpose(1, 2)).transpose(1, 2))
        out: Tensor = hidden + self.feed_forward_out(gelu(self.feed_forward_in(self.norms[2](hidden))))
        return out


@dataclass(frozen=True, eq=False)
class BlockReading:
    """What a masker reads in a pass of the rows of a block."""

    block: Block
    features: Tensor  # (R, T, width)
    context: Tensor  # (R, classes + 1)
    logits: Tensor  # (R, classes) of the explained model


def read_blocks(network: MaskerNetwork, batch: TextBatch) -> Iterator[BlockReading]:
    """What the network reads of every mask, block by block; of several networks explained together, of the first."""
    for block in batch.blocks(batch.masks):
        yield _read_block(network, batch, block)


def predict_parameters(
    network: MaskerNetwork,
    batch: TextBatch,
    target: Tensor,
    settings: MaskSettings,
    readings: Sequence[BlockReading] | None = None,
) -> tuple[Tensor, Tensor]:
    """w and sigma, (M, n) each, of every mask in one pass; `target` is (inputs,). Differentiable in the network.

    `readings`: those of `read_blocks`, where the pass was made before. sigma lies within the bounds of the settings and
    of the network.
    """
    rows: list[Tensor] = []
    outputs: list[Tensor] = []
    for reading in read_blocks(network, batch) if readings is None else readings:
        block = reading.block
        attended = batch.attention[block.row, : block.size] > 0
        row_target = target[batch.rows.input[block.row]]
        token_outputs = network.token_outputs(reading.features, attended, row_target, reading.context)
        rows.append(block.row)
        outputs.append(_tokens_to_units(batch, block, token_outputs))
    unit_outputs = torch.cat(outputs)[torch.argsort(torch.cat(rows))].to(batch.dtype)  # (M, n, 2)
    low, high = (bound.log() for bound in _sigma_bounds(batch, settings, network.shape.max_sigma))
    sigma = torch.exp(low + (high - low) * unit_outputs[..., 1].sigmoid())
    return unit_outputs[..., 0] * mask_rows(batch.rows.real, batch), sigma


def _read_block(network: MaskerNetwork, batch: TextBatch, block: Block) -> BlockReading:
    internals = hidden_states(batch, block)
    if network.shape.state_layers and len(internals.states) != network.shape.state_layers:
        raise ModelError(
            f"the model returns hidden states of {len(internals.states)} layers, but its masker was trained with "
            f"{network.shape.state_layers}; train a masker for the model as it is now"
        )
    dtype = network.final_norm.weight.dtype
    states = tuple(state.to(dtype) for state in internals.states)
    cast_internals = HiddenStates(internals.words.to(dtype), states, internals.logits)
    length = batch.rows.real[block.row].sum(1, keepdim=True).to(dtype)
    context = torch.cat([batch.probabilities(internals.logits).to(dtype), length.log1p() - 4], 1)  # 4: about 50 words
    return BlockReading(block, network.features(cast_internals), context, internals.logits)


def _sigma_bounds(batch: TextBatch, settings: MaskSettings, max_sigma: float) -> tuple[Tensor, Tensor]:
    """(M, 1) twice: bounds of sigma in the optimisation; without an upper bound, the length of the text."""
    units = mask_rows(batch.rows.real, batch).sum(1, keepdim=True).to(batch.dtype)
    high = ((settings.max_sigma_share or 1.0) * units).clamp(min=1)
    high = high.clamp(max=max_sigma) if max_sigma else high
    return torch.full_like(units, settings.min_sigma).minimum(high), high


def _tokens_to_units(batch: TextBatch, block: Block, values: Tensor) -> Tensor:
    """(R, T, 2) -> (R, n, 2): mean over a unit's tokens."""
    owner = batch.owner[block.row, : block.size]
    # double precision where supported, so that the result does not depend on the order of a GPU's additions
    precise_values = values if values.device.type == "mps" else values.double()
    values_and_count = torch.cat([precise_values, torch.ones_like(precise_values[..., :1])], -1)
    total = values_and_count.new_zeros(len(owner), batch.size[1] + 1, 3)
    total = total.scatter_add(1, owner[..., None].expand_as(values_and_count), values_and_count)[:, :-1]
    return total[..., :2] / total[..., 2:].clamp(min=1)
