"""The result object: what is selected, how it becomes spans, and that a file gives back what was saved."""

from __future__ import annotations

import json
import math
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import make_rationale, rationales, rules

from rationales import Rationale, RationalesError
from rationales.errors import InputError, OptionError
from rationales.rationale import Rule

FIELDS = [name for name in Rationale.__dataclass_fields__ if name != "scores"]


class TestSpans:
    @given(rationales())
    def test_spans_hold_exactly_the_selected_units(self, rationale: Rationale) -> None:
        inside = [index for span in rationale.spans() for index in range(span.first, span.last + 1)]
        assert inside == np.flatnonzero(rationale.selected()).tolist()

    @given(rationales())
    def test_a_span_cannot_be_made_longer(self, rationale: Rationale) -> None:
        chosen, units = rationale.selected(), rationale.units
        for span in rationale.spans():
            for end, beyond in ((span.first, span.first - 1), (span.last, span.last + 1)):
                outside = not 0 <= beyond < len(units)
                assert outside or not chosen[beyond] or units[beyond].text_index != units[end].text_index

    @given(rationales())
    def test_a_span_reads_as_in_the_text_and_lies_in_one_text(self, rationale: Rationale) -> None:
        for span in rationale.spans():
            members = rationale.units[span.first : span.last + 1]
            assert {unit.text_index for unit in members} == {span.text_index}
            assert span.text == rationale.text_at(span.text_index)[span.start : span.end]
            assert span.text.startswith(members[0].text)
            assert span.text.endswith(members[-1].text)

    @given(rationales())
    def test_the_score_of_a_span_lies_between_those_of_its_units(self, rationale: Rationale) -> None:
        for span in rationale.spans():
            members = rationale.scores[span.first : span.last + 1]
            slack = 1e-6 * float(np.abs(members).max())
            assert float(members.min()) - slack <= span.score <= float(members.max()) + slack

    def test_neighbours_in_different_texts_are_two_spans(self) -> None:
        rationale = make_rationale("a b", [0, 1, 1, 0], pair="c d")
        assert [(span.text, span.text_index) for span in rationale.spans()] == [("b", 0), ("c", 1)]

    def test_a_rule_given_to_spans_replaces_the_own_one(self) -> None:
        rationale = make_rationale("a b c d", [0.1, 0.9, 0.4, 0.8])
        assert [span.text for span in rationale.spans()] == ["b", "d"]
        assert [span.text for span in rationale.spans(threshold=0.3)] == ["b c d"]
        assert [span.text for span in rationale.spans(top=1)] == ["b"]
        assert [span.text for span in rationale.spans(share=0.75)] == ["b c d"]


class TestRules:
    @given(rationales(), st.floats(-2, 2, width=32))
    def test_a_threshold_selects_what_lies_above_it(self, rationale: Rationale, threshold: float) -> None:
        expected = [float(score) > threshold for score in rationale.scores]
        assert rationale.selected(threshold=threshold).tolist() == expected

    @given(rationales(), st.integers(0, 20))
    def test_top_selects_that_many_and_none_better_is_left(self, rationale: Rationale, k: int) -> None:
        chosen = rationale.selected(top=k)
        assert chosen.sum() == min(k, len(rationale.units))
        if 0 < chosen.sum() < len(chosen):
            assert rationale.scores[chosen].min() >= rationale.scores[~chosen].max()

    @given(rationales(), st.integers(0, 20))
    def test_top_units_come_best_first(self, rationale: Rationale, k: int) -> None:
        indices = {(unit.text_index, unit.start): index for index, unit in enumerate(rationale.units)}
        order = [float(rationale.scores[indices[unit.text_index, unit.start]]) for unit in rationale.top(k)]
        assert order == sorted(rationale.scores.tolist(), reverse=True)[:k]

    @given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))))
    def test_a_share_of_k_in_n_selects_k(self, sizes: tuple[int, int]) -> None:
        n, k = sizes
        assert Rule(share=k / n).select(np.zeros(n)).sum() == k

    @given(st.integers(1, 500), st.floats(0, 1))
    def test_a_share_rounds_up(self, n: int, share: float) -> None:
        count = int(Rule(share=share).select(np.zeros(n)).sum())
        assert share * n - 1e-6 <= count < share * n + 1

    @given(rules(), st.integers(0, 30))
    def test_equal_scores_are_taken_from_the_left(self, rule: Rule, n: int) -> None:
        chosen = rule.select(np.ones(n, dtype=np.float32)).tolist()
        assert chosen == sorted(chosen, reverse=True)

    @pytest.mark.parametrize(
        "wrong", [{}, {"threshold": 0.5, "top": 1}, {"share": -0.1}, {"share": 1.1}, {"top": -1}], ids=str
    )
    def test_a_rule_that_makes_no_sense_is_refused(self, wrong: dict[str, float]) -> None:
        with pytest.raises(OptionError):
            Rule(**wrong)  # type: ignore[arg-type]  # wrong on purpose


class TestSaving:
    @given(rationales())
    def test_json_gives_back_every_field_and_every_bit_of_the_scores(self, rationale: Rationale) -> None:
        back = Rationale.from_dict(json.loads(rationale.to_json()))
        assert {name: getattr(back, name) for name in FIELDS} == {name: getattr(rationale, name) for name in FIELDS}
        assert back.scores.dtype == np.float32
        assert back.scores.tobytes() == rationale.scores.tobytes()

    @given(rationales())
    def test_what_is_printed_as_json_has_the_promised_fields(self, rationale: Rationale) -> None:
        data = json.loads(rationale.to_json())
        for field in ("target", "probabilities", "units", "scores", "spans", "method", "options", "seed"):
            assert field in data
        for field in ("steps", "stop", "seconds", "model", "versions"):
            assert field in data
        assert all({"text", "start", "end"} <= unit.keys() for unit in data["units"])
        expected = [{"start": s.start, "end": s.end, "text": s.text} for s in rationale.spans()]
        assert [{key: span[key] for key in ("start", "end", "text")} for span in data["spans"]] == expected

    def test_units_and_spans_say_which_text_only_when_there_are_two(self) -> None:
        single, double = make_rationale("a b").to_dict(), make_rationale("a b", pair="c").to_dict()
        assert "pair" not in single
        assert not any("text_index" in entry for entry in single["units"] + single["spans"])
        assert all("text_index" in entry for entry in double["units"] + double["spans"])

    def test_a_file_gives_back_the_same(self, tmp_path) -> None:
        rationale = make_rationale("not good", [0.25, 1 / 3], name="first")
        back = Rationale.load(rationale.save(tmp_path / "r.json"))
        assert back.to_dict() == rationale.to_dict()
        assert [asdict(span) for span in back.spans()] == [asdict(span) for span in rationale.spans()]

    def test_scores_that_are_no_numbers_are_not_written(self) -> None:
        with pytest.raises(ValueError, match="JSON"):
            make_rationale("a b", [math.nan, 0]).to_json()

    @pytest.mark.parametrize("content", ["", "{", "[]", "{}", "3", '{"units": [], "scores": [], "format": 99}'])
    def test_a_file_that_holds_something_else_is_refused(self, tmp_path, content: str) -> None:
        path = tmp_path / "r.json"
        path.write_text(content)
        with pytest.raises(InputError, match=str(path)):
            Rationale.load(path)

    def test_a_missing_file_is_an_error_of_ours(self, tmp_path) -> None:
        with pytest.raises(RationalesError, match="no file"):
            Rationale.load(tmp_path / "none.json")


def test_every_unit_needs_a_score() -> None:
    with pytest.raises(ValueError, match="1 scores for 2 units"):
        make_rationale("a b", [0.5])


def test_it_can_be_shown_everywhere(tmp_path) -> None:
    rationale = make_rationale("quite good", [0, 1])
    assert "[[good]]" in str(rationale)
    assert "good" in repr(rationale)
    assert "<mark" in rationale._repr_html_()
    written = rationale.to_html(tmp_path / "page.html")
    assert written == tmp_path / "page.html"
    assert rationale.to_html() == written.read_text(encoding="utf-8")
