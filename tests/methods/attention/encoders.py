"""Tiny encoders whose biases and norms are not those of a fresh model, and one traced pass of a method."""

from __future__ import annotations

import torch
import transformers
from families import tiny
from models.image.test_model import SIDE, preprocess

import rationales
from rationales.methods.attention.architectures import find_encoder
from rationales.methods.attention.trace import trace_encoder
from rationales.models.image.loading import from_module
from rationales.models.text.tokens import TextInput

TEXTS = ["I did not like the soup, but the bread wasn't bad at all!", "Dull."]


def with_biases(module):
    """The module with random biases and norms; a fresh one has zeros and ones, which hide mistakes."""
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(3)
        for weight in module.parameters():
            if weight.dim() == 1:
                weight.add_(0.2 * torch.randn_like(weight))
    return module


def encoder(family="bert", **arguments):
    module, tokenizer = tiny(family, **arguments)
    return with_biases(module), tokenizer


def vision_transformer():
    config = transformers.ViTConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        image_size=SIDE,
        patch_size=SIDE // 4,
        num_labels=3,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = transformers.ViTForImageClassification(config).eval()
        with torch.no_grad():
            for weight in module.parameters():
                if weight.dim() > 1:
                    weight.normal_(0, 0.2)
    return with_biases(module)


def vision_model(module):
    return from_module(module, preprocess, ["a", "b", "c"], "vit")


def text_batch(module, tokenizer, texts=TEXTS):
    model = rationales.load(module, tokenizer)
    return model.batch(model.encode([TextInput(text) for text in texts]))


def traced(batch):
    """The only block of a small batch, and its traced forward pass."""
    (block,) = batch.blocks(batch.distinct)
    network = find_encoder("a test", batch.modules[0], reads_weights=True, reads_head=True)
    with torch.no_grad():
        return block, trace_encoder("a test", batch, block, network, batch.input_embeddings(block.row))


def token_scores(method, batch, target):
    """(R, T) for the rows of the batch, in its order."""
    (block,) = batch.blocks(batch.distinct)
    scores = method.token_scores(method.trace(batch, block), batch, block, target[batch.rows.input[block.row]])
    return scores[block.row.argsort()].detach()
