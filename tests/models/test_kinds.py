"""One list says everything that depends on the kind of a model."""

from __future__ import annotations

import rationales
from rationales.models.catalogue import list_models
from rationales.models.kinds import KINDS, kind_named


def test_every_kind_has_a_default_model_of_the_catalogue():
    names = {info.name for info in list_models()}
    assert {kind.default_model for kind in KINDS if kind.default_model} <= names


def test_kinds_are_found_by_the_name_that_models_have():
    assert [kind_named(kind.name) for kind in KINDS] == list(KINDS)
    assert kind_named(rationales.load().kind).noun == "text"


def test_text_is_tried_last_since_it_takes_everything():
    assert KINDS[-1].name == "text"
    assert KINDS[-1].recognise(None)
