"""Loading a model prints nothing, changes no setting of transformers, and says itself what does not fit."""

import json
import shutil
import warnings
from importlib.resources import files
from pathlib import Path

import huggingface_hub.utils as hub
import pytest
import torch
from transformers.utils import logging as transformers_logging

import rationales
from rationales.errors import ModelError
from rationales.models.quiet import quiet_transformers


@pytest.fixture
def folder(tmp_path):
    """The embedded model, in a folder as anybody's."""
    return Path(shutil.copytree(files(rationales) / "models" / "embedded", tmp_path / "model"))


def configure(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


class TestSilence:
    def test_loading_prints_nothing(self, folder, capfd):
        capfd.readouterr()
        rationales.load(folder)
        assert capfd.readouterr() == ("", "")

    def test_nor_does_a_model_that_does_not_fit(self, folder, capfd):
        configure(folder, id2label={str(number): f"class {number}" for number in range(5)})
        capfd.readouterr()
        with pytest.raises(ModelError):
            rationales.load(folder)
        assert capfd.readouterr() == ("", "")

    @pytest.mark.parametrize("bars", [True, False])
    def test_settings_are_restored(self, bars):
        (transformers_logging.enable_progress_bar if bars else transformers_logging.disable_progress_bar)()
        try:
            level = transformers_logging.get_verbosity()
            with quiet_transformers():
                assert not transformers_logging.is_progress_bar_enabled()
            with pytest.raises(ZeroDivisionError), quiet_transformers():
                1 / 0  # noqa: B018  # any exception
            assert transformers_logging.get_verbosity() == level
            assert transformers_logging.is_progress_bar_enabled() is bars
            assert hub.are_progress_bars_disabled() is not bars
        finally:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                transformers_logging.enable_progress_bar()


class TestWhatDoesNotFit:
    def test_other_labels_than_weights(self, folder):
        configure(folder, id2label={str(number): f"class {number}" for number in range(5)})
        with pytest.raises(ModelError, match=r"names 5 labels, but the weights \(classifier.bias\) are for 2"):
            rationales.load(folder)

    def test_another_width_than_the_weights(self, folder):
        configure(folder, intermediate_size=400)
        with pytest.raises(ModelError, match=r"config.json does not fit the weights: .* \(768,\) in the file"):
            rationales.load(folder)


class TestShown:
    def test_one_line(self):
        model = rationales.load()
        assert repr(model) == (
            "<TextModel 'embedded'; reads: texts, labels: negative, positive, unit: word, baseline: pad, "
            f"segments: {model.limit} tokens, device: cpu>"
        )

    def test_a_table_in_which_names_are_escaped(self):
        model = rationales.load()
        model.name, model.labels = "<b>mine</b>", tuple(f"<i>{number}" for number in range(9))
        page = model._repr_html_()
        assert "<b>" not in page
        assert "<i>" not in page
        assert "&lt;b&gt;mine&lt;/b&gt;" in page
        assert "and 3 more" in page

    def test_a_module_of_sounds_and_one_of_pictures(self):
        sounds = rationales.load(
            torch.nn.Linear(1600, 2), sample_rate=1600, labels=["quiet", "loud"], segment=1, frame=0.1
        )
        assert "<AudioModel 'Linear'; reads: sounds at 1,600 samples per second, labels: quiet, loud" in repr(sounds)
        pictures = rationales.load(
            torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 2)),
            lambda image: torch.tensor(list(image.resize((2, 2)).tobytes())).view(3, 2, 2) / 255,
            labels=["dark", "bright"],
        )
        assert "<ImageModel 'Sequential'; reads: images of 2 × 2, labels: dark, bright" in repr(pictures)

    def test_a_unit_of_texts_is_refused_for_pictures(self):
        with pytest.raises(rationales.RationalesError, match="images are explained by pixels"):
            rationales.load("efficientnet-lite0", unit="token")
