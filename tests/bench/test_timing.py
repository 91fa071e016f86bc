"""Clocks, ratios, memory and tables of the benchmarks of speed."""

from __future__ import annotations

import pytest
import timing
import torch
from scaling import exponent
from subjects import REVIEW_WORDS, of_length, random_text, reviews, text_model, tokens

import rationales
from rationales.methods import marc

CPU = torch.device("cpu")


def test_what_is_compared_runs_in_turns():
    order = []
    works = {name: lambda name=name: order.append(name) for name in "ab"}
    durations = timing.interleaved(works, 3, CPU)
    assert order == ["a", "b"] * 3
    assert [len(times) for times in durations.values()] == [3, 3]


def test_a_ratio_is_the_median_of_the_rounds():
    assert timing.ratio([2.0, 30.0, 8.0], [1.0, 1.0, 2.0]) == 4.0


def test_the_processor_clock_does_not_count_waiting():
    import time

    assert timing.seconds(lambda: time.sleep(0.2), CPU) >= 0.2
    assert timing.seconds(lambda: time.sleep(0.2), CPU, "cpu") < 0.1


def test_memory_that_was_held_and_given_back():
    with timing.peak_memory(CPU) as peak:
        torch.ones(48 * 2**18)  # 48 MB
    assert 40 < peak[0] < 90


def test_an_optimisation_is_watched_inside_explain_and_left_as_it_was():
    plain = marc.optimize
    model = random_text("bert-tiny", CPU)
    with timing.watched(CPU) as descents:
        spent = timing.seconds(
            lambda: rationales.explain(model, ["a dull film", "a fine one"], options={"steps": 3}), CPU
        )
    assert marc.optimize is plain
    assert [descent.steps for descent in descents] == [[3, 3]]
    assert 0 < descents[0].seconds < spent


def test_a_power_law_gives_its_exponent():
    assert exponent([1, 2, 4, 8], [3 * size**1.5 for size in (1, 2, 4, 8)]) == pytest.approx(1.5)


def test_texts_are_as_long_as_they_should_be():
    model = text_model("embedded", CPU)
    assert len(of_length(model, "40w").split()) == 40
    assert 160 <= tokens(model, of_length(model, "160")) <= 163
    many = reviews(21, None)
    assert len(set(many)) == 21
    lengths = sorted(len(text.split()) for text in many)
    assert lengths[10] == REVIEW_WORDS[5], "the middle one is the median"
    assert REVIEW_WORDS[0] <= lengths[0]
    assert lengths[-1] <= REVIEW_WORDS[-1]


def test_columns_line_up():
    lines = timing.table(("name", "s"), [["one", "1.25"], ["longer", "10.5"]]).splitlines()
    assert lines == ["name       s", "one     1.25", "longer  10.5"]
