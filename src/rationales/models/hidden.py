"""What a text classifier makes of its words on the way: the hidden states of its layers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from rationales.models.rows import Block
from rationales.models.text_batch import TextBatch


@dataclass(frozen=True, eq=False)
class Insight:
    """What the model reads in a block of R rows of T tokens, what it makes of it, and what it says."""

    words: Tensor  # (R, T, hidden) word embeddings
    states: tuple[Tensor, ...]  # (R, T, hidden') each: what its layers give out, one after the other
    logits: Tensor  # (R, classes)


def insight(batch: TextBatch, block: Block) -> Insight:
    """One pass over the rows of a block as they are. A model whose layers cannot be told has no states."""
    seen: list[Tensor] = []
    with torch.no_grad(), _watched(batch.networks[block.view].module, seen):
        logits = batch.forward(block.piece(1), batch.ones()[block.row], None)
    words = batch.embedded(block.row)
    rows, tokens = words.shape[:2]
    alike = len({one.shape[-1] for one in seen}) == 1 and all(len(one) == rows for one in seen)
    whole = alike and all(one.shape[1] >= tokens for one in seen)  # some models fill rows up to a round length
    return Insight(words, tuple(one[:, :tokens].to(words) for one in seen) if whole else (), logits)


@contextmanager
def _watched(module: nn.Module, seen: list[Tensor]) -> Iterator[None]:
    """Inside the block, what each layer gives out is noted in `seen`.

    Layers stand in a ModuleList. Hooks of our own: asking a Hugging Face model for its hidden states leaves hooks
    behind that it never takes off again.
    """

    def note(_module: nn.Module, _arguments: Any, output: Any) -> None:
        first = output[0] if isinstance(output, tuple) else output
        if isinstance(first, Tensor) and first.dim() == 3:
            seen.append(first)

    with ExitStack() as stack:
        for layer in _layers(module):
            stack.callback(layer.register_forward_hook(note).remove)
        yield


def _layers(module: nn.Module) -> Iterator[nn.Module]:
    """The members of every ModuleList that does not itself lie in one."""
    for part in module.children():
        if isinstance(part, nn.ModuleList):
            yield from part
        else:
            yield from _layers(part)
