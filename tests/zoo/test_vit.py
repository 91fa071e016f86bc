"""The script that trains the ViT: from packed photographs to a model that loads by name and is explained."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

pytest.importorskip("PIL")
pytest.importorskip("skimage")
from PIL import Image

import rationales
from rationales.errors import ModelError
from zoo.vit.augmentation import augment, mixed, normalise
from zoo.vit.pack import SPLITS, label_names, pack, unpack
from zoo.vit.train import TINY, Plan, student_of, train


@pytest.fixture
def photographs(tmp_path):
    """Two kinds of birds, red and blue, in three splits."""
    generator = np.random.default_rng(0)
    for split in SPLITS:
        for number, kind in enumerate(("blue_tit", "robin")):
            folder = tmp_path / "birds-112" / split / kind
            folder.mkdir(parents=True)
            for i in range(6):
                pixels = generator.integers(0, 60, (40, 48, 3), dtype=np.uint8)
                pixels[10:30, 10:30, 2 - 2 * number] = 250
                Image.fromarray(pixels).save(folder / f"{i}.webp", lossless=True)
    return tmp_path / "birds-112"


def test_photographs_are_packed_and_unpacked_as_they_are(photographs, tmp_path):
    packed = pack(photographs, tmp_path / "birds.safetensors")
    assert list(label_names(packed)) == ["blue_tit", "robin"]
    pictures, labels = unpack(packed, "test", side=40)
    assert pictures.shape == (12, 3, 40, 40)
    assert labels.tolist() == [0] * 6 + [1] * 6
    with Image.open(photographs / "test" / "blue_tit" / "0.webp") as image:
        expected = np.asarray(image.convert("RGB"))[:, 4:44]
    assert np.array_equal(pictures[0].permute(1, 2, 0).numpy(), expected)


def test_a_trained_model_loads_by_name_and_is_explained(photographs, tmp_path, monkeypatch):
    packed = pack(photographs, tmp_path / "birds.safetensors")
    plan = Plan(**TINY, teacher_steps=2, student_steps=2)
    monkeypatch.setattr("rationales.models.delta.DELTA_FOLDER", tmp_path)
    with pytest.raises(ModelError, match=r"come with a checkout.*zoo\.vit\.train"):
        rationales.load("vit-birds")
    metrics = train(packed, tmp_path / "vit-birds", plan, "cpu", lambda _: None)
    assert 0 <= metrics["test"] <= 1
    assert json.loads((tmp_path / "vit-birds" / "metrics.json").read_text())["pictures"]["train"] == 12
    assert "| chance | | 50.0 % |" in (tmp_path / "vit-birds" / "README.md").read_text()
    model = rationales.load("vit-birds")
    assert model.labels == ("blue_tit", "robin")
    picture = photographs / "test" / "robin" / "0.webp"
    for method in ("grad-cam", "attention-rollout", "chefer"):
        assert np.isfinite(rationales.explain(model, picture, method=method).scores).all()


def test_the_student_has_the_shape_of_deit_tiny_and_fits():
    with torch.device("meta"):
        module = student_of(Plan(), [str(number) for number in range(8)])
    weights = sum(weight.numel() for weight in module.parameters())
    assert weights == pytest.approx(5.5e6, rel=0.02)  # DeiT-tiny has 5.7 million, with 1,000 classes and larger patches
    assert 2 * weights < 12e6


def test_views_are_random_and_mixtures_are_distributions():
    pictures = torch.randint(0, 256, (4, 3, 16, 16), dtype=torch.uint8)
    generator = torch.Generator().manual_seed(0)
    views = augment(pictures, generator)
    assert views.shape == pictures.shape
    assert views.abs().max() <= 1
    assert not torch.allclose(views, normalise(pictures))
    _, targets = mixed(views, torch.eye(4), generator)
    assert torch.allclose(targets.sum(1), torch.ones(4))
