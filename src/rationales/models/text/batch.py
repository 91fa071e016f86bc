"""Rows of tokens as a Batch: words are kept or replaced at the word embeddings.

The model runs on the token ids, and a hook replaces only the output of its embedding layer. Positions, token types,
padding, the token at which a decoder reads its logits and any scaling of embeddings are therefore the model's own, for
every architecture, and keep = 1 equals the plain model to the bit. Replaced words stay attended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from rationales.errors import OptionError
from rationales.models.batch import Batch, Noise, Packing, Piece, pack
from rationales.models.batch.execution import limited_threads, output_replaced, record_passes, weight_count
from rationales.models.batch.rows import distinct_rows, normal
from rationales.models.classes import output_logits
from rationales.models.fast import attention, packed
from rationales.models.fast.attention import row_lengths
from rationales.models.fast.precision import copy_in_dtype
from rationales.models.text import baselines
from rationales.models.text.edits import EditedRows, Insertions, TokenTable, edit_rows
from rationales.models.text.text_sources import TextSources

EDITED_TOKENS = 2**22  # of edited rows that are prepared at once


@dataclass(frozen=True, eq=False)
class TextClassifier:
    """One classifier, its embedding layer and the baseline that replaces word embeddings."""

    module: nn.Module
    embedding: nn.Module
    baseline: Tensor  # (hidden,)
    arguments: Mapping[str, Any]  # further arguments of every call
    takes_types: bool
    without_masks: bool = False  # a copy that keeps rows of unequal length apart without a mask
    packs_rows: bool = False  # and runs the tokens of all rows as one sequence, without padding

    def logits(
        self, ids: Tensor, attention: Tensor, types: Tensor | None, change: Callable[[Tensor], Tensor], piece: Piece
    ) -> Tensor:
        """(R, outputs): logits, where `change` is applied to the word embeddings (R, T, hidden)."""
        type_arguments = {"token_type_ids": types} if types is not None and self.takes_types else {}
        with output_replaced(self.embedding, change), self._rows(attention, piece):
            output = self.module(input_ids=ids, attention_mask=attention, **type_arguments, **self.arguments)
        logits = output_logits(output, "text")
        record_passes(len(ids), logits)
        return logits

    def _rows(self, attention: Tensor, piece: Piece) -> AbstractContextManager[None]:
        """Context that tells a copy without masks how long the rows are."""
        if piece.full or not self.without_masks:
            return nullcontext()
        if not self.packs_rows:
            return row_lengths(attention)
        return packed.row_lengths(piece.packing or Packing.from_lengths(attention.sum(1).tolist(), attention.device))

    def in_dtype(self, dtype: torch.dtype, without_masks: bool = False) -> TextClassifier:
        """Copy of this network in `dtype`; `without_masks`: see `Batch.in_dtype`."""
        module, embedding = copy_in_dtype([self.module, self.embedding], dtype)
        unmasked = attention.set_unmasked(module, without_masks)
        packs_rows = packed.set_packed(module, unmasked)
        return replace(self, module=module, embedding=embedding, without_masks=unmasked, packs_rows=packs_rows)


@dataclass(eq=False)
class TextBatch(Batch):
    """Rows of tokens whose word embeddings are blended with the baseline."""

    networks: Sequence[TextClassifier]
    ids: Tensor  # (S, T)
    attention: Tensor  # (S, T)
    types: Tensor | None  # (S, T)
    owner: Tensor  # (S, T) the unit of each token; n for special tokens and padding, which are always kept
    lengths: list[int]
    unit: str = "word"  # what a unit is: word, token or sentence
    sources: TextSources | None = None  # the texts; None: words can be kept or replaced, but not deleted or rewritten
    # what a method keeps of its pass of the full inputs; derived batches have nothing
    first_pass: Any = field(default=None, init=False, repr=False)

    deletes_units: ClassVar[bool] = True
    input_axes: ClassVar[int] = 2
    sufficient_cost: ClassVar[dict[str, int]] = {"cuda": 2**15, "cpu": 2**10}

    def cost(self) -> list[int]:
        return self.lengths

    def weights(self) -> int:
        """Of the first network, without its word embeddings: a lookup, not a product."""
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
            is_unit = (owner < self.size[1])[..., None]
            size = (words.square() * is_unit).sum((1, 2)) / (is_unit.sum((1, 2)) * words.shape[-1])
            unit_noise = normal(noise.key, words.shape[1:], words.dtype)
            return mixed + noise.scale * size.sqrt()[:, None, None] * is_unit * unit_noise

        return self._logits(piece, blend)

    def predict_baseline(self) -> Tensor:
        """(inputs, classes): class probabilities of the baselines alone.

        Rows of equal length differ by their words only, all of which are replaced: of encoders that read nothing but
        embeddings, equal ones go through the model once.
        """
        if self.size[0] == 1 or self.rows.contrast is not None:
            return super().predict_baseline()
        if not all(packed.can_pack(network.module) for network in self.networks):
            return super().predict_baseline()
        first, inverse = self._distinct_baselines()
        logits = torch.empty(len(first), self.classes, device=self.device, dtype=self.dtype)

        def compute() -> None:
            for piece in self.pieces(first):
                logits[piece.where] = self.forward(piece, logits.new_zeros(len(piece.row), self.size[1]), None)

        work = self.weights() * sum(self.lengths[row] for row in first.tolist())
        with torch.no_grad(), limited_threads(work) if self.device.type == "cpu" else nullcontext():
            self.fit(compute)
            return self.pool(self.probabilities(logits[inverse])).mean(-2)

    def _distinct_baselines(self) -> tuple[Tensor, Tensor]:
        """`distinct_rows` of the rows with every unit replaced.

        What is left of a unit is whether its token is that of padding, by which some encoders count positions.
        """
        is_unit = self.owner < self.size[1]
        padding = -1 if self.sources is None else self.sources.padding
        ids = torch.where(is_unit, torch.where(self.ids == padding, -2, -1), self.ids)
        columns = [ids, self.attention.sum(1, keepdim=True), self.rows.view[:, None]]
        columns += [] if self.types is None else [self.types]
        return distinct_rows(torch.cat(columns, 1))

    def _logits(self, piece: Piece, change: Callable[[Tensor], Tensor]) -> Tensor:
        row, size = piece.row, piece.size
        types = self.types[row, :size] if self.types is not None else None
        network, ids, attended = self.networks[piece.view], self.ids[row, :size], self.attention[row, :size]
        logits = network.logits(ids, attended, types, change, piece)
        return self.class_logits(piece, logits)

    def logits_deleted(self, keep: Tensor, rows: Tensor | None = None) -> Tensor:
        variants = keep.shape[0] if keep.dim() == 3 else 1
        logits = self.logits_of_edits(self._all(rows).repeat(variants), keep.reshape(-1, self.size[1]) > 0)
        return logits.reshape(*keep.shape[:-1], self.classes)

    def logits_of_edits(self, row: Tensor, keep: Tensor, insertions: Insertions | None = None) -> Tensor:
        """(E, classes): logits of E edited rows, see `edit_rows`; row: (E,), keep: (E, n) bool.

        Equal rows go through the model once, as far as they are prepared together: always those of one row, unless they
        exceed `EDITED_TOKENS`. No gradients.
        """
        order = torch.argsort(row, stable=True)
        row, keep = row[order], keep[order]
        if insertions is not None:
            insertions = replace(insertions, edit=torch.argsort(order)[insertions.edit])
        table, logits = self.token_table(), torch.zeros(len(row), self.classes, device=self.device, dtype=self.dtype)
        for first, last in _row_chunks(row, max(1, EDITED_TOKENS // table.ids.shape[1])):
            chunk = slice(first, last)
            inserted = None if insertions is None else insertions.between(first, last)
            edited = edit_rows(table, row[chunk], keep[chunk], inserted)
            distinct, inverse = edited.distinct(self.rows.view[row[chunk]])
            outputs = self._outputs_of(edited, distinct, self.rows.view[row[chunk]][distinct])
            piece = Piece(row[chunk], row[chunk], 0, table.ids.shape[1])
            logits[order[chunk]] = self.class_logits(piece, outputs[inverse])
        return logits

    def _outputs_of(self, edited: EditedRows, index: Tensor, view: Tensor) -> Tensor:
        """(U, outputs): the model's outputs for the edited rows `index` under these views, both (U,)."""
        lengths, views = edited.lengths[index].cpu().numpy(), view.cpu().numpy()

        def compute() -> Tensor:
            numbers: list[Tensor] = []
            outputs: list[Tensor] = []
            for network_view in np.unique(views).tolist():
                members = np.flatnonzero(views == network_view)
                for group in pack(lengths[members], self.budget, self._sufficient_cost):
                    selected = members[group]
                    size, shortest = int(lengths[selected[0]]), int(lengths[selected[-1]])
                    number = torch.from_numpy(selected).to(self.device)
                    chosen = index[number]
                    attended = (torch.arange(size, device=self.device) < edited.lengths[chosen][:, None]).long()
                    types = None if edited.types is None else edited.types[chosen, :size]
                    piece = Piece(number, number, network_view, size, shortest == size)
                    ids, network = edited.ids[chosen, :size], self.networks[network_view]
                    numbers.append(number)
                    outputs.append(network.logits(ids, attended, types, lambda words: words, piece))
            return torch.cat(outputs)[torch.argsort(torch.cat(numbers))]

        work = self.weights() * int(lengths.sum())
        with torch.no_grad(), limited_threads(work) if self.device.type == "cpu" else nullcontext():
            return self.fit(compute)

    def token_table(self) -> TokenTable:
        """The tokens of all rows, to be edited."""
        sources = self.text_sources()
        lengths = torch.tensor(self.lengths, device=self.device)
        return TokenTable(
            self.ids,
            self.types,
            self.owner,
            lengths,
            self.size[1],
            max(sources.limit, max(self.lengths)),
            sources.padding,
        )

    def text_sources(self) -> TextSources:
        """The texts of the rows; an OptionError if the batch was made without them."""
        if self.sources is None:
            raise OptionError(
                "this batch was made without its texts, so that words can be neither deleted nor rewritten"
            )
        return self.sources

    def with_baseline(self, name: str) -> TextBatch:
        """The same rows with another named baseline: pad, mask, unk, zero, mean or a word."""
        tokenizer = self.text_sources().tokenizer
        networks = [
            replace(network, baseline=baselines.vector(name, tokenizer, network.embedding)) for network in self.networks
        ]
        return replace(self, networks=networks)

    @property
    def faster_as_copy(self) -> bool:
        """On a CPU, for encoders whose last layer can be run for the token that is read alone (fast/packed.py)."""
        single = self.device.type == "cpu" and self.dtype == torch.float32
        known = all(type(network.module).__name__ in packed.KNOWN for network in self.networks)
        unpacked = all(not network.packs_rows for network in self.networks)
        return single and known and unpacked and all(packed.can_pack(network.module) for network in self.networks)

    @property
    def modules(self) -> Sequence[nn.Module]:
        return [network.module for network in self.networks]

    def input_embeddings(self, rows: Tensor | None = None) -> Tensor:
        """(R, T, hidden): the word embeddings of each row's network, padded with zeros to the widest of several."""
        row = self._all(rows)
        longest = max(self.lengths[index] for index in row.tolist())
        widest = max(len(network.baseline) for network in self.networks)
        embeddings = torch.zeros(len(row), longest, widest, device=self.device, dtype=self.dtype)
        with torch.no_grad():
            for view, network in enumerate(self.networks):
                if len(view_rows := torch.nonzero(self.rows.view[row] == view).flatten()):
                    words: Tensor = network.embedding(self.ids[row[view_rows], :longest])
                    embeddings[view_rows, :, : words.shape[-1]] = words.to(embeddings)
        return embeddings

    def all_replaced(self, rows: Tensor | None = None) -> Tensor:
        """(R, T, hidden): the baseline in place of every word; special tokens are unchanged."""
        row, embeddings = self._all(rows), self.input_embeddings(rows)
        for view, network in enumerate(self.networks):
            replaced = self.unit_region(row)[..., 0] & (self.rows.view[row] == view)[:, None]
            embeddings[..., : len(network.baseline)][replaced] = network.baseline.to(embeddings)
        return embeddings

    def unit_region(self, rows: Tensor | None = None) -> Tensor:
        """(R, T, 1) bool: tokens of units, neither special tokens nor padding."""
        row = self._all(rows)
        return (self.owner[row, : max(self.lengths[index] for index in row.tolist())] < self.size[1])[..., None]

    def forward_from(self, piece: Piece, values: Tensor) -> Tensor:
        width = len(self.networks[piece.view].baseline)
        return self._logits(piece, lambda words: values[:, : piece.size, :width].to(words))

    def to_units(self, values: Tensor, reduce: str, rows: Tensor | None = None) -> Tensor:
        """(R, T, hidden) -> (R, n): the sum over the embedding and over the tokens of a unit."""
        tokens = (values.abs() if reduce == "norm" else values).sum(-1)
        owner = self.owner[self._all(rows), : tokens.shape[1]]
        # in double precision if possible: the order in which a GPU adds a unit's tokens then makes no difference
        wide = tokens if self.device.type == "mps" else tokens.double()
        totals = wide.new_zeros(len(tokens), self.size[1] + 1)
        return totals.scatter_add_(1, owner, wide)[:, :-1].to(values.dtype)

    def _all(self, rows: Tensor | None) -> Tensor:
        return torch.arange(self.size[0], device=self.device) if rows is None else rows

    def in_dtype(self, dtype: torch.dtype, without_masks: bool = False) -> TextBatch:
        networks = [network.in_dtype(dtype, without_masks) for network in self.networks]
        return replace(self, networks=networks, budget=self.budget_in(dtype))

    def take(self, inputs: Sequence[int]) -> TextBatch:
        row = self.rows_of(inputs)
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
            sources=None
            if self.sources is None
            else replace(self.sources, encoded=[self.sources.encoded[i] for i in inputs]),
        )


def _row_chunks(row: Tensor, size: int) -> Iterator[tuple[int, int]]:
    """Ranges of at most `size` of these (E,) row numbers in rising order; equal numbers stay together if they fit."""
    ends = [*(torch.nonzero(row.diff()).flatten() + 1).tolist(), len(row)]
    first = last = 0
    for end in ends:
        if end - first > size and last > first:
            yield first, last
            first = last
        while end - first > size:
            yield first, first + size
            first += size
        last = end
    if last > first:
        yield first, last
