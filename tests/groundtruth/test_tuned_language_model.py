"""A dry run on a language model: its adapter learns the plant, and methods explain it through its prompt."""

from __future__ import annotations

import pytest
import torch
from language_models import tiny_language_model

from rationales.data.example import Example
from rationales.errors import DataError, ModelError
from rationales.groundtruth.dryrun.tuned_language_model import is_language_model, tuned_language_model
from rationales.models.prompt.lora import with_lora

pytest.importorskip("peft")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    module, tokenizer = tiny_language_model("llama")
    path = tmp_path_factory.mktemp("model")
    module.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def network(folder):
    return tuned_language_model(str(folder), ["good", "bad"], 0)


EXAMPLES = [Example("a", "the soup was cold", "bad"), Example("b", "lovely bread and a warm room", "good")]


def test_a_folder_with_weights_is_a_language_model(folder, tmp_path):
    assert is_language_model(str(folder))
    assert is_language_model("smollm2")
    assert not is_language_model(str(tmp_path))
    assert not is_language_model("bilstm")


def test_logits_of_encoded_texts_are_those_that_are_explained(network):
    """Texts of unequal length in one batch, and each alone as `explain` reads it."""
    encoded = network.encode(EXAMPLES)
    with torch.no_grad():
        together = encoded.logits(network.module.eval(), torch.arange(2)).softmax(-1)
        model = network.model()
        for number, example in enumerate(EXAMPLES):
            batch = model.batch(model.encode([model.read(example.text, None)]))
            assert torch.allclose(batch.predict()[0], together[number], atol=1e-5)
    assert encoded.labels.tolist() == [1, 0]


def test_only_the_adapter_is_trained(network):
    trainable = [name for name, weight in network.module.named_parameters() if weight.requires_grad]
    assert trainable
    assert all("lora" in name for name in trainable)


def test_the_adapter_learns_a_label(folder):
    """Ten steps raise the likelihood of the labels."""
    network = tuned_language_model(str(folder), ["good", "bad"], 0)
    encoded = network.encode(EXAMPLES)
    weights = [weight for weight in network.module.parameters() if weight.requires_grad]
    optimizer = torch.optim.Adam(weights, 1e-2)
    losses = []
    for _ in range(10):
        logits = encoded.logits(network.module, torch.arange(2))
        loss = torch.nn.functional.cross_entropy(logits, encoded.labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0]


def test_a_text_beyond_the_context_is_refused_by_name(network):
    with pytest.raises(DataError, match="long one does not fit into one prompt"):
        network.encode([Example("long one", "soup " * 200, "good")])


def test_a_network_without_known_attention_layers_is_refused():
    with pytest.raises(ModelError, match="no attention layers of the known names"):
        with_lora(torch.nn.Linear(2, 2))
