"""The stops of the slider: the probabilities of every selection are measured and on the page."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from samples import make_rationale, rationales

from rationales import Rationale
from rationales.pipeline.selection import SIZES, curve_thresholds
from rationales.rationale import Curve, Rule
from rationales.report.html.page import page
from rationales.report.html.probabilities import STALE
from rationales.report.html.slider import selecting_stops, slider_data, stops
from rationales.report.scale import scale_of


def curved(rationale: Rationale) -> Rationale:
    """The same rationale with a curve whose probabilities tell the size: share alone, 1 - share without."""
    thresholds = curve_thresholds(rationale.scores)
    shares = tuple(float((rationale.scores > threshold).mean()) for threshold in thresholds)
    alone = dict.fromkeys(rationale.labels, shares)
    without = {label: tuple(1 - share for share in shares) for label in rationale.labels}
    return Rationale(**(vars(rationale) | {"curve": Curve(shares, tuple(thresholds), alone, without)}))


def page_data(rationale: Rationale) -> dict[str, object]:
    (content,) = re.findall(r'<script type="application/json">(.*?)</script>', page([rationale]), re.DOTALL)
    return dict(json.loads(content))


class TestThresholds:
    @pytest.mark.parametrize("units", [1, 2, 7, 13, 14, 100, 5000])
    def test_sizes_run_from_nothing_to_everything(self, units: int) -> None:
        scores = np.random.default_rng(units).permutation(units).astype(np.float32)
        counts = [int((scores > threshold).sum()) for threshold in curve_thresholds(scores)]
        assert counts == sorted(set(counts))
        assert (counts[0], counts[-1]) == (0, units)
        assert len(counts) <= max(len(SIZES), 1)
        if units < len(SIZES):
            assert counts == list(range(units + 1))

    def test_equal_scores_enter_together(self) -> None:
        scores = np.array([1, 1, 1, 0, 0], dtype=np.float32)
        assert [int((scores > threshold).sum()) for threshold in curve_thresholds(scores)] == [0, 3, 5]
        assert [int((np.ones(4) > threshold).sum()) for threshold in curve_thresholds(np.ones(4))] == [0, 4]

    def test_large_scores_that_hardly_differ_still_have_an_end(self) -> None:
        scores = np.float32(1000) + np.arange(3, dtype=np.float32) * np.float32(1e-4)
        thresholds = curve_thresholds(scores)
        assert not (scores > thresholds[0]).any()
        assert (scores > thresholds[-1]).all()


class TestStops:
    @given(rationales().filter(lambda rationale: len(rationale.units) > 0))
    @settings(max_examples=60)
    def test_the_methods_selection_is_a_stop_and_every_stop_selects_what_it_says(self, rationale: Rationale) -> None:
        rationale = curved(rationale)
        scale = scale_of(rationale)
        slider_stops = stops(rationale, scale)
        levels = selecting_stops(slider_stops, rationale.scores, rationale.selected())
        assert [stop.is_rule for stop in slider_stops].count(True) == 1
        for position, stop in enumerate(slider_stops):
            selected = levels > position
            assert int(selected.sum()) == stop.selected
            expected = rationale.selected() if stop.is_rule else rationale.scores > stop.threshold
            assert (selected == expected).all()

    def test_beside_a_rationale_of_spans_every_other_stop_selects_by_score(self) -> None:
        """The span in the middle leaves out the best word, so that no other stop contains it or lies in it."""
        scores, span = [0.3, 0.1, 0.02, 0.05, 0.9, 0.2], np.array([0, 1, 1, 1, 0, 0], dtype=bool)
        spans = make_rationale("a b c d e f", scores, rule=Rule(top=3))
        rationale = curved(replace(spans, selection=span, selected_by="spans"))
        data = page_data(rationale)
        start = next(stop for stop in stops(rationale, scale_of(rationale)) if stop.is_rule)
        assert start.selected == 3
        for position, stop in enumerate(data["stops"]):
            if stop["selected"] != 3:
                selected = [count > position for count in data["entered"]]
                best = np.argsort(-rationale.scores)[: stop["selected"]].tolist()
                assert np.flatnonzero(selected).tolist() == sorted(best)
        content = page([rationale])
        assert data["home"] == "spans"
        assert '<b class="threshold">spans</b>' in content
        assert "outlined: the rationale, in connected spans" in content
        assert "home" not in page_data(curved(spans))

    def test_numbers_on_the_page_are_those_of_each_selection(self) -> None:
        rationale = curved(make_rationale("a b c d e f", [0.1, 0.9, 0.2, 0.8, 0.3, 0.4], rule=Rule(threshold=0.5)))
        data = page_data(rationale)
        assert data["labels"] == ["negative", "positive"]
        for stop in data["stops"]:
            share = stop["selected"] / 6
            expected = [0.8, 0.2] if stop["selected"] == 2 else [share, share]  # the rule's own were measured apart
            assert stop["rationale"] == pytest.approx(expected)
        assert [stop["selected"] for stop in data["stops"]] == [6, 5, 4, 3, 2, 1, 0]
        assert '<input type="range" class="cut" id="t1" min="0" max="6" value="4">' in page([rationale])

    def test_without_a_curve_the_page_says_whose_probabilities_they_are(self) -> None:
        plain = make_rationale("a b c", [0, 1, 0])
        assert f'<p class="stale">{STALE}</p>' in page([plain])
        assert "stops" not in page_data(plain)
        assert '<p class="stale">' not in page([curved(plain)])

    def test_labels_that_never_matter_are_counted_and_not_sent(self) -> None:
        labels = tuple(f"class {number}" for number in range(1000))
        chances = np.full(1000, 1e-4)
        chances[[5, 40]] = 0.6, 0.3
        probabilities = {"full": dict(zip(labels, chances.tolist(), strict=True))}
        probabilities["rationale"] = probabilities["full"] | {"class 700": 0.2}
        rationale = make_rationale("a b", labels=labels, target="class 5", probabilities=probabilities)
        data = slider_data(rationale, scale_of(rationale), [])
        assert {"class 5", "class 40", "class 700"} <= set(data["labels"])
        assert len(data["labels"]) + data["hidden"] == 1000
        assert len(data["labels"]) < 10
        assert "Show all 1,000 classes" in page([rationale])


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_moving_the_slider_shows_the_probabilities_of_that_selection(tmp_path: Path) -> None:
    """The policy is taken out so that the test can drive the page; another test holds the policy."""
    rationale = curved(make_rationale("a b c d e f", [0.1, 0.9, 0.2, 0.8, 0.3, 0.4], rule=Rule(threshold=0.5)))
    driver = (
        "window.requestAnimationFrame = work => setTimeout(work);"  # a browser without a window draws no frames
        "addEventListener('load', () => { const slider = document.querySelector('.cut'); slider.value = 3;"
        "slider.dispatchEvent(new Event('input')); });"
    )
    source = re.sub(
        r'<meta http-equiv="Content-Security-Policy"[^>]*>', f"<script>{driver}</script>", page([rationale])
    )
    (tmp_path / "page.html").write_text(source, encoding="utf-8")
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"]
    command += ["--disable-background-networking", "--disable-component-update", f"--user-data-dir={tmp_path}/profile"]
    command += ["--virtual-time-budget=3000", "--dump-dom", (tmp_path / "page.html").as_uri()]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    assert "3 of 6 words" in dom
    row = re.search(r'<tr class="rationale">.*?</tr>', dom, re.DOTALL)
    assert row is not None
    assert '<td class="value">50.0 %</td>' in row.group()  # three of six
    assert 'width="50.0"' in row.group()
    assert '<strong class="rationale">50.0 %</strong>' in dom
