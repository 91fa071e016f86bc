"""One door: what was given decides whether it is a model of texts or of pictures."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from families import tiny
from torch import nn

import rationales
from rationales.errors import ModelError, OptionError
from rationales.models.front import reads_pictures
from rationales.models.image import ImageModel
from rationales.models.text import TextModel

pytest.importorskip("PIL")


class Flat(nn.Module):
    """The mean of each colour as logits."""

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return pixels.mean((2, 3))


def prepare(image):
    return torch.from_numpy(np.asarray(image.resize((8, 8)), dtype=np.float32) / 255).permute(2, 0, 1)


def test_a_module_with_a_tokenizer_reads_texts():
    assert isinstance(rationales.load(*tiny("bert")), TextModel)


def test_a_module_with_a_callable_reads_pictures():
    model = rationales.load(Flat(), prepare, labels=["r", "g", "b"], baseline="black")
    assert isinstance(model, ImageModel)
    assert model.baselines == ("black",)
    several = rationales.load(Flat(), prepare, labels=["r", "g", "b"], baseline="blur-20,mean")
    assert several.baselines == ("blur-20", "mean")
    red = np.zeros((12, 10, 3), dtype=np.uint8)
    red[..., 0] = 200
    assert rationales.explain(model, red, method="random").target == "r"


def test_classes_need_names():
    with pytest.raises(OptionError, match="labels="):
        rationales.load(Flat(), prepare)


def test_a_folder_says_what_it_is(tmp_path):
    for names, pictures in ((["ViTForImageClassification"], True), (["BertForSequenceClassification"], False)):
        (tmp_path / "config.json").write_text(json.dumps({"architectures": names}))
        assert reads_pictures(str(tmp_path), None) == pictures
    (tmp_path / "config.json").write_text("not json")
    assert not reads_pictures(tmp_path, None)


def test_a_saved_image_classifier_comes_back(tmp_path):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, image_size=16, patch_size=8
    )
    module = transformers.ViTForImageClassification(config).eval()
    kind = getattr(transformers, "ViTImageProcessorPil", transformers.ViTImageProcessor)
    processor = kind(size={"height": 16, "width": 16})
    module.save_pretrained(tmp_path)
    processor.save_pretrained(tmp_path)
    picture = np.random.default_rng(0).integers(0, 256, (20, 24, 3), dtype=np.uint8)
    found = [
        rationales.explain(rationales.load(*given), picture, options={"steps": 3})
        for given in ((str(tmp_path),), (module, processor))
    ]
    assert np.allclose(found[0].scores, found[1].scores, atol=1e-5)


def test_pickled_weights_of_pictures_are_refused_too(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["ViTForImageClassification"]}))
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(ModelError, match="pickled"):
        rationales.load(tmp_path)
