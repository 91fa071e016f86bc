"""Probabilities of labels equal those of plain forward passes, for every architecture, however rows are batched."""

from __future__ import annotations

import pytest
import torch
from language_models import LANGUAGE_MODELS, tiny_language_model
from reference.prompt import label_scores, token_ids

import rationales

TEXTS = [
    "Dull.",
    "I did not like the soup, but the bread wasn't bad at all!",
    "She said nothing; he laughed, and nobody else in the room understood why.",
]
TEMPLATE = "The river was calm. Review: {text}\nSentiment:"
LABELS = ["good", "not good", "not terrible", "bad"]  # several tokens, two with a common beginning
TOLERANCE = 1e-4


def expected(model, text, labels, **options):
    prompt = model.prompt(text)
    ids = token_ids(model.tokenizer, prompt)
    label_ids = [model.encoder.label_ids(label) for label in labels]
    return label_scores(model.language_model, ids, label_ids, **options)


def logits(model, texts):
    encoded = model.encode([model.read(text, None) for text in texts])
    with model.frozen(), torch.no_grad():
        batch = model.batch(encoded)
        return batch.logits(batch.ones())


@pytest.mark.parametrize("family", LANGUAGE_MODELS)
class TestEveryArchitecture:
    def test_labels_of_several_tokens_as_in_plain_passes(self, family):
        module, tokenizer = tiny_language_model(family)
        model = rationales.load(module, tokenizer, labels=LABELS, template=TEMPLATE)
        assert max(len(model.encoder.label_ids(label)) for label in LABELS) > 1
        for text in TEXTS:
            assert torch.allclose(logits(model, [text])[0], expected(model, text, LABELS), atol=TOLERANCE)

    def test_labels_of_one_token_as_in_plain_passes(self, family):
        module, tokenizer = tiny_language_model(family)
        labels = _single(module, tokenizer)[:2]
        assert len(labels) == 2
        model = rationales.load(module, tokenizer, labels=labels, template=TEMPLATE)
        for text in TEXTS:
            assert torch.allclose(logits(model, [text])[0], expected(model, text, labels), atol=TOLERANCE)

    def test_batching_changes_nothing(self, family):
        module, tokenizer = tiny_language_model(family)
        model = rationales.load(module, tokenizer, labels=LABELS, template=TEMPLATE)
        together = logits(model, TEXTS)
        for number, text in enumerate(TEXTS):
            assert torch.allclose(together[number], logits(model, [text])[0], atol=TOLERANCE)

    def test_the_prefix_is_shared_and_its_cache_changes_nothing(self, family):
        module, tokenizer = tiny_language_model(family)
        model = rationales.load(module, tokenizer, labels=LABELS, template=TEMPLATE)
        # without a prefix: units of the whole prompt
        uncached = rationales.load(module, tokenizer, labels=LABELS, template=TEMPLATE, explain_prompt=True)
        assert model.prefix_length > uncached.prefix_length
        assert torch.allclose(logits(model, TEXTS), logits(uncached, TEXTS), atol=TOLERANCE)


def _single(module, tokenizer):
    """Labels that are one token."""
    model = rationales.load(module, tokenizer, labels=["a", "b"], template=TEMPLATE)
    candidates = ("a", "t", "s", "the", "in", "an", "er", "ed", "on", "he")
    return [label for label in candidates if len(model.encoder.label_ids(label)) == 1]
