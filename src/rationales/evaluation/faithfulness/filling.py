"""Removed words filled in by a masked language model, all of an input's at once (Deletion-BERT, Kim et al. 2020)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rationales.errors import ModelError, OptionError
from rationales.models.batch import pack
from rationales.models.batch.memory import token_budget
from rationales.models.batch.temporary_state import frozen
from rationales.models.pretrained import check_folder, hub_reachable, load_error
from rationales.models.text.sources import rewrite
from rationales.models.text.tokens import EncodedText, TextInput, TokenRow, encode

MIN_TOKENS, DEFAULT_TOKENS = 8, 512  # tokens of a segment


@dataclass(frozen=True, eq=False)
class Filler:
    """A masked language model with its own tokenizer, which need not be the classifier's.

    All tokens of the removed words are masked together and each becomes the likeliest ordinary token; what stays is
    seen unmasked. A word keeps its number of tokens.
    """

    module: nn.Module
    tokenizer: Any
    name: str

    def __post_init__(self) -> None:
        if not isinstance(getattr(self.tokenizer, "mask_token_id", None), int):
            raise ModelError(f"the tokenizer of {self.name} has no mask token; give a masked language model")

    @property
    def limit(self) -> int:
        """Tokens that the model takes at once."""
        positions = getattr(getattr(self.module, "config", None), "max_position_embeddings", None)
        # the RoBERTa family counts positions from padding_idx + 1
        used = [table.padding_idx + 1 for name, table in self.module.named_modules()
                if isinstance(table, nn.Embedding) and name.endswith("position_embeddings")
                and table.padding_idx is not None]  # fmt: skip
        limits = (
            getattr(self.tokenizer, "model_max_length", None),
            positions and positions - sum(used[:1]),
            DEFAULT_TOKENS,
        )
        return max(MIN_TOKENS, int(min(limit for limit in limits if limit)))

    def fill(self, inputs: Sequence[EncodedText], kept: Sequence[np.ndarray]) -> list[TextInput]:
        """Each text with the words that are not kept replaced by likely ones."""
        encoded_by_id: dict[int, EncodedText] = {}
        removed: list[np.ndarray] = []
        for encoded, kept_units in zip(inputs, kept, strict=True):
            if id(encoded) not in encoded_by_id:
                encoded_by_id[id(encoded)] = encode(encoded.source, self.tokenizer, "word", self.limit, 0)
            removed.append(_removed_units(encoded, kept_units, encoded_by_id[id(encoded)]))
        encodings = [encoded_by_id[id(encoded)] for encoded in inputs]
        words = self._words(encodings, removed)
        return [
            rewrite(encoded, ~removed_units, replacements)
            for encoded, removed_units, replacements in zip(encodings, removed, words, strict=True)
        ]

    def _words(self, inputs: Sequence[EncodedText], removed: Sequence[np.ndarray]) -> list[dict[int, str]]:
        """For each input the likely word in the place of each removed unit."""
        numbered_rows = [(number, row) for number, encoded in enumerate(inputs) for row in encoded.rows]
        masked = [_masked_tokens(row, removed[number]) for number, row in numbered_rows]
        rows_to_fill = [position for position, marks in enumerate(masked) if marks.any()]
        words: list[dict[int, str]] = [{} for _ in inputs]
        predicted = self._predicted([numbered_rows[n][1] for n in rows_to_fill], [masked[n] for n in rows_to_fill])
        for position, ids in predicted:
            number, row = numbered_rows[rows_to_fill[position]]
            owner = np.asarray(row.owner)
            for unit in np.unique(owner[masked[rows_to_fill[position]]]).tolist():
                tokens = ids[owner == unit].tolist()
                text = self.tokenizer.decode(tokens, clean_up_tokenization_spaces=False).strip()
                words[number].setdefault(row.units[unit], text)
        return words

    def _predicted(self, rows: Sequence[TokenRow], masked: Sequence[np.ndarray]) -> Iterator[tuple[int, np.ndarray]]:
        """The token ids of each row with the masked ones replaced by the likeliest."""
        if not rows:
            return
        device = next(self.module.parameters()).device
        lengths = [len(row.ids) for row in rows]
        budget = max(token_budget(getattr(self.module, "config", None), max(lengths), device), max(lengths))
        special_ids = torch.tensor(self.tokenizer.all_special_ids, device=device)
        pad = self.tokenizer.pad_token_id or 0
        with frozen(self.module), torch.no_grad():
            for group in pack(lengths, budget):
                width = max(lengths[position] for position in group)
                ids = torch.full((len(group), width), pad, dtype=torch.long)
                attention = torch.zeros_like(ids)
                marks = torch.zeros_like(ids, dtype=torch.bool)
                types = torch.zeros_like(ids)
                for line, position in enumerate(group):
                    size = lengths[position]
                    ids[line, :size] = torch.tensor(rows[position].ids)
                    attention[line, :size] = 1
                    marks[line, :size] = torch.from_numpy(masked[position])
                    types[line, :size] = torch.tensor(rows[position].types or [0] * size)
                token_types = {"token_type_ids": types.to(device)} if rows[group[0]].types is not None else {}
                masked_ids = torch.where(marks, int(self.tokenizer.mask_token_id), ids).to(device)
                output: Any = self.module(input_ids=masked_ids, attention_mask=attention.to(device), **token_types)
                logits: Tensor = getattr(output, "logits", output)
                likeliest = logits[marks.to(device)].index_fill(1, special_ids, -torch.inf).argmax(-1)
                ids[marks] = likeliest.cpu()
                for line, position in enumerate(group):
                    yield position, ids[line, : lengths[position]].numpy()


def load_filler(source: str | os.PathLike[str] | Filler | tuple[nn.Module, Any] | None) -> Filler | None:
    """A masked language model from an id, a folder, or a pair (module, tokenizer)."""
    if source is None or isinstance(source, Filler):
        return source
    if isinstance(source, tuple):
        return Filler(source[0], source[1], type(source[0]).__name__)
    if not isinstance(source, (str, os.PathLike)):
        raise OptionError(f"a masked language model is an id, a folder or (module, tokenizer), not {source!r}")
    import transformers

    where, folder = str(source), Path(source)
    if folder.is_dir():
        check_folder(folder)
    options = {"local_files_only": folder.is_dir() or not hub_reachable()}
    try:
        module, report = transformers.AutoModelForMaskedLM.from_pretrained(
            where, use_safetensors=True, output_loading_info=True, **options
        )
        tokenizer = transformers.AutoTokenizer.from_pretrained(where, **options)
    except Exception as error:  # transformers raises many kinds; each means that there is nothing to fill words in with
        raise ModelError(load_error(where, error, remote=False)) from error
    if missing := sorted(report["missing_keys"]):
        raise ModelError(f"{where} is no masked language model: it lacks the weights {missing[0]}")
    return Filler(module, tokenizer, where)


def _masked_tokens(row: TokenRow, removed: np.ndarray) -> np.ndarray:
    """(tokens,) bool: tokens of removed units; removed: (units,) bool."""
    unit_removed = np.append(removed[np.asarray(row.units, dtype=np.int64)], False)  # the last for special tokens
    marks: np.ndarray = unit_removed[np.asarray(row.owner)]
    return marks


def _removed_units(encoded: EncodedText, kept: np.ndarray, filler_encoded: EncodedText) -> np.ndarray:
    """(other's units,) bool: units of another tokenizer's that overlap a unit which is not kept."""
    removed = np.zeros(len(filler_encoded.units), dtype=bool)
    for text_index in (0, 1):
        removed_here = [
            number for number, unit in enumerate(encoded.units) if unit.text_index == text_index and not kept[number]
        ]
        filler_units = [number for number, unit in enumerate(filler_encoded.units) if unit.text_index == text_index]
        if not removed_here or not filler_units:
            continue
        starts = np.array([filler_encoded.units[number].start for number in filler_units])
        ends = np.array([filler_encoded.units[number].end for number in filler_units])
        edges = np.zeros(len(filler_units) + 1, dtype=np.int64)
        first = np.searchsorted(ends, [encoded.units[number].start for number in removed_here], side="right")
        last = np.searchsorted(starts, [encoded.units[number].end for number in removed_here], side="left")
        np.add.at(edges, first, 1)
        np.add.at(edges, np.maximum(last, first), -1)
        removed[filler_units] = np.cumsum(edges[:-1]) > 0
    return removed
