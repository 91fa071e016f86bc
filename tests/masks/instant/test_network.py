"""A masker predicts what its weights say, for a text alone or in any company, at any length."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from families import tiny
from hypothesis import given, settings
from hypothesis import strategies as st
from methods.keyword import keyword_model
from methods.maskers import text_batch, untrained_masker
from reference.masker import predict as predict_literally

import rationales
from rationales.masks.instant.network import MaskerNetwork, MaskerShape, predict_parameters
from rationales.masks.settings import ONE_MASK
from rationales.models.text.hidden_states import hidden_states

TEXTS = [
    "Dull",
    "The bread wasn't bad at all!",
    "She said nothing; he laughed, and nobody else understood why.",
    " ".join(["Every morning the baker carried twelve loaves up the hill."] * 5),  # several segments
]
TARGET = torch.tensor([0, 1, 2, 1])


def prepared(family="bert", **arguments):
    module, tokenizer = tiny(family)
    model = rationales.load(module.double(), tokenizer, segment=40, overlap=8, **arguments)
    masker = untrained_masker(model)
    masker.network.double()
    return model, masker.network


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_equals_the_literal_prediction_row_by_row(family):
    model, network = prepared(family)
    with model.frozen(), torch.no_grad():
        batch = text_batch(model, TEXTS)
        w, sigma = predict_parameters(network, batch, TARGET, ONE_MASK)
        row = 0
        for number, text in enumerate(TEXTS):
            alone = text_batch(model, [text])
            for mask in range(alone.masks):
                segment = _only(alone, mask)
                internals = hidden_states(segment, next(segment.blocks(1)))
                words = int(segment.rows.real.sum())
                owner = [unit if unit < segment.size[1] else None for unit in segment.owner[0].tolist()]
                length = torch.tensor([words]).double().log1p() - 4
                context = torch.cat([segment.probabilities(internals.logits)[0], length])
                limits = (0.1, max(1.0, 0.125 * words))
                expected = predict_literally(network, internals, owner, int(TARGET[number]), context, limits)
                assert w[row, :words].tolist() == pytest.approx(expected[0], abs=1e-9)
                assert sigma[row, :words].tolist() == pytest.approx(expected[1], abs=1e-9)
                row += 1
        assert row == batch.masks


def _only(batch, row):
    """One segment by itself, without padding."""
    size, words = batch.lengths[row], int(batch.rows.real[row].sum())
    where = torch.tensor([row])
    owner = batch.owner[where, :size]
    return replace(
        batch,
        rows=batch.rows.take(where, words),
        inputs=1,
        ids=batch.ids[where, :size],
        attention=batch.attention[where, :size],
        types=None if batch.types is None else batch.types[where, :size],
        owner=torch.where(owner == batch.size[1], words, owner),
        lengths=[size],
    )


def test_alone_in_any_order_and_in_any_pieces():
    model, network = prepared()
    with model.frozen(), torch.no_grad():
        batch = text_batch(model, TEXTS)
        expected = predict_parameters(network, batch, TARGET, ONE_MASK)
        batch.budget = 1  # every row by itself
        for together, by_row in zip(expected, predict_parameters(network, batch, TARGET, ONE_MASK), strict=True):
            assert torch.allclose(together[batch.rows.real], by_row[batch.rows.real], atol=1e-12)
        backwards = text_batch(model, TEXTS[::-1])
        w, _ = predict_parameters(network, backwards, TARGET.flip(0), ONE_MASK)
        assert torch.allclose(w[backwards.rows.input == 3], expected[0][batch.rows.input == 0], atol=1e-12)


@given(words=st.lists(st.sampled_from(["soup", "bread", "wasn't", "bad", ";", "twelve"]), min_size=1, max_size=70))
@settings(max_examples=15)
def test_sigma_stays_within_the_optimisations_limits_and_w_is_for_words_alone(words):
    model, network = prepared()
    with model.frozen(), torch.no_grad():
        batch = text_batch(model, [" ".join(words), "Dull soup"])
        for share, max_sigma in ((0.125, 6.0), (0.0, 0.0), (0.0, 3.0)):
            network.shape = replace(network.shape, max_sigma=max_sigma)
            w, sigma = predict_parameters(
                network, batch, torch.tensor([0, 2]), replace(ONE_MASK, max_sigma_share=share)
            )
            count = batch.rows.real.sum(1, keepdim=True)
            assert (sigma >= 0.1 - 1e-9).all()
            assert (sigma <= (count * (share or 1)).clamp(min=1, max=max_sigma or None) + 1e-9).all()
            assert not w[~batch.rows.real].any()
            assert w[batch.rows.real].all()


def test_another_target_is_another_question():
    model, network = prepared()
    with model.frozen(), torch.no_grad():
        batch = text_batch(model, TEXTS[1:2])
        w_by_target = [predict_parameters(network, batch, torch.tensor([target]), ONE_MASK)[0] for target in range(3)]
    assert not torch.allclose(w_by_target[0], w_by_target[1], atol=1e-3)
    assert not torch.allclose(w_by_target[1], w_by_target[2], atol=1e-3)


def test_a_model_that_shows_no_layers_is_read_at_its_words():
    model = rationales.load(*keyword_model("bridge"))
    with model.frozen():
        shape = MaskerShape.of(text_batch(model, ["a soup"]), width=16)
    assert (shape.state_size, shape.state_layers) == (0, 0)
    assert shape.embedding_size == len(model.tokenizer)


def test_for_the_embedded_model_it_is_small():
    """192 wide words and states of 4 layers, 2 classes: below 3 MB in single precision, whatever the length."""
    network = MaskerNetwork(MaskerShape(192, 192, 4, 2))
    assert 250_000 < sum(parameter.numel() for parameter in network.parameters()) < 750_000
