"""The hidden states that are read are the model's own, and reading leaves no trace."""

from __future__ import annotations

import pytest
import torch
from families import FAMILIES, tiny
from methods.keyword import keyword_model
from methods.maskers import text_batch

import rationales
from rationales.models.text.hidden_states import hidden_states

TEXTS = ["The bread wasn't bad at all!", "Dull soup"]


def recorded_states(model):
    with model.frozen():
        batch = text_batch(model, TEXTS)
        (block,) = batch.blocks(batch.masks)
        return batch, block, hidden_states(batch, block)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_layer_gives_one(family):
    module, tokenizer = tiny(family)
    module.train()
    model = rationales.load(module, tokenizer)
    batch, block, recorded = recorded_states(model)
    assert len(recorded.states) == 2
    assert all(state.shape == (2, block.size, 32) for state in recorded.states)
    assert torch.equal(recorded.words, batch.input_embeddings(block.row))
    with model.frozen(), torch.no_grad():
        assert torch.equal(recorded.logits, batch.logits(batch.ones())[block.row])
    assert not any(submodule._forward_hooks for submodule in module.modules())
    assert all(submodule.training for submodule in module.modules())


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert"])
def test_they_are_what_the_model_itself_calls_hidden_states(family):
    module, tokenizer = tiny(family)
    batch, block, recorded = recorded_states(rationales.load(module, tokenizer))
    with torch.no_grad():
        reported = module(
            input_ids=batch.ids[block.row], attention_mask=batch.attention[block.row], output_hidden_states=True
        ).hidden_states[1:]
    for state, expected in zip(recorded.states, reported, strict=True):
        real = batch.attention[block.row].bool()
        assert torch.allclose(state[real], expected[real], atol=1e-6)


def test_a_module_without_layers_has_none():
    _, _, recorded = recorded_states(rationales.load(*keyword_model("bridge")))
    assert recorded.states == ()
    assert recorded.logits.shape == (2, 2)
