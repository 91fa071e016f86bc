"""The rationale of a sound in the terminal, on a page and as a PNG."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from rationales.rationale import Frames, Rationale, Rule, Spectrogram
from rationales.report.envelope import envelope
from rationales.report.wording import input_size, region_bounds, selection_size

FRAMES = Frames(10, 0.1, 0.95)


def sound_rationale(scores=None, *, saved=True, **fields):
    """Ten frames of a tenth of a second, the last of them cut; frames 3 to 5 are the rationale."""
    keeps = np.array([0, 0, 0, 0.9, 0.8, 0.7, 0, 0, 0, 0.1]) if scores is None else np.array(scores)
    loud = np.zeros(950, dtype=np.float32)
    loud[300:600] = 0.5
    return Rationale(
        text="",
        units=FRAMES,
        scores=keeps.astype(np.float32),
        target="speech",
        labels=("no speech", "speech"),
        probabilities={"full": {"no speech": 0.1, "speech": 0.9}, "rationale": {"no speech": 0.2, "speech": 0.8}},
        method="marc",
        model="a model",
        name="voice.wav",
        unit="frame",
        rule=Rule(threshold=0.5),
        sound=loud if saved else None,
        **fields,
    )


class TestWords:
    def test_times_are_seconds(self):
        (stretch,) = sound_rationale().times()
        assert (stretch.start, stretch.end, stretch.first, stretch.last) == (0.3, 0.6, 3, 5)
        assert stretch.score == pytest.approx(0.8)
        assert [(stretch.start, stretch.end) for stretch in sound_rationale().times(share=0.4)] == [
            (0.3, 0.6),
            (0.9, 0.95),
        ]

    def test_how_much_it_is(self):
        assert selection_size(sound_rationale()) == "1 span · 0.30 of 0.95 s · 3 of 10 frames"
        assert input_size(sound_rationale()) == "sound of 0.95 s"

    def test_a_region_of_a_spectrogram_has_times_and_bands(self):
        grid = Spectrogram(8, 20, 0.05)
        scores = np.zeros((8, 20), dtype=np.float32)
        scores[1:3, 4:7] = 1  # the second and third band from above
        result = Rationale(
            text="", units=grid, scores=scores.flatten(), target="a", labels=("a",), probabilities={}, method="m",
            model="m", unit="bin",
        )  # fmt: skip
        (stretch,) = result.times()
        assert (stretch.start, stretch.end, stretch.score) == (0.2, 0.35, 1.0)
        pytest.importorskip("skimage")
        assert region_bounds(result.regions()[0], grid) == "0.20 to 0.35 s, bands 5 to 6"
        assert input_size(result) == "spectrogram of 1.00 s, 20 frames × 8 frequencies"


class TestTerminal:
    def test_a_line_of_bars_with_the_rationale_under_it(self):
        lines = str(sound_rationale()).split("\n")
        bars = next(line for line in lines if "█" in line)
        marks = next(line for line in lines if "^" in line)
        assert bars.index("█") == pytest.approx(72 * 0.3 / 0.95, abs=1)
        assert marks.index("^") == pytest.approx(72 * 0.3, abs=1)
        assert "0.30 to 0.60 s    0.80" in str(sound_rationale())
        assert "Full sound" in str(sound_rationale())

    def test_nothing_selected(self):
        assert "No frame reached the threshold." in str(sound_rationale(np.zeros(10)))

    def test_many_spans_are_counted(self):
        keeps = np.zeros(100, dtype=np.float32)
        keeps[::2] = 1
        frames = Frames(100, 0.1, 10.0)
        result = Rationale("", frames, keeps, "a", ("a",), {}, "marc", "m", unit="frame")
        assert "and 38 spans more" in str(result)

    def test_without_the_sound(self):
        assert "▄" in str(sound_rationale(saved=False))


class TestPage:
    def test_one_element_for_each_frame_and_the_rationale_marked(self):
        page = sound_rationale().to_html()
        wave = re.search(r'<div class="text wave".*?</div>', page, re.DOTALL)[0]
        assert len(re.findall(r"<(?:span|mark)[ >]", wave)) == 10
        assert re.findall(r'<mark class="([^"]*)"', wave) == ["f18 in first", "f16 in", "f14 in last"]
        assert "<svg" in wave
        data = json.loads(re.search(r'<script type="application/json">(.*?)</script>', page)[1])
        assert (data["seconds"], data["duration"], len(data["scores"])) == (0.1, 0.95, 10)
        assert "0.30 to 0.60 s" in page

    def test_a_loaded_result_says_that_the_sound_is_missing(self, tmp_path):
        sound_rationale().save(tmp_path / "r.json")
        assert "The sound was not saved" in Rationale.load(tmp_path / "r.json").to_html()

    def test_in_a_notebook(self):
        cell = sound_rationale()._repr_html_()
        assert 'title="0.30 s: 0.90"' in cell
        assert "<script" not in cell

    def test_names_never_become_markup(self):
        page = sound_rationale(notes=()).to_html()
        assert "<b>voice" not in page


class TestPng:
    def test_the_rationale_is_marked_behind_the_waveform(self, tmp_path):
        image_module = pytest.importorskip("PIL.Image")
        path = sound_rationale().to_png(tmp_path / "r.png")
        pixels = np.asarray(image_module.open(path).convert("RGB")).astype(int)
        amber = (np.abs(pixels - (251, 224, 174)).max(-1) < 3).any(0)
        columns = np.flatnonzero(amber)
        assert (columns.min() - 16) / 960 == pytest.approx(0.3 / 0.95, abs=0.01)
        assert (columns.max() - 16) / 960 == pytest.approx(0.6 / 0.95, abs=0.01)

    def test_without_the_sound_the_times_are_still_there(self, tmp_path):
        pytest.importorskip("PIL")
        assert sound_rationale(saved=False).to_png(tmp_path / "r.png").stat().st_size > 1000


def test_the_envelope_is_the_loudest_of_each_column():
    assert envelope(sound_rationale(), 95)[30:60].tolist() == [1.0] * 30
    assert envelope(sound_rationale(), 95)[:30].sum() == 0
    assert len(envelope(sound_rationale(), 5000)) == 950
    assert envelope(sound_rationale(saved=False), 4).tolist() == [0.5] * 4
