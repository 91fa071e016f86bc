"""A filler: a Hugging Face fill-mask model that proposes words for masked ones, given the rest of the text.

Its tokenizer need not be the classifier's. A word is masked by one mask token, whatever its number of tokens, and only
tokens that are whole words are proposed. A word that is several tokens of the filler is therefore never proposed for
itself; a word that the filler's tokenizer drops (some symbols) cannot be masked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from rationales.models.text.filling.filler_rows import FillerRows
from rationales.models.text.filling.prediction import MaskedLanguageModel
from rationales.models.text.text_sources import rewrite
from rationales.models.text.tokens import EncodedText, TextInput, encode, tokenize
from rationales.models.text.units import words as word_extents
from rationales.rationale_parts import Unit


@dataclass(frozen=True, eq=False)
class Candidates:
    """K proposals for each of J masked phrases of w words, by falling likelihood."""

    ids: Tensor  # (J, K, w) the filler's tokens; -1: the word itself stays
    likelihood: Tensor  # (J, K) product over the words of the phrase, not normalised; 0: no further proposal

    @property
    def weights(self) -> Tensor:
        """(J, K): likelihoods divided by their sum; all 0 for a phrase without proposals.

        In double precision: they weigh probabilities near 1, whose log-odds change visibly where a sum is not 1.
        """
        likelihood = self.likelihood.double()
        total = likelihood.sum(1, keepdim=True)
        return likelihood / torch.where(total > 0, total, 1.0)


class Filler(MaskedLanguageModel):
    """Proposes words for the masked words of texts."""

    def candidates(
        self,
        rows: FillerRows,
        inputs: Tensor,
        units: Tensor,
        *,
        count: int = 10,
        threshold: float = 0.0,
        without_original: bool = False,
    ) -> Candidates:
        """The likeliest proposals for J phrases; inputs: (J,), units: (J, w), -1 beyond the end of a shorter phrase.

        The words of a phrase are masked together, and its proposals are the `count` likeliest combinations of the
        proposals for each word. `threshold`: for single words, all proposals of at least this likelihood instead.
        `without_original`: the words as they are do not count as a proposal. A word that cannot be masked stays.
        """
        phrases, width = units.shape
        row = rows.home[inputs, units[:, 0]]
        for position in range(1, width):  # the first word of the phrase that can be masked
            further = rows.home[inputs, units[:, position].clamp(min=0)]
            row = torch.where((row < 0) & (units[:, position] >= 0), further, row)
        masked = torch.zeros(phrases, rows.table.units + 1, dtype=torch.bool, device=row.device)
        masked.scatter_(1, torch.where(units < 0, rows.table.units, units), value=True)
        size = count + without_original

        def best(logits: Tensor, allowed: Tensor) -> Tensor:
            usable = logits.float().log_softmax(-1).masked_fill(~allowed, -torch.inf)
            proposals = int((usable >= np.log(threshold)).sum(1).max()) if threshold else size
            values, ids = usable.topk(max(1, min(proposals, usable.shape[1])), dim=1)
            return torch.stack([values, ids.to(values.dtype)], -1)  # exact: tokens are far fewer than 2^24

        edit, unit, predictions = self.predict(rows, row.clamp(min=0), masked[:, :-1] & (row >= 0)[:, None], None, best)
        joint = torch.zeros(phrases, 1, device=row.device)
        ids = torch.zeros(phrases, 1, 0, dtype=torch.long, device=row.device)
        for position in range(width):
            here = torch.full((phrases, predictions.shape[1]), -torch.inf, device=row.device)
            here[:, 0] = 0.0  # a word that cannot be masked stays, with likelihood 1
            proposed = torch.full(here.shape, -1, device=row.device)
            of_position = unit == units[edit, position]
            here[edit[of_position]] = predictions[of_position, :, 0]
            original_token = rows.token[inputs[edit[of_position]], unit[of_position]][:, None]
            tokens = predictions[of_position, :, 1].long()
            proposed[edit[of_position]] = torch.where(tokens == original_token, -1, tokens)
            combined = (joint[:, :, None] + here[:, None]).flatten(1)
            joint, order = combined.topk(combined.shape[1] if threshold else min(size, combined.shape[1]), dim=1)
            first = ids.gather(1, (order // here.shape[1])[..., None].expand(-1, -1, position))
            ids = torch.cat([first, proposed.gather(1, order % here.shape[1])[..., None]], -1)
        if without_original:
            original = (ids < 0).all(-1)
            remaining = joint.shape[1] if threshold else min(count, joint.shape[1])
            joint, order = joint.masked_fill(original, -torch.inf).topk(remaining, dim=1)
            ids = ids.gather(1, order[..., None].expand(-1, -1, width))
        likelihood = joint.exp()
        return Candidates(ids, torch.where(likelihood >= threshold, likelihood, 0.0) if threshold else likelihood)

    def likeliest(self, rows: FillerRows, inputs: Tensor, removed: Tensor, one_by_one: bool = False) -> Tensor:
        """(E, n): the likeliest token for each removed word; -1 for the others and for words that cannot be masked.

        inputs: (E,); removed: (E, n) bool. All removed words are masked together. `one_by_one`: the first is filled in,
        then the next is predicted with it in place, and so on.
        """
        present = torch.zeros(len(rows.input), rows.table.units + 1, dtype=torch.bool, device=removed.device)
        present.scatter_(1, rows.table.owner, value=True)
        pair_edit, pair_row = torch.nonzero(inputs[:, None] == rows.input, as_tuple=True)
        masked = removed[pair_edit] & present[pair_row, :-1]
        needed = masked.any(1)
        pair_edit, pair_row, masked = pair_edit[needed], pair_row[needed], masked[needed]
        at_home = rows.home[inputs[pair_edit]] == pair_row[:, None]  # (P, n)
        tokens = torch.full(removed.shape, -1, device=removed.device)

        def best(logits: Tensor, allowed: Tensor) -> Tensor:
            return logits.masked_fill(~allowed, -torch.inf).max(1).indices  # argmax is slow in bfloat16

        remaining = masked.clone()
        while bool(remaining.any()):
            predicted = remaining if not one_by_one else remaining & (remaining.cumsum(1) == 1)
            edit, unit, ids = self.predict(rows, pair_row, masked, tokens[pair_edit], best, predicted)
            home = at_home[edit, unit]
            tokens[pair_edit[edit[home]], unit[home]] = ids[home]
            remaining = remaining & ~predicted
        return tokens

    def fillable(self, inputs: Sequence[EncodedText]) -> FillableTexts:
        """These texts divided into words, for `fill`; a text that is given several times is read once."""
        distinct = {id(encoded): encoded for encoded in inputs}
        sources, limit = [encoded.source for encoded in distinct.values()], self.limit
        texts = [
            _with_dropped_texts(encode(source, self.tokenizer, "word", limit, 0, tokenization, allow_empty=True))
            for source, tokenization in zip(sources, tokenize(sources, self.tokenizer), strict=True)
        ]
        return FillableTexts(list(distinct.values()), texts, self.read(texts))

    def fill(
        self, inputs: Sequence[EncodedText], kept: Sequence[np.ndarray], fillable: FillableTexts | None = None
    ) -> list[TextInput]:
        """Each text with the words of the units that are not kept replaced by likely ones, all at once.

        kept: (units,) bool for each text. Units need not be words. A word that cannot be masked is left out.
        `fillable`: the same inputs and perhaps others, read before, where they are filled in repeatedly.
        """
        if not inputs:
            return []
        fillable = fillable or self.fillable(inputs)
        numbers = [fillable.numbers[id(encoded)] for encoded in inputs]
        removed = np.zeros((len(inputs), fillable.rows.table.units), dtype=bool)
        for line, (encoded, kept_units, number) in enumerate(zip(inputs, kept, numbers, strict=True)):
            words = fillable.texts[number].units
            same = fillable.units_are_words[number]
            removed[line, : len(words)] = ~kept_units if same else _overlapping(encoded.units, ~kept_units, words)
        text_numbers = torch.tensor(numbers, device=self.device)
        tokens = self.likeliest(fillable.rows, text_numbers, torch.from_numpy(removed).to(self.device)).cpu().numpy()
        spelled, filled = self.vocabulary.words, list[TextInput]()
        for number, line, missing in zip(numbers, tokens, removed, strict=True):
            text = fillable.texts[number]
            replacements = {int(unit): spelled[line[unit]] for unit in np.flatnonzero(line >= 0)}
            filled.append(rewrite(text, ~missing[: len(text.units)], replacements))
        return filled


@dataclass(frozen=True, eq=False)
class FillableTexts:
    """B inputs divided into words, as a filler reads them: read once, filled in as often as needed."""

    inputs: Sequence[EncodedText]  # as the classifier divides them
    texts: Sequence[EncodedText]  # divided into words by the filler's tokenizer
    rows: FillerRows

    @cached_property
    def numbers(self) -> dict[int, int]:
        """Identity of an input -> its number."""
        return {id(encoded): number for number, encoded in enumerate(self.inputs)}

    @cached_property
    def units_are_words(self) -> list[bool]:
        """Whether the classifier divides a text into the same words as the filler."""
        pairs = zip(self.inputs, self.texts, strict=True)
        return [_places(encoded.units) == _places(text.units) for encoded, text in pairs]


def _with_dropped_texts(encoded: EncodedText) -> EncodedText:
    """The words of a text and of its pair, also where the tokenizer drops one of the two completely."""
    texts = [encoded.source.text] if encoded.source.pair is None else [encoded.source.text, encoded.source.pair]
    present = {unit.text_index for unit in encoded.units}
    dropped = [
        Unit(text[start:end], start, end, index)
        for index, text in enumerate(texts)
        if index not in present
        for start, end in word_extents(text)
    ]
    units = sorted([*encoded.units, *dropped], key=lambda unit: unit.text_index)
    return replace(encoded, units=tuple(units)) if dropped else encoded


def _places(units: Sequence[Unit]) -> list[tuple[int, int, int]]:
    return [(unit.text_index, unit.start, unit.end) for unit in units]


def _overlapping(units: Sequence[Unit], removed: np.ndarray, words: Sequence[Unit]) -> np.ndarray:
    """(words,) bool: words that share a character with a removed unit; removed: (units,) bool."""
    overlaps = np.zeros(len(words), dtype=bool)
    for text_index in (0, 1):
        spans = [(unit.start, unit.end) for unit, is_removed in zip(units, removed, strict=True)
                 if is_removed and unit.text_index == text_index]  # fmt: skip
        numbers = [number for number, word in enumerate(words) if word.text_index == text_index]
        if not spans or not numbers:
            continue
        starts, ends = np.array([words[number].start for number in numbers]), [words[number].end for number in numbers]
        edges = np.zeros(len(numbers) + 1, dtype=np.int64)
        first = np.searchsorted(ends, [start for start, _ in spans], side="right")
        last = np.searchsorted(starts, [end for _, end in spans], side="left")
        np.add.at(edges, first, 1)
        np.add.at(edges, np.maximum(last, first), -1)
        overlaps[numbers] = np.cumsum(edges[:-1]) > 0
    return overlaps
