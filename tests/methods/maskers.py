"""Maskers for tests: an untrained one, and two that are trained for a few seconds."""

from __future__ import annotations

import functools
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from families import CORPUS

import rationales
from methods.keyword import constant_logit_model, contrast_model, keyword_model
from rationales.masks.instant.masker_file import Masker, MaskerCard
from rationales.masks.instant.network import MaskerNetwork, MaskerShape
from rationales.masks.instant.training import TrainSettings, train
from rationales.masks.settings import ONE_MASK
from rationales.models.text.fingerprint import digests, fingerprint
from rationales.models.text.tokens import TextInput

KEYWORDS = ("bridge", "joke")
QUICK = TrainSettings(steps=160, inputs=16, learning_rate=1e-2, width=32, layers=1, heads=2, held_out=16, validations=2)
SPARSE = replace(ONE_MASK, sparsity=4.0)  # two words suffice
_FOLDER = tempfile.TemporaryDirectory(prefix="maskers")


def sentences(count, seed=0, min_words=8, max_words=24, together=True):
    """Sentences of random words of the corpus, with the keywords at random positions in half of them.

    `together`: all of them or none; else each by itself in half of the sentences.
    """
    generator = np.random.default_rng(seed)
    other_words = sorted(
        {word.strip(".,;:!()").lower() for text in CORPUS for word in text.split()} - {*KEYWORDS, "3.14"}
    )
    texts = []
    for _ in range(count):
        words = list(generator.choice(other_words, generator.integers(min_words, max_words + 1)))
        for word in _present(generator, together):
            words.insert(generator.integers(len(words)), word)
        texts.append(" ".join(words))
    return texts


def _present(generator, together):
    """The keywords of a sentence."""
    if together:
        return KEYWORDS if generator.random() < 0.5 else ()
    return [word for word in KEYWORDS if generator.random() < 0.5]


def text_batch(model, texts, seed=0):
    return model.batch(model.encode([TextInput(text) for text in texts]), seed)


def untrained_masker(model, width=16, layers=1, heads=2):
    """A masker with random weights, for tests that do not depend on its quality."""
    with model.frozen():
        batch = text_batch(model, ["a soup"])
        shape = MaskerShape.of(batch, width=width, layers=layers, heads=heads)
        with torch.random.fork_rng():
            torch.manual_seed(0)
            network = MaskerNetwork(shape).eval().requires_grad_(False)
            torch.nn.init.normal_(network.class_query.weight, std=0.5)  # so that masks differ from word to word
        known = (fingerprint(batch), model.name, model.baseline, model.unit, model.labels, ONE_MASK)
        card = MaskerCard(*known, training={}, digests=digests(batch))
    return Masker(network, card)


def untrained_masker_file(model):
    """Path of such a masker."""
    masker = untrained_masker(model)
    return str(masker.save(Path(_FOLDER.name) / f"{masker.card.fingerprint}.safetensors"))


@functools.cache
def keyword_masker():
    """A masker for the model that looks for the keywords, trained for seconds on sentences of the corpus' words."""
    model = rationales.load(*keyword_model(*KEYWORDS))
    return train(model, sentences(400), QUICK, SPARSE)


def keyword_masker_file():
    """Path of that masker."""
    path = Path(_FOLDER.name) / "keyword.safetensors"
    return str(path if path.exists() else keyword_masker().save(path))


@functools.cache
def contrast_masker():
    """A masker for the model of three classes, trained on sentences with any of its two words."""
    model = rationales.load(*contrast_model())
    return train(model, sentences(400, together=False), replace(QUICK, other_target_share=0.5), SPARSE)


def contrast_masker_file():
    """Path of that masker."""
    path = Path(_FOLDER.name) / "contrast.safetensors"
    return str(path if path.exists() else contrast_masker().save(path))


@functools.cache
def constant_logit_masker():
    """A masker for the model with logits (0, z), trained on sentences with any of its two words."""
    model = rationales.load(*constant_logit_model())
    return train(model, sentences(400, together=False), replace(QUICK, other_target_share=0.5), SPARSE)


def constant_logit_masker_file():
    """Path of that masker."""
    path = Path(_FOLDER.name) / "constant-logit.safetensors"
    return str(path if path.exists() else constant_logit_masker().save(path))
