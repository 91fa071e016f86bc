"""An amortised masker: one pass of a small network gives what MaRC would otherwise search for, w and sigma of a text.

The idea of one network that masks any input is that of Attributive Masking Learning (Barkan et al. 2024, section 3);
what it is trained for (train_masker.py) and how its answer becomes a mask are MaRC's own, so that its masks are as
connected. Shapes: R rows of T tokens, M masks of n units.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, layer_norm, scaled_dot_product_attention

from rationales.errors import ModelError
from rationales.masks.objective import mask_rows
from rationales.masks.settings import MaskSettings
from rationales.models.hidden import Insight, insight
from rationales.models.rows import Block
from rationales.models.text_batch import TextBatch


@dataclass(frozen=True)
class Shape:
    """What a masker's network is made of; the first three are the explained model's."""

    words: int  # width of a word embedding
    states: int  # width of the hidden states; 0: the model shows none
    depth: int  # layers whose states are read
    classes: int
    width: int = 128
    layers: int = 2
    heads: int = 4
    reach: int = 4  # tokens to either side that a layer's convolution sees
    widest: float = 6.0  # sigma at most; 0: what the settings of the optimisation allow

    @classmethod
    def of(cls, batch: TextBatch, **size: Any) -> Shape:
        """What suits the model that a batch is for; `size`: width, layers, heads, reach, widest."""
        found = insight(batch, next(batch.blocks(1)))
        states = found.states[0].shape[-1] if found.states else 0
        return cls(found.words.shape[-1], states, len(found.states), batch.classes, **size)


class Network(nn.Module):
    """Reads what the explained model reads and makes of it; gives two numbers for every token.

    Word embeddings and the mean of the layers' hidden states (its weights are learned) come in normalised; the target,
    the model's probabilities and the row's length are added to every token. A layer mixes tokens twice: all of them by
    attention, neighbours by a convolution, from which the order of words is known, at any length.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.words = nn.Linear(shape.words, shape.width)
        self.states = nn.Linear(shape.states, shape.width, bias=False) if shape.states else None
        self.mix = nn.Parameter(torch.zeros(shape.depth))
        self.target = nn.Embedding(shape.classes, shape.width)
        self.said = nn.Linear(shape.classes + 1, shape.width)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.last = nn.LayerNorm(shape.width)
        self.weight = nn.Embedding(shape.classes, shape.width)  # each class asks a question of its own
        self.more = nn.Linear(shape.width, 2)
        nn.init.normal_(self.target.weight, std=0.5)
        nn.init.normal_(self.weight.weight, std=0.02)
        nn.init.normal_(self.more.weight, std=0.02)
        nn.init.zeros_(self.more.bias)

    def forward(self, seen: Insight, attended: Tensor, target: Tensor, said: Tensor) -> Tensor:
        """(R, T, 2) from what the model shows, attended (R, T) booleans, target (R,) and said (R, classes + 1)."""
        words = self.words(layer_norm(seen.words, seen.words.shape[-1:]))
        if self.states is not None:
            mixed = torch.zeros_like(seen.states[0])
            for share, one in zip(self.mix.softmax(0), seen.states, strict=True):
                mixed = mixed + share * layer_norm(one, one.shape[-1:])
            words = words + self.states(mixed)
        hidden = words + (self.target(target) + self.said(said))[:, None]
        for layer in self.layers:
            hidden = layer(hidden, attended)
        hidden = self.last(hidden)
        shift, wide = self.more(hidden).unbind(-1)
        return torch.stack([torch.einsum("rtd,rd->rt", hidden, self.weight(target)) + shift, wide], -1)


class Layer(nn.Module):
    """Attention over all tokens, a convolution over neighbours, and a small net for each token by itself."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width, self.heads = shape.width, shape.heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.ask = nn.Linear(width, 3 * width)
        self.answer = nn.Linear(width, width)
        self.near = nn.Conv1d(width, width, 2 * shape.reach + 1, padding=shape.reach, groups=width)
        self.inner = nn.Linear(width, 2 * width)
        self.outer = nn.Linear(2 * width, width)

    def forward(self, hidden: Tensor, attended: Tensor) -> Tensor:
        """(R, T, width) -> (R, T, width); what is not attended is seen by nobody."""
        rows, tokens, width = hidden.shape
        parts = self.ask(self.norms[0](hidden)).view(rows, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        found = scaled_dot_product_attention(parts[0], parts[1], parts[2], attn_mask=attended[:, None, None, :])
        hidden = hidden + self.answer(found.transpose(1, 2).reshape(rows, tokens, width))
        near = self.norms[1](hidden) * attended[..., None]
        hidden = hidden + gelu(self.near(near.transpose(1, 2)).transpose(1, 2))
        out: Tensor = hidden + self.outer(gelu(self.inner(self.norms[2](hidden))))
        return out


def predict(network: Network, batch: TextBatch, target: Tensor, settings: MaskSettings) -> tuple[Tensor, Tensor]:
    """w and sigma, (M, n) each, of every mask in one pass; `target` is (inputs,). Differentiable in the network.

    Only the first of several networks explained together is read. sigma lies between the settings' own limits, and is
    not wider than the network's.
    """
    rows: list[Tensor] = []
    found: list[Tensor] = []
    for block in batch.blocks(batch.masks):
        rows.append(block.row)
        found.append(_tokens_to_units(batch, block, _answer(network, batch, block, target)))
    raw = torch.cat(found)[torch.argsort(torch.cat(rows))].to(batch.dtype)  # (M, n, 2)
    low, high = (limit.log() for limit in _sigma_limits(batch, settings, network.shape.widest))
    sigma = torch.exp(low + (high - low) * raw[..., 1].sigmoid())
    return raw[..., 0] * mask_rows(batch.rows.real, batch), sigma


def _answer(network: Network, batch: TextBatch, block: Block, target: Tensor) -> Tensor:
    """(R, T, 2)."""
    seen = insight(batch, block)
    if network.shape.depth and len(seen.states) != network.shape.depth:
        told = f"{len(seen.states)} layers instead of the {network.shape.depth} that its masker was trained on"
        raise ModelError(f"the model shows {told}; train a masker with the model as it is now")
    kind = network.last.weight.dtype
    own = Insight(seen.words.to(kind), tuple(one.to(kind) for one in seen.states), seen.logits)
    length = batch.rows.real[block.row].sum(1, keepdim=True).to(kind)
    said = torch.cat([batch.probabilities(seen.logits).to(kind), length.log1p() - 4], 1)  # 4: about 50 words
    attended = batch.attention[block.row, : block.size] > 0
    answer: Tensor = network(own, attended, target[batch.rows.input[block.row]], said)
    return answer


def _sigma_limits(batch: TextBatch, settings: MaskSettings, widest: float) -> tuple[Tensor, Tensor]:
    """(M, 1) twice: what the optimisation would hold sigma between; without an upper limit, the length of the text."""
    units = mask_rows(batch.rows.real, batch).sum(1, keepdim=True).to(batch.dtype)
    high = ((settings.reach or 1.0) * units).clamp(min=1)
    high = high.clamp(max=widest) if widest else high
    return torch.full_like(units, settings.smallest_sigma).minimum(high), high


def _tokens_to_units(batch: TextBatch, block: Block, values: Tensor) -> Tensor:
    """(R, T, 2) -> (R, n, 2): the mean over a unit's tokens."""
    owner = batch.owner[block.row, : block.size]
    # in double precision where there is one, so that the order in which a GPU adds a word's tokens does not show
    wide = values if values.device.type == "mps" else values.double()
    both = torch.cat([wide, torch.ones_like(wide[..., :1])], -1)
    total = both.new_zeros(len(owner), batch.size[1] + 1, 3)
    total = total.scatter_add(1, owner[..., None].expand_as(both), both)[:, :-1]
    return total[..., :2] / total[..., 2:].clamp(min=1)
