"""What tells one classifier from another, and what does not."""

from __future__ import annotations

import torch
from families import tiny
from methods.maskers import text_batch

import rationales
from rationales.models.text.fingerprint import fingerprint


class Wrapped(torch.nn.Module):
    def __init__(self, module):
        super().__init__()
        self.inner, self.config = module, module.config

    def get_input_embeddings(self):
        return self.inner.get_input_embeddings()

    def forward(self, input_ids, attention_mask):
        return self.inner(input_ids=input_ids, attention_mask=attention_mask)


def fingerprint_of(module, tokenizer, **options):
    return fingerprint(text_batch(rationales.load(module, tokenizer, **options), ["a soup"]))


def test_the_same_model_has_the_same():
    module, tokenizer = tiny("bert")
    first = fingerprint_of(module, tokenizer)
    assert fingerprint_of(module, tokenizer) == first
    assert fingerprint_of(*tiny("bert")) == first
    assert fingerprint_of(Wrapped(module), tokenizer) == first
    assert fingerprint_of(module.double(), tokenizer) == first


def test_one_weight_one_label_or_another_baseline_is_another_model():
    module, tokenizer = tiny("bert")
    fingerprints = {fingerprint_of(module, tokenizer), fingerprint_of(module, tokenizer, baseline="mask")}
    with torch.no_grad():
        module.classifier.bias[0] += 1e-3  # in place, after the first was kept
    fingerprints.add(fingerprint_of(module, tokenizer))
    module.config.id2label = {0: "a", 1: "b", 2: "c"}
    fingerprints.add(fingerprint_of(module, tokenizer))
    fingerprints.add(fingerprint_of(*tiny("bert", problem_type="multi_label_classification")))
    assert len(fingerprints) == 5


def test_weights_that_nobody_counts_are_read_again():
    module, tokenizer = tiny("bert")
    with torch.inference_mode():
        module.classifier.weight = torch.nn.Parameter(torch.zeros(3, 32), requires_grad=False)
        first = fingerprint_of(module, tokenizer)
        module.classifier.weight[0, 0] = 1.0
        assert fingerprint_of(module, tokenizer) != first
