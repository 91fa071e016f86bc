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

from rationales.errors import OptionError
from rationales.methods import build
from rationales.pipeline.explain import explain

FOR_PICTURES = ["raw-attention", "attention-rollout", "chefer", "transition-attention"]
PATCH = 4


def transformer(name, **options):
    config = getattr(transformers, f"{name}Config")(
        **({"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64} | options),
        image_size=SIDE,
        patch_size=PATCH,
        num_labels=3,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = getattr(transformers, f"{name}ForImageClassification")(config).eval()
        with torch.no_grad():
            for weight in module.parameters():
                if weight.dim() > 1:
                    weight.normal_(0, 0.2)
    return with_biases(module)


def red_seeker(name):
    """A stock transformer of one layer whose class token attends to red patches and reads how red they are.

    States are (f, -f), so that a layer norm only scales them; f = (redness, 1, what was read, 1 for the class token).
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
            base.embeddings.cls_token[..., first + offset] = sign * 1.0
            layer.attention.v_proj.weight[read + offset, red] = sign * 1.0
            layer.attention.o_proj.weight[read + offset, read + offset] = 1.0
        layer.attention.q_proj.weight[0, first] = 6.0
        layer.attention.k_proj.weight[0, red] = 2.0
        module.classifier.weight[1, read] = 9.0
    return module


@pytest.mark.parametrize("method", FOR_PICTURES)
@pytest.mark.parametrize("name", ["ViT", "DeiT"])
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


@pytest.mark.parametrize(("name", "extra"), [("ViT", 1), ("DeiT", 2)])
def test_raw_attention_is_that_of_the_patches(name, extra):
    module = transformer(name)
    model = vision_model(module)
    scores = explain(model, scene(), method="raw-attention").scores.reshape(SIDE, SIDE)[::PATCH, ::PATCH]
    module.set_attn_implementation("eager")
    with torch.no_grad():
        pixels = model.encode([model.read(scene(), None)])[0].pixels[None]
        attention = module(pixels, output_attentions=True).attentions[-1][0, :, 0, extra:].mean(0)
    assert np.allclose(scores.flatten(), attention.numpy(), atol=1e-6)


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
