"""Settings: everything has a name, a line of help and a check; presets are what they claim to be."""

from __future__ import annotations

from dataclasses import asdict, fields, replace

import pytest

from rationales.errors import OptionError
from rationales.masks.settings import DEFAULT, PAPER, PRESETS, MaskSettings

NUMBERS = [one.name for one in fields(MaskSettings) if one.type == "float"]
CHOICES = [one.name for one in fields(MaskSettings) if one.type == "str"]


def test_the_preset_of_the_paper_is_the_papers():
    """Appendix A.1 and what the published results used; text, squared widths, no limits of our own."""
    wanted = {
        "steps": 900,
        "stop": "paper",
        "rate": 0.03,
        "start_w": 1.2,
        "start_sigma": 2.0,
        "kernel": "sigma-squared",
        "sparsity": 1.0,
        "width": 1.2,
        "flip": 0.05,
        "complement_form": "bounded",
        "indicative": 0.0,
        "sufficiency": 1.0,
        "complement": 1.0,
        "field": "gaussian",
        "reach": 0.0,
        "floor": 0.0,
        "schedule": "constant",
    }
    assert wanted.items() <= asdict(PAPER).items()
    assert PAPER.noise == pytest.approx(0.03 / 0.507, rel=0.02)  # relative to the rms of the layer it was added to


def test_the_default_is_the_default():
    assert MaskSettings() == DEFAULT == PRESETS["text"]["default"]
    assert PRESETS["text"]["paper"] == PAPER


def test_every_setting_explains_itself():
    assert all(one.metadata["help"] for one in fields(MaskSettings))


@pytest.mark.parametrize("name", ["steps", "rate", "smallest_sigma", "softness", "small", "warm_size", "anchor_sigma"])
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
        "width",
        "noise",
        "decay",
        "reach",
        "floor",
        "levels",
        "start_sigma",
        "anchor",
    ],
)
def test_what_can_be_left_out_but_not_turned_round(name):
    assert getattr(replace(DEFAULT, own=0.5, **{name: 0.0}), name) == 0
    with pytest.raises(OptionError, match=name):
        replace(DEFAULT, **{name: -0.1})


@pytest.mark.parametrize(("name", "most"), [("indicative", 1.0), ("flip", 0.5), ("floor", 1.0)])
def test_what_is_a_share(name, most):
    assert getattr(replace(DEFAULT, **{name: most}), name) == most
    with pytest.raises(OptionError, match=f"{name} must lie between 0 and {most:g}"):
        replace(DEFAULT, **{name: most + 0.01})


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), "1", None, True, [1.0]])
def test_what_is_a_number(name, value):
    with pytest.raises(OptionError, match=name):
        replace(DEFAULT, **{name: value})


@pytest.mark.parametrize("value", [1.0, "80", True, None])
def test_steps_are_a_whole_number(value):
    with pytest.raises(OptionError, match="steps takes a value of type int"):
        replace(DEFAULT, steps=value)


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize("value", ["", "other", 3, None])
def test_what_is_one_of_a_few_lists_them(name, value):
    choices = next(one.metadata["choices"] for one in fields(MaskSettings) if one.name == name)
    assert len(choices) > 1
    with pytest.raises(OptionError, match=name):
        replace(DEFAULT, **{name: value})
    for choice in choices:
        assert getattr(replace(DEFAULT, **{name: choice}), name) == choice
