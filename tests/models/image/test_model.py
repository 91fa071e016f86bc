"""Image models: the plain model at keep = 1, any company, and a cause that is known."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

pytest.importorskip("PIL")


from rationales.errors import InputError, ModelError, OptionError
from rationales.masks.optimize import optimize
from rationales.masks.settings import IMAGE
from rationales.models.image.loading import from_module, from_processor
from rationales.pipeline.explain import explain
from rationales.rationale import Grid, Rationale

SIDE = 32


class RedDetector(nn.Module):
    """`red` if there is much red and little green somewhere in the picture: the truth is where it is red."""

    def __init__(self) -> None:
        super().__init__()
        self.look = nn.Conv2d(3, 1, 5, padding=2)
        with torch.no_grad():
            self.look.weight.zero_()
            self.look.weight[0, 0], self.look.weight[0, 1] = 1 / 25, -1 / 25
            self.look.bias.fill_(-0.3)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        evidence = self.look(pixels).relu().flatten(1).sum(1) - 6
        return torch.stack([-evidence, evidence], 1) / 2


def preprocess(image):
    """A PIL image as what the model reads."""
    return torch.from_numpy(np.asarray(image.resize((SIDE, SIDE)), dtype=np.float32) / 255).permute(2, 0, 1)


def detector(**options):
    return from_module(RedDetector().eval(), preprocess, ["other", "red"], "detector", **options)


def scene(top=6, left=14, side=10, size=(SIDE, SIDE), seed=0):
    """A grey noisy picture with a red square."""
    pixels = np.random.default_rng(seed).integers(90, 150, (*size, 1), dtype=np.uint8).repeat(3, 2)
    pixels[top : top + side, left : left + side] = (230, 20, 30)
    return pixels


QUICK = {"steps": 60, "cell": 2, "initial_sigma": 4.0, "learning_rate": 0.1, "initial_w": 0.5}


class TestKnownCause:
    @pytest.mark.parametrize(("top", "left"), [(6, 14), (0, 0), (20, 3)])
    def test_the_rationale_lies_on_the_square(self, top, left):
        result = explain(detector(), scene(top, left), target="red", options=QUICK)
        truth = np.zeros((SIDE, SIDE), dtype=bool)
        truth[top : top + 10, left : left + 10] = True
        chosen = result.selected().reshape(SIDE, SIDE)
        assert (chosen & truth).sum() / (chosen | truth).sum() > 0.45  # .49 to .52 over eight seeds and three places
        pytest.importorskip("skimage")
        largest = result.regions()[0]
        assert abs((largest.top + largest.bottom) / 2 - (top + 5)) < 3
        assert abs((largest.left + largest.right) / 2 - (left + 5)) < 3
        of_red = {name: values["red"] for name, values in result.probabilities.items()}
        assert of_red["rationale"] >= 0.9 * of_red["full"] > 0.8
        assert of_red["complement"] < 0.5

    def test_scores_come_back_at_the_size_of_the_picture(self):
        big = scene(12, 56, 40, size=(64, 128))  # twice as high, four times as wide as what the model reads
        result = explain(detector(), big, target="red", options=QUICK)
        assert result.units == Grid(64, 128)
        assert result.scores.shape == (64 * 128,)
        inside = result.scores.reshape(64, 128)[16:48, 60:92].mean()
        assert inside > result.scores.mean() + 0.3


class TestContract:
    def test_keep_one_is_the_plain_model(self):
        model = detector()
        pictures = [model.read(scene(seed=seed), None) for seed in range(3)]
        with model.frozen(), torch.no_grad():
            batch = model.batch(model.encode(pictures))
            plain = model.module(torch.stack([model.preprocess(image) for image in pictures]))
            for view in range(3):
                assert torch.equal(batch.logits(batch.ones())[3 * view : 3 * view + 3], plain)

    def test_keep_zero_is_the_baseline(self):
        model = detector(baselines=("black", "white"))
        with model.frozen(), torch.no_grad():
            batch = model.batch(model.encode([model.read(scene(), None)]))
            flat = torch.stack([torch.full((3, SIDE, SIDE), value) for value in (0.0, 1.0)])
            assert torch.allclose(batch.logits(batch.zeros()), model.module(flat), atol=1e-6)

    @pytest.mark.parametrize("options", [{}, {"noise": 0.1, "flip_share": 0.05}, {"cell": 1, "initial_sigma": 1.2}])
    def test_batch_equals_single(self, options):
        model = detector()
        model.module.double()
        settings = replace(IMAGE, **(QUICK | {"steps": 15, "stop": "steps"} | options))
        encoded = model.encode([model.read(scene(seed=seed, left=4 * seed), None) for seed in range(3)])

        def keep(images, budget=None):
            with model.frozen():
                batch = model.batch(images)
                batch.budget = budget or batch.budget
                return optimize(batch, torch.ones(len(images), dtype=torch.long), settings).keep

        together = keep(encoded)
        assert torch.allclose(together, keep(encoded, budget=1), atol=1e-9)
        for number, image in enumerate(encoded):
            assert torch.allclose(together[number], keep([image])[0], atol=1e-9)

    def test_model_is_left_as_it_was(self):
        model = detector()
        model.module.train()
        weights = copy.deepcopy(model.module.state_dict())
        explain(model, [scene()], options={"steps": 3})
        assert model.module.training
        assert all(weight.requires_grad and weight.grad is None for weight in model.module.parameters())
        assert all(torch.equal(value, weights[name]) for name, value in model.module.state_dict().items())

    @pytest.mark.parametrize("method", ["random", "marc"])
    def test_same_seed_same_bits_and_smoothing(self, method):
        options = {"steps": 5} if method == "marc" else {}
        first, second = (explain(detector(), scene(), method=method, options=options) for _ in range(2))
        assert np.array_equal(first.scores, second.scores)
        smooth = explain(detector(), scene(), method=method, options=options, smooth=3.0)
        rough = [np.abs(np.diff(result.scores.reshape(SIDE, SIDE))).mean() for result in (first, smooth)]
        assert rough[1] < rough[0]

    def test_presets_are_those_of_images(self):
        assert explain(detector(), scene(), options={"steps": 2}).options["views"] == "turn"
        vit = explain(detector(), scene(), options={"preset": "vit", "steps": 2}).options
        assert (vit["sparsity"], vit["cell"], vit["stop"]) == (0.25, 1, "paper-images")
        with pytest.raises(OptionError, match="its presets are: default, paper, resnet, vit"):
            explain(detector(), scene(), options={"preset": "clauses"})

    def test_says_what_it_is(self):
        result = explain(detector(), scene(), method="random", names="square")
        share = f"{result.selected().mean():.0%}"
        assert repr(result) == f"Rationale(random: {result.target} <- {share} of square, 32 x 32 pixels)"
        with pytest.raises(OptionError, match="regions"):
            result.spans()

    def test_saves_and_loads_with_its_scores_beside(self, tmp_path):
        pytest.importorskip("skimage")  # regions
        result = explain(detector(), scene(size=(160, 160)), method="random", names="square")
        path = result.save(tmp_path / "r.json")
        assert path.stat().st_size < 160 * 160  # one byte a score would be more
        again = Rationale.load(path)
        assert np.array_equal(again.scores, result.scores)
        assert (again.units, again.name, again.target) == (result.units, "square", result.target)
        (tmp_path / "r.safetensors").unlink()
        with pytest.raises(InputError, match="keep the two together"):
            Rationale.load(path)


class TestProcessors:
    """Hugging Face models with processors that work on PIL images."""

    def build(self, family, **processor):
        import transformers

        expected = {
            "vit": lambda: transformers.ViTForImageClassification(
                transformers.ViTConfig(
                    hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, image_size=SIDE,
                    patch_size=8, num_labels=3,
                )
            ),
            "resnet": lambda: transformers.ResNetForImageClassification(
                transformers.ResNetConfig(
                    embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", num_labels=3
                )
            ),
            "convnext": lambda: transformers.ConvNextForImageClassification(
                transformers.ConvNextConfig(hidden_sizes=[8, 16], depths=[1, 1], num_stages=2, num_labels=3)
            ),
        }  # fmt: skip
        torch.manual_seed(0)
        kind = transformers.ViTImageProcessorPil if hasattr(transformers, "ViTImageProcessorPil") else None
        kind = kind or transformers.ViTImageProcessor
        image_processor = kind(size={"height": SIDE, "width": SIDE}, **processor)
        return from_processor(expected[family]().eval(), image_processor, family), image_processor

    @pytest.mark.parametrize("family", ["vit", "resnet", "convnext"])
    def test_keep_one_is_the_plain_model(self, family):
        model, processor = self.build(family)
        pixels = scene(size=(50, 70))
        result = explain(model, pixels, options={"steps": 3})
        features = processor(images=pixels, return_tensors="pt", input_data_format="channels_last")
        with torch.no_grad():
            plain = model.module(**features).logits[0].softmax(-1)
        assert list(result.probabilities["full"].values()) == pytest.approx(plain.tolist(), abs=2e-6)
        assert np.isfinite(result.scores).all()


def test_a_preprocessing_that_sees_nothing_is_told():
    blind = from_module(RedDetector(), lambda _image: torch.zeros(3, 8, 8), ["a", "b"], "blind")
    with pytest.raises(ModelError, match="a white and a black image"):
        explain(blind, scene())


def test_an_unknown_baseline_lists_what_there_is():
    with pytest.raises(OptionError, match="black, white, mean"):
        detector(baselines=("purple",))


class TestHalfPrecision:
    """Batches can run a copy of the module in half precision, for what needs no gradients."""

    def test_predictions_and_scores_stay_close(self):
        model = detector()
        half = replace(model, batch_dtype=torch.bfloat16)
        images = [scene(4, 4), scene(12, 9)]
        single, coarse = (m.batch(m.encode([m.read(image, None) for image in images])) for m in (model, half))
        assert coarse.values.dtype == torch.bfloat16
        assert coarse.dtype == single.dtype == torch.float32  # masks and probabilities stay in single precision
        with model.frozen():
            assert torch.allclose(single.predict(), coarse.predict(), atol=0.02)
        assert next(model.module.parameters()).dtype == torch.float32

    def test_a_cpu_runs_the_model_itself(self):
        model = detector()
        assert model.coarse() is model

    @pytest.mark.gpu
    def test_a_gpu_runs_a_copy(self):
        model = detector()
        model.module.cuda()
        half = model.coarse()
        assert half.batch_dtype == torch.float16
        batches = [m.batch(m.encode([m.read(scene(4, 4), None)])) for m in (model, half)]
        with model.frozen():
            assert torch.allclose(batches[0].predict(), batches[1].predict(), atol=5e-3)
