"""Masked words of many texts through a masked language model: which rows it reads, and its likelihoods."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from rationales.errors import ModelError
from rationales.models.batch import pack
from rationales.models.batch.execution import available_bytes, frozen, limited_threads, token_budget, weight_count
from rationales.models.fast.precision import copy_in_dtype, forward_dtype
from rationales.models.text.edits import EditedRows, Insertions, edit_rows
from rationales.models.text.filling.filler_rows import FillerRows, read_texts
from rationales.models.text.filling.whole_words import FillerVocabulary, read_vocabulary
from rationales.models.text.tokens import EncodedText

if TYPE_CHECKING:
    from typing_extensions import Self

MIN_TOKENS, DEFAULT_TOKENS = 8, 512  # tokens of a segment
LOGITS_SHARE = 0.1  # of the available memory: logits of the masked words that are predicted together, beside copies
CPU_LOGITS_BYTES = 48 * 2**20  # larger blocks are mapped anew for every use, which takes as long as to fill them
EDITS_AT_ONCE = 2**22  # tokens of masked rows that are prepared together

Reduce = Callable[[Tensor, Tensor], Tensor]  # logits (i, V), allowed (i, V) bool -> (i, ...)


class MaskedLanguageModel:
    """A masked language model with its tokenizer; it runs on the device of its module."""

    def __init__(self, module: nn.Module, tokenizer: Any, name: str) -> None:
        if not isinstance(getattr(tokenizer, "mask_token_id", None), int):
            raise ModelError(f"the tokenizer of {name} has no mask token; give a masked language model")
        self.module, self.tokenizer, self.name = module, tokenizer, name

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def __deepcopy__(self, _memo: Any) -> MaskedLanguageModel:
        return self  # options are copied, weights are not

    @property
    def device(self) -> torch.device:
        """Device of the module."""
        return next(self.module.parameters()).device

    def in_half_precision(self) -> Self:
        """This model with a copy of its network in half precision; itself on a device where that is no faster."""
        dtype = forward_dtype(self.device)
        if dtype is None or next(self.module.parameters()).dtype == dtype:
            return self
        (network,) = copy_in_dtype([self.module], dtype)
        return type(self)(network, self.tokenizer, self.name)

    @cached_property
    def vocabulary(self) -> FillerVocabulary:
        """The whole words among its tokens."""
        return read_vocabulary(self.tokenizer)

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

    def read(self, encoded: Sequence[EncodedText]) -> FillerRows:
        """These texts as rows of the filler's tokens, assigned to the texts' units, which must be words."""
        return read_texts(encoded, self.tokenizer, self.limit, self.device)

    def predict(
        self,
        rows: FillerRows,
        row: Tensor,
        masked: Tensor,
        filled: Tensor | None,
        reduce: Reduce,
        predicted: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The edit (I,), word (I,) and `reduce`d logits (I, ...) of every predicted word.

        row: (E,) rows of the filler; masked: (E, n) bool words that are masked; filled: (E, n) tokens that stand in
        their place instead of the mask, -1: none; predicted: (E, n) bool, by default all that are masked.
        """
        edit, unit = torch.nonzero(masked, as_tuple=True)
        mask_id = int(self.tokenizer.mask_token_id)
        ids = torch.full_like(edit, mask_id) if filled is None else filled[edit, unit]
        ids = torch.where(ids < 0, mask_id, ids)
        insertions = Insertions(edit, unit, torch.zeros_like(edit), ids)
        chosen = torch.ones_like(edit, dtype=torch.bool) if predicted is None else predicted[edit, unit]
        edits_at_once = max(1, EDITS_AT_ONCE // rows.table.ids.shape[1])
        order, values = [edit[:0]], list[Tensor]()
        with frozen(self.module), torch.no_grad():
            for first in range(0, len(row), edits_at_once):
                last = min(first + edits_at_once, len(row))
                inside = torch.nonzero((edit >= first) & (edit < last)).flatten()
                edited = edit_rows(rows.table, row[first:last], ~masked[first:last], insertions.between(first, last))
                visible = chosen[inside] & (edited.inserted_at >= 0)
                index, position = inside[visible], edited.inserted_at[visible]
                boundaries = rows.boundary[rows.input[row[edit[index]]], unit[index]]
                for member, logits in self._logits(edited, edit[index] - first, position):
                    allowed = self.vocabulary.to(logits.device, logits.shape[1])[boundaries[member]]
                    values.append(reduce(logits, allowed))
                    order.append(index[member])
        index = torch.cat(order)
        return edit[index], unit[index], _joined(values) if values else torch.zeros(0, 1, 2, device=row.device)

    def _logits(self, edited: EditedRows, edit: Tensor, position: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Indices (m,) among these tokens, in groups, and their logits (m, V); edit: (i,) in rising order."""
        if not len(edit):
            return
        count = torch.bincount(edit, minlength=len(edited.ids))
        rank = torch.arange(len(edit), device=edit.device) - (count.cumsum(0) - count)[edit]
        member = torch.full((len(edited.ids), int(count.max())), -1, device=edit.device)
        member[edit, rank] = torch.arange(len(edit), device=edit.device)
        needed = torch.nonzero(count).flatten()
        lengths, device = edited.lengths[needed].cpu().numpy(), edit.device
        longest = int(lengths.max())
        budget = max(token_budget(getattr(self.module, "config", None), longest, device), longest)
        logits_bytes = int(LOGITS_SHARE * available_bytes(device))
        if device.type == "cpu":
            logits_bytes = min(logits_bytes, CPU_LOGITS_BYTES)
        element = next(self.module.parameters()).element_size()
        masks = logits_bytes // (element * len(self.vocabulary.words)) // member.shape[1]
        work = weight_count(self.module) * int(lengths.sum())
        with limited_threads(work) if device.type == "cpu" else nullcontext():
            for packed_rows in pack(lengths, budget):
                for group in torch.split(needed[torch.tensor(packed_rows, device=device)], max(1, masks)):
                    size, members = int(edited.lengths[group].max()), member[group]
                    line, _ = torch.nonzero(members >= 0, as_tuple=True)  # (m,): rows of the group
                    chosen = members[members >= 0]
                    yield chosen, self._run(edited, group, size, line, position[chosen])

    def _run(self, edited: EditedRows, group: Tensor, size: int, line: Tensor, position: Tensor) -> Tensor:
        """(m, V): logits at these positions of these lines among the rows `group`, whose longest has `size` tokens."""
        attended = torch.arange(size, device=group.device) < edited.lengths[group][:, None]
        types = {} if edited.types is None or not self._takes_types else {"token_type_ids": edited.types[group, :size]}
        with _only_at(self.module, line, position) as selected:
            output: Any = self.module(input_ids=edited.ids[group, :size], attention_mask=attended.long(), **types)
        logits = getattr(output, "logits", output)
        if not isinstance(logits, Tensor) or logits.dim() != 3 or logits.shape[2] <= self.tokenizer.mask_token_id:
            shape = tuple(logits.shape) if isinstance(logits, Tensor) else type(output).__name__
            raise ModelError(
                f"{self.name} is no fill-mask model: its output is {shape}, not logits (texts, tokens, vocabulary) for"
                f" the {len(self.tokenizer)} tokens of its tokenizer"
            )
        return logits[0] if selected else logits[line, position]

    @cached_property
    def _takes_types(self) -> bool:
        return "token_type_ids" in inspect.signature(self.module.forward).parameters


@contextmanager
def _only_at(module: nn.Module, line: Tensor, position: Tensor) -> Iterator[list[bool]]:
    """Inside the block, the last layer of a masked language model computes logits of m tokens alone, as (1, m, V).

    The tokens stand at `position` (m,) of `line` (m,). Yields a list that is not empty if the last layer did so: a
    vocabulary is large, and most tokens are not masked.
    """
    selected: list[bool] = []

    def select(_module: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...] | None:
        hidden = arguments[0]
        if not isinstance(hidden, Tensor) or hidden.dim() != 3:
            return None
        selected.append(True)
        return (hidden[line, position][None], *arguments[1:])

    find_last_layer: Any = getattr(module, "get_output_embeddings", None)
    head = find_last_layer() if callable(find_last_layer) else None
    if not isinstance(head, nn.Linear):
        yield selected
        return
    handle = head.register_forward_pre_hook(select)
    try:
        yield selected
    finally:
        handle.remove()


def _joined(values: Sequence[Tensor]) -> Tensor:
    """(I, ...): groups of values one after the other, filled up with -inf to the longest second axis."""
    if values[0].dim() == 1:
        return torch.cat(list(values))
    longest = max(value.shape[1] for value in values)
    return torch.cat([pad(value, (0, 0, 0, longest - value.shape[1]), value=-torch.inf) for value in values])
