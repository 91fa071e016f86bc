"""AML maskers for tests: an untrained one, and two that are trained for a few seconds on a tiny backbone."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

import torch
from families import tokenizer_of
from transformers import BertConfig, BertModel

import rationales
from methods.keyword import constant_logit_model, keyword_model
from methods.maskers import KEYWORDS, sentences, text_batch
from rationales.masks.instant.aml.attribution_network import AttributionNetwork
from rationales.masks.instant.aml.backbone import SMALL, make_backbone
from rationales.masks.instant.aml.masker import (
    AmlCard,
    AmlMasker,
    model_weights_fingerprint,
    module_labels,
    tokenizer_fingerprint,
)
from rationales.masks.instant.aml.pretraining import pretrain
from rationales.masks.instant.aml.settings import AmlLosses, AmlTraining

QUICK = AmlTraining(
    texts=300, validation_texts=30, epochs=7, inputs=30, learning_rate=4e-3, trials=0, patience=0, dropout=False
)
LOSSES = AmlLosses(prediction_weight=1.0, attribution_weight=1.0, inverse_weight=1.0)
_FOLDER = tempfile.TemporaryDirectory(prefix="aml-maskers")


def tiny_backbone(width=48, layers=1, seed=0):
    """A new BERT of one layer and the tokenizer that the keyword models have."""
    tokenizer = tokenizer_of("bert")
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=width, num_hidden_layers=layers, num_attention_heads=2,
        intermediate_size=width, max_position_embeddings=128, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        encoder = BertModel(config, add_pooling_layer=False).eval()
        torch.nn.init.normal_(encoder.embeddings.word_embeddings.weight, std=0.5)  # words that differ from the start
    return encoder, tokenizer


def untrained_aml_masker(model, backbone=SMALL, losses=LOSSES, seed=0):
    """A masker with random weights, for tests that do not depend on its quality."""
    with model.frozen(), torch.random.fork_rng():
        torch.manual_seed(seed)
        made_backbone = make_backbone(backbone, model)
        batch = text_batch(model, ["a soup"])
        size = len(batch.networks[0].baseline) if losses.replacement == "learned" else 0
        network = AttributionNetwork(made_backbone.encoder, batch.classes, size)
        network.initialise(torch.Generator().manual_seed(seed), batch.networks[0].baseline)
        torch.nn.init.normal_(network.head_output.weight, std=0.3)  # so that maps differ from word to word
    card = AmlCard(
        model.name, model_weights_fingerprint(batch), tokenizer_fingerprint(model.tokenizer), module_labels(batch),
        model.unit, losses, made_backbone.name, {},
    )  # fmt: skip
    return AmlMasker(network.requires_grad_(False).eval(), made_backbone, card)


def untrained_aml_file(model):
    """Path of such a masker."""
    masker = untrained_aml_masker(model)
    path = Path(_FOLDER.name) / f"{masker.card.weights}.safetensors"
    return str(path if path.exists() else masker.save(path))


@functools.cache
def trained(kind):
    """A masker for one of the models with known causes."""
    modules = {
        "keyword": lambda: keyword_model(*KEYWORDS),
        "constant": constant_logit_model,
    }
    model = rationales.load(*modules[kind]())
    return pretrain(model, sentences(330, together=kind == "keyword"), QUICK, LOSSES, backbone=tiny_backbone())


def _file(kind):
    path = Path(_FOLDER.name) / f"{kind}.safetensors"
    return str(path if path.exists() else trained(kind).save(path))


def keyword_aml_file():
    """Path of the masker for the model that looks for the keywords."""
    return _file("keyword")


def constant_logit_aml_file():
    """Path of the masker for the model with logits (0, z)."""
    return _file("constant")
