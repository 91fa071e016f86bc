"""Rows of prompts as a Batch; quantised models are recognised by their backward pass."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakSet

import torch
from torch import nn

from rationales.errors import ModelError
from rationales.models.batch import Piece
from rationales.models.batch.batch import NO_GRADIENTS
from rationales.models.text.batch import TextBatch

_differentiable: WeakSet[nn.Module] = WeakSet()  # networks whose backward pass was tried


@dataclass(eq=False)
class PromptBatch(TextBatch):
    """Rows of tokens behind a shared prefix."""

    def check_gradients(self) -> None:
        """Raise a ModelError unless a backward pass reaches the keep of the shortest row; a network is tried once.

        Integer kernels record a graph, and fail only when it is used.
        """
        network = self.networks[0].module
        if network in _differentiable:
            return
        row = min(range(len(self.lengths)), key=lambda index: self.lengths[index])
        index = torch.tensor([row], device=self.device)
        piece = Piece(index, index, int(self.rows.view[row]), self.lengths[row], full=True)
        with torch.enable_grad():
            keep = self.ones()[index].requires_grad_()
            try:
                logits = self.forward(piece, keep, None)
                gradient = torch.autograd.grad(logits.sum(), keep)[0] if logits.requires_grad else None
            except torch.OutOfMemoryError:
                raise
            except RuntimeError as error:  # the model ran before without gradients, so these are the cause
                raise ModelError(f"{NO_GRADIENTS} ({error})") from error
        if gradient is None:
            raise ModelError(NO_GRADIENTS)
        _differentiable.add(network)
