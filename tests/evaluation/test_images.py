"""Pictures: the protocol's baselines replace the model's, padding is never removed, boxes are judged at full size."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

pytest.importorskip("PIL")
pytest.importorskip("skimage")

from PIL import Image

import rationales
from rationales.data.example import Example
from rationales.errors import InputError, OptionError
from rationales.evaluation.evaluate import evaluate
from rationales.evaluation.faithfulness.image_scores import to_model_grid
from rationales.evaluation.faithfulness.measure import measure_faithfulness, measure_rationales
from rationales.evaluation.protocols import PRESETS, Protocol
from rationales.models.classes import Head
from rationales.models.image.loading import from_module
from rationales.models.image.model import ImageModel
from rationales.models.image.reading import Fit, ImageInput, fit_image, scores_at_image_size

SIDE = 16
WINDOW = {"window": 3, "stride": 1}


class RedShare(nn.Module):
    """Logit of `red` = 40 x (mean of red minus mean of green) - 2: every pixel counts the same."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(40.0))

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        logit = self.scale * (pixels[:, 0] - pixels[:, 1]).mean((1, 2)) - 2
        return torch.stack([-logit, logit], 1) / 2


def preprocess(image):
    return torch.from_numpy(np.asarray(image.resize((SIDE, SIDE)), dtype=np.float32) / 255).permute(2, 0, 1)


def detector(**options) -> ImageModel:
    return from_module(RedShare().eval(), preprocess, ["other", "red"], "detector", **options)


def scene(height=SIDE, width=SIDE):
    """Grey with a red quarter at the top left."""
    pixels = np.full((height, width, 3), 128, dtype=np.uint8)
    pixels[: height // 2, : width // 2] = (255, 0, 0)
    return pixels


def quarter():
    scores = np.zeros((SIDE, SIDE))
    scores[: SIDE // 2, : SIDE // 2] = 1
    return scores.flatten()


def red(share: float) -> float:
    """p(red) when this share of the picture is pure red and the rest without colour."""
    return 1 / (1 + np.exp(-(40 * share - 2)))


class TestFaithfulness:
    def test_by_hand_on_uncoloured_baselines(self):
        """Removing pixels of grey leaves the difference of colours as it is; each red pixel removed is 1/256 less."""
        protocol = replace(PRESETS["marc-images"], ties="left", removal=("black", "white"))
        curves = measure_faithfulness(detector(), [scene()], [quarter()], ["red"], protocol)
        assert curves.full == pytest.approx(red(0.25), abs=1e-5)
        assert curves.full.shape == (1, 2)
        assert curves.empty == pytest.approx(red(0), abs=1e-5)
        for position, level in enumerate(protocol.levels):
            count = int(np.ceil(level * 256 - 1e-9))
            inside = min(count, 64) / 256
            assert curves.kept[0, :, position] == pytest.approx(red(inside), abs=1e-5)
            assert curves.removed[0, :, position] == pytest.approx(red(0.25 - inside), abs=1e-5)

    def test_the_protocols_baselines_replace_the_models(self):
        protocol = PRESETS["marc-images"]
        curves, other_curves = (
            measure_faithfulness(detector(baselines=baseline_curves), [scene()], [quarter()], ["red"], protocol)
            for baseline_curves in (["black"], ["white", "noise"])
        )
        assert curves.removed.shape == (1, 4, 19)
        assert np.allclose(curves.removed, other_curves.removed)
        baseline_curves = measure_faithfulness(
            detector(baselines=["black"]), [scene()], [quarter()], ["red"], replace(protocol, removal="baseline")
        )
        assert baseline_curves.removed.shape == (1, 1, 19)
        assert baseline_curves.removed[:, 0] == pytest.approx(curves.removed[:, 1])  # blur-10, black, mean, white

    def test_each_baseline_apart_then_averaged(self):
        protocol = PRESETS["marc-images"]
        both = measure_faithfulness(detector(), [scene()], [quarter()], ["red"], protocol)
        alone = [
            measure_faithfulness(detector(), [scene()], [quarter()], ["red"], replace(protocol, removal=(name,)))
            for name in protocol.removal
        ]
        for name in ("sufficiency", "comprehensiveness", "deletion", "insertion", "log_odds"):
            assert getattr(both, name)() == pytest.approx(
                np.mean([getattr(baseline, name)() for baseline in alone], 0), abs=1e-5
            )

    def test_many_pictures_equal_each_alone(self):
        pictures = [scene(), np.flip(scene(), 0).copy(), scene(40, 30)]
        scores = [np.random.default_rng(number).random(SIDE * SIDE) for number in range(3)]
        together = measure_faithfulness(detector(), pictures, scores, ["red"] * 3)
        assert together.protocol is PRESETS["marc-images"]
        for number in range(3):
            alone = measure_faithfulness(detector(), [pictures[number]], [scores[number]], ["red"])
            assert together.comprehensiveness()[number] == pytest.approx(alone.comprehensiveness()[0], abs=1e-5)

    def test_padding_is_no_unit(self):
        fit = Fit("pad", SIDE, SIDE)
        model = ImageModel(
            RedShare().eval(), lambda picture: fit_image(picture, fit)[0], fit, Head.SOFTMAX, ("other", "red"), "padded"
        )
        picture = np.zeros((8, 16, 3), dtype=np.uint8)
        picture[..., 0] = 255  # all red; fits 16 x 8 of the model's 16 x 16
        protocol = Protocol(levels=(0.5, 1.0), removal=("black",), label="gold")
        high = np.ones(SIDE * SIDE)  # padding scores as high as anything
        curves = measure_faithfulness(model, [picture], [high], ["red"], protocol)
        assert curves.removed[0, 0] == pytest.approx([red(0.25), red(0.0)], abs=1e-5)
        assert curves.kept[0, 0] == pytest.approx([red(0.25), red(0.5)], abs=1e-5)

    def test_results_of_explain_can_be_judged(self):
        model = detector()
        for size in ((SIDE, SIDE), (64, 48)):
            curves = rationales.explain(
                model, scene(*size), method="occlusion", target="red", options={"window": 3, "stride": 1}
            )
            judged = measure_rationales(model, [curves])
            assert judged.comprehensiveness()[0] > 0.5
            random = rationales.explain(model, scene(*size), method="random", target="red")
            assert judged.comprehensiveness()[0] > measure_rationales(model, [random]).comprehensiveness()[0]
        with pytest.raises(InputError, match="without its image"):
            measure_rationales(model, [replace(curves, image=None)])

    def test_bad_input(self):
        with pytest.raises(InputError, match="3 scores for the 256 pixels"):
            measure_faithfulness(detector(), [scene()], [np.ones(3)], ["red"])
        with pytest.raises(OptionError, match="is for texts"):
            measure_faithfulness(
                detector(), [scene()], [quarter()], ["red"], replace(PRESETS["marc-images"], special="remove")
            )


class TestGrid:
    @pytest.mark.parametrize(
        ("fit", "size"),
        [
            (Fit("squash", 16, 16), (16, 16)),
            (Fit("squash", 16, 16), (48, 64)),
            (Fit("crop", 16, 16, resize=20), (60, 40)),
            (Fit("pad", 16, 16), (20, 40)),
            (Fit("squash", 16, 16), (8, 6)),
        ],
    )
    def test_there_and_back_again(self, fit, size):
        """A smooth field survives the way to the picture's size and back, where the model sees it."""
        rows, columns = np.meshgrid(np.linspace(0, 3, 16), np.linspace(0, 3, 16), indexing="ij")
        field = np.sin(rows) + np.cos(columns)
        model = replace(detector(), fit=fit)
        picture = ImageInput(np.zeros((*size, 3), dtype=np.uint8), "x")
        real = fit_image(picture, fit)[1].numpy()
        there = scores_at_image_size(torch.from_numpy(field * real).float(), fit, picture).numpy()
        again = to_model_grid(there, model)
        assert not again[~real].any()
        inner = real.copy()
        inner[:1], inner[-1:], inner[:, :1], inner[:, -1:] = False, False, False, False
        tolerance = 0.02 if min(size) >= 16 else 0.15
        assert np.abs(again - field)[inner & _inside(real)].max() < tolerance
        if size == (16, 16):
            assert again == pytest.approx(field, abs=1e-6)

    def test_is_for_pictures(self):
        with pytest.raises(OptionError, match="reads no images"):
            to_model_grid(np.zeros((4, 4)), rationales.load())


def _inside(real: np.ndarray) -> np.ndarray:
    """Without the pixels at the border of what is real."""
    padded = np.pad(real, 1)
    return padded[:-2, 1:-1] & padded[2:, 1:-1] & padded[1:-1, :-2] & padded[1:-1, 2:] & real


class TestEvaluate:
    def examples(self, folder):
        examples_ = []
        for number in range(2):
            path = folder / f"{number}.png"
            Image.fromarray(scene(32, 48)).save(path)
            examples_.append(Example(str(number), label="red", image=path, boxes=((0, 0, 24, 16),)))
        return examples_

    def test_a_table_of_pictures(self, tmp_path):
        table = evaluate(
            detector(), self.examples(tmp_path), [{"name": "occlusion", "options": {"window": 2, "stride": 2}}],
            metrics=["sufficiency", "comprehensiveness", "pointing", "inside-top", "inside-energy", "keep-entropy"],
            cache=tmp_path / "scores",
        )  # fmt: skip
        assert table.protocol is PRESETS["marc-images"]
        row, chance = table.rows
        assert row.cells["pointing"].values == (1.0, 1.0)
        assert row.cells["inside-top"].estimate.mean == pytest.approx(1.0)
        assert row.cells["inside-energy"].estimate.mean > 0.9
        assert chance.cells["inside-top"].estimate.mean < 0.6
        assert row.cells["comprehensiveness"].estimate.mean > chance.cells["comprehensiveness"].estimate.mean
        again = evaluate(
            detector(), self.examples(tmp_path), [{"name": "occlusion", "options": {"window": 2, "stride": 2}}],
            metrics=list(table.metrics), cache=tmp_path / "scores",
        )  # fmt: skip
        assert again.rows[0] == row

    def test_without_boxes_there_is_faithfulness_alone(self, tmp_path):
        bare = [replace(example, boxes=()) for example in self.examples(tmp_path)]
        assert evaluate(detector(), bare, ["random"]).metrics == ("sufficiency", "comprehensiveness")
        assert "pointing" in evaluate(detector(), [*self.examples(tmp_path)[:1], replace(bare[1])], ["random"]).metrics
        with pytest.raises(OptionError, match="needs texts"):
            evaluate(detector(), bare, ["random"], metrics=["spans"])

    def test_a_box_outside_of_the_picture_is_told(self, tmp_path):
        wrong = replace(self.examples(tmp_path)[0], boxes=((0, 0, 49, 16),))
        with pytest.raises(InputError, match=r"0: the box \(0, 0, 49, 16\) lies outside of its 48 × 32 pixels"):
            evaluate(detector(), [wrong], ["random"])


def test_agreement_between_baselines_of_pictures():
    occlusion = {"name": "occlusion", "options": {"window": 3, "stride": 1}}
    result = rationales.stability(detector(), [scene()], occlusion, seeds=(0,), baselines=("black", "white"))
    assert [baseline.name for baseline in result.methods[0].baselines] == ["black", "white"]
    assert all(baseline.iou[0] > 0.9 for baseline in result.methods[0].baselines)


def test_pixels_that_the_model_does_not_read_do_not_count_as_agreement():
    """Of a wide image the model reads the square in its middle; random scores agree nowhere."""
    wide = np.tile(scene(), (1, 3, 1))
    fit = Fit("crop", SIDE, SIDE)
    cropping = replace(detector(), fit=fit, preprocess=lambda image: fit_image(image, fit)[0])
    result = rationales.stability(cropping, [wide], "random", seeds=(0, 1), baselines=())
    assert abs(result.methods[0].agreement.rank[0, 1, 0]) < 0.3
