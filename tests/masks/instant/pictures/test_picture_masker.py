"""Maskers for pictures: a known cause is found in one pass, the file is bound to its model, training goes on."""

from __future__ import annotations

import copy
import math
import threading
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

pytest.importorskip("PIL")
pytest.importorskip("skimage")

from models.image.test_model import SIDE, detector, preprocess, scene

from rationales.errors import DataError, ModelError, OptionError
from rationales.masks.instant.masker_file import load_masker
from rationales.masks.instant.pictures import training
from rationales.masks.instant.pictures.augmentation import TrainingPictures, picture_files
from rationales.masks.instant.pictures.feature_layers import find_layers, picture_features
from rationales.masks.instant.pictures.masker import PictureMasker, load_picture_masker
from rationales.masks.instant.pictures.training import PictureTrainSettings, train_pictures
from rationales.masks.settings import IMAGE
from rationales.methods import build
from rationales.models.classes import explained_output
from rationales.models.image.loading import from_module
from rationales.pipeline.explain import explain

OBJECTIVE = replace(IMAGE, cell=2, initial_sigma=6.0)
BRIEF = PictureTrainSettings(steps=24, inputs=4, width=8, blocks=1, held_out=4, validations=2, learning_rate=1e-2)


def pictures(count, seed=0):
    """Scenes with a red square at random places."""
    generator = np.random.default_rng(seed)
    corners = generator.integers(0, SIDE - 10, (count, 2))
    return [scene(int(top), int(left), seed=number) for number, (top, left) in enumerate(corners)]


class Shared(nn.Module):
    """A network of two resolutions whose ReLU, in place, is one module that is called twice."""

    def __init__(self):
        super().__init__()
        self.fine, self.coarse = nn.Conv2d(3, 6, 3, padding=1), nn.Conv2d(6, 8, 3, stride=2, padding=1)
        self.activation, self.classifier = nn.ReLU(inplace=True), nn.Linear(8, 3)

    def forward(self, pixels):
        maps = self.activation(self.coarse(self.activation(self.fine(pixels))))
        return self.classifier(maps.mean((2, 3)))


def shared_model():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = Shared().eval()
    return from_module(module, preprocess, ["a", "b", "c"], "shared", ["mean"])


def batch_of(model, images):
    plain = replace(model, baselines=("mean",))
    return plain.batch(plain.prepare([model.read(image, None) for image in images]))


@pytest.fixture(scope="module")
def masker():
    return train_pictures(detector(), pictures(40), BRIEF, OBJECTIVE)


@pytest.fixture(scope="module")
def file(masker, tmp_path_factory):
    return str(masker.save(tmp_path_factory.mktemp("maskers") / "m.safetensors"))


class TestKnownCause:
    @pytest.mark.parametrize(("top", "left"), [(6, 14), (0, 0), (20, 3)])
    def test_the_rationale_lies_on_the_square(self, file, top, left):
        result = explain(
            detector(), scene(top, left, seed=99), method="marc-instant", target="red", options={"masker": file}
        )
        truth = np.zeros((SIDE, SIDE), dtype=bool)
        truth[top : top + 10, left : left + 10] = True
        selected = result.selected().reshape(SIDE, SIDE)
        assert (selected & truth).sum() / (selected | truth).sum() > 0.4
        assert result.steps == 0

    def test_refining_never_raises_the_loss(self, file):
        options = {"masker": file, "refine": 5}
        results = explain(detector(), pictures(3, seed=7), method="marc-instant", target="red", options=options)
        assert {result.stop for result in results} <= {"steps", "start"}
        assert all(np.isfinite(result.scores).all() for result in results)

    def test_training_lowers_the_loss_of_held_out_pictures(self):
        values = []
        train_pictures(detector(), pictures(40), BRIEF, OBJECTIVE, on_validation=lambda result: values.append(result))
        untrained = replace(BRIEF, steps=1, learning_rate=1e-12, validations=1)
        start = []
        train_pictures(
            detector(), pictures(40), untrained, OBJECTIVE, on_validation=lambda result: start.append(result)
        )
        assert min(result.loss for result in values) < start[0].loss


class TestInvariants:
    def test_alone_as_in_a_batch(self, file):
        images = pictures(4, seed=3)
        together = explain(detector(), images, method="marc-instant", target="red", options={"masker": file})
        for image, result in zip(images, together, strict=True):
            alone = explain(detector(), image, method="marc-instant", target="red", options={"masker": file})
            np.testing.assert_allclose(alone.scores, result.scores, atol=2e-5)

    def test_the_model_is_left_as_it_was(self, masker):
        model = detector()
        before = copy.deepcopy(model.module.state_dict())
        model.module.train()
        masker(batch_of(model, [scene()]), torch.tensor([1]))
        assert model.module.training
        assert not any(submodule._forward_hooks for submodule in model.module.modules())
        assert all(weight.requires_grad for weight in model.module.parameters())
        assert all(torch.equal(before[name], value) for name, value in model.module.state_dict().items())

    def test_one_class_against_another_turns_around(self, file):
        options = {"masker": file}
        forward = explain(detector(), scene(), method="marc-instant", target="red", against="other", options=options)
        back = explain(detector(), scene(), method="marc-instant", target="other", against="red", options=options)
        assert np.corrcoef(forward.scores, back.scores)[0, 1] < 0

    def test_no_baselines_are_chosen_without_refinement(self):
        assert not build("marc-instant", {}).depends_on_baselines
        assert build("marc-instant", {"refine": 3}).depends_on_baselines
        assert build("marc", {}).depends_on_baselines


class TestFeatures:
    def test_layers_are_the_last_of_each_resolution(self):
        layers = find_layers(batch_of(shared_model(), [scene()]))
        assert [(layer.name, layer.call, layer.channels) for layer in layers] == [
            ("activation", 0, 6),
            ("activation", 1, 8),
        ]
        assert [(layer.height, layer.width) for layer in layers] == [(SIDE, SIDE), (SIDE // 2, SIDE // 2)]

    def test_maps_and_gradients_equal_those_of_a_plain_pass(self):
        model = shared_model()
        images = pictures(3, seed=5)
        batch = batch_of(model, images)
        target = torch.tensor([0, 2, 1])
        features = picture_features(batch, find_layers(batch), torch.arange(3), lambda _logits: target)
        module = model.module
        fine = module.fine(batch.values).relu().detach().requires_grad_()
        coarse = module.coarse(fine).relu()
        logits = module.classifier(coarse.mean((2, 3)))
        explained = explained_output(batch.head, logits, target, "log-odds").sum()
        expected = torch.autograd.grad(explained, [fine, coarse])
        for actual, expected_map in zip(features.maps, (fine, coarse), strict=True):
            torch.testing.assert_close(actual, expected_map.detach())
        for actual, gradient in zip(features.gradients, expected, strict=True):
            torch.testing.assert_close(actual, gradient)
        torch.testing.assert_close(features.logits, logits.detach())

    def test_a_model_without_maps_is_refused(self):
        module = nn.Sequential(nn.Flatten(), nn.Linear(3 * SIDE * SIDE, 2)).eval()
        model = from_module(module, preprocess, ["a", "b"], "flat", ["mean"])
        with pytest.raises(ModelError, match="no feature maps"):
            train_pictures(model, pictures(4), BRIEF, OBJECTIVE)

    def test_a_pass_of_another_thread_changes_nothing(self):
        model = shared_model()
        batch = batch_of(model, pictures(3))
        layers = find_layers(batch)
        expected = picture_features(batch, layers, torch.arange(3), lambda logits: logits.argmax(-1))
        other_passes = []

        def run_in_another_thread(_module, _arguments):
            if not other_passes:  # else its own pass starts the next one
                other_passes.append(threading.Thread(target=model.module, args=(torch.randn(2, 3, SIDE, SIDE),)))
                other_passes[0].start()
                other_passes[0].join()

        model.module.coarse.register_forward_pre_hook(run_in_another_thread)
        actual = picture_features(batch, layers, torch.arange(3), lambda logits: logits.argmax(-1))
        assert other_passes
        assert torch.equal(actual.logits, expected.logits)
        for name in ("maps", "gradients"):
            for value, reference in zip(getattr(actual, name), getattr(expected, name), strict=True):
                assert value is None if reference is None else torch.equal(value, reference)


class TestFile:
    def test_saved_and_loaded_it_predicts_the_same(self, masker, file):
        batch, target = batch_of(detector(), pictures(2)), torch.tensor([1, 0])
        for before, after in zip(masker(batch, target), load_picture_masker(file)(batch, target), strict=True):
            torch.testing.assert_close(before, after)

    def test_half_precision_is_half_as_large(self, masker, tmp_path):
        single, half = masker.save(tmp_path / "single"), masker.save(tmp_path / "half", half=True)
        assert half.stat().st_size < single.stat().st_size

    def test_another_model_is_refused(self, file):
        with pytest.raises(OptionError, match="another model"):
            explain(shared_model(), scene(), method="marc-instant", options={"masker": file})

    def test_changed_weights_are_refused(self, file):
        model = detector()
        with torch.no_grad():
            model.module.look.bias.add_(0.1)
        with pytest.raises(OptionError, match="another version of its weights"):
            explain(model, scene(), method="marc-instant", options={"masker": file})

    def test_none_is_shipped_for_another_model(self):
        with pytest.raises(OptionError, match="--images FOLDER"):
            explain(detector(), scene(), method="marc-instant")

    def test_maskers_of_texts_and_pictures_are_told_apart(self, file):
        from rationales.masks.instant.masker_file import SHIPPED_MASKER

        with pytest.raises(ModelError, match="masker for texts"):
            load_picture_masker(SHIPPED_MASKER)
        with pytest.raises(ModelError, match="masker for pictures"):
            load_masker(file)

    def test_a_damaged_file_is_reported(self, tmp_path):
        (tmp_path / "m").write_bytes(b"nothing")
        with pytest.raises(ModelError, match="damaged"):
            load_picture_masker(tmp_path / "m")
        with pytest.raises(OptionError, match="there is no masker"):
            load_picture_masker(tmp_path / "none")


class TestTraining:
    def test_an_interrupted_training_ends_as_one_without_interruption(self, tmp_path, monkeypatch):
        class InterruptionError(Exception):
            """Raised in the middle of a training."""

        settings, state = replace(BRIEF, steps=6, validations=3), tmp_path / "m.progress"
        monkeypatch.setattr(training, "SAVE_SECONDS", -1.0)  # after every step
        shares_done = []

        def interrupt(share_done):
            shares_done.append(share_done)
            if len(shares_done) == 4:
                raise InterruptionError

        with pytest.raises(InterruptionError):
            train_pictures(detector(), pictures(12), settings, OBJECTIVE, interrupt, resume=state)
        assert state.exists()
        continued = train_pictures(detector(), pictures(12), settings, OBJECTIVE, resume=state)
        straight = train_pictures(detector(), pictures(12), settings, OBJECTIVE)
        assert not state.exists()
        assert continued.card.training == straight.card.training
        for name, value in straight.network.state_dict().items():
            torch.testing.assert_close(continued.network.state_dict()[name], value, rtol=1e-5, atol=1e-7)

    def test_pictures_read_ahead_are_the_same(self):
        settings = replace(BRIEF, steps=4, validations=1)
        maskers = [
            train_pictures(detector(), pictures(12), replace(settings, workers=workers), OBJECTIVE)
            for workers in (0, 2)
        ]
        for expected, actual in zip(*(masker.network.state_dict().values() for masker in maskers), strict=True):
            torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-7)

    @pytest.mark.gpu
    def test_pictures_read_ahead_on_a_card(self):
        model = detector()
        model.module.to("cuda")
        settings = replace(BRIEF, steps=12, validations=1, workers=4)
        trained = train_pictures(model, pictures(12), settings, OBJECTIVE)
        assert math.isfinite(trained.card.training["held_out_loss"])

    def test_the_state_of_another_training_is_refused(self, tmp_path, monkeypatch):
        monkeypatch.setattr(training, "SAVE_SECONDS", -1.0)
        state = tmp_path / "m.progress"

        def stop(_done):
            if state.exists():
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            train_pictures(detector(), pictures(12), replace(BRIEF, steps=6), OBJECTIVE, stop, resume=state)
        with pytest.raises(OptionError, match="another model"):
            train_pictures(detector(), pictures(12), replace(BRIEF, steps=7), OBJECTIVE, resume=state)

    def test_the_terms_of_the_steps_have_the_objective_as_their_mean(self):
        run = training._PictureTraining(detector(), None, BRIEF, OBJECTIVE, None, None)
        steps = []
        for number in range(3 * training.MASK_SHARE):
            run.step = number
            steps.append(run._step_objective())
        for name in ("mask_weight", "level_weight"):
            assert np.mean([getattr(step, name) for step in steps]) == pytest.approx(getattr(OBJECTIVE, name))
        sparsity = np.mean([step.sparsity * bool(step.mask_weight) for step in steps])
        assert sparsity == pytest.approx(OBJECTIVE.sparsity)

    def test_crops_stay_within_the_picture(self):
        source = TrainingPictures(detector(), [scene(size=(48, 64))])
        for seed in range(20):
            crop = source.picture(0, torch.Generator().manual_seed(seed))
            assert crop.size[0] <= 48
            assert crop.size[1] <= 64
            assert math.prod(crop.size) >= 0.35 * 48 * 64

    def test_pictures_are_found_in_folders(self, tmp_path):
        (tmp_path / "inner").mkdir()
        for name in ("b.png", "inner/a.JPG", "notes.txt"):
            (tmp_path / name).write_bytes(b"")
        assert [path.name for path in picture_files(tmp_path)] == ["b.png", "a.JPG"]

    def test_mistakes_are_reported(self):
        with pytest.raises(DataError, match="no pictures"):
            train_pictures(detector(), [], BRIEF, OBJECTIVE)
        with pytest.raises(OptionError, match="mask_weight"):
            train_pictures(detector(), pictures(4), BRIEF, replace(OBJECTIVE, mask_weight=0.0))
        with pytest.raises(OptionError, match="other_target_share"):
            PictureTrainSettings(other_target_share=1.0)


def test_a_masker_is_a_picture_masker(masker):
    assert isinstance(masker, PictureMasker)
    assert masker.card.training["steps"] == BRIEF.steps
