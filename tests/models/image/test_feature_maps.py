"""Feature maps: found in networks of every kind, and read as what they are."""

from __future__ import annotations

import pytest
import torch
import transformers
from torch import nn

from rationales.errors import ModelError, OptionError
from rationales.models.image.feature_maps import FeatureLayout, find_feature_maps, layout_of

SIDE = 32
_VIT = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": SIDE, "patch_size": 8}


def find_and_check(module, layer="", size=(SIDE, SIDE)):
    module = module.eval().requires_grad_(False)

    def run(pixels):
        output = module(pixels)
        return getattr(output, "logits", output)

    feature = find_feature_maps(module, run, torch.zeros(1, 3, *size), size, layer)[-1]
    assert not any(submodule._forward_hooks for submodule in module.modules())
    assert not any(weight.requires_grad for weight in module.parameters())
    return feature


def _vit(name, **options):
    config = getattr(transformers, f"{name}Config")(**_VIT, intermediate_size=32, num_labels=3, **options)
    return getattr(transformers, f"{name}ForImageClassification")(config)


def levit_config(side):
    """Two stages, of which the second has a quarter of the cells."""
    return transformers.LevitConfig(
        image_size=side,
        hidden_sizes=[16, 24],
        num_attention_heads=[2, 3],
        depths=[1, 1],
        key_dim=[8, 8],
        attention_ratio=[2, 2],
        mlp_ratio=[2, 2],
        down_ops=[["Subsample", 8, 2, 4, 2, 2]],
        num_labels=3,
    )


class TestWhere:
    """With random weights, tiny: what counts is how the network is built."""

    @pytest.fixture(autouse=True)
    def _seed(self):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            yield

    @pytest.mark.parametrize(("name", "extra"), [("ViT", 1), ("DeiT", 2)])
    def test_patches_of_a_transformer_that_answers_from_its_class_token(self, name, extra):
        """Behind the last layer the patches are not read any more: what goes into it is the last that counts."""
        feature = find_and_check(_vit(name))
        assert feature.name.endswith("layers.1.layernorm_before")
        assert feature.layout == FeatureLayout(4, 4, "tokens", extra)

    def test_patches_behind_registers(self):
        config = transformers.Dinov2WithRegistersConfig(**_VIT, num_labels=3)
        feature = find_and_check(transformers.Dinov2WithRegistersForImageClassification(config))
        assert feature.layout == FeatureLayout(4, 4, "tokens", 5)

    def test_the_last_maps_of_a_convolutional_network(self):
        from rationales.models.image.efficientnet import EfficientNetLite

        resnet = transformers.ResNetConfig(
            embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", num_labels=3
        )
        convnext = transformers.ConvNextConfig(hidden_sizes=[8, 16], depths=[1, 1], num_stages=2, num_labels=3)
        assert find_and_check(transformers.ResNetForImageClassification(resnet)).layout == FeatureLayout(4, 4, "maps")
        assert find_and_check(transformers.ConvNextForImageClassification(convnext)).layout == FeatureLayout(
            4, 4, "maps"
        )
        lite = find_and_check(EfficientNetLite(0, classes=3), size=(64, 96))
        assert (lite.name, lite.layout) == ("head", FeatureLayout(2, 3, "maps"))

    def test_a_shifted_window_transformer(self):
        config = transformers.SwinConfig(
            image_size=SIDE, patch_size=2, embed_dim=8, depths=[1, 1], num_heads=[1, 2], window_size=4, num_labels=3
        )
        assert find_and_check(transformers.SwinForImageClassification(config)).layout == FeatureLayout(8, 8, "tokens")

    @pytest.mark.parametrize(("side", "name"), [(32, "levit.encoder.stages.0.layers.1"), (64, "levit")])
    def test_no_projection_of_an_attention_that_reads_the_same_maps_in_another_way_too(self, side, name):
        """Where the last stage has one cell, keys and values are the last with maps; queries read the maps as well."""
        config = levit_config(side)
        feature = find_and_check(transformers.LevitForImageClassification(config), size=(side, side))
        assert (feature.name, feature.layout) == (name, FeatureLayout(2, 2, "tokens"))

    def test_no_layer_inside_such_a_projection(self):
        config = transformers.CvtConfig(embed_dim=[16, 16, 16], num_heads=[1, 1, 2], depth=[1, 2, 3], num_labels=3)
        feature = find_and_check(transformers.CvtForImageClassification(config), size=(64, 64))
        assert feature.name == "cvt.encoder.stages.2.layers.2.layernorm_before"

    def test_a_projection_can_be_named(self):
        name = "levit.encoder.stages.0.layers.2.keys_values"
        assert find_and_check(transformers.LevitForImageClassification(levit_config(SIDE)), name).name == name

    def test_a_layer_can_be_named(self):
        feature = find_and_check(_vit("ViT"), "vit.layers.0")
        assert (feature.name, feature.layout) == ("vit.layers.0", FeatureLayout(4, 4, "tokens", 1))
        with pytest.raises(OptionError, match=r"no layer 'vit.layers.7'"):
            find_and_check(_vit("ViT"), "vit.layers.7")
        with pytest.raises(OptionError, match=r"gives \(1, 3\), no feature maps"):
            find_and_check(_vit("ViT"), "classifier")

    def test_a_network_without_maps_says_what_to_do(self):
        with pytest.raises(ModelError, match="use integrated-gradients"):
            find_and_check(nn.Sequential(nn.Flatten(), nn.Linear(3 * SIDE * SIDE, 4), nn.ReLU(), nn.Linear(4, 3)))


class TestLayout:
    @pytest.mark.parametrize(
        ("shape", "grid", "expected"),
        [
            ((1, 8, 7, 7), (224, 224), FeatureLayout(7, 7, "maps")),
            ((1, 8, 7, 10), (224, 320), FeatureLayout(7, 10, "maps")),
            ((1, 7, 7, 8), (224, 224), FeatureLayout(7, 7, "maps-last")),
            ((1, 8, 1, 1), (224, 224), None),
            ((1, 12, 197, 64), (224, 224), None),  # attention heads
            ((1, 197, 8), (224, 224), FeatureLayout(14, 14, "tokens", 1)),
            ((1, 196, 8), (224, 224), FeatureLayout(14, 14, "tokens", 0)),
            ((1, 1 + 14 * 20, 8), (224, 320), FeatureLayout(14, 20, "tokens", 1)),
            ((1, 1024, 1), (224, 224), None),  # pooled
            ((1, 1000), (224, 224), None),
        ],
    )
    def test_what_lies_over_the_picture(self, shape, grid, expected):
        assert layout_of(torch.Size(shape), grid) == expected

    def test_maps_whatever_the_form(self):
        maps = torch.arange(2 * 3 * 4 * 5.0).view(2, 3, 4, 5)
        tokens = torch.cat([torch.zeros(2, 1, 3), maps.flatten(2).mT], 1)
        assert torch.equal(FeatureLayout(4, 5, "maps").maps(maps), maps)
        assert torch.equal(FeatureLayout(4, 5, "maps-last").maps(maps.permute(0, 2, 3, 1)), maps)
        assert torch.equal(FeatureLayout(4, 5, "tokens", 1).maps(tokens), maps)
