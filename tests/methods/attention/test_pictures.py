"""Methods of attention on stock vision transformers: patches on their pixels, and a known cause that they point at."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import transformers

pytest.importorskip("PIL")

from methods.attention.encoders import TEXTS, encoder, text_batch, token_scores, vision_model, with_biases
from models.image.test_model import SIDE, scene
from reference import inside

from rationales.errors import ModelError, NotApplicableError, OptionError
from rationales.methods import build
from rationales.pipeline.explain import explain

FOR_PICTURES = ["raw-attention", "attention-rollout", "chefer", "transition-attention"]
PATCH = 4
TRANSFORMERS = {  # classes, how many tokens come before the patches, and how many of them the classifier reads
    "ViT": (transformers.ViTForImageClassification, 1, 1),
    "ViT-MSN": (transformers.ViTMSNForImageClassification, 1, 1),
    "DeiT": (transformers.DeiTForImageClassification, 2, 1),
    "DeiT-teacher": (transformers.DeiTForImageClassificationWithTeacher, 2, 2),
}


def transformer(name, **options):
    classifier = TRANSFORMERS[name][0]
    config = classifier.config_class(
        **({"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64} | options),
        image_size=SIDE,
        patch_size=PATCH,
        num_labels=3,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = classifier(config).eval()
        with torch.no_grad():
            for weight in module.parameters():
                if weight.dim() > 1:
                    weight.normal_(0, 0.2)
    return with_biases(module)


def red_seeker(name):
    """A stock transformer of one layer whose read tokens attend to red patches and read how red they are.

    States are (f, -f), so that a layer norm only scales them; f = (redness, 1, what was read, 1 for a read token).
    """
    module = transformer(name, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=4)
    base, (layer,) = module.base_model, module.base_model.layers
    red, constant, read, first = range(4)
    with torch.no_grad():
        for weight_name, weight in module.named_parameters():
            weight.fill_(1.0 if "layernorm" in weight_name and weight_name.endswith("weight") else 0.0)
        projection = base.embeddings.patch_embeddings.projection
        for sign, offset in ((1, 0), (-1, 4)):
            projection.weight[red + offset, 0], projection.weight[red + offset, 1] = sign / PATCH**2, -sign / PATCH**2
            projection.bias[constant + offset] = sign * 1.0
            for token in ("cls_token", "distillation_token")[: TRANSFORMERS[name][2]]:
                getattr(base.embeddings, token)[..., first + offset] = sign * 1.0
            layer.attention.v_proj.weight[read + offset, red] = sign * 1.0
            layer.attention.o_proj.weight[read + offset, read + offset] = 1.0
        layer.attention.q_proj.weight[0, first] = 6.0
        layer.attention.k_proj.weight[0, red] = 2.0
        for linear in [child for child in module.children() if isinstance(child, torch.nn.Linear)]:
            linear.weight[1, read] = 9.0
    return module


@pytest.mark.parametrize("method", FOR_PICTURES)
@pytest.mark.parametrize("name", TRANSFORMERS)
class TestPictures:
    def test_they_point_at_the_red_square(self, method, name):
        model, (top, left) = vision_model(red_seeker(name)), (8, 16)
        result = explain(model, scene(top, left, side=8), method=method, target="b")
        scores = result.scores.reshape(SIDE, SIDE)
        inside_square = np.zeros((SIDE, SIDE), dtype=bool)
        inside_square[top : top + 8, left : left + 8] = True
        assert scores[inside_square].min() > scores[~inside_square].max()

    def test_a_patch_is_one_block_of_pixels_and_pictures_are_apart(self, method, name):
        model = vision_model(transformer(name))
        pictures = [scene(seed=seed, left=4 * seed) for seed in range(3)]
        together = explain(model, pictures, method=method, target=[0, 1, 2])
        for number, (picture, result) in enumerate(zip(pictures, together, strict=True)):
            cells = result.scores.reshape(SIDE // PATCH, PATCH, SIDE // PATCH, PATCH)
            assert (cells == cells[:, :1, :, :1]).all()
            alone = explain(model, picture, method=method, target=number)
            assert np.allclose(alone.scores, result.scores, atol=1e-6)
            assert result.scores.std() > 0


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_raw_attention_is_that_of_the_patches(name):
    module, (_, extra, read) = transformer(name), TRANSFORMERS[name]
    model = vision_model(module)
    scores = explain(model, scene(), method="raw-attention").scores.reshape(SIDE, SIDE)[::PATCH, ::PATCH]
    module.set_attn_implementation("eager")
    with torch.no_grad():
        pixels = model.encode([model.read(scene(), None)])[0].pixels[None]
        attention = module(pixels, output_attentions=True).attentions[-1][0, :, :read, extra:].mean((0, 1))
    assert np.allclose(scores.flatten(), attention.numpy(), atol=1e-6)


@pytest.mark.parametrize("name", TRANSFORMERS)
class TestFormulas:
    """Of a picture, token by token, from the attention weights that the model itself returns."""

    def scores_and_encoding(self, name, method, options, target=1):
        module = transformer(name, num_hidden_layers=3)
        model = vision_model(module)
        batch = model.batch(model.encode([model.read(scene(seed=2, left=9), None)]))
        scores = token_scores(build(method, options, "image"), batch, torch.tensor([target]))
        return scores[0], module, {"pixel_values": batch.values.detach()}, TRANSFORMERS[name][2]

    def test_rollout(self, name):
        actual, module, encoding, read = self.scores_and_encoding(name, "attention-rollout", {})
        assert torch.allclose(actual, inside.rollout(module, encoding, read), atol=1e-6)

    def test_chefer(self, name):
        actual, module, encoding, read = self.scores_and_encoding(name, "chefer", {"output": "logit"})
        assert torch.allclose(actual, inside.chefer(module, encoding, 1, read), atol=1e-5)

    @pytest.mark.parametrize("start_layer", [0, 1])
    def test_transition_attention(self, name, start_layer):
        options = {"output": "logit", "steps": 5, "start_layer": start_layer}
        actual, module, encoding, read = self.scores_and_encoding(name, "transition-attention", options)
        expected = inside.transition_attention(module, encoding, 1, 5, start_layer, read)
        assert expected.any()
        assert torch.allclose(actual, expected, atol=1e-6)

    def test_parts_of_decompx_add_up_to_the_logits(self, name):
        actual, module, encoding, _ = self.scores_and_encoding(name, "decompx", {"output": "logit"})
        with torch.no_grad():
            logits = module(**encoding).logits[0]
        assert actual.abs().sum() > 0.5
        assert torch.allclose(actual.sum(), logits[1], atol=1e-4)


class MeanOfPatches(transformers.DeiTForImageClassificationWithTeacher):
    """A classifier of the mean over all patches."""

    def forward(self, pixel_values):
        states = self.deit(pixel_values).last_hidden_state
        return self.cls_classifier(states.mean(1))


def test_a_subclass_that_reads_other_tokens_than_the_first_two_is_refused():
    module = transformer("DeiT-teacher")
    module.__class__ = MeanOfPatches
    with pytest.raises(ModelError, match="about the state of the first 2 tokens, and this MeanOfPatches reads others"):
        explain(vision_model(module), scene(), method="attention-rollout")


@pytest.mark.parametrize("name", ["Beit", "Dinov2", "Swin"])
def test_other_vision_transformers_are_refused_with_those_that_are_not(name):
    size = {"embed_dim": 8, "depths": [1], "num_heads": [2]} if name == "Swin" else {"hidden_size": 16}
    size |= {} if name == "Swin" else {"num_hidden_layers": 1, "num_attention_heads": 2}
    config = getattr(transformers, f"{name}Config")(image_size=SIDE, patch_size=PATCH, num_labels=3, **size)
    module = getattr(transformers, f"{name}ForImageClassification")(config).eval()
    message = f"where {name}ForImageClassification has them is not known.*ViTMSNForImageClassification.*WithTeacher"
    with pytest.raises(NotApplicableError, match=message):
        explain(vision_model(module), scene(), method="chefer")


@pytest.mark.parametrize("start_layer", [0, 1])
def test_transition_attention_is_its_formula(start_layer):
    module, tokenizer = encoder("bert")
    encoding = tokenizer(TEXTS[0], return_tensors="pt")
    expected = inside.transition_attention(module, encoding, 1, 5, start_layer)
    method = build("transition-attention", {"output": "logit", "steps": 5, "start_layer": start_layer})
    actual = token_scores(method, text_batch(module, tokenizer), torch.tensor([1, 1]))[0]
    assert expected.any()
    assert torch.allclose(actual[: len(expected)], expected, atol=1e-6)


def test_transition_attention_refuses_a_layer_that_does_not_exist():
    with pytest.raises(OptionError, match="has 2 layers; start_layer is 0 to 1"):
        explain(vision_model(transformer("ViT")), scene(), method="transition-attention", options={"start_layer": 2})
