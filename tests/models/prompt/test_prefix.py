"""Attention to a shared prefix: the same outputs and gradients as with a copied cache, and what it stores."""

from __future__ import annotations

import pytest
import torch
from language_models import LANGUAGE_MODELS, tiny_language_model

import rationales
from rationales.models.batch.execution import stored_bytes
from rationales.models.prompt.prefix import prefix_attention
from rationales.models.prompt.prefix.readouts import PrefixReading
from rationales.models.prompt.prefix.verification import Verification

PROMPT = {"labels": ["good", "not good", "bad"], "template": "The river was calm. Review: {text}\nSentiment:"}
TEXTS = ["Dull.", "I did not like the soup, but the bread wasn't bad at all!"]
CAPPED = "gemma2"  # its attention caps scores


def logits_and_gradient(model, reading):
    network = model.networks[0].module
    network._verification = Verification(reading, None)
    network._prepared = None
    with model.frozen():
        batch = model.batch(model.encode([model.read(text, None) for text in TEXTS]))
        keep = torch.full(batch.size, 0.7, requires_grad=True)
        logits = batch.logits(keep)
        (gradient,) = torch.autograd.grad(logits[:, 0].sum() - logits[:, 1].sum(), keep)
    return logits.detach(), gradient


@pytest.mark.parametrize("family", [family for family in LANGUAGE_MODELS if family != CAPPED])
def test_all_ways_of_reading_are_equal(family):
    model = rationales.load(*tiny_language_model(family), **PROMPT)
    assert model.networks[0].module.verification.reading is PrefixReading.SHARED
    shared = logits_and_gradient(model, PrefixReading.SHARED)
    for reading in (PrefixReading.COPIED, PrefixReading.SEPARATE):
        others = logits_and_gradient(model, reading)
        assert torch.allclose(shared[0], others[0], atol=1e-4)
        assert torch.allclose(shared[1], others[1], atol=1e-4)


def test_blocks_change_nothing(monkeypatch):
    model = rationales.load(*tiny_language_model("llama"), **PROMPT)
    at_once = logits_and_gradient(model, PrefixReading.SHARED)
    monkeypatch.setattr(prefix_attention, "SCORES_AT_ONCE", 300)  # some queries of one row
    in_blocks = logits_and_gradient(model, PrefixReading.SHARED)
    assert torch.allclose(at_once[0], in_blocks[0], atol=1e-5)
    assert torch.allclose(at_once[1], in_blocks[1], atol=1e-5)


def test_an_unusual_attention_copies_the_prefix():
    model = rationales.load(*tiny_language_model(CAPPED), **PROMPT)
    assert model.networks[0].module.verification.reading is PrefixReading.COPIED


def test_what_is_stored_does_not_grow_with_the_prefix():
    stored = []
    for sentences in (1, 8):
        module, tokenizer = tiny_language_model("llama", max_position_embeddings=600)
        template = "The river was calm. " * sentences + "Review: {text}\nSentiment:"
        model = rationales.load(module, tokenizer, labels=["good", "not good"], template=template)
        with model.frozen():
            batch = model.batch(model.encode([model.read(text, None) for text in TEXTS]))
            keep = batch.ones().requires_grad_()
            network = model.networks[0].module
            prefix = network.prepare().prefix
            shared = sum(value.untyped_storage().nbytes() for value in (*prefix.keys, *prefix.values))
            stored.append(stored_bytes(batch.modules, lambda: batch.logits(keep)) - shared)  # noqa: B023  # called at once
    assert stored[1] <= 1.01 * stored[0]


def test_a_changed_weight_changes_the_prefix():
    module, tokenizer = tiny_language_model("llama")
    model = rationales.load(module, tokenizer, **PROMPT)
    before = rationales.explain(model, TEXTS[1], method="random").probabilities["full"]
    with torch.no_grad():
        module.model.layers[0].self_attn.v_proj.weight.mul_(-1)
    fresh = rationales.load(module, tokenizer, **PROMPT, baseline=model.baseline)
    after, expected = (
        rationales.explain(each, TEXTS[1], method="random").probabilities["full"] for each in (model, fresh)
    )
    assert after == expected != before
