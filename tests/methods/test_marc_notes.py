"""What MaRC says of an optimisation that did not go well."""

from __future__ import annotations

import pytest

import rationales
from methods.keyword import keyword_model

TEXT = "The boat drifted slowly towards the old bridge and nobody laughed at the joke again that day"
ONE_MASK = {"own": 1.0, "levels": 0.0, "level_form": "log", "warm": 0, "start_w": 1.2}


@pytest.fixture(scope="module")
def model():
    return rationales.load(*keyword_model("bridge", "joke"))


def kinds(model, **options):
    return {note.kind for note in rationales.explain(model, TEXT, options=options).notes}


def test_a_mask_that_still_moves_is_told_where_the_rate_stays(model):
    assert "not-converged" in kinds(model, schedule="constant", stop="plateau", steps=12)
    assert "not-converged" not in kinds(model, schedule="constant", steps=12, stop="steps")  # as many as were wanted
    assert "not-converged" not in kinds(model, steps=12)  # a falling rate ends at the last step


def test_a_mask_that_keeps_everything_is_told(model):
    assert "keeps-everything" in kinds(model, **ONE_MASK, sparsity=0.0, complement=0.0, steps=40)


def test_a_mask_that_keeps_nothing_is_told(model):
    assert "keeps-nothing" in kinds(model, **ONE_MASK, sufficiency=0.0, complement=0.0, rate=0.3)


def test_an_ordinary_one_gives_no_cause_for_notes(model):
    assert not kinds(model) & {"not-converged", "keeps-everything", "keeps-nothing"}
