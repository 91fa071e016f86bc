"""Scores of rows: kept before smoothing, in parts, and blended to what `explain` gives."""

from __future__ import annotations

import numpy as np
import pytest
from families import tiny

import rationales
from rationales.data.example import Example
from rationales.evaluation import collecting
from rationales.evaluation.evaluate import evaluate
from rationales.evaluation.sampling import evenly
from rationales.evaluation.scores.attribution import RawScores, attribute, blend, row_units, score_rows
from rationales.methods import build

TEXTS = [
    "The river was calm and the boat drifted slowly towards the old stone bridge. " * 3,
    "I did not like the soup, but the bread wasn't bad at all!",
    "Not good, not terrible.",
]


@pytest.fixture(scope="module")
def model():
    return rationales.load(*tiny("bert"), segment=24, overlap=6)


@pytest.fixture(scope="module")
def encoded(model):
    return model.encode([model.read(text, None) for text in TEXTS])


@pytest.mark.parametrize("smooth", [None, 2.0])
def test_rows_blended_are_what_explain_gives(model, encoded, smooth):
    rationales_ = rationales.explain(model, TEXTS, method="saliency", target=0, smooth=smooth)
    blended = attribute(model, encoded, build("saliency"), [0] * 3, smooth=smooth)
    for raw, rationale in zip(blended, rationales_, strict=True):
        assert np.allclose(raw.scores, rationale.scores, atol=1e-6)
    rows = score_rows(model, encoded, build("saliency"), [0] * 3)
    assert [len(raw.scores) for raw in rows] == [row_units(raw) for raw in encoded]
    assert row_units(encoded[0]) > len(encoded[0].units)  # segments overlap


def test_an_input_without_scores_stays_without(model, encoded):
    rows = score_rows(model, encoded, build("saliency"), [0] * 3)
    rows[1] = RawScores(None, 0.5, "no")
    blended = blend(model.batch(encoded), encoded, rows, 3.0)
    assert blended[1] is rows[1]
    assert np.allclose(
        blended[0].scores, blend(model.batch(encoded[:1]), encoded[:1], rows[:1], 3.0)[0].scores, atol=1e-6
    )


def examples():
    return [Example(str(number), text, "LABEL_0", ((0, 5),)) for number, text in enumerate(TEXTS)]


def test_many_widths_ask_the_method_once(model, monkeypatch):
    calls = []
    monkeypatch.setattr(collecting, "score_rows", lambda *a, **k: calls.append(1) or score_rows(*a, **k))
    rows = [{"name": "saliency", "smooth": width} for width in (None, 2, 4)]
    table = evaluate(model, examples(), [*rows, "random"], metrics=["average-precision"])
    assert len(calls) == 2
    monkeypatch.undo()
    alone = evaluate(model, examples(), [rows[2]], metrics=["average-precision"])
    assert table["saliency (smooth 4)"].cells == alone["saliency (smooth 4)"].cells


def test_inputs_are_encoded_once_for_all_rows_and_metrics(model, monkeypatch):
    encoded_inputs = []
    plain = type(model).encode
    monkeypatch.setattr(
        type(model), "encode", lambda self, inputs: encoded_inputs.append(len(inputs)) or plain(self, inputs)
    )
    evaluate(model, examples(), ["saliency", "occlusion"], metrics=["sufficiency", "token-f1", "spans@sufficient"])
    assert encoded_inputs == [3]


def test_scores_are_kept_in_parts_as_large_as_the_time_allows(model, tmp_path, monkeypatch):
    """A part, then as many as fit into the time that may be lost; the scores are the same as in one go."""
    parts = []
    monkeypatch.setattr(collecting, "FIRST_CHUNK", 1)
    monkeypatch.setattr(collecting, "SECONDS_BETWEEN_SAVES", 0.0)
    monkeypatch.setattr(
        collecting, "score_rows", lambda m, e, *a, **k: parts.append(len(e)) or score_rows(m, e, *a, **k)
    )
    shares = []
    kept = evaluate(
        model, examples(), ["random"], metrics=["average-precision"], cache=tmp_path, progress=shares.append
    )
    assert parts == [1, 1, 1]
    assert len(list(tmp_path.rglob("*.safetensors"))) == 3
    assert shares == sorted(shares)
    assert (
        kept["random"].cells == evaluate(model, examples(), ["random"], metrics=["average-precision"])["random"].cells
    )
    monkeypatch.setattr(collecting, "SECONDS_BETWEEN_SAVES", 1e6)
    parts.clear()
    evaluate(model, examples(), ["random"], metrics=["average-precision"], cache=tmp_path, seed=1)
    assert parts == [1, 2]


class TestEvenly:
    def test_takes_the_middles_of_equal_parts(self):
        assert evenly(range(10), 2) == [2, 7]
        assert evenly("abcdef", 3) == ["b", "d", "f"]
        assert evenly([1, 2, 3], None) == evenly([1, 2, 3], 3) == evenly([1, 2, 3], 9) == [1, 2, 3]

    @pytest.mark.parametrize(("n", "limit"), [(199, 50), (199, 198), (7, 1), (200, 3)])
    def test_items_are_different_and_in_order(self, n, limit):
        sampled = evenly(range(n), limit)
        assert len(sampled) == limit
        assert sampled == sorted(set(sampled))

    def test_at_least_one(self):
        with pytest.raises(rationales.RationalesError, match="at least 1"):
            evenly([1], 0)
