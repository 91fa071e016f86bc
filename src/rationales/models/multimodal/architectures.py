"""Image-text models of transformers: how their outputs become the logits of classes.

A class that is not in the list must return logits for (pixel_values, input_ids, attention_mask) by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from rationales.models.classes import Head

MATCH = ("no match", "match")


class PairScore(nn.Module):
    """CLIP as a classifier of pairs: one logit, how much better the text fits the image than the empty text does.

    exp(logit_scale) (cos(image, text) - cos(image, empty text)); a text that says nothing about the image gets 0.
    """

    empty_text: Tensor  # (1, projection), normalised

    def __init__(self, clip: nn.Module, tokenizer: Any) -> None:
        super().__init__()
        self.clip, self.config = clip, clip.config
        weight = next(clip.parameters())
        ids = torch.tensor([tokenizer("")["input_ids"]], device=weight.device)
        config: Any = clip.config
        side = int(config.vision_config.image_size)
        pixels = torch.zeros(1, 3, side, side, device=weight.device, dtype=weight.dtype)
        with torch.no_grad():
            output = clip(input_ids=ids, pixel_values=pixels, attention_mask=torch.ones_like(ids))
        self.register_buffer("empty_text", output.text_embeds, persistent=False)

    def get_input_embeddings(self) -> nn.Module:
        """The word embeddings."""
        encoder: Any = self.clip.text_model
        embedding: nn.Module = encoder.embeddings.token_embedding
        return embedding

    def forward(self, pixel_values: Tensor, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """(R, 1)."""
        output = self.clip(pixel_values=pixel_values, input_ids=input_ids, attention_mask=attention_mask)
        advantage = output.text_embeds - self.empty_text
        logit_scale: Any = self.clip.logit_scale
        logit: Tensor = (output.image_embeds * advantage).sum(-1, keepdim=True) * logit_scale.exp()
        return logit


class MatchingHead(nn.Module):
    """BLIP's head for image-text matching: (R, 2) logits, no match and match."""

    def __init__(self, blip: nn.Module, _tokenizer: Any) -> None:
        super().__init__()
        self.blip, self.config = blip, blip.config

    def get_input_embeddings(self) -> nn.Module:
        """The word embeddings."""
        encoder: Any = self.blip.text_encoder
        embedding: nn.Module = encoder.get_input_embeddings()
        return embedding

    def forward(self, pixel_values: Tensor, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """(R, 2)."""
        output = self.blip(pixel_values=pixel_values, input_ids=input_ids, attention_mask=attention_mask)
        scores: Tensor = output.itm_score
        return scores


@dataclass(frozen=True)
class PairArchitecture:
    """How a class of transformers becomes a classifier."""

    wrap: Callable[[nn.Module, Any], nn.Module]  # module and tokenizer -> module that returns logits
    head: Head
    labels: tuple[str, ...] | None = None  # None: those of its configuration


def _as_it_is(module: nn.Module, _tokenizer: Any) -> nn.Module:
    return module


ARCHITECTURES = {  # by the name of the class
    "CLIPModel": PairArchitecture(PairScore, Head.SIGMOID, MATCH),
    "BlipForImageTextRetrieval": PairArchitecture(MatchingHead, Head.SOFTMAX, MATCH),
    "ViltForQuestionAnswering": PairArchitecture(_as_it_is, Head.MULTI_LABEL),  # every answer has a score of its own
    "ViltForImagesAndTextClassification": PairArchitecture(_as_it_is, Head.SOFTMAX),
}
