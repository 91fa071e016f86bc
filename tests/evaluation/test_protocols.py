"""Protocols: every choice visible, published ones by name, and no silent defaults for a name that does not exist."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import pytest

from rationales.errors import OptionError
from rationales.evaluation.protocols import PRESETS, Protocol, find_protocol

NINETEEN = tuple(round(0.05 * number, 10) for number in range(1, 20))


def test_the_presets_are_the_published_recipes():
    """The table "Same name, different number": AOPC normaliser, removal, label."""
    assert set(PRESETS) == {
        *("marc", "marc-images", "marc-functions", "eraser-paper", "eraser-code", "aml", "im", "im-bert"),
        *("sequential-ig", "ferret"),
    }  # fmt: skip
    marc, aml, im, ferret = (PRESETS[name] for name in ("marc", "aml", "im", "ferret"))
    assert marc.levels == pytest.approx(NINETEEN)
    assert (marc.removal, marc.label, marc.normaliser, marc.ties, marc.noise) == ("pad", "gold", "mean", "noise", 1e-5)
    assert marc.selection == "fitted"
    images = PRESETS["marc-images"]
    assert (images.removal, images.levels) == (("blur-10", "black", "mean", "white"), marc.levels)
    assert PRESETS["eraser-paper"].levels == PRESETS["eraser-code"].levels == (0.01, 0.05, 0.1, 0.2, 0.5)
    assert PRESETS["eraser-paper"].divisor(5) == 6
    assert PRESETS["eraser-code"].divisor(5) == 5
    assert (PRESETS["eraser-code"].removal, PRESETS["eraser-code"].label) == ("baseline", "predicted")
    assert (aml.removal, aml.divisor(5), aml.label, aml.level, aml.odds_level) == ("delete", 6, "predicted", 0.2, 0.2)
    assert (aml.count, aml.empty, aml.odds_removal) == ("floor", "zero", "reference")
    assert (im.removal, im.each, im.curve, im.to_end, im.only_correct) == ("delete", 0.2, "area", False, True)
    differences = {"name": "im-bert", "removal": "fill", "retokenise": False, "fill_order": "in-turn"}
    assert PRESETS["im-bert"] == replace(im, **differences)
    assert (PRESETS["sequential-ig"].levels, PRESETS["sequential-ig"].removal) == ((0.2,), "delete")
    assert (ferret.removal, ferret.retokenise, ferret.positive, ferret.distinct) == ("delete", True, True, True)
    assert (ferret.label, len(ferret.levels), ferret.levels[-1]) == ("explained", 10, 1.0)
    assert (ferret.count, ferret.empty) == ("floor", "skip")
    assert {name for name, preset in PRESETS.items() if preset.agreement_on == "whitespace-tokens"} == {
        "eraser-paper",
        "eraser-code",
    }


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_survives_json_and_reads_as_one_line(name):
    preset = PRESETS[name]
    assert Protocol.from_dict(json.loads(json.dumps(preset.to_dict()))) == preset
    line = preset.describe()
    assert line.startswith(f"{name}: ")
    assert "\n" not in line


def test_lines_differ_where_numbers_differ():
    """Whatever field changes a number changes the line that is printed with it."""
    base = Protocol(levels=(0.1, 0.2), removal="pad", filler="a")
    changed = {
        "removal": "delete", "special": "remove", "levels": (0.1,), "count": "floor", "min_units": 1, "positive": True,
        "distinct": True, "empty": "skip", "normaliser": "sum/6", "level": 0.2, "curve": "mean", "to_end": False,
        "label": "gold", "only_correct": True, "ties": "random", "odds": "odds", "odds_removal": "mask",
        "odds_level": 0.1, "clip": 1e-3, "selection": "top=3", "agreement_on": "units", "name": "other",
    }  # fmt: skip
    lines = {name: replace(base, **{name: value}).describe() for name, value in changed.items()}
    assert len({base.describe(), *lines.values()}) == len(changed) + 1
    deleted, filled, noisy = (
        replace(base, **fields) for fields in ({"removal": "delete"}, {"removal": "fill"}, {"ties": "noise"})
    )
    assert replace(deleted, retokenise=True).describe() != deleted.describe()
    assert replace(filled, filler="b").describe() != filled.describe()
    assert replace(filled, fill_order="in-turn").describe() != filled.describe()
    assert replace(noisy, noise=1e-3).describe() != noisy.describe()
    assert replace(base, levels=(), each=0.2).describe() != base.describe()
    covered = {*changed, "retokenise", "filler", "fill_order", "noise", "each"}
    assert covered == {preset.name for preset in fields(Protocol)}


def test_every_field_says_what_it_is():
    assert all(spec.metadata["help"] for spec in fields(Protocol))


def test_an_unknown_protocol_is_told_with_all_that_there_are():
    with pytest.raises(
        OptionError,
        match=r"no protocol 'marcc' \(did you mean 'marc'\?\); there are: marc, marc-images, marc-functions",
    ):
        find_protocol("marcc")


def test_pictures_get_their_own_recipe_and_words_stay_with_texts():
    assert find_protocol("marc", "image") is PRESETS["marc-images"]
    assert find_protocol("marc") is PRESETS["marc"]
    assert find_protocol("eraser-code", "image") is PRESETS["eraser-code"]
    recipe = Protocol(levels=(0.5,), removal="delete")
    assert find_protocol(recipe) is recipe
    with pytest.raises(OptionError, match="is for images"):
        find_protocol("marc-images")
    with pytest.raises(OptionError, match="removes words"):
        find_protocol(recipe, "image")
    with pytest.raises(OptionError, match="from texts, and this model reads image-text pairs; use a protocol with"):
        find_protocol("marc", "image-text")
    with pytest.raises(OptionError, match="for images, and this model reads sounds; use one with removal='baseline'"):
        find_protocol("marc-images", "audio")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({}, "give levels, or each"),
        ({"levels": (0.5, 0.2)}, "rising shares"),
        ({"levels": (0.0, 0.2)}, "rising shares"),
        ({"levels": (0.2, 1.2)}, "rising shares"),
        ({"levels": (0.2,), "each": 0.2}, "goes without levels"),
        ({"each": 1.5}, "each is a share"),
        ({"levels": (0.2,), "level": 0.3}, "level 0.3 is none of the levels"),
        ({"levels": (0.2,), "removal": "cut"}, "no removal 'cut'; there is: baseline"),
        ({"levels": (0.2,), "removal": ()}, "at least one name"),
        ({"levels": (0.2,), "odds_removal": "cut"}, "no removal 'cut'"),
        ({"levels": (0.2,), "normaliser": "median"}, "no normaliser 'median'"),
        ({"levels": (0.2,), "normaliser": "sum/0"}, "no normaliser 'sum/0'"),
        ({"levels": (0.2,), "label": "best"}, "label is one of gold, predicted, explained"),
        ({"levels": (0.2,), "min_units": -1}, "must not be negative"),
        ({"levels": (0.2,), "clip": 0.7}, "between 0 and 0.5"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong, message):
    with pytest.raises(OptionError, match=message):
        Protocol(**wrong)


def test_json_with_unknown_or_unreadable_fields_is_refused():
    with pytest.raises(OptionError, match="no field 'level_'"):
        Protocol.from_dict({"levels": [0.1], "level_": 3})
    with pytest.raises(OptionError, match="cannot be read"):
        Protocol.from_dict({"levels": ["much"]})
