"""Rows of tokens as a Batch: words are kept or replaced at the word embeddings.

The model is run on its own token ids and only the output of its embedding layer is replaced (by a hook). So positions,
token types, padding, the place where a decoder reads its answer and any scaling of embeddings are the model's own, for
every architecture, and keep = 1 is bit for bit the plain model. A replaced word stays attended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from rationales.errors import ModelError
from rationales.models import attention, packed
from rationales.models.attention import rows_of
from rationales.models.batch import Batch, Noise, Packing, Piece
from rationales.models.precision import copied
from rationales.models.randomness import normal
from rationales.models.state import output_replaced
from rationales.models.threads import weight_count


@dataclass(frozen=True, eq=False)
class Network:
    """One classifier: how to call it, and what its words become when they are replaced."""

    module: nn.Module
    embedding: nn.Module
    baseline: Tensor  # (hidden,)
    arguments: Mapping[str, Any]  # passed along on every call
    takes_types: bool
    apart: bool = False  # a copy whose rows of unequal length need no mask
    packs: bool = False  # and that runs their tokens one after the other

    def logits(
        self, ids: Tensor, attention: Tensor, types: Tensor | None, change: Callable[[Tensor], Tensor], piece: Piece
    ) -> Tensor:
        """(R, outputs) with the word embeddings (R, T, hidden) passed through `change` on their way."""
        more = {"token_type_ids": types} if types is not None and self.takes_types else {}
        with output_replaced(self.embedding, change), self._rows(attention, piece):
            output = self.module(input_ids=ids, attention_mask=attention, **more, **self.arguments)
        found = getattr(output, "logits", output[0] if isinstance(output, tuple) else output)
        if not isinstance(found, Tensor) or found.dim() != 2:
            raise ModelError("the model does not give one row of logits for each text; is it a sequence classifier?")
        return found

    def _rows(self, attention: Tensor, piece: Piece) -> AbstractContextManager[None]:
        """Tells a copy that needs no mask how long rows are."""
        if piece.full or not self.apart:
            return nullcontext()
        if not self.packs:
            return rows_of(attention)
        return packed.rows(piece.packing or Packing.of(attention.sum(1).tolist(), attention.device))

    def copied(self, dtype: torch.dtype, apart: bool = False) -> Network:
        """The same with the weights of a copy in another precision, and with rows kept apart without masks."""
        module, embedding = copied([self.module, self.embedding], dtype)
        apart = attention.use(module, apart)
        return replace(self, module=module, embedding=embedding, apart=apart, packs=packed.use(module, apart))


@dataclass(eq=False)
class TextBatch(Batch):
    """Rows of tokens whose words are blended with the baseline."""

    networks: Sequence[Network]
    ids: Tensor  # (S, T)
    attention: Tensor  # (S, T)
    types: Tensor | None  # (S, T)
    owner: Tensor  # (S, T) the token's unit; n for special tokens and padding, which are always kept
    lengths: list[int]
    unit: str = "word"  # what a unit is: word, token or sentence

    reads: ClassVar[int] = 2
    enough: ClassVar[dict[str, int]] = {"cuda": 2**15, "cpu": 2**10}

    def cost(self) -> list[int]:
        return self.lengths

    def weights(self) -> int:
        """Of the first network, without its word embeddings, which are looked up."""
        network = self.networks[0]
        return weight_count(network.module) - weight_count(network.embedding)

    def forward(self, piece: Piece, keep: Tensor, noise: Noise | None) -> Tensor:
        network = self.networks[piece.view]
        owner = self.owner[piece.row, : piece.size]
        kept = torch.cat([keep, keep.new_ones(len(keep), 1)], 1).gather(1, owner)[..., None]  # (R, T, 1)

        def blend(words: Tensor) -> Tensor:
            share = kept.to(words.dtype)
            mixed = share * words + (1 - share) * network.baseline.to(words.dtype)  # Eq. 1; Eq. 3 when keep is 1 - keep
            if noise is None:
                return mixed
            own = (owner < self.size[1])[..., None]
            size = (words.square() * own).sum((1, 2)) / (own.sum((1, 2)) * words.shape[-1])
            drawn = normal(noise.key, words.shape[1:], words.dtype)
            return mixed + noise.scale * size.sqrt()[:, None, None] * own * drawn

        return self._logits(piece, blend)

    def _logits(self, piece: Piece, change: Callable[[Tensor], Tensor]) -> Tensor:
        row, size = piece.row, piece.size
        types = self.types[row, :size] if self.types is not None else None
        network, ids, attended = self.networks[piece.view], self.ids[row, :size], self.attention[row, :size]
        logits = network.logits(ids, attended, types, change, piece)
        return self.class_logits(piece, logits)

    @property
    def modules(self) -> Sequence[nn.Module]:
        return [network.module for network in self.networks]

    def embedded(self, rows: Tensor | None = None) -> Tensor:
        """(R, T, hidden): the word embeddings; of several networks each row has its own's, filled up with zeros."""
        row = self._all(rows)
        longest = max(self.lengths[index] for index in row.tolist())
        widest = max(len(network.baseline) for network in self.networks)
        found = torch.zeros(len(row), longest, widest, device=self.device, dtype=self.dtype)
        with torch.no_grad():
            for view, network in enumerate(self.networks):
                if len(own := torch.nonzero(self.rows.view[row] == view).flatten()):
                    words: Tensor = network.embedding(self.ids[row[own], :longest])
                    found[own, :, : words.shape[-1]] = words.to(found)
        return found

    def emptied(self, rows: Tensor | None = None) -> Tensor:
        """(R, T, hidden): the baseline in place of every word; special tokens stay."""
        row, found = self._all(rows), self.embedded(rows)
        for view, network in enumerate(self.networks):
            replaced = self.inside(row)[..., 0] & (self.rows.view[row] == view)[:, None]
            found[..., : len(network.baseline)][replaced] = network.baseline.to(found)
        return found

    def inside(self, rows: Tensor | None = None) -> Tensor:
        """(R, T, 1): tokens of words, not special ones and no padding."""
        row = self._all(rows)
        return (self.owner[row, : max(self.lengths[index] for index in row.tolist())] < self.size[1])[..., None]

    def forward_from(self, piece: Piece, embedded: Tensor) -> Tensor:
        width = len(self.networks[piece.view].baseline)
        return self._logits(piece, lambda words: embedded[:, : piece.size, :width].to(words))

    def to_units(self, values: Tensor, reduce: str, rows: Tensor | None = None) -> Tensor:
        """(R, T, hidden) -> (R, n): over the embedding, then over the tokens of a word."""
        tokens = (values.abs() if reduce == "norm" else values).sum(-1)
        owner = self.owner[self._all(rows), : tokens.shape[1]]
        # in double precision where there is one, so that the order in which a GPU adds a word's tokens does not show
        wide = tokens if self.device.type == "mps" else tokens.double()
        found = wide.new_zeros(len(tokens), self.size[1] + 1)
        return found.scatter_add_(1, owner, wide)[:, :-1].to(values.dtype)

    def _all(self, rows: Tensor | None) -> Tensor:
        return torch.arange(self.size[0], device=self.device) if rows is None else rows

    def copied(self, dtype: torch.dtype, apart: bool = False) -> TextBatch:
        networks = [network.copied(dtype, apart) for network in self.networks]
        return replace(self, networks=networks, budget=self.budget_in(dtype))

    def take(self, inputs: Sequence[int]) -> TextBatch:
        row = torch.nonzero(torch.isin(self.rows.input, torch.tensor(list(inputs), device=self.device))).flatten()
        width = int(self.rows.real[row].sum(1).max())
        lengths = [self.lengths[index] for index in row.tolist()]
        longest = max(lengths)
        owner = self.owner[row, :longest]
        return replace(
            self,
            rows=self.rows.take(row, width),
            inputs=len(inputs),
            ids=self.ids[row, :longest],
            attention=self.attention[row, :longest],
            types=self.types[row, :longest] if self.types is not None else None,
            owner=torch.where(owner == self.size[1], torch.full_like(owner, width), owner),
            lengths=lengths,
        )
