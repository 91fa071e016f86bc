"""Completeness: the scores of an input add up to the explained output of the input minus that of its baseline."""

from __future__ import annotations

import pytest
import torch
from torch import nn

pytest.importorskip("PIL")

from models.image.test_model import preprocess

from methods.test_every_method_images import PICTURES, network
from rationales.methods import build
from rationales.models.batch.queries import baseline_and_full_outputs
from rationales.models.image.loading import from_module

TARGET = torch.tensor([2, 0, 1])


def prepared(classes):
    """A network of this number of classes and its pictures, each with two baselines, in float64."""
    module = network()
    with torch.random.fork_rng():
        torch.manual_seed(1)
        module[-1] = nn.Linear(16, classes)
    labels = [f"class {number}" for number in range(classes)]
    model = from_module(module.double(), preprocess, labels, "network", baselines=("black", "mean"))
    return model, model.batch(model.encode([model.read(picture, None) for picture in PICTURES]))


@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize(
    ("method", "options", "tolerance"),
    [
        ("deep-lift", {"output": "logit"}, 1e-10),
        ("deep-lift", {}, 1e-10),  # the log-odds, whose log-sum-exp has secants like an activation
        ("integrated-gradients", {"output": "logit", "steps": 400}, 1e-2),  # ReLUs have kinks along the line
        ("integrated-gradients", {"steps": 400}, 1e-2),
    ],
)
def test_scores_add_up(method, options, tolerance, classes):
    model, batch = prepared(classes)
    target = TARGET % classes
    built_method = build(method, options, "image")
    with model.frozen():
        total = built_method.scores(batch, target).scores.sum(1)
        empty, full = baseline_and_full_outputs(batch, target, built_method.output)
    assert built_method.output == options.get("output", "log-odds")
    assert (full - empty).abs().min() > 0.01
    assert torch.allclose(total, full - empty, atol=tolerance)
