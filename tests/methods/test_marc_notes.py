"""What MaRC says of an optimisation that did not go well."""

from __future__ import annotations

import pytest

import rationales
from methods.keyword import keyword_model

TEXT = "The boat drifted slowly towards the old bridge and nobody laughed at the joke again that day"
WORDS = ("boat", "slowly", "towards", "old", "bridge", "nobody", "laughed", "joke", "again", "day")
ONE_MASK = {"mask_weight": 1.0, "level_weight": 0.0, "level_form": "log", "warmup_steps": 0, "initial_w": 1.2}


@pytest.fixture(scope="module")
def model():
    return rationales.load(*keyword_model("bridge", "joke"))


def kinds(model, **options):
    return {note.kind for note in rationales.explain(model, TEXT, options=options).notes}


def test_a_mask_that_its_stopping_rule_never_accepted_is_reported(model):
    assert "not-converged" in kinds(model, schedule="constant", stop="plateau", steps=12)


def test_a_mask_whose_gradients_still_agree_at_the_last_step_is_reported_under_a_falling_rate_too(model):
    assert "not-converged" in kinds(model, steps=5)
    assert "not-converged" not in kinds(model)


def test_a_rationale_of_nearly_all_words_is_reported_under_the_default():
    """A model that finds its class only while every word of a list is there."""
    needed = rationales.load(*keyword_model(*WORDS, strength=6.0))
    notes = rationales.explain(needed, " ".join(WORDS)).notes
    assert "keeps-everything" in {note.kind for note in notes}


def test_a_model_whose_answer_depends_on_no_word_is_reported_under_the_default():
    constant = rationales.load(*keyword_model("absent"))
    assert "keeps-nothing" in {note.kind for note in rationales.explain(constant, TEXT).notes}


def test_a_mask_that_keeps_everything_is_told(model):
    assert "keeps-everything" in kinds(model, **ONE_MASK, sparsity=0.0, complement=0.0, steps=40)


def test_a_mask_that_keeps_nothing_is_told(model):
    assert "keeps-nothing" in kinds(model, **ONE_MASK, sufficiency=0.0, complement=0.0, learning_rate=0.3)


def test_an_ordinary_one_gives_no_cause_for_notes(model):
    assert not kinds(model) & {"not-converged", "keeps-everything", "keeps-nothing"}
