"""Maskers for tests: one that is not trained, for what must hold of any, and one that was, for seconds."""

from __future__ import annotations

import functools
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from families import CORPUS

import rationales
from methods.keyword import contrast_model, keyword_model
from rationales.masks.masker import Network, Shape
from rationales.masks.masker_file import Card, Masker
from rationales.masks.settings import ONE_MASK
from rationales.masks.train_masker import TrainSettings, train
from rationales.models.fingerprint import fingerprint
from rationales.models.tokens import TextInput

KEYWORDS = ("bridge", "joke")
QUICK = TrainSettings(steps=160, inputs=16, rate=1e-2, width=32, layers=1, heads=2, held=16, looks=2)
SPARSE = replace(ONE_MASK, sparsity=4.0)  # two words are all that is needed
_FOLDER = tempfile.TemporaryDirectory(prefix="maskers")


def sentences(count, seed=0, least=8, most=24, together=True):
    """Random words of the corpus; the keywords stand at random places, in half of the sentences.

    `together`: all of them or none; else each by itself in half of the sentences.
    """
    drawn = np.random.default_rng(seed)
    others = sorted({word.strip(".,;:!()").lower() for text in CORPUS for word in text.split()} - {*KEYWORDS, "3.14"})
    made = []
    for _ in range(count):
        words = list(drawn.choice(others, drawn.integers(least, most + 1)))
        for word in _present(drawn, together):
            words.insert(drawn.integers(len(words)), word)
        made.append(" ".join(words))
    return made


def _present(drawn, together):
    """The keywords of a sentence."""
    if together:
        return KEYWORDS if drawn.random() < 0.5 else ()
    return [word for word in KEYWORDS if drawn.random() < 0.5]


def batch_of(model, texts, seed=0):
    return model.batch(model.encode([TextInput(text) for text in texts]), seed)


def untrained(model, width=16, layers=1, heads=2):
    """A masker at random for any model: invariants need no good masks."""
    with model.borrowed():
        batch = batch_of(model, ["a soup"])
        shape = Shape.of(batch, width=width, layers=layers, heads=heads)
        with torch.random.fork_rng():
            torch.manual_seed(0)
            network = Network(shape).eval().requires_grad_(False)
            torch.nn.init.normal_(network.weight.weight, std=0.5)  # masks that differ from word to word
        card = Card(fingerprint(batch), model.name, model.baseline, model.unit, model.labels, ONE_MASK, {})
    return Masker(network, card)


def untrained_file(model):
    """The path of such a masker."""
    made = untrained(model)
    return str(made.save(Path(_FOLDER.name) / f"{made.card.fingerprint}.safetensors"))


@functools.cache
def keyword_masker():
    """A masker for the model that looks for the keywords, trained for seconds on sentences of the corpus' words."""
    model = rationales.load(*keyword_model(*KEYWORDS))
    return train(model, sentences(400), QUICK, SPARSE)


def keyword_file():
    """The path of that masker."""
    path = Path(_FOLDER.name) / "keyword.safetensors"
    return str(path if path.exists() else keyword_masker().save(path))


@functools.cache
def contrast_masker():
    """A masker for the model of three classes, trained on sentences with any of its two words."""
    model = rationales.load(*contrast_model())
    return train(model, sentences(400, together=False), replace(QUICK, others=0.5), SPARSE)


def contrast_file():
    """The path of that masker."""
    path = Path(_FOLDER.name) / "contrast.safetensors"
    return str(path if path.exists() else contrast_masker().save(path))
