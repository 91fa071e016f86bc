"""A language model under test: tuned on the planted texts with a low-rank adapter, it classifies them by a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from rationales.data.example import Example
from rationales.errors import DataError
from rationales.groundtruth.dryrun.network_under_test import NetworkUnderTest
from rationales.groundtruth.encoded_examples import EncodedTexts, pad_rows
from rationales.models.catalogue import LANGUAGE_MODELS
from rationales.models.load import load
from rationales.models.prompt.loading import prompt_model
from rationales.models.prompt.lora import with_lora
from rationales.models.prompt.model import PromptModel, prompt_network
from rationales.models.prompt.template import PromptTemplate

TEMPLATE = "Text: {text}\nLabel:"


@dataclass(frozen=True, eq=False)
class TunedLanguageModel(NetworkUnderTest):
    """A language model whose adapter is trained; its label words are the labels of the planted data."""

    prompt: PromptModel | None = None  # always there; a field with a default has to follow the others

    def encode(self, examples: Sequence[Example]) -> EncodedTexts:
        """Texts as the rows of their prompts, behind the shared prefix."""
        model = self._text_model()
        rows = model.plain_rows([model.read(example.text, example.name) for example in examples])
        for example, segments in zip(examples, rows, strict=True):
            if len(segments) > 1:
                raise DataError(f"{example.name} does not fit into one prompt of {self.name}; use shorter texts")
        ids = [segments[0].ids for segments in rows]
        labels = torch.tensor([self.labels.index(str(example.label)) for example in examples])
        return EncodedTexts(labels, pad_rows(ids, model.filler), torch.tensor([len(row) for row in ids]))

    def _text_model(self) -> PromptModel:
        assert self.prompt is not None  # noqa: S101  # see the field
        return self.prompt


def is_language_model(name: str) -> bool:
    """Whether this names a language model: of the catalogue, or a folder with weights."""
    return name in LANGUAGE_MODELS or (Path(name) / "config.json").is_file()


def tuned_language_model(
    name: str, labels: Sequence[str], size: int, device: torch.device | None = None, rank: int = 8
) -> TunedLanguageModel:
    """The language model of this name, on this device or the CPU, with an adapter that has yet to be trained."""
    template = PromptTemplate(TEMPLATE)
    plain = load(name, labels=labels, template=template, device=device)
    if not isinstance(plain, PromptModel):
        raise DataError(f"{name} is no language model; name one of 'rationales models', or give --model-factory")
    module = with_lora(plain.language_model, rank)
    model = prompt_model(module, plain.tokenizer, name=name, labels=labels, template=template, baseline=plain.baseline)
    network = prompt_network(model)
    return TunedLanguageModel(network, tuple(labels), name, size, plain.tokenizer, plain.baseline, model)
