"""The settings with which the MaRC paper ran other methods on pictures, against captum with the same settings."""

from __future__ import annotations

import pytest
import torch
from torch import nn

pytest.importorskip("PIL")
pytest.importorskip("captum")

import captum.attr

from methods.test_against_captum import TARGET, Outputs, ours, pictures
from rationales.errors import OptionError
from rationales.methods import build
from rationales.models.batch.queries import BlockInputs
from rationales.models.image.baselines import blur


def test_integrated_gradients_begin_at_a_blur():
    model, batch, pixels = pictures(nn.Sequential(nn.Conv2d(3, 4, 5), nn.Tanh(), nn.Flatten(), nn.Linear(4 * 784, 3)))
    method = captum.attr.IntegratedGradients(Outputs(model.module, "logit"))
    expected = method.attribute(pixels, blur(pixels, 10), TARGET, n_steps=100).sum(1).flatten(1).detach()
    actual = ours(model, batch, "integrated-gradients", preset="paper")
    assert torch.allclose(actual, expected.repeat(2, 1), atol=1e-9)


def test_occlusion_by_a_blur_with_windows_that_are_shares_of_the_picture():
    """Of 32 pixels: windows of round(32 / 9) = 4 pixels, every round(32 / 56) = 1."""
    model, batch, pixels = pictures(dtype=torch.float32)
    method = captum.attr.Occlusion(lambda values: model.module(values).softmax(-1))
    options = {"sliding_window_shapes": (3, 4, 4), "strides": (3, 1, 1), "baselines": blur(pixels, 10)}
    expected = method.attribute(pixels, target=TARGET, **options)[:, 0].flatten(1)
    actual = ours(model, batch, "occlusion", preset="paper")
    assert torch.allclose(actual, expected.repeat(2, 1), atol=1e-5)


def test_noise_of_smooth_grad_is_a_share_of_the_range():
    _, batch, pixels = pictures()
    method = build("smooth-grad", {"preset": "paper"}, "image")
    assert (method.noise, method.relative_to, method.samples) == (0.15, "range", 50)
    row = torch.arange(3)
    reading = BlockInputs(
        pixels,
        pixels,
        batch.unit_region(row),
        batch.rows.key[row],
        lambda _, shape, dtype: torch.ones(3, *shape).to(dtype),
        lambda *_: pytest.fail("noise is relative to the range"),
    )
    noisy = reading.noisy(torch.tensor([0]), 0.15, of_range=True)[0]
    for picture, changed in zip(pixels, noisy, strict=True):
        assert torch.allclose(changed - picture, 0.15 * (picture.max() - picture.min()).expand_as(picture))


def test_masks():
    """MaRC's settings for a ResNet, as its preset `resnet`; meaningful perturbation replaces pixels by a blur."""
    assert build("marc", {"preset": "paper"}, "image") == build("marc", {"preset": "resnet"}, "image")
    assert build("meaningful-perturbation", {"preset": "paper"}, "image").baseline == "blur-10"


def test_what_a_method_cannot_replace_pixels_by():
    model, batch, _ = pictures()
    with pytest.raises(OptionError, match=r"only replace pixels by a blur.*load the model with black"):
        ours(model, batch, "occlusion", baseline="black", window=8, stride=8)
    with pytest.raises(OptionError, match="no baseline 'grey'"):
        ours(model, batch, "integrated-gradients", baseline="grey")
    with pytest.raises(OptionError, match="window_share between 0 and 1"):
        build("occlusion", {"window_share": 0.1, "stride_share": 0.2}, "image")
