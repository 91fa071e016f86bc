"""The hidden states of a text classifier's layers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from rationales.models.batch.rows import Block
from rationales.models.text.batch import TextBatch


@dataclass(frozen=True, eq=False)
class HiddenStates:
    """Word embeddings, hidden states and logits of a block of R rows of T tokens."""

    words: Tensor  # (R, T, hidden) word embeddings
    states: tuple[Tensor, ...]  # (R, T, hidden') each: the outputs of the layers, in order
    logits: Tensor  # (R, classes)


def hidden_states(batch: TextBatch, block: Block) -> HiddenStates:
    """A forward pass of the rows of a block; `states` is empty if the layers cannot be identified."""
    layer_outputs: list[Tensor] = []
    with torch.no_grad(), _layer_outputs_recorded(batch.networks[block.view].module, layer_outputs):
        logits = batch.forward(block.piece(1), batch.ones()[block.row], None)
    words = batch.input_embeddings(block.row)
    rows, tokens = words.shape[:2]
    equal_width = len({output.shape[-1] for output in layer_outputs}) == 1
    # some models pad further
    complete = all(len(output) == rows and output.shape[1] >= tokens for output in layer_outputs)
    states = tuple(output[:, :tokens].to(words) for output in layer_outputs) if equal_width and complete else ()
    return HiddenStates(words, states, logits)


@contextmanager
def _layer_outputs_recorded(module: nn.Module, layer_outputs: list[Tensor]) -> Iterator[None]:
    """Inside the block, the output of each layer in a ModuleList is appended to `layer_outputs`.

    With hooks of its own: `output_hidden_states=True` leaves hooks on Hugging Face models that are never removed.
    """

    def note(_module: nn.Module, _arguments: Any, output: Any) -> None:
        first = output[0] if isinstance(output, tuple) else output
        if isinstance(first, Tensor) and first.dim() == 3:
            layer_outputs.append(first)

    with ExitStack() as stack:
        for layer in _layers(module):
            stack.callback(layer.register_forward_hook(note).remove)
        yield


def _layers(module: nn.Module) -> Iterator[nn.Module]:
    """The members of every outermost ModuleList."""
    for submodule in module.children():
        if isinstance(submodule, nn.ModuleList):
            yield from submodule
        else:
            yield from _layers(submodule)
