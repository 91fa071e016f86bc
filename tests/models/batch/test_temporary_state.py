"""A borrowed model comes back as it was."""

from __future__ import annotations

import pytest
import torch
from families import tiny
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import rationales
from rationales.models.batch.execution import attribute_set, frozen, output_replaced
from rationales.models.text.tokens import TextInput


class Interruption(BaseException):
    """As Ctrl-C: not an Exception."""


def network():
    return nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Dropout(), nn.BatchNorm1d(2)), nn.Linear(2, 2))


def flags(*modules):
    training = [submodule.training for module in modules for submodule in module.modules()]
    return training, [weight.requires_grad for module in modules for weight in module.parameters()]


@pytest.mark.parametrize("fails", [False, True])
class TestFrozen:
    @settings(max_examples=20)
    @given(data=st.data())
    def test_flags_are_restored_one_by_one(self, fails, data):
        modules = [network(), network()]
        for module in modules:
            for submodule in module.modules():
                submodule.training = data.draw(st.booleans())
            for weight in module.parameters():
                weight.requires_grad_(data.draw(st.booleans()))
        before = flags(*modules)
        try:
            with frozen(*modules):
                assert not any(flags(*modules)[0] + flags(*modules)[1])
                if fails:
                    raise Interruption
        except Interruption:
            pass
        assert flags(*modules) == before

    def test_a_module_given_twice_and_shared_weights(self, fails):
        module = network()
        module[2].weight = module[0].weight
        module.train()
        before = flags(module)
        try:
            with frozen(module, module), frozen(module):
                if fails:
                    raise Interruption
        except Interruption:
            pass
        assert flags(module) == before

    def test_hooks_are_taken_away(self, fails):
        layer = nn.Linear(2, 2)
        user_hook = layer.register_forward_hook(lambda _module, _arguments, output: output + 1)
        plain = layer(torch.ones(2))
        try:
            with output_replaced(layer, lambda output: 2 * output):
                assert torch.equal(layer(torch.ones(2)), 2 * plain)  # after the user's own hook
                if fails:
                    raise Interruption
        except Interruption:
            pass
        assert torch.equal(layer(torch.ones(2)), plain)
        assert list(layer._forward_hooks) == [user_hook.id]

    def test_attributes_are_set_back(self, fails):
        class Config:
            pad_token_id = None

        config = Config()
        try:
            with attribute_set(config, "pad_token_id", 3):
                assert config.pad_token_id == 3
                if fails:
                    raise Interruption
        except Interruption:
            pass
        assert config.pad_token_id is None


@pytest.mark.parametrize("where", ["forward", "backward"])
def test_an_exception_inside_the_model_leaves_no_hook(where):
    """In the backward pass, too, where pieces are run again and hooks are put on once more."""
    module, tokenizer = tiny("gpt2")
    module.train()
    model = rationales.load(module, tokenizer)
    batch = model.batch(model.encode([TextInput("The soup was cold."), TextInput("A dull joke")]))
    batch.budget = 1
    calls = []

    def fail(*_):
        calls.append(1)
        if len(calls) > (2 if where == "backward" else 0):
            raise Interruption

    handle = module.transformer.h[1].register_forward_hook(fail)
    keep = batch.ones().requires_grad_()
    with pytest.raises(Interruption), model.frozen():
        batch.logits(keep).sum().backward()
    handle.remove()
    assert len(calls) == (3 if where == "backward" else 1)
    assert all(submodule.training for submodule in module.modules())
    assert all(weight.requires_grad and weight.grad is None for weight in module.parameters())
    assert not any(submodule._forward_hooks for submodule in module.modules())
    assert module.config.pad_token_id is None


def test_the_users_own_hooks_stay():
    module, tokenizer = tiny("bert")
    calls = []
    module.get_input_embeddings().register_forward_hook(lambda *_: calls.append(1))
    rationales.explain(rationales.load(module, tokenizer), "A text", method="occlusion")
    assert calls
    assert len(module.get_input_embeddings()._forward_hooks) == 1
