"""What the terminal shows: the text with its spans, the probabilities, the notes; never 20,000 words."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from samples import make_rationale, rationales

from rationales import Rationale
from rationales.rationale import Note, Rule
from rationales.report.scale import scale_of
from rationales.report.terminal.excerpt import excerpt
from rationales.report.terminal.show import AGAINST, FOR, plain, safe, show, style
from rationales.report.wording import percent


def printed(rationale: Rationale, **options: object) -> str:
    console = Console(file=io.StringIO(), width=100, **options)  # type: ignore[arg-type]  # passed on as they came
    show(rationale, console)
    return console.file.getvalue()  # type: ignore[attr-defined]  # it is the StringIO above


class TestPlain:
    def test_spans_stand_in_brackets(self) -> None:
        rationale = make_rationale("It was not good , not at all .", [0, 0, 1, 1, 0, 0, 0.6, 0.6, 0])
        assert "It was [[not good]] , not [[at all]] ." in plain(rationale)

    def test_the_probabilities_stand_in_a_table(self) -> None:
        rows = {line.split("   ")[0].strip(): line for line in plain(make_rationale("a b")).splitlines()}
        assert re.search(r"90\.0 % +10\.0 %", rows["Full text"])
        assert re.search(r"80\.0 % +20\.0 %", rows["Rationale alone"])
        assert re.search(r"30\.0 % +70\.0 %", rows["Complement"])
        assert re.search(r"50\.0 % +50\.0 %", rows["Baseline"])

    def test_notes_are_told(self) -> None:
        assert "note: try more steps" in plain(make_rationale("a", notes=(Note("x", "try more steps"),)))

    def test_what_only_informs_is_no_note(self) -> None:
        output = plain(make_rationale("a", notes=(Note("baselines", "grey was chosen"), Note("x", "look again"))))
        assert "info: grey was chosen" in output
        assert "note: look again" in output

    def test_a_target_that_the_model_does_not_predict_is_not_called_its_prediction(self) -> None:
        sentence = "The model predicts negative (90.0 %); explained: positive (10.0 %)."
        assert sentence in plain(make_rationale("a b", target="positive"))
        assert "The model predicts" not in plain(make_rationale("a b"))

    def test_every_class_has_a_number(self) -> None:
        labels = ("a", "b", "c")
        chances = {key: dict(zip(labels, (0.5, 0.3, 0.2), strict=True)) for key in ("full", "rationale")}
        output = plain(make_rationale("x y", labels=labels, target="b", probabilities=chances))
        assert re.search(r"Full text +30\.0 % +50\.0 % +20\.0 %", output)
        labels = tuple("abcdef")
        chances = {"full": dict(zip(labels, (0.5, 0.1, 0.1, 0.1, 0.1, 0.1), strict=True))}
        assert "all classes: a 50.0 % · b 10.0 %" in plain(
            make_rationale("x", labels=labels, target="a", probabilities=chances)
        )

    def test_controls_of_the_writing_direction_are_shown_and_not_obeyed(self) -> None:
        output = plain(make_rationale("I liked \u202eton\u202c it", [0, 0, 1, 0], name="\u2067a.txt"))
        assert "I liked [[<U+202E>ton<U+202C>]] it" in output
        assert "<U+2067>a.txt" in output

    def test_line_breaks_stay(self) -> None:
        assert "one\n\n[[two]]" in plain(make_rationale("one\n\ntwo", [0, 1]))

    def test_both_texts_of_a_pair_are_shown_under_their_names(self) -> None:
        assert "Text:\n[[A]] b\n\nPair:\nc [[D]]" in plain(make_rationale("A b", [1, 0, 0, 1], pair="c D"))
        assert "Text:" not in plain(make_rationale("A b"))

    @given(rationales())
    @settings(max_examples=60)
    def test_no_text_can_steer_the_terminal(self, rationale: Rationale) -> None:
        for output in (plain(rationale), re.sub(r"\x1b\[[0-9;]*m", "", printed(rationale, force_terminal=True))):
            assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", output)

    @given(st.text())
    def test_safe_text_keeps_what_is_harmless(self, text: str) -> None:
        output = safe(text)
        assert output.isprintable() or len(re.sub(r"<U\+[0-9A-F]{4}>", " ", output)) <= len(text)
        if text.isprintable():
            assert safe(text) == text


class TestColours:
    def test_a_terminal_gets_colours_and_no_brackets(self) -> None:
        output = printed(make_rationale("so good", [0, 1]), force_terminal=True, color_system="truecolor")
        assert "\x1b[" in output
        assert "[[" not in output

    @pytest.mark.parametrize(
        "options", [{}, {"no_color": True, "force_terminal": True}, {"color_system": None}], ids=str
    )
    def test_without_colours_there_are_brackets(self, options: dict[str, object]) -> None:
        assert "[[good]]" in printed(make_rationale("so good", [0, 1]), **options)

    def test_the_no_color_variable_is_respected(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("NO_COLOR", "1")
        output = printed(make_rationale("so good", [0, 1]), force_terminal=True, color_system="truecolor")
        assert "[[good]]" in output
        assert not re.search(r"\x1b\[[0-9;]*[34]8;", output)

    @pytest.mark.parametrize("entry", [*FOR, *AGAINST], ids=str)
    def test_words_can_be_read_on_every_background(self, entry: tuple[float, str, str]) -> None:
        """WCAG 2.1, contrast of at least 4.5."""

        def luminance(colour: str) -> float:
            channels = (int(colour[index : index + 2], 16) / 255 for index in (1, 3, 5))
            linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
            return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

        front, back = sorted((luminance(entry[1]), luminance(entry[2])), reverse=True)
        assert (front + 0.05) / (back + 0.05) >= 4.5

    def test_for_and_against_have_different_hues(self) -> None:
        assert style(0.9).bgcolor != style(-0.9).bgcolor
        assert style(0.01).bgcolor is None

    @given(rationales())
    def test_strength_keeps_order_and_sign(self, rationale: Rationale) -> None:
        strength = scale_of(rationale).strength(rationale.scores)
        assert (np.abs(strength) <= 1).all()
        assert (np.sign(strength) == np.sign(rationale.scores)).all()
        order = np.argsort(rationale.scores, kind="stable")
        assert (np.diff(strength[order]) >= 0).all()

    def test_keeps_are_shown_as_they_are_and_other_scores_relative_to_the_strongest(self) -> None:
        assert scale_of(make_rationale("a b", [0.2, 0.4])).strength(np.array([0.4])).tolist() == [0.4]
        drops = make_rationale("a b", [0.01, 0.02], rule=Rule(threshold=0.015))
        assert scale_of(drops).strength(drops.scores).tolist() == [0.5, 1], "small drops of a probability are no keeps"
        signed = make_rationale("a b", [-4, 2], rule=Rule(top=1))
        assert scale_of(signed).strength(signed.scores).tolist() == [-1, 0.5]


class TestLongTexts:
    @given(rationales(), st.integers(1, 8), st.integers(0, 3))
    def test_every_unit_is_shown_once_or_counted(self, rationale: Rationale, limit: int, context: int) -> None:
        visible = excerpt(rationale, limit, context)
        for text_index, tail in visible.tails.items():
            members = [index for index, unit in enumerate(rationale.units) if unit.text_index == text_index]
            position = members[0]
            for piece in (piece for piece in visible.pieces if piece.text_index == text_index):
                assert piece.first == position + piece.skipped
                assert piece.first <= piece.last
                position = piece.last + 1
            assert position + tail == members[-1] + 1
        n_visible = sum(piece.last - piece.first + 1 for piece in visible.pieces)
        assert n_visible + visible.left_out == len(rationale.units)

    def test_a_short_text_is_shown_whole(self) -> None:
        assert excerpt(make_rationale("a b c")).left_out == 0

    def test_a_long_text_shows_its_spans_and_says_what_is_left_out(self) -> None:
        scores = np.zeros(20_000)
        scores[[5_000, 5_001, 15_000]] = 1
        rationale = make_rationale(" ".join(f"w{index}" for index in range(20_000)), scores)
        output = plain(rationale)
        assert "[[w5000 w5001]]" in output
        assert "[[w15000]]" in output
        n_visible = len(re.findall(r"\bw\d+", output))
        assert n_visible < 100
        assert f"Not shown: {20_000 - n_visible:,} of 20,000 words." in output

    def test_too_many_spans_are_cut_to_the_best(self) -> None:
        scores = np.tile([0.0, 0.9], 10_000)
        scores[10_001] = 1
        output = plain(make_rationale(" ".join(f"w{index}" for index in range(20_000)), scores))
        assert "[[w10001]]" in output
        assert len(output.split()) < 1_500

    def test_a_long_text_with_nothing_selected_shows_where_it_came_nearest(self) -> None:
        scores = np.zeros(5_000)
        scores[4_000] = 0.3
        assert "w4000" in plain(make_rationale(" ".join(f"w{index}" for index in range(5_000)), scores))


@given(st.floats(0, 1))
def test_a_percentage_never_rounds_to_certainty(probability: float) -> None:
    assert (percent(probability) == "100.0 %") == (probability == 1)
    assert (percent(probability) == "0.0 %") == (probability == 0)
