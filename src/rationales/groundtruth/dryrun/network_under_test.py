"""The networks that a dry run trains: small ones that train on a CPU in minutes, or one of the user."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from rationales.data.example import Example
from rationales.errors import DataError, ModelError, OptionError
from rationales.groundtruth.encoded_examples import EncodedExamples, EncodedTexts, encode_images, pad_rows
from rationales.groundtruth.explainable import image_model, word_model
from rationales.groundtruth.networks.recurrent import AttentionLSTM
from rationales.groundtruth.networks.resnet import resnet34, small_resnet
from rationales.groundtruth.networks.stock_bert import small_bert
from rationales.groundtruth.networks.transformer import TextTransformer
from rationales.groundtruth.networks.vit import VisionTransformer
from rationales.groundtruth.networks.vocabulary import word_tokenizer
from rationales.models.model import Model
from rationales.models.text.model import TextModel

ModelFactory = Callable[[int], Any]  # the number of labels -> a module; for texts (module, tokenizer)

NETWORKS = {
    "image": ("small-resnet", "resnet34", "small-vit"),
    "text": ("transformer", "bilstm", "bert"),
}  # first: default
MIN_WORD_COUNT = 2  # rarer words are unknown words, so that a network learns that these carry no information
TEXT_WIDTH = 64  # width of the networks for texts, which train on a CPU in a minute


@dataclass(frozen=True, eq=False)
class NetworkUnderTest:
    """A network with everything that is needed to train and to explain it."""

    module: nn.Module
    labels: tuple[str, ...]
    name: str
    size: int  # pixels per side of its images
    tokenizer: Any = None  # of a network for texts
    baseline: str | None = None  # token that methods replace words by; None: the tokenizer's default

    def encode(self, examples: Sequence[Example]) -> EncodedExamples:
        """Encode examples as tensors."""
        if self.tokenizer is None:
            return encode_images(examples, self.labels)
        return encode_with_special_tokens(examples, self.labels, self.tokenizer, self._text_model().limit)

    def model(self) -> Model:
        """The network with its present weights as a model for `explain`."""
        if self.tokenizer is None:
            return image_model(self.module, self.size, self.labels, self.name)
        return self._text_model()

    def check(self, example: Example) -> None:
        """Raise an error unless the network reads an example and returns one logit for each label."""
        device = next(self.module.parameters(), torch.zeros(())).device
        encoded, index = self.encode([example]).to(device), torch.zeros(1, dtype=torch.long)
        self.module.eval()
        try:
            with torch.no_grad():
                logits = encoded.logits(self.module, index)
        except (RuntimeError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise ModelError(f"{self.name} cannot read an example: {error}") from error
        if logits.shape[-1] != len(self.labels):
            raise ModelError(f"{self.name} gives {logits.shape[-1]} logits, {len(self.labels)} labels were asked for")

    def _text_model(self) -> TextModel:
        return word_model(self.module, self.tokenizer, self.name, self.baseline)


def build_network(
    kind: str,
    network: str | ModelFactory | None,
    labels: Sequence[str],
    size: int,
    vocabulary_texts: Callable[[], Iterable[str]],
) -> NetworkUnderTest:
    """Build a network from its name or a factory; `vocabulary_texts` returns the texts of the vocabulary."""
    labels = tuple(labels)
    if network is None or isinstance(network, str):
        name = network or NETWORKS[kind][0]
        if name not in NETWORKS[kind]:
            raise OptionError(f"there is no network {name!r} here; there are: {', '.join(NETWORKS[kind])}")
        if kind == "image":
            return NetworkUnderTest(_image_network(name, len(labels), size), labels, name, size)
        tokenizer = word_tokenizer(vocabulary_texts(), min_count=MIN_WORD_COUNT)
        return NetworkUnderTest(_text_network(name, len(tokenizer), labels), labels, name, size, tokenizer, "unk")
    name = getattr(network, "__qualname__", type(network).__name__)
    try:
        built = network(len(labels))
    except Exception as error:  # the factory is user code and may raise anything
        raise ModelError(f"the model factory {name} failed: {type(error).__name__}: {error}") from error
    if kind == "image":
        if not isinstance(built, nn.Module):
            raise ModelError(f"{name} must return an nn.Module for images, not {type(built).__name__}")
        return NetworkUnderTest(built, labels, type(built).__name__, size)
    if not (isinstance(built, tuple) and len(built) == 2 and isinstance(built[0], nn.Module) and callable(built[1])):
        raise ModelError(f"{name} must return an nn.Module and its tokenizer for texts, not {type(built).__name__}")
    module, tokenizer = built
    return NetworkUnderTest(module, labels, type(module).__name__, size, tokenizer)


def load_factory(address: str) -> ModelFactory:
    """The function at `package.module:function`; modules in the current folder can be imported as well."""
    module_name, colon, function_name = address.partition(":")
    if not colon or not module_name or not function_name:
        raise OptionError(f"a model factory is package.module:function, not {address!r}")
    folder = str(Path.cwd())
    added = folder not in sys.path
    if added:
        sys.path.insert(0, folder)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # the module is user code and may raise anything
        raise ModelError(f"cannot import {module_name}: {type(error).__name__}: {error}") from error
    finally:
        if added:
            sys.path.remove(folder)
    factory: Any = getattr(module, function_name, None)
    if not callable(factory):
        raise ModelError(f"{module_name} has no function {function_name!r} that returns a model")
    typed_factory: ModelFactory = factory
    return typed_factory


def encode_with_special_tokens(
    examples: Sequence[Example], labels: Sequence[str], tokenizer: Any, limit: int
) -> EncodedTexts:
    """Encode texts with the special tokens of the tokenizer, exactly as the explained model reads them."""
    encoded = tokenizer([example.text for example in examples], verbose=False)["input_ids"]
    lengths = torch.tensor([len(row) for row in encoded])
    max_length = int(lengths.max())
    if max_length > limit:
        name = examples[int(lengths.argmax())].name
        raise DataError(f"{name} has {max_length} tokens, the model takes {limit}; cut texts after fewer words")
    if int(lengths.min()) < 1:
        raise DataError(f"the tokenizer returns no tokens for {examples[int(lengths.argmin())].name}; leave it out")
    padding_id = getattr(tokenizer, "pad_token_id", None)
    ids = pad_rows(encoded, padding_id if isinstance(padding_id, int) else 0)
    return EncodedTexts(torch.tensor([labels.index(str(example.label)) for example in examples]), ids, lengths)


def _image_network(name: str, n_classes: int, size: int) -> nn.Module:
    if name == "small-vit":
        return VisionTransformer(n_classes, size)
    return small_resnet(n_classes) if name == "small-resnet" else resnet34(n_classes)


def _text_network(name: str, vocabulary_size: int, labels: Sequence[str]) -> nn.Module:
    if name == "bilstm":
        return AttentionLSTM(vocabulary_size, labels, TEXT_WIDTH, TEXT_WIDTH)
    if name == "bert":
        return small_bert(vocabulary_size, labels, TEXT_WIDTH)
    return TextTransformer(vocabulary_size, labels, TEXT_WIDTH)
