"""Raw attention: how much the token that the classifier reads attends to each token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from rationales.errors import OptionError
from rationales.methods.attention.attention_method import AttentionMethod
from rationales.methods.attention.trace import EncoderTrace
from rationales.models.batch import Batch
from rationales.models.batch.rows import Block
from rationales.options import option


@dataclass(frozen=True)
class RawAttention(AttentionMethod):
    """Attention weights of the first token in one layer, averaged over its heads."""

    name: ClassVar[str] = "raw-attention"
    summary: ClassVar[str] = "attention of the classifier's token to each token in one layer; the same for all classes"

    layer: int = option(-1, "layer whose attention is read: 0 is the first, -1 the last")

    def token_scores(self, trace: EncoderTrace, batch: Batch, block: Block, target: Tensor) -> Tensor:
        count = len(trace.layers)
        if not -count <= self.layer < count:
            raise OptionError(
                f"raw-attention: the encoder has {count} layers, 0 to {count - 1}; there is no {self.layer}"
            )
        return trace.layers[self.layer].attention[:, :, : trace.encoder.read_tokens].mean((1, 2))
