"""Modules that are built without values for their weights."""

import torch
from torch import nn

from rationales.models.empty_weights import empty_weights


def build():
    module = nn.Sequential(nn.Embedding(5, 4, padding_idx=0), nn.Linear(4, 4), nn.LayerNorm(4), nn.Conv1d(4, 2, 1))
    nn.init.normal_(module[0].weight, std=0.5)
    nn.init.zeros_(module[1].bias)
    return module


def test_no_memory_is_taken_and_nothing_is_drawn():
    state = torch.random.get_rng_state()
    with empty_weights():
        module = build()
        huge = nn.Embedding(1 << 40, 1 << 10)
    assert all(weight.device.type == "meta" for weight in (*module.parameters(), *huge.parameters()))
    assert torch.equal(torch.random.get_rng_state(), state)


def test_weights_of_a_file_take_their_place():
    full = build()
    with empty_weights():
        module = build()
    module.load_state_dict(full.state_dict(), assign=True)
    assert all(weight.requires_grad for weight in module.parameters())
    for weight, expected in zip(module.parameters(), full.parameters(), strict=True):
        assert torch.equal(weight, expected)


def test_modules_built_afterwards_have_values_again():
    with empty_weights():
        pass
    weight = nn.Linear(4, 4).weight
    assert weight.device.type == "cpu"
    assert weight.std() > 0
