"""`explain(curve=True)` and `explain(threshold=…, share=…, top=…)`: probabilities belong to the selection they name."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from families import tiny

import rationales
from rationales import Rationale
from rationales.errors import OptionError

TEXTS = ["a quiet film about rain", "not a good one, sadly, whatever they say", "fine"]


@pytest.fixture(scope="module")
def model():
    return rationales.load(*tiny("bert"))


def asked_directly(model, text: str, selected: np.ndarray) -> dict[str, list[float]]:
    """The model's probabilities of one selection and of its complement, by themselves."""
    with model.frozen(), torch.no_grad():
        batch = model.batch(model.encode([model.read(text, None)]), 0)
        keep = batch.spread([torch.from_numpy(selected).float()])
        return {
            "rationale": batch.predict(keep)[0].tolist(),
            "complement": batch.predict((1 - keep) * batch.rows.real)[0].tolist(),
        }


def test_a_curve_holds_what_the_model_says_of_each_size(model) -> None:
    for text, rationale in zip(TEXTS, rationales.explain(model, TEXTS, method="random", curve=True), strict=True):
        curve = rationale.curve
        assert curve is not None
        assert (curve.shares[0], curve.shares[-1]) == (0, 1)
        for size, threshold in enumerate(curve.thresholds):
            selected = rationale.scores > threshold
            assert curve.shares[size] == pytest.approx(selected.mean(), abs=1e-6)
            expected = asked_directly(model, text, selected)
            for key, by_label in curve.at(size).items():
                assert list(by_label.values()) == pytest.approx(expected[key], abs=1e-4)


def test_a_curve_is_made_only_when_asked_for_and_changes_nothing_else(model) -> None:
    plain, curved = (rationales.explain(model, TEXTS[0], method="random", curve=curve) for curve in (False, True))
    assert plain.curve is None
    assert "curve" not in plain.to_dict()
    assert plain.probabilities == curved.probabilities
    assert plain.scores.tolist() == curved.scores.tolist()


def test_a_curve_survives_a_file(model, tmp_path) -> None:
    rationale = rationales.explain(model, TEXTS[1], method="random", curve=True)
    assert Rationale.load(rationale.save(tmp_path / "r.json")).curve == rationale.curve
    assert Rationale.from_dict(json.loads(rationale.to_json())).curve == rationale.curve


@pytest.mark.parametrize("rule", [{"top": 2}, {"share": 0.5}, {"threshold": 0.4}], ids=str)
def test_the_users_rule_selects_and_its_selection_is_measured(model, rule) -> None:
    rationale = rationales.explain(model, TEXTS[1], method="random", **rule)
    plain = rationales.explain(model, TEXTS[1], method="random")
    assert rationale.selected().tolist() == plain.selected(**rule).tolist()
    expected = asked_directly(model, TEXTS[1], rationale.selected())
    for key in ("rationale", "complement"):
        assert list(rationale.probabilities[key].values()) == pytest.approx(expected[key], abs=1e-4)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({"top": 2, "share": 0.5}, "exactly one"),
        ({"share": 2}, "between 0 and 1"),
        ({"top": 1.5}, "whole number"),
        ({"top": -1}, "negative"),
        ({"threshold": float("nan")}, "threshold"),
        ({"threshold": "high"}, "threshold"),
    ],
    ids=str,
)
def test_a_rule_that_makes_no_sense_is_refused(model, rule, expected) -> None:
    with pytest.raises(OptionError, match=expected):
        rationales.explain(model, TEXTS[0], method="random", **rule)
