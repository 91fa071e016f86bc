"""Settings: everything has a name, a line of help and a check; presets are what they claim to be."""

from __future__ import annotations

from dataclasses import asdict, fields, replace

import pytest

from rationales.errors import OptionError
from rationales.masks.settings import DEFAULT, PAPER, PRESETS, MaskSettings
from rationales.methods import build

NUMBERS = [spec.name for spec in fields(MaskSettings) if spec.type == "float"]
CHOICES = [spec.name for spec in fields(MaskSettings) if spec.type == "str"]


def test_the_preset_of_the_paper_is_the_papers():
    """Appendix A.1 and what the published results used; text, squared widths, no limits of our own."""
    expected = {
        "steps": 900,
        "stop": "paper",
        "learning_rate": 0.03,
        "initial_w": 1.2,
        "initial_sigma": 2.0,
        "kernel": "sigma-squared",
        "sparsity": 1.0,
        "sigma_weight": 1.2,
        "flip_share": 0.05,
        "complement_form": "bounded",
        "indicative": 0.0,
        "sufficiency": 1.0,
        "complement": 1.0,
        "field": "gaussian",
        "max_sigma_share": 0.0,
        "complement_floor": 0.0,
        "schedule": "constant",
    }
    assert expected.items() <= asdict(PAPER).items()
    assert PAPER.noise == pytest.approx(0.03 / 0.507, rel=0.02)  # relative to the rms of the layer it was added to


def test_the_default_is_the_default():
    assert MaskSettings() == DEFAULT == PRESETS["text"]["default"]
    assert PRESETS["text"]["paper"] == PAPER


def test_every_setting_explains_itself():
    assert all(spec.metadata["help"] for spec in fields(MaskSettings))


@pytest.mark.parametrize(
    "name", ["steps", "learning_rate", "min_sigma", "softness", "level_power", "warmup_scale", "anchor_sigma"]
)
@pytest.mark.parametrize("value", [0, -1])
def test_what_must_be_positive(name, value):
    with pytest.raises(OptionError, match=f"{name} must be greater than 0, not {value}"):
        replace(DEFAULT, **{name: value})


@pytest.mark.parametrize(
    "name",
    [
        "sufficiency",
        "complement",
        "sparsity",
        "sigma_weight",
        "noise",
        "weight_decay",
        "max_sigma_share",
        "complement_floor",
        "level_weight",
        "initial_sigma",
        "anchor",
    ],
)
def test_what_can_be_left_out_but_not_turned_round(name):
    assert getattr(replace(DEFAULT, mask_weight=0.5, **{name: 0.0}), name) == 0
    with pytest.raises(OptionError, match=name):
        replace(DEFAULT, **{name: -0.1})


@pytest.mark.parametrize(("name", "limit"), [("indicative", 1.0), ("flip_share", 0.5), ("complement_floor", 1.0)])
def test_what_is_a_share(name, limit):
    assert getattr(replace(DEFAULT, **{name: limit}), name) == limit
    with pytest.raises(OptionError, match=f"{name} must lie between 0 and {limit:g}"):
        replace(DEFAULT, **{name: limit + 0.01})


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), "1", None, True, [1.0]])
def test_what_is_a_number(name, value):
    with pytest.raises(OptionError, match=name):
        replace(DEFAULT, **{name: value})


@pytest.mark.parametrize("value", [1.0, "80", True, None])
def test_steps_are_a_whole_number(value):
    with pytest.raises(OptionError, match="steps must be a whole number"):
        replace(DEFAULT, steps=value)


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize("value", ["", "other", 3, None])
def test_what_is_one_of_a_few_lists_them(name, value):
    choices = next(spec.metadata["choices"] for spec in fields(MaskSettings) if spec.name == name)
    assert len(choices) > 1
    with pytest.raises(OptionError, match=name):
        replace(DEFAULT, **{name: value})
    for choice in choices:
        assert getattr(replace(DEFAULT, **{name: choice}), name) == choice


def test_an_unknown_name_is_refused_with_the_names_that_there_are():
    with pytest.raises(OptionError, match=r"no option 'own'; its options are: .*mask_weight, level_weight"):
        build("marc", {"own": 1.0})
