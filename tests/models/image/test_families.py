"""Image classifiers of many families, with their own processor; fits and baselines of the user's."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rationales
from rationales.errors import OptionError
from rationales.models.batch import Batch
from rationales.models.image.model import AUTOMATIC

transformers = pytest.importorskip("transformers")
pytest.importorskip("PIL")
BIASED = {"swin"}  # its attention adds something that is no mask
SIDE = 32
SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
CONFIGS = {
    "vit": lambda: transformers.ViTConfig(image_size=SIDE, patch_size=8, **SMALL),
    "deit": lambda: transformers.DeiTConfig(image_size=SIDE, patch_size=8, **SMALL),
    "beit": lambda: transformers.BeitConfig(image_size=SIDE, patch_size=8, **SMALL),
    "dinov2": lambda: transformers.Dinov2Config(
        image_size=SIDE, patch_size=8, hidden_size=16, num_hidden_layers=2, num_attention_heads=2
    ),
    "swin": lambda: transformers.SwinConfig(
        image_size=SIDE, patch_size=4, embed_dim=8, depths=[1, 1], num_heads=[2, 2], window_size=4
    ),
    "resnet": lambda: transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic"
    ),
    "convnext": lambda: transformers.ConvNextConfig(hidden_sizes=[8, 16], depths=[1, 1], num_stages=2),
    "mobilenet-v2": lambda: transformers.MobileNetV2Config(image_size=SIDE, depth_multiplier=0.25),
}


def module_of(family):
    config = CONFIGS[family]()
    config.num_labels = 3
    config.architectures = [type(config).__name__.replace("Config", "ForImageClassification")]  # DeiT has several
    torch.manual_seed(0)
    return transformers.AutoModelForImageClassification.from_config(config).eval()


def processor(**options):
    kind = getattr(transformers, "ViTImageProcessorPil", None) or transformers.ViTImageProcessor
    return kind(size={"height": SIDE, "width": SIDE}, **options)


def photograph(height=40, width=60, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3)).astype(np.uint8)


@pytest.mark.parametrize("family", CONFIGS)
class TestEveryFamily:
    @pytest.mark.parametrize("apart", [False, True])
    def test_a_copied_batch_says_the_same(self, family, apart):
        model = rationales.load(module_of(family), processor())
        if any(isinstance(submodule, torch.nn.BatchNorm2d) for submodule in model.module.modules()):
            pytest.skip("its statistics stay in single precision, which does not go with double")
        batch = model.batch(model.encode([model.read(photograph(seed=seed), None) for seed in range(2)]))
        keep = torch.rand(batch.size, generator=torch.Generator().manual_seed(0)).requires_grad_()
        with model.frozen():
            copy = batch.in_dtype(torch.float64, apart)
            if apart and family in BIASED:
                with pytest.raises(NotImplementedError, match="a mask of its own"):
                    copy.logits(keep)
                return
            logits, finely = batch.logits(keep), copy.logits(keep)
            assert torch.allclose(logits, finely, atol=1e-4)
            gradients = [torch.autograd.grad(values.sum(), keep)[0] for values in (logits, finely)]
        assert torch.allclose(*gradients, atol=1e-4)

    def test_keep_one_is_the_plain_model_and_a_mask_is_found(self, family):
        module, image_processor = module_of(family), processor()
        model = rationales.load(module, image_processor)
        pixels = photograph()
        features = image_processor(images=pixels, return_tensors="pt", input_data_format="channels_last")
        with torch.no_grad():
            plain = module(**features).logits[0].softmax(-1)
        result = rationales.explain(model, pixels, options={"steps": 6})
        assert list(result.probabilities["full"].values()) == pytest.approx(plain.tolist(), abs=2e-6)
        assert result.scores.shape == (40 * 60,)
        assert np.isfinite(result.scores).all()
        assert result.scores.std() > 0

    def test_alone_equals_in_a_batch(self, family):
        model = rationales.load(module_of(family), processor())
        pictures = [photograph(seed=seed) for seed in range(3)]
        together = rationales.explain(model, pictures, options={"steps": 8})
        alone = rationales.explain(model, pictures[1], options={"steps": 8})
        assert np.allclose(together[1].scores, alone.scores, atol=2e-3)
        assert together[1].baseline == alone.baseline


class TestFit:
    @pytest.mark.parametrize(("fit", "read"), [("crop", 40 * 40), ("pad", 40 * 60), ("squash", 40 * 60)])
    def test_is_the_users_to_choose(self, fit, read):
        model = rationales.load(module_of("resnet"), processor(), fit=fit)
        result = rationales.explain(model, photograph(), options={"steps": 6})
        assert abs((result.scores != 0).sum() - read) <= 2 * (40 + 60)  # half-seen pixels along an edge

    def test_scores_of_rows_are_blended_as_in_any_batch(self):
        """The mean over baselines, 0 for padding: what `Batch.gather` computes for rows of any length."""
        model = rationales.load(module_of("resnet"), processor(), fit="pad", baseline="black, white")
        images = [photograph(20, 60), photograph(60, 20)]
        batch = model.batch(model.encode([model.read(image, None) for image in images]))
        values = torch.rand(batch.size, generator=torch.Generator().manual_seed(0))
        for actual, expected in zip(batch.gather(values), Batch.gather(batch, values), strict=True):
            torch.testing.assert_close(actual, expected)
            assert (actual == 0).any()

    def test_padding_is_never_a_unit(self):
        model = rationales.load(module_of("resnet"), processor(), fit="pad")
        (encoded,) = model.encode([model.read(photograph(20, 60), None)])
        batch = model.batch([encoded])
        assert batch.rows.real[0].view(SIDE, SIDE).any(1).sum() < 0.5 * SIDE
        changed = batch.zeros()
        outside = ~encoded.real
        with torch.no_grad():
            mixed = batch.baseline_values[0] * encoded.real + batch.values[0] * outside
            plain = model.module(mixed[None]).logits
        assert torch.allclose(batch.logits(changed)[0], plain[0], atol=1e-5)
        assert len(batch.gather(batch.ones())[0]) == SIDE * SIDE

    def test_a_whole_picture_is_explained_whatever_its_shape(self):
        model = rationales.load(module_of("resnet"), processor(), fit="pad")
        for shape in ((20, 60), (60, 20), (33, 34)):
            result = rationales.explain(model, photograph(*shape), method="occlusion")
            assert result.scores.shape == (shape[0] * shape[1],)

    def test_unknown_ones_are_listed(self):
        with pytest.raises(OptionError, match="crop, pad, squash"):
            rationales.load(module_of("resnet"), processor(), fit="stretch")
        with pytest.raises(OptionError, match="models of images"):
            rationales.load(fit="crop")


class TestOwnBaselines:
    def test_a_picture_of_the_users(self, tmp_path):
        from PIL import Image

        path = tmp_path / "meadow.png"
        Image.fromarray(photograph(seed=9)).save(path)
        model = rationales.load(module_of("resnet"), processor(), baseline=["black", str(path), photograph(seed=3)])
        assert model.baselines == ("black", str(path), "own image 2")
        batch = model.batch(model.encode([model.read(photograph(), None)]))
        assert torch.allclose(batch.baseline_values[1], model.preprocess(model.read(path, None)))
        result = rationales.explain(model, photograph(), options={"steps": 4})
        assert "own image 2" in result.baseline

    def test_names_with_commas_between_them(self):
        assert rationales.load(module_of("resnet"), processor(), baseline="blur-20, mean").baselines == (
            "blur-20",
            "mean",
        )
        assert rationales.load(module_of("resnet"), processor()).baselines == AUTOMATIC

    @pytest.mark.parametrize("wrong", ["purple", ["black", "no-such-file.png"]])
    def test_what_is_neither_a_name_nor_a_file(self, wrong):
        with pytest.raises(OptionError, match="there is no baseline"):
            rationales.load(module_of("resnet"), processor(), baseline=wrong)

    def test_a_tensor_is_refused(self):
        with pytest.raises(OptionError, match="not a tensor"):
            rationales.load(module_of("resnet"), processor(), baseline=torch.zeros(3, SIDE, SIDE))
