"""Base class of the methods that look inside an encoder: one traced forward pass, and scores of tokens to units."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from rationales.errors import ModelError
from rationales.methods.attention.architectures import INSTEAD, Encoder, check_batch, find_encoder
from rationales.methods.attention.trace import EncoderTrace, trace_encoder
from rationales.methods.method import Attribution, Method, Progress
from rationales.models.batch import Batch
from rationales.models.batch.execution import full_precision_products
from rationales.models.batch.queries import to_rows
from rationales.models.batch.rows import Block
from rationales.models.text.batch import TextBatch


@dataclass(frozen=True)
class AttentionMethod(Method):
    """A method that scores the tokens of an encoder (or the patches of a vision transformer) from its inside."""

    needs: ClassVar[tuple[str, ...]] = ("attention",)
    uses_baselines: ClassVar[bool] = False
    class_specific: ClassVar[bool] = False
    adds_tokens: ClassVar[bool] = False  # a unit's score is the sum over its tokens; False: the mean
    norm_last_only: ClassVar[bool] = False  # defined for layers that end in a layer norm, as BERT's
    reads_weights: ClassVar[bool] = False  # of the layers, beside what goes through them
    reads_head: ClassVar[bool] = False  # the weights of the classifier, too

    @abstractmethod
    def token_scores(self, trace: EncoderTrace, batch: Batch, block: Block, target: Tensor) -> Tensor:
        """(R, T): a score for every token of the block's rows; `target` is (R,)."""

    def encoder(self, module: nn.Module) -> Encoder:
        """The encoder of a classifier; an error if the method cannot read it."""
        return find_encoder(self.name, module, self.reads_weights, self.reads_head)

    def trace(self, batch: Batch, block: Block) -> EncoderTrace:
        """A forward pass of the block's rows."""
        encoder = self.encoder(batch.modules[block.view])
        if self.norm_last_only and encoder.norm_first:
            kind = type(batch.modules[block.view]).__name__
            raise ModelError(
                f"{self.name} is defined for layers that end in a layer norm, and those of {kind} begin with it; use "
                "decompx, chefer or attention-rollout"
            )
        with torch.no_grad():
            return trace_encoder(self.name, batch, block, encoder, batch.input_embeddings(block.row))

    def weight(self, batch: Batch) -> int:
        """Memory that a row takes, in forward passes of it."""
        return 1

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        check_batch(self.name, batch)
        for module in batch.modules:  # refused before the first pass
            self.encoder(module)
        rows = batch.distinct

        def compute() -> Tensor:
            single = torch.promote_types(batch.dtype, torch.float32)
            scores = torch.zeros(rows, batch.size[1], device=batch.device, dtype=single)
            done = 0
            for block in batch.blocks(rows, self.weight(batch)):
                trace = self.trace(batch, block)
                with torch.no_grad():
                    tokens = self.token_scores(trace, batch, block, target[batch.rows.input[block.row]])
                    scores[block.row] = self._to_units(batch, block, tokens, trace.encoder.extra_tokens).to(single)
                done += len(block.row)
                if progress is not None:
                    progress(done / rows)
            return scores

        with full_precision_products():
            return Attribution(to_rows(batch, batch.fit(compute)))

    def _to_units(self, batch: Batch, block: Block, tokens: Tensor, extra_tokens: int) -> Tensor:
        """(R, T) -> (R, n): the sum or mean over a word's tokens; a patch's score, or its share, for every pixel."""
        if isinstance(batch, TextBatch):
            total = batch.to_units(tokens[..., None], "sum", block.row)
            if self.adds_tokens:
                return total
            count = batch.to_units(torch.ones_like(tokens)[..., None], "sum", block.row)
            return total / count.clamp(min=1)
        patches, (height, width) = tokens[:, extra_tokens:], batch.grid or (1, 1)
        side = round((height * width / patches.shape[1]) ** 0.5)
        shape = (height // side, width // side)
        if shape[0] * shape[1] != patches.shape[1]:
            raise ModelError(
                f"{self.name} cannot place {patches.shape[1]} patches on {height} x {width} pixels; {INSTEAD}"
            )
        image = interpolate(patches.reshape(-1, 1, *shape), size=(height, width), mode="nearest").flatten(1)
        return image * batch.rows.real[block.row] / (side * side if self.adds_tokens else 1)


def rollout(mixing: list[Tensor], read_tokens: int = 1) -> Tensor:
    """(R, T): how much of every token of the input reaches the first, by the product of the layers' (R, T, T).

    Where the classifier reads several tokens, the mean over these.
    """
    first = mixing[-1][:, :read_tokens]
    for layer in mixing[-2::-1]:
        first = first @ layer
    return first.mean(1)
