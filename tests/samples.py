"""Rationales for tests: made by hand, and drawn by hypothesis in all shapes."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from rationales.rationale import Note, Rationale, Rule, Unit

NAUGHTY = "<>&\"'/=`;\\-! \t\r\n\u2028\u2029\u0085\u200f\u05d0\u0627\u0301\U0001f600aB1\ufffe"


def words(text: str, part: int = 0) -> list[Unit]:
    """One unit for each run of characters that are not white space."""
    return [Unit(found.group(), found.start(), found.end(), part) for found in re.finditer(r"\S+", text)]


def made(text: str, scores: Sequence[float] | None = None, pair: str | None = None, **more: Any) -> Rationale:
    """A rationale of `text` with these scores, by default rising from 0 to 1 over its words."""
    units = words(text) + (words(pair, 1) if pair is not None else [])
    values = np.linspace(0, 1, len(units)) if scores is None else np.asarray(scores)
    given: dict[str, Any] = {
        "text": text,
        "pair": pair,
        "units": tuple(units),
        "scores": values.astype(np.float32),
        "target": "negative",
        "labels": ("negative", "positive"),
        "probabilities": {
            "full": {"negative": 0.9, "positive": 0.1},
            "rationale": {"negative": 0.8, "positive": 0.2},
            "complement": {"negative": 0.3, "positive": 0.7},
            "baseline": {"negative": 0.5, "positive": 0.5},
        },
        "method": "marc",
        "model": "a-model",
        "baseline": "pad",
    }
    return Rationale(**(given | more))


def texts(*, least: int = 0) -> st.SearchStrategy[str]:
    """Any text, and texts made of what breaks reports: markup, line ends, directions, combining marks."""
    return st.one_of(
        st.text(min_size=least, max_size=60), st.text(alphabet=NAUGHTY + "<script></", min_size=least, max_size=60)
    )


@st.composite
def cut(draw: st.DrawFn, text: str, part: int) -> list[Unit]:
    """Units at random places of the text, in order, with or without gaps between them."""
    places = sorted(draw(st.sets(st.integers(0, len(text)), max_size=12)))
    pieces = list(itertools.pairwise(places))
    kept = draw(st.lists(st.booleans(), min_size=len(pieces), max_size=len(pieces)))
    return [Unit(text[a:b], a, b, part) for (a, b), keep in zip(pieces, kept, strict=True) if keep]


def rules() -> st.SearchStrategy[Rule]:
    """Every kind of rule."""
    return st.one_of(
        st.floats(-2, 2, width=32).map(lambda value: Rule(threshold=value)),
        st.floats(0, 1).map(lambda value: Rule(share=value)),
        st.integers(0, 20).map(lambda value: Rule(top=value)),
    )


@st.composite
def rationales(draw: st.DrawFn, **fixed: Any) -> Rationale:
    """Any rationale: texts, pairs, keeps and signed scores, rules, names and notes full of markup."""
    text, pair = draw(texts(least=1)), draw(st.none() | texts(least=1))
    units = draw(cut(text, 0)) + (draw(cut(pair, 1)) if pair is not None else [])
    number = draw(
        st.sampled_from([st.floats(0, 1, width=32), st.floats(width=32, allow_nan=False, allow_infinity=False)])
    )
    scores = np.asarray(draw(st.lists(number, min_size=len(units), max_size=len(units))), dtype=np.float32)
    labels = draw(st.lists(texts(least=1), min_size=1, max_size=4, unique=True))
    chance = st.dictionaries(st.sampled_from(labels), st.floats(0, 1), min_size=len(labels), max_size=len(labels))
    given = {
        "text": text,
        "pair": pair,
        "units": tuple(units),
        "scores": scores,
        "target": draw(st.sampled_from(labels)),
        "labels": tuple(labels),
        "probabilities": {name: draw(chance) for name in ("full", "rationale", "complement", "baseline")},
        "method": draw(texts(least=1)),
        "model": draw(texts()),
        "name": draw(st.none() | texts()),
        "rule": draw(rules()),
        "baseline": draw(texts()),
        "options": draw(
            st.dictionaries(texts(least=1), st.none() | st.booleans() | st.integers() | texts(), max_size=3)
        ),
        "seed": draw(st.integers(0, 2**31)),
        "steps": draw(st.integers(0, 1000)),
        "stop": draw(texts()),
        "notes": tuple(
            Note(kind, message) for kind, message in draw(st.lists(st.tuples(texts(), texts()), max_size=2))
        ),
        "versions": draw(st.dictionaries(texts(), texts(), max_size=2)),
    }
    return Rationale(**(given | fixed))
