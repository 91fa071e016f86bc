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
from rationales.evaluation.rewriting import rewritten
from rationales.models.batch import pack
from rationales.models.loading import check_folder, hub_reachable, load_error
from rationales.models.memory import token_budget
from rationales.models.state import frozen
from rationales.models.tokens import Encoded, TextInput, TokenRow, encode

SHORTEST, USUAL = 8, 512  # tokens of a segment


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
        told = (getattr(self.tokenizer, "model_max_length", None), positions and positions - sum(used[:1]), USUAL)
        return max(SHORTEST, int(min(limit for limit in told if limit)))

    def fill(self, inputs: Sequence[Encoded], kept: Sequence[np.ndarray]) -> list[TextInput]:
        """Each text with the words that are not kept replaced by likely ones."""
        read: dict[int, Encoded] = {}
        removed: list[np.ndarray] = []
        for one, chosen in zip(inputs, kept, strict=True):
            if id(one) not in read:
                read[id(one)] = encode(one.source, self.tokenizer, "word", self.limit, 0)
            removed.append(_removed(one, chosen, read[id(one)]))
        own = [read[id(one)] for one in inputs]
        words = self._words(own, removed)
        return [rewritten(one, ~gone, said) for one, gone, said in zip(own, removed, words, strict=True)]

    def _words(self, inputs: Sequence[Encoded], removed: Sequence[np.ndarray]) -> list[dict[int, str]]:
        """For each input the likely word in the place of each removed unit."""
        masked = [(number, row) for number, one in enumerate(inputs) for row in one.rows]
        hidden = [_hidden(row, removed[number]) for number, row in masked]
        wanted = [place for place, marks in enumerate(hidden) if marks.any()]
        found: list[dict[int, str]] = [{} for _ in inputs]
        for place, ids in self._predicted([masked[place][1] for place in wanted], [hidden[place] for place in wanted]):
            number, row = masked[wanted[place]]
            owner = np.asarray(row.owner)
            for unit in np.unique(owner[hidden[wanted[place]]]).tolist():
                tokens = ids[owner == unit].tolist()
                text = self.tokenizer.decode(tokens, clean_up_tokenization_spaces=False).strip()
                found[number].setdefault(row.units[unit], text)
        return found

    def _predicted(self, rows: Sequence[TokenRow], hidden: Sequence[np.ndarray]) -> Iterator[tuple[int, np.ndarray]]:
        """The token ids of each row with the hidden ones replaced by the likeliest."""
        if not rows:
            return
        device = next(self.module.parameters()).device
        lengths = [len(row.ids) for row in rows]
        budget = max(token_budget(getattr(self.module, "config", None), max(lengths), device), max(lengths))
        never = torch.tensor(self.tokenizer.all_special_ids, device=device)
        pad = self.tokenizer.pad_token_id or 0
        with frozen(self.module), torch.no_grad():
            for group in pack(lengths, budget):
                width = max(lengths[place] for place in group)
                ids = torch.full((len(group), width), pad, dtype=torch.long)
                attention = torch.zeros_like(ids)
                marks = torch.zeros_like(ids, dtype=torch.bool)
                types = torch.zeros_like(ids)
                for line, place in enumerate(group):
                    size = lengths[place]
                    ids[line, :size] = torch.tensor(rows[place].ids)
                    attention[line, :size] = 1
                    marks[line, :size] = torch.from_numpy(hidden[place])
                    types[line, :size] = torch.tensor(rows[place].types or [0] * size)
                more = {"token_type_ids": types.to(device)} if rows[group[0]].types is not None else {}
                given = torch.where(marks, int(self.tokenizer.mask_token_id), ids).to(device)
                output: Any = self.module(input_ids=given, attention_mask=attention.to(device), **more)
                logits: Tensor = getattr(output, "logits", output)
                chosen = logits[marks.to(device)].index_fill(1, never, -torch.inf).argmax(-1)
                ids[marks] = chosen.cpu()
                for line, place in enumerate(group):
                    yield place, ids[line, : lengths[place]].numpy()


def filler(source: str | os.PathLike[str] | Filler | tuple[nn.Module, Any] | None) -> Filler | None:
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


def _hidden(row: TokenRow, removed: np.ndarray) -> np.ndarray:
    """(tokens,) bool: tokens of removed units; removed: (units,) bool."""
    own = np.append(removed[np.asarray(row.units, dtype=np.int64)], False)  # the last for special tokens
    marks: np.ndarray = own[np.asarray(row.owner)]
    return marks


def _removed(one: Encoded, kept: np.ndarray, other: Encoded) -> np.ndarray:
    """(other's units,) bool: units of another tokenizer's that overlap a unit which is not kept."""
    gone = np.zeros(len(other.units), dtype=bool)
    for part in (0, 1):
        mine = [number for number, unit in enumerate(one.units) if unit.part == part and not kept[number]]
        theirs = [number for number, unit in enumerate(other.units) if unit.part == part]
        if not mine or not theirs:
            continue
        starts = np.array([other.units[number].start for number in theirs])
        ends = np.array([other.units[number].end for number in theirs])
        edges = np.zeros(len(theirs) + 1, dtype=np.int64)
        first = np.searchsorted(ends, [one.units[number].start for number in mine], side="right")
        last = np.searchsorted(starts, [one.units[number].end for number in mine], side="left")
        np.add.at(edges, first, 1)
        np.add.at(edges, np.maximum(last, first), -1)
        gone[theirs] = np.cumsum(edges[:-1]) > 0
    return gone
