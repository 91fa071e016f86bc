"""Models stored as a change of an encoder: low-rank pairs, 8-bit factors, deltas on top of deltas."""

from __future__ import annotations

import copy
import json

import pytest
import torch
import transformers
from families import tiny
from safetensors.torch import save_file

from rationales.errors import ModelError, OptionError
from rationales.models import delta as deltas
from rationales.models.delta import apply_delta, load_delta, read_delta
from rationales.models.text.filler_files import FILLERS, filler_location, load_filler

QUERY = "bert.encoder.layer.0.attention.self.query.weight"


@pytest.fixture
def module():
    return tiny("bert")[0]


def low_rank(rank=2):
    generator = torch.Generator().manual_seed(2)
    return torch.randn(32, rank, generator=generator), torch.randn(rank, 32, generator=generator)


class TestDelta:
    def test_low_rank_pairs_are_added_and_whole_tensors_put_in_place(self, module):
        before = copy.deepcopy(module.state_dict())
        up, down = low_rank()
        bias = torch.arange(3.0)
        apply_delta(module, {f"{QUERY}.up": up, f"{QUERY}.down": down, "classifier.bias": bias})
        after = module.state_dict()
        assert torch.allclose(after[QUERY], before[QUERY] + up @ down, atol=1e-6)
        assert torch.equal(after["classifier.bias"], bias)
        unchanged = set(before) - {QUERY, "classifier.bias"}
        assert all(torch.equal(after[name], before[name]) for name in unchanged)

    def test_half_precision_is_added_in_the_models_own(self, module):
        before = module.state_dict()[QUERY].clone()
        up, down = (factor.half() for factor in low_rank())
        apply_delta(module, {f"{QUERY}.down": down, f"{QUERY}.up": up})
        assert torch.allclose(module.state_dict()[QUERY], before + up.float() @ down.float(), atol=1e-6)

    @pytest.mark.parametrize(
        "delta",
        [
            {"nothing.weight": torch.zeros(2)},
            {"nothing.weight.up": torch.zeros(2, 1), "nothing.weight.down": torch.zeros(1, 2)},
            {"nothing.weight.down": torch.zeros(1, 2)},
            {f"{QUERY}.up": torch.zeros(32, 2)},
            {f"{QUERY}.down": torch.zeros(2, 32)},
            {f"{QUERY}.up": torch.ones(1, 2), f"{QUERY}.down": torch.ones(2, 32)},  # would be broadcast
            {"classifier.bias": torch.ones(1)},
        ],
        ids=["complete", "pair", "half of nothing", "up alone", "down alone", "shape", "shape of the whole"],
    )
    def test_what_does_not_fit_is_an_error_and_changes_nothing(self, module, delta):
        before = copy.deepcopy(module.state_dict())
        with pytest.raises(ModelError, match=next(iter(delta)).rpartition(".")[0]):
            apply_delta(module, {"classifier.weight": torch.zeros(3, 32)} | delta)
        assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


@pytest.fixture
def encoder(tmp_path):
    """A folder with a random BERT encoder of four layers and its tokenizer, without any head."""
    module, tokenizer = tiny("bert", num_hidden_layers=4)
    folder = tmp_path / "encoder"
    module.bert.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def filler_head(config):
    torch.manual_seed(3)
    head = transformers.BertForMaskedLM(config).cls.predictions
    return {
        f"cls.predictions.{name}": torch.randn_like(value)
        for name, value in head.named_parameters()
        if not name.startswith("decoder.")
    }


def write_delta(folder, delta, config, **extra):
    folder.mkdir(parents=True)
    save_file(delta, folder / "delta.safetensors")
    (folder / "config.json").write_text(json.dumps(config.to_dict() | extra, default=str))


class TestFolders:
    def test_factors_in_8_bits_are_multiplied_by_their_steps(self, tmp_path):
        factors = {"w.up": torch.tensor([[127, -64]], dtype=torch.int8), "w.up.scale": torch.tensor([[0.5, 2.0]])}
        save_file(factors | {"bias": torch.ones(2).half()}, tmp_path / "delta.safetensors")
        delta = read_delta(tmp_path / "delta.safetensors")
        assert delta.keys() == {"w.up", "bias"}
        assert delta["w.up"].tolist() == [[63.5, -128.0]]

    def test_a_delta_goes_on_top_of_its_base_and_may_use_fewer_layers(self, encoder, tmp_path):
        config = transformers.AutoConfig.from_pretrained(encoder)
        config.num_hidden_layers = 2
        head = filler_head(config)
        up, down = low_rank()
        write_delta(tmp_path / "first", head, config)
        second = {f"{QUERY}.up": up, f"{QUERY}.down": down, "cls.predictions.bias": torch.zeros(config.vocab_size)}
        write_delta(tmp_path / "second", second, config, delta_base="first")
        base, _ = load_delta(tmp_path / "first", encoder, "BertForMaskedLM")
        module, _ = load_delta(tmp_path / "second", encoder, "BertForMaskedLM")
        weights, base_weights = module.state_dict(), base.state_dict()
        assert len(module.bert.encoder.layer) == 2
        assert torch.allclose(weights[QUERY], base_weights[QUERY] + up @ down, atol=1e-6)
        assert torch.equal(
            weights["cls.predictions.transform.dense.weight"], head["cls.predictions.transform.dense.weight"]
        )
        assert torch.equal(weights["cls.predictions.bias"], torch.zeros(config.vocab_size))
        assert torch.equal(base_weights["cls.predictions.decoder.bias"], head["cls.predictions.bias"])

    def test_a_head_that_nobody_stored_is_an_error(self, encoder, tmp_path):
        config = transformers.AutoConfig.from_pretrained(encoder)
        head = filler_head(config)
        del head["cls.predictions.transform.dense.bias"]
        write_delta(tmp_path / "model", head, config)
        with pytest.raises(ModelError, match=r"holds cls\.predictions\.transform\.dense\.bias"):
            load_delta(tmp_path / "model", encoder, "BertForMaskedLM")

    def test_a_base_that_is_missing_or_circular_is_an_error(self, encoder, tmp_path):
        config = transformers.AutoConfig.from_pretrained(encoder)
        write_delta(tmp_path / "orphan", filler_head(config), config, delta_base="nowhere")
        write_delta(tmp_path / "circle", filler_head(config), config, delta_base="circle")
        with pytest.raises(ModelError, match="nowhere"):
            load_delta(tmp_path / "orphan", encoder, "BertForMaskedLM")
        with pytest.raises(ModelError, match="delta_base"):
            load_delta(tmp_path / "circle", encoder, "BertForMaskedLM")


class TestFillers:
    @pytest.mark.parametrize("name", FILLERS)
    def test_a_filler_is_a_fill_mask_model_of_transformers(self, name, encoder, tmp_path, monkeypatch):
        monkeypatch.setattr(deltas, "encoder_folder", lambda: encoder)
        monkeypatch.setattr(deltas, "DELTA_FOLDER", tmp_path)
        assert filler_location(name) is None
        config = transformers.AutoConfig.from_pretrained(encoder)
        write_delta(tmp_path / name, filler_head(config), config)
        module, tokenizer = load_filler(name)
        assert isinstance(module, transformers.BertForMaskedLM)
        assert not module.training
        assert filler_location(name) == str(tmp_path / name)
        candidates = transformers.pipeline("fill-mask", module, tokenizer=tokenizer, top_k=2)("the [MASK] boat")
        assert len(candidates) == 2

    def test_what_is_missing_is_said(self, encoder, tmp_path, monkeypatch):
        with pytest.raises(OptionError, match="minilm-filler-small"):
            load_filler("no-such-filler")
        monkeypatch.setattr(deltas, "DELTA_FOLDER", tmp_path)
        monkeypatch.setattr(deltas, "encoder_folder", lambda: None)
        with pytest.raises(ModelError, match="pip install"):
            load_filler("minilm-filler")
        monkeypatch.setattr(deltas, "encoder_folder", lambda: encoder)
        with pytest.raises(ModelError, match="checkout"):
            load_filler("minilm-filler")
