"""In a long text, words near the rationale come before words far away; the rationale itself stays what it is."""

from __future__ import annotations

import numpy as np
import pytest

import rationales
from methods.keyword import keyword_model

SHORT = "The boat drifted slowly towards the old bridge and nobody laughed at the joke again that day"
LONG = f"{SHORT} {'and then the long quiet river went on past the mill and the field ' * 10}"


@pytest.fixture(scope="module")
def model():
    return rationales.load(*keyword_model("bridge", "joke"))


def scores(model, text, **options):
    return rationales.explain(model, text, options={"steps": 20, **options}).scores


def test_half_of_a_score_is_the_mean_of_what_is_kept_around(model):
    keep, found = scores(model, LONG, halo=0.0), scores(model, LONG)
    place = np.arange(len(keep))
    for here in (0, 7, 13, 20, 100):
        weight = np.exp(-(((place - here) / 8.0) ** 2))
        around = float((weight * keep).sum() / weight.sum())
        assert found[here] == pytest.approx(0.5 * keep[here] + 0.5 * around, abs=1e-4)
    assert found[20] > found[60]


def test_what_is_kept_stays_above_what_is_not(model):
    keep, found = scores(model, LONG, halo=0.0), scores(model, LONG)
    assert found[keep > 0.99].min() > found[keep < 0.01].max()


def test_a_sentence_has_none(model):
    assert np.array_equal(scores(model, SHORT, halo=0.0), scores(model, SHORT))


def test_the_paper_has_none(model):
    found, plain = (scores(model, LONG, preset="paper", **more) for more in ({}, {"halo": 0.0}))
    assert np.array_equal(found, plain)
