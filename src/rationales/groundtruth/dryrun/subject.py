"""The networks that are put to the test: ours, trained from scratch on a CPU in minutes, or the user's own."""

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
from rationales.groundtruth.explainable import picture_model, word_model
from rationales.groundtruth.folds import Fold, TextFold, picture_fold
from rationales.groundtruth.networks.recurrent import AttentiveReader
from rationales.groundtruth.networks.resnet import resnet34, small_resnet
from rationales.groundtruth.networks.transformer import TextTransformer
from rationales.groundtruth.networks.vit import VisionTransformer
from rationales.groundtruth.networks.vocabulary import word_tokenizer
from rationales.models.model import Model
from rationales.models.text import TextModel

Factory = Callable[[int], Any]  # the number of labels -> a module, for texts (module, tokenizer)

NETWORKS = {"image": ("small-resnet", "resnet34", "small-vit"), "text": ("transformer", "bilstm")}  # first: default
RARE = 2  # words that occur less often are unknown words, so that a network learns that these say nothing
WIDTH = 64  # numbers a word of the networks for texts; what a CPU trains in a minute


@dataclass(frozen=True, eq=False)
class Subject:
    """A network before training, and how examples become what it reads."""

    module: nn.Module
    labels: tuple[str, ...]
    name: str
    size: int  # pixels a side of its pictures
    tokenizer: Any = None  # of a network for texts
    baseline: str | None = None  # what methods replace a word by; None: the first that the tokenizer has

    def fold(self, examples: Sequence[Example]) -> Fold:
        """Examples as tensors."""
        if self.tokenizer is None:
            return picture_fold(examples, self.labels)
        return token_fold(examples, self.labels, self.tokenizer, self._texts().limit)

    def explainable(self) -> Model:
        """The network as it is now, ready for any method."""
        return (
            picture_model(self.module, self.size, self.labels, self.name) if self.tokenizer is None else self._texts()
        )

    def check(self, example: Example) -> None:
        """Raise an error unless the network reads an example and answers with one number for each label."""
        fold, index = self.fold([example]), torch.zeros(1, dtype=torch.long)
        self.module.eval()
        try:
            with torch.no_grad():
                found = fold.logits(self.module, index)
        except (RuntimeError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise ModelError(f"{self.name} cannot read an example: {error}") from error
        if found.shape[-1] != len(self.labels):
            raise ModelError(f"{self.name} gives {found.shape[-1]} logits, {len(self.labels)} labels were asked for")

    def _texts(self) -> TextModel:
        return word_model(self.module, self.tokenizer, self.name, self.baseline)


def subject(
    kind: str, wanted: str | Factory | None, labels: Sequence[str], size: int, texts: Callable[[], Iterable[str]]
) -> Subject:
    """A network by name, or by a factory; `texts` gives those that a vocabulary is made of."""
    named = tuple(labels)
    if wanted is None or isinstance(wanted, str):
        name = wanted or NETWORKS[kind][0]
        if name not in NETWORKS[kind]:
            raise OptionError(f"there is no network {name!r} here; there are: {', '.join(NETWORKS[kind])}")
        if kind == "image":
            return Subject(_picture_network(name, len(named), size), named, name, size)
        tokenizer = word_tokenizer(texts(), least=RARE)
        return Subject(_text_network(name, len(tokenizer), named), named, name, size, tokenizer, "unk")
    name = getattr(wanted, "__qualname__", type(wanted).__name__)
    try:
        made = wanted(len(named))
    except Exception as error:  # it is the user's own code, and may raise anything
        raise ModelError(f"the model factory {name} failed: {type(error).__name__}: {error}") from error
    if kind == "image":
        if not isinstance(made, nn.Module):
            raise ModelError(f"{name} must give an nn.Module for pictures, not {type(made).__name__}")
        return Subject(made, named, type(made).__name__, size)
    if not (isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], nn.Module) and callable(made[1])):
        raise ModelError(f"{name} must give an nn.Module and its tokenizer for texts, not {type(made).__name__}")
    return Subject(made[0], named, type(made[0]).__name__, size, made[1])


def load_factory(address: str) -> Factory:
    """The function that `package.module:function` names; modules in the current folder are found as well."""
    where, colon, name = address.partition(":")
    if not colon or not where or not name:
        raise OptionError(f"a model factory is package.module:function, not {address!r}")
    here = str(Path.cwd())
    added = here not in sys.path
    if added:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(where)
    except Exception as error:  # it is the user's own code, and may raise anything
        raise ModelError(f"cannot import {where}: {type(error).__name__}: {error}") from error
    finally:
        if added:
            sys.path.remove(here)
    found: Any = getattr(module, name, None)
    if not callable(found):
        raise ModelError(f"{where} has no function {name!r} that could make a model")
    factory: Factory = found
    return factory


def token_fold(examples: Sequence[Example], labels: Sequence[str], tokenizer: Any, limit: int) -> TextFold:
    """Texts as tokens, with whatever special tokens the tokenizer adds: as the explained model reads them."""
    made = tokenizer([one.text for one in examples], verbose=False)["input_ids"]
    lengths = torch.tensor([len(row) for row in made])
    longest = int(lengths.max())
    if longest > limit:
        name = examples[int(lengths.argmax())].name
        raise DataError(f"{name} has {longest} tokens, the model takes {limit}; cut texts after fewer words")
    if int(lengths.min()) < 1:
        raise DataError(f"{examples[int(lengths.argmin())].name} has no word that the tokenizer knows of; leave it out")
    filler = getattr(tokenizer, "pad_token_id", None)
    ids = torch.full((len(made), longest), filler if isinstance(filler, int) else 0)
    for row, own in enumerate(made):
        ids[row, : len(own)] = torch.tensor(own)
    return TextFold(torch.tensor([labels.index(str(one.label)) for one in examples]), ids, lengths)


def _picture_network(name: str, classes: int, size: int) -> nn.Module:
    if name == "small-vit":
        return VisionTransformer(classes, size)
    return small_resnet(classes) if name == "small-resnet" else resnet34(classes)


def _text_network(name: str, vocabulary: int, labels: Sequence[str]) -> nn.Module:
    if name == "bilstm":
        return AttentiveReader(vocabulary, labels, WIDTH, WIDTH)
    return TextTransformer(vocabulary, labels, WIDTH)
