"""From an id, a folder or an object to a model, or to one line that says what to do."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from families import FAMILIES, tiny, tokenizer_of
from torch import nn

import rationales
from rationales.errors import ModelError, OptionError, RationalesError
from rationales.models.load import load


def saved(folder, family="bert", **options):
    module, tokenizer = tiny(family, **options)
    module.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return module, tokenizer


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "bert"
    return folder, *saved(folder)


@pytest.fixture
def folder(original, tmp_path):
    """A copy that a test may spoil."""
    return Path(shutil.copytree(original[0], tmp_path / "bert"))


def refused(kind, *arguments, says, **options):
    """The message of the error: one line that names what to do."""
    with pytest.raises(kind) as caught:
        load(*arguments, **options)
    message = str(caught.value)
    assert isinstance(caught.value, RationalesError)
    assert "\n" not in message
    assert says in message
    return message


class TestRoundTrip:
    @pytest.mark.parametrize("family", FAMILIES)
    def test_a_saved_model_is_the_model(self, tmp_path, family):
        module, tokenizer = saved(tmp_path, family)
        text = "The soup wasn't bad; nobody laughed."
        mine = rationales.explain(load(module, tokenizer), text, method="occlusion")
        theirs = rationales.explain(load(tmp_path), text, method="occlusion")
        assert mine.units == theirs.units
        assert np.array_equal(mine.scores, theirs.scores)
        # probabilities are rounded to six digits, and weights read from a file are aligned differently in memory
        for variant, by_label in mine.probabilities.items():
            assert theirs.probabilities[variant] == pytest.approx(by_label, abs=1.1e-6)
        assert theirs.model == str(tmp_path)

    def test_by_text_or_path(self, original):
        assert load(str(original[0])).labels == load(original[0]).labels

    def test_another_tokenizer_can_be_given(self, original):
        assert load(original[0], original[2]).tokenizer is original[2]


class TestMissing:
    def test_no_such_folder(self, tmp_path):
        refused(ModelError, tmp_path / "nothing", says="there is no folder")

    @pytest.mark.parametrize("name", ["nobody/nothing", "nothing", "no such model"])
    def test_no_such_model(self, name):
        assert "'rationales models' lists them" in refused(ModelError, name, says=f"there is no model {name!r}")

    def test_a_misspelled_name_is_corrected(self):
        refused(ModelError, "embeded", says="did you mean 'embedded'?")

    def test_a_file_instead_of_its_folder(self, original):
        refused(ModelError, original[0] / "config.json", says="give the folder")

    def test_a_folder_without_config(self, folder):
        (folder / "config.json").unlink()
        refused(ModelError, folder, says="no config.json; give the folder of a saved")

    def test_a_folder_without_weights(self, folder):
        (folder / "model.safetensors").unlink()
        refused(ModelError, folder, says="save_pretrained")

    def test_a_folder_without_tokenizer(self, folder):
        """Transformers makes an empty one, which would read every text as unknown."""
        for path in folder.glob("*token*"):
            path.unlink()
        refused(ModelError, folder, says="tokenizer.save_pretrained")
        assert load(folder, tokenizer_of("bert")).labels == ("LABEL_0", "LABEL_1", "LABEL_2")

    def test_a_model_without_a_trained_head(self, tmp_path):
        """Transformers makes up random weights, and the explanation would be of those."""
        module, tokenizer = tiny("bert")
        module.bert.save_pretrained(tmp_path)
        tokenizer.save_pretrained(tmp_path)
        refused(ModelError, tmp_path, says="no trained classifier")

    def test_no_tokenizer_for_a_module(self):
        refused(OptionError, tiny("bert")[0], says="rationales.load(module, tokenizer)")

    def test_something_that_is_no_tokenizer(self):
        refused(OptionError, tiny("bert")[0], "bert", says="must be a Hugging Face tokenizer")

    def test_no_model_at_all(self):
        refused(OptionError, [], says="no model given")


class TestDamaged:
    @pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.pth", "model.ckpt"])
    def test_pickled_weights_are_refused_unread(self, folder, name):
        """The file would run code when loaded."""
        trap = folder / "trap"
        (folder / "model.safetensors").unlink()
        (folder / name).write_bytes(b"cos\nsystem\n(S'touch " + str(trap).encode() + b"'\ntR.")
        message = refused(ModelError, folder, says="pickled weights")
        assert name in message
        assert "save_pretrained" in message
        assert not trap.exists()

    @pytest.mark.parametrize("spoil", [lambda raw: b"garbage" * 99, lambda raw: raw[: len(raw) // 2], lambda raw: b""])
    def test_damaged_weights(self, folder, spoil):
        path = folder / "model.safetensors"
        path.write_bytes(spoil(path.read_bytes()))
        refused(ModelError, folder, says="damaged")

    @pytest.mark.parametrize("content", ["{", "[]", "{}", '{"model_type": "no-such-architecture"}'])
    def test_a_damaged_config(self, folder, content):
        (folder / "config.json").write_text(content)
        refused(ModelError, folder, says="cannot load")

    def test_a_damaged_tokenizer(self, folder):
        (folder / "tokenizer.json").write_text("{")
        refused(ModelError, folder, says="cannot load")

    def test_weights_that_do_not_fit_the_config(self, folder):
        config = json.loads((folder / "config.json").read_text())
        config["hidden_size"] = 16
        (folder / "config.json").write_text(json.dumps(config))
        refused(ModelError, folder, says="config.json does not fit the weights")


class TestOptions:
    @pytest.mark.parametrize("device", ["nonsense", "cuda:99", -1, 3.5, "meta", ""])
    def test_an_unknown_device_lists_what_there_is(self, device):
        module, tokenizer = tiny("bert")
        message = refused(OptionError, module, tokenizer, device=device, says=f"no device {str(device)!r}")
        assert "cpu" in message
        assert next(module.parameters()).device.type == "cpu"

    def test_a_device_that_is_there(self):
        assert load(*tiny("bert"), device="cpu").networks[0].baseline.device.type == "cpu"

    @pytest.mark.parametrize("unit", ["letter", "words", None, ""])
    def test_an_unknown_unit(self, unit):
        refused(OptionError, *tiny("bert"), unit=unit, says="word, token or sentence")

    @pytest.mark.parametrize("segment", [0, 7, 65, 10**6])
    def test_a_segment_that_does_not_fit_the_model(self, segment):
        refused(OptionError, *tiny("bert"), segment=segment, says="8 to 64 tokens")

    @pytest.mark.parametrize(
        ("name", "value"),
        [*(("segment", value) for value in ("32", 20.5, True, -1)), *(("overlap", value) for value in (-1, "x", 1.5))],
    )
    def test_a_number_of_tokens_is_a_whole_number(self, name, value):
        refused(OptionError, *tiny("bert"), **{name: value}, says=f"{name} is a number of tokens")


class TestUnfit:
    def test_a_regression_model(self):
        refused(ModelError, *tiny("bert", labels=1, problem_type="regression"), says="only classifiers")

    def test_a_module_that_does_not_name_its_embeddings(self):
        refused(ModelError, nn.Linear(2, 2), tokenizer_of("bert"), says="get_input_embeddings()")

    def test_a_module_without_labels(self):
        class Nameless(nn.Module):
            def get_input_embeddings(self):
                return nn.Embedding(400, 2)

            def forward(self, input_ids, attention_mask):
                return torch.zeros(len(input_ids), 2)

        refused(ModelError, Nameless(), tokenizer_of("bert"), says="id2label")

    def test_an_encoder_without_a_head(self):
        module, tokenizer = tiny("bert")
        with pytest.raises(ModelError, match="one row of logits for each text"):
            rationales.explain(load(module.bert, tokenizer), "A text")


class TestJointly:
    def test_different_vocabularies(self, original, tmp_path):
        saved(tmp_path, "roberta")
        refused(ModelError, [original[0], tmp_path], says="share one tokenizer")

    def test_different_numbers_of_labels(self):
        refused(ModelError, [tiny("bert")[0], tiny("bert", labels=2)[0]], tokenizer_of("bert"), says="the same labels")

    def test_different_heads(self):
        several = tiny("bert", problem_type="multi_label_classification")[0]
        refused(ModelError, [tiny("bert")[0], several], tokenizer_of("bert"), says="the same labels")

    def test_the_same_labels_in_another_order(self):
        """Averaging them would add what one says for to what the other says against."""
        first = tiny("bert", labels=2, id2label={0: "bad", 1: "good"}, label2id={"bad": 0, "good": 1})[0]
        second = tiny("bert", labels=2, id2label={0: "good", 1: "bad"}, label2id={"good": 0, "bad": 1})[0]
        refused(ModelError, [first, second], tokenizer_of("bert"), says="in the same order")

    def test_folders_and_modules_mixed(self, original):
        folder, module, tokenizer = original
        model = load([folder, module], tokenizer)
        assert model.name == f"{folder} + {module.name_or_path or 'BertForSequenceClassification'}"
        assert len(model.networks) == 2
