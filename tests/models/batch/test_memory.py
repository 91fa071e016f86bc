"""How much runs at once: never nothing, and less for larger models and longer rows."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from families import FAMILIES, tiny
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from rationales.models.batch import execution
from rationales.models.batch.execution import available_bytes, stored_bytes, token_budget

CPU = torch.device("cpu")


@given(st.integers(1, 200), st.integers(1, 20_000), st.integers(1, 8192))
def test_at_least_one_token(layers, hidden, length):
    config = SimpleNamespace(num_hidden_layers=layers, hidden_size=hidden)
    assert token_budget(config, length, CPU) >= 1


def test_the_budgets_activations_fit(monkeypatch):
    """A transformer stores at least these per token and layer: input, query, key, value, attention, two inner ones."""
    monkeypatch.setattr(execution, "available_bytes", lambda _device: 2**30)
    config = SimpleNamespace(num_hidden_layers=12, hidden_size=768, num_attention_heads=12, intermediate_size=3072)
    stored = 4 * 12 * (5 * 768 + 2 * 3072 + 12 * 512)
    assert token_budget(config, 512, CPU) * stored <= 2**30


@pytest.mark.parametrize("family", FAMILIES)
def test_the_sizes_of_every_family_are_read(family, monkeypatch):
    """However an architecture spells them: all these are of the same size, so is their budget (DistilBERT's too)."""
    monkeypatch.setattr(execution, "available_bytes", lambda _device: 2**30)
    expected = SimpleNamespace(num_hidden_layers=2, hidden_size=32, num_attention_heads=4, intermediate_size=64)
    assert token_budget(tiny(family)[0].config, 64, CPU) == token_budget(expected, 64, CPU)


class TestStored:
    def test_counts_what_a_backward_pass_needs_and_no_weights(self):
        """exp keeps its result, a frozen linear layer its weight alone: 3 x 5 numbers of 4 bytes."""
        layer = nn.Linear(5, 5)
        for weight in layer.parameters():
            weight.requires_grad_(False)
        leaf = torch.ones(3, 5, requires_grad=True)
        assert stored_bytes([layer], lambda: layer(leaf).exp()) == 3 * 5 * 4

    def test_a_tensor_that_two_operations_keep_counts_once(self):
        leaf = torch.ones(7, requires_grad=True)
        assert stored_bytes([], lambda: (leaf * leaf).exp() + leaf * 2) == 2 * 7 * 4

    def test_longer_rows_get_as_many_tokens_or_fewer(self, monkeypatch):
        import rationales
        from rationales.models.text.tokens import TextInput

        module, tokenizer = tiny("bert")
        model = rationales.load(module, tokenizer)
        budgets = []
        for text in ("Dull.", "The baker carried twelve loaves up the hill again"):
            batch = model.batch(model.encode([TextInput(text)]))
            monkeypatch.setattr("rationales.models.text.model.available_bytes", lambda _device: 2**24)
            budgets.append(model.measured_budget(batch))
        assert budgets[0] >= 0.5 * budgets[1] > 0
        assert all(weight.requires_grad for weight in module.parameters())


def test_no_config_is_taken_for_an_ordinary_model():
    assert token_budget(None, 512, CPU) == token_budget(SimpleNamespace(num_hidden_layers=12), 512, CPU)


def test_memory_of_this_machine():
    assert 0 < available_bytes(CPU) <= execution.CPU_BYTES


def test_a_system_that_does_not_tell(monkeypatch):
    def silent(_name):
        raise ValueError

    monkeypatch.setattr(execution.os, "sysconf", silent)
    assert available_bytes(CPU) == execution.CPU_BYTES
