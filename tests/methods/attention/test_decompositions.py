"""Decompositions add up to what they decompose, and every method equals its formula written out token by token."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("PIL")

from methods.attention.encoders import (
    TEXTS,
    encoder,
    text_batch,
    token_scores,
    traced,
    vision_model,
    vision_transformer,
)
from methods.keyword import attentive_model
from models.image.test_model import scene
from reference import inside

import rationales
from rationales.methods import build
from rationales.methods.attention import block_vectors as block_vectors_module
from rationales.methods.attention import propagation as propagation_module
from rationales.methods.attention.block_vectors import block_bias, block_vectors
from rationales.methods.attention.decompx import decomposed_outputs
from rationales.methods.attention.propagation import BIAS, Propagation

TEXT_ENCODERS = ["bert", "roberta", "distilbert", "electra", "xlm-roberta"]
EXACT = 1e-4


@pytest.fixture(params=[*TEXT_ENCODERS, "vit"])
def batch(request):
    """Rows of unequal length; or two images."""
    if request.param != "vit":
        return text_batch(*encoder(request.param))
    model = vision_model(vision_transformer())
    return model.batch(model.encode([model.read(scene(seed=seed), None) for seed in range(2)]))


LOGIT_PARTS = build("decompx", {"output": "logit"})


class TestDecompX:
    @pytest.mark.parametrize("bias", BIAS)
    def test_vectors_add_up_to_the_hidden_states_of_every_layer(self, batch, bias):
        _, trace = traced(batch)
        propagation = Propagation(trace, bias)
        vectors = propagation.embedded()
        for layer in trace.layers:
            vectors = propagation.through_layer(vectors, layer, vectors.shape[1])
            difference = (vectors.sum(2) - layer.result) * trace.tokens[..., None]
            assert difference.abs().max() < EXACT
            assert layer.result.abs().max() > 0.5

    @pytest.mark.parametrize("bias", BIAS)
    def test_contributions_add_up_to_the_logits(self, batch, bias):
        _, trace = traced(batch)
        contributions = decomposed_outputs(trace, bias)
        assert (contributions.sum(1) - trace.logits).abs().max() < EXACT
        assert (contributions * ~trace.tokens[..., None]).abs().max() < 1e-6  # none comes from padding
        assert trace.logits.std() > 0.05

    def test_words_and_special_tokens_add_up_to_the_explained_logit(self):
        batch = text_batch(*encoder("roberta"))
        block, trace = traced(batch)
        target = torch.tensor([2, 0])
        words = LOGIT_PARTS.scores(batch, target).scores[block.row]
        special = (batch.owner[block.row, : block.size] == batch.size[1]) & trace.tokens
        rows = torch.arange(len(block.row))
        contributions = decomposed_outputs(trace)[rows, :, target[block.row]]
        total = words.sum(1) + (contributions * special).sum(1)
        assert torch.allclose(total, trace.logits[rows, target[block.row]], atol=EXACT)

    def test_a_contrast_is_the_difference_of_two_classes(self):
        batch = text_batch(*encoder())
        first, second = torch.tensor([2, 0]), torch.tensor([1, 2])
        difference = LOGIT_PARTS.scores(batch, first).scores - LOGIT_PARTS.scores(batch, second).scores
        contrasted = build("decompx").scores(batch.contrasted(first, second), torch.ones(2, dtype=torch.long)).scores
        assert torch.allclose(contrasted, difference, atol=1e-5)

    def test_equals_the_reference(self):
        module, tokenizer = encoder()
        expected = inside.decompx(module, tokenizer(TEXTS[0], return_tensors="pt"))
        actual = token_scores(LOGIT_PARTS, text_batch(module, tokenizer), torch.tensor([1, 1]))
        assert torch.allclose(actual[0, : len(expected)], expected[:, 1], atol=1e-5)

    def test_log_odds_are_the_logit_minus_the_rivals_mean(self):
        """With the weights of a softmax over the other classes; with two classes these are 1: the difference."""
        batch, target = text_batch(*encoder()), torch.tensor([2, 0])
        block, trace = traced(batch)
        by_class = [LOGIT_PARTS.scores(batch, torch.full_like(target, number)).scores for number in range(3)]
        actual = build("decompx").scores(batch, target).scores
        for number, row in enumerate(block.row.tolist()):
            rivals = [label for label in range(3) if label != target[row]]
            weights = trace.logits[number, rivals].softmax(-1)
            expected = by_class[target[row]][row] - sum(
                w * by_class[n][row] for w, n in zip(weights, rivals, strict=True)
            )
            assert torch.allclose(actual[row], expected, atol=1e-5)


class TestBlock:
    @pytest.mark.parametrize("family", TEXT_ENCODERS)
    def test_alti_s_vectors_and_biases_add_up_to_the_attention_block(self, family):
        _, trace = traced(text_batch(*encoder(family)))
        for layer in trace.layers:
            count = layer.states.shape[1]
            vectors = torch.cat([chunk for _, chunk in block_vectors(layer, count, value_bias=False)], 1)
            difference = vectors.sum(2) + block_bias(layer) - layer.attention_norm_output
            assert (difference * trace.tokens[..., None]).abs().max() < EXACT


@pytest.mark.parametrize("name", ["attention-rollout", "alti", "globenc", "chefer"])
@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "electra"])
def test_equals_the_formula_written_out(name, family):
    module, tokenizer = encoder(family)
    encoding = tokenizer(TEXTS[0], return_tensors="pt", return_token_type_ids=family in ("bert", "electra"))
    reference = {"attention-rollout": inside.rollout, "alti": inside.alti, "globenc": inside.globenc}
    if name == "chefer":
        expected = inside.chefer(module, encoding, 1)
    else:
        with torch.no_grad():
            expected = reference[name](module, encoding)
    method = build(name, {"output": "logit"} if name == "chefer" else {})
    actual = token_scores(method, text_batch(module, tokenizer), torch.tensor([1, 1]))[0]
    assert torch.allclose(actual[: len(expected)], expected.detach(), atol=1e-5)
    assert (actual[len(expected) :] == 0).all()  # padding, if any


@pytest.mark.parametrize("family", TEXT_ENCODERS)
def test_attention_is_that_of_eager_attention(family):
    module, tokenizer = encoder(family)
    assert module.config._attn_implementation == "sdpa"
    _, trace = traced(text_batch(module, tokenizer, TEXTS[:1]))
    module.config._attn_implementation = "eager"
    with torch.no_grad():
        expected = module(**tokenizer(TEXTS[0], return_tensors="pt"), output_attentions=True).attentions
    assert len(expected) == len(trace.layers)
    for layer, attention in zip(trace.layers, expected, strict=True):
        assert torch.allclose(layer.attention, attention, atol=1e-6)
    raw = token_scores(build("raw-attention"), text_batch(module, tokenizer, TEXTS[:1]), torch.tensor([0]))
    assert torch.allclose(raw[0], expected[-1][0, :, 0].mean(0), atol=1e-6)


@pytest.mark.parametrize("name", ["alti", "globenc", "decompx"])
def test_the_size_of_chunks_changes_nothing(name, monkeypatch):
    batch, target = text_batch(*encoder()), torch.tensor([1, 0])
    expected = build(name).scores(batch, target).scores
    monkeypatch.setattr(block_vectors_module, "CHUNK_NUMBERS", 1)
    monkeypatch.setattr(propagation_module, "CHUNK_NUMBERS", 1)
    batch.budget = 1
    assert torch.allclose(build(name).scores(batch, target).scores, expected, atol=1e-6)


@pytest.mark.parametrize("name", ["chefer", "transition-attention", "decompx"])
def test_each_class_is_explained_by_its_own_keyword(name):
    weights = {"boat": (9.0, 0.0, 0.0), "bridge": (0.0, 9.0, 0.0), "loaves": (0.0, 0.0, 9.0)}
    model = rationales.load(*attentive_model(weights, ("sea", "river", "bread")))
    text = "The boat with two loaves drifted under the old bridge"
    for label, keyword in zip(model.labels, weights, strict=True):
        result = rationales.explain(model, text, target=label, method=name)
        assert result.units[int(result.scores.argmax())].text == keyword


@pytest.mark.parametrize("name", ["raw-attention", "attention-rollout", "alti", "globenc"])
def test_scores_that_are_not_about_a_class_are_the_same_for_all(name):
    batch = text_batch(*encoder())
    first, second = (build(name).scores(batch, torch.tensor(target)).scores for target in ([0, 0], [2, 1]))
    assert torch.equal(first, second)
    assert not build(name).class_specific
