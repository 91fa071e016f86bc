"""`load` recognises what kind of model it is given."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from families import tiny
from torch import nn

import rationales
from rationales.errors import ModelError, OptionError
from rationales.models.audio.model import AudioModel
from rationales.models.image.model import ImageModel
from rationales.models.recognition import pretrained_kind
from rationales.models.text.model import TextModel

pytest.importorskip("PIL")
transformers = pytest.importorskip("transformers")

TINY = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}


class Flat(nn.Module):
    """The mean of each colour as logits."""

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return pixels.mean((2, 3))


def prepare(image):
    return torch.from_numpy(np.asarray(image.resize((8, 8)), dtype=np.float32) / 255).permute(2, 0, 1)


def test_a_module_with_a_tokenizer_reads_texts():
    assert isinstance(rationales.load(*tiny("bert")), TextModel)


def test_a_module_with_a_callable_reads_images():
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


def image_classifier():
    """A tiny vision transformer with three labels, and its image processor."""
    torch.manual_seed(0)
    labels = {0: "cat", 1: "dog", 2: "hen"}
    config = transformers.ViTConfig(**TINY, image_size=16, patch_size=8, id2label=labels)
    processor = getattr(transformers, "ViTImageProcessorPil", transformers.ViTImageProcessor)
    return transformers.ViTForImageClassification(config).eval(), processor(size={"height": 16, "width": 16})


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A cache of the hub without a network: `hub(name, *parts)` stores what `save_pretrained` writes of the parts."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr("transformers.utils.hub.constants.HF_HUB_CACHE", str(tmp_path))

    def store(name, *parts):
        repository = tmp_path / f"models--{name.replace('/', '--')}"
        (repository / "refs").mkdir(parents=True)
        (repository / "refs" / "main").write_text("0" * 40)
        for saved in parts:
            saved.save_pretrained(repository / "snapshots" / ("0" * 40))

    return store


class TestHubId:
    def test_an_image_classifier_is_loaded_as_one_and_explained(self, hub):
        module, processor = image_classifier()
        hub("zoo/animals", module, processor)
        model = rationales.load("zoo/animals")
        assert isinstance(model, ImageModel)
        assert (model.name, model.labels) == ("zoo/animals", ("cat", "dog", "hen"))
        image = np.random.default_rng(0).integers(0, 256, (20, 24, 3), dtype=np.uint8)
        by_id, by_module = (
            rationales.explain(loaded, image, options={"steps": 3})
            for loaded in (model, rationales.load(module, processor))
        )
        assert np.array_equal(by_id.scores, by_module.scores)

    def test_an_audio_classifier_is_loaded_as_one_and_explained(self, hub):
        """Its class is called Wav2Vec2ForSequenceClassification, like those of texts."""
        layers = {"conv_dim": (8, 8), "conv_stride": (5, 4), "conv_kernel": (10, 8), "num_feat_extract_layers": 2}
        positions = {"num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 2}
        config = transformers.Wav2Vec2Config(**TINY, **layers, **positions, classifier_proj_size=8)
        module = transformers.Wav2Vec2ForSequenceClassification(config).eval()
        hub("zoo/voices", module, transformers.Wav2Vec2FeatureExtractor())
        model = rationales.load("zoo/voices")
        assert isinstance(model, AudioModel)
        samples = np.random.default_rng(0).normal(size=8000) * 0.1
        assert len(rationales.explain(model, (samples, 16000), method="random").scores) == 16  # of 32 ms

    def test_a_text_classifier_is_loaded_as_one(self, hub):
        hub("zoo/reviews", *tiny("bert"))
        assert isinstance(rationales.load("zoo/reviews"), TextModel)

    @pytest.mark.parametrize(
        "config",
        [
            transformers.BertConfig(architectures=["BertModel"]),
            transformers.ViTConfig(architectures=["ViTModel"]),
        ],
        ids=["text encoder", "image encoder"],
    )
    def test_what_is_no_classifier_is_refused_by_its_configuration_alone(self, hub, config):
        hub("zoo/encoder", config)
        with pytest.raises(ModelError, match=f"zoo/encoder is no trained classifier: .* {config.architectures[0]};"):
            rationales.load("zoo/encoder")

    def test_a_causal_language_model_is_told_to_need_labels_and_a_template(self, hub):
        hub("zoo/decoder", transformers.GPT2Config(architectures=["GPT2LMHeadModel"]))
        with pytest.raises(OptionError, match=r"zoo/decoder is a language model.* labels and template are missing"):
            rationales.load("zoo/decoder")

    def test_an_unknown_id_is_told(self, hub):
        hub("zoo/animals", *image_classifier())
        with pytest.raises(ModelError, match="there is no model 'zoo/plants'"):
            rationales.load("zoo/plants")


class TestFolder:
    @pytest.mark.parametrize(
        ("config", "kind"),
        [
            (transformers.ViTConfig(architectures=["ViTForImageClassification"]), "image"),
            (transformers.ConvNextConfig(architectures=["ConvNextForImageClassification"]), "image"),
            (transformers.BertConfig(architectures=["BertForSequenceClassification"]), "text"),
            (transformers.Wav2Vec2Config(architectures=["Wav2Vec2ForSequenceClassification"]), "audio"),
            (transformers.ASTConfig(architectures=["ASTForAudioClassification"]), "audio"),
            (transformers.ASTConfig(), "audio"),  # by its model type
        ],
        ids=["vit", "convnext", "bert", "wav2vec2", "ast", "ast without architectures"],
    )
    def test_the_configuration_tells_the_kind(self, tmp_path, config, kind):
        config.save_pretrained(tmp_path)
        assert pretrained_kind(str(tmp_path)) == kind

    def test_an_unreadable_configuration_is_left_to_the_loader(self, tmp_path):
        (tmp_path / "config.json").write_text("not json")
        assert pretrained_kind(str(tmp_path)) is None

    def test_a_saved_image_classifier_comes_back(self, tmp_path):
        module, processor = image_classifier()
        module.save_pretrained(tmp_path)
        processor.save_pretrained(tmp_path)
        image = np.random.default_rng(0).integers(0, 256, (20, 24, 3), dtype=np.uint8)
        by_folder, by_module = (
            rationales.explain(rationales.load(*source), image, options={"steps": 3})
            for source in ((str(tmp_path),), (module, processor))
        )
        assert np.allclose(by_folder.scores, by_module.scores, atol=1e-5)

    def test_pickled_weights_of_images_are_refused_too(self, tmp_path):
        transformers.ViTConfig(architectures=["ViTForImageClassification"]).save_pretrained(tmp_path)
        (tmp_path / "pytorch_model.bin").write_bytes(b"")
        with pytest.raises(ModelError, match="pickled"):
            rationales.load(tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fit": "pad"}, "fit is for models of images"),
        ({"unit": "token", "sample_rate": 8000, "labels": ["a", "b"]}, "sounds are explained by frames"),
    ],
)
def test_options_of_another_kind_are_refused(options, message):
    with pytest.raises(OptionError, match=message):
        rationales.load(*(() if "fit" in options else (Flat(),)), **options)


def test_names_of_the_catalogue_are_loaded_without_reading_configurations():
    """Start-up stays fast: neither the recognition nor the loaders of other kinds are imported."""
    code = (
        "import sys, rationales; rationales.load(); "
        "print([name for name in sys.modules if name.startswith(('rationales.models.image', 'rationales.models.audio', "
        "'rationales.models.recognition'))])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
