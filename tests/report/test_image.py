"""The rationale of an image as a PNG, on a page and in the terminal: what is displayed is what was selected."""

from __future__ import annotations

import base64
import io
import json
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from rich.console import Console
from samples import make_rationale

pytest.importorskip("PIL")
pytest.importorskip("skimage")

from PIL import Image

from rationales import Rationale
from rationales.errors import InputError, OptionError
from rationales.rationale import Grid, Note, Rule
from rationales.report import canvas
from rationales.report.html.page import fragment, page
from rationales.report.png import image as png_image
from rationales.report.png.image import png
from rationales.report.terminal.show import plain, show
from rationales.report.wording import listed_labels

HOSTILE = "\"><script>alert(1)</script><img src=x onerror='alert(2)'>"
VOID = {"meta", "input", "img"}


def image_rationale(scores: np.ndarray, *, seed: int = 0, labels: int = 3, **fields: Any) -> Rationale:
    """A rationale of a noisy image with these (height, width) scores."""
    height, width = scores.shape
    names = tuple(f"<{number}>" for number in range(labels))
    chances = np.linspace(2, 1, labels) / np.linspace(2, 1, labels).sum()
    defaults: dict[str, Any] = {
        "text": "",
        "units": Grid(height, width),
        "scores": scores.astype(np.float32).ravel(),
        "target": names[0],
        "labels": names,
        "probabilities": {
            key: dict(zip(names, chances.tolist(), strict=True))
            for key in ("full", "rationale", "complement", "baseline")
        },
        "method": "marc",
        "model": "a-model",
        "baseline": "black",
        "unit": "pixel",
        "image": np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8),
    }
    return Rationale(**(defaults | fields))


def squares(height: int = 300, width: int = 400) -> np.ndarray:
    """Two squares of different size and score on a ground of 0.1."""
    scores = np.full((height, width), 0.1)
    scores[20:80, 30:110] = 0.9
    scores[200:210, 300:310] = 0.7
    return scores


def opened(address: str) -> np.ndarray:
    """The pixels behind a data: address."""
    head, _, content = address.partition(",")
    assert re.fullmatch(r"data:image/(png|jpeg);base64", head)
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(content, validate=True))))


class Reader(HTMLParser):
    """Elements, their attributes and their text; fails where tags do not match."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.scripts: list[str] = []
        self.feed(source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)
            self.scripts += [""] if tag == "script" else []

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "script" in self.open:
            self.scripts[-1] += data
        elif "style" not in self.open:
            self.text += data

    @property
    def data(self) -> dict[str, Any]:
        """What the script of the first image is given."""
        return dict(json.loads(self.scripts[0]))


class TestPng:
    @pytest.mark.parametrize("size", [(300, 400), (24, 32), (900, 1200), (700, 40)], ids=str)
    def test_three_panels_stand_side_by_side(self, size: tuple[int, int]) -> None:
        height, width = size
        rationale = image_rationale(np.random.default_rng(1).random(size))
        sheet = np.asarray(Image.open(io.BytesIO(png(rationale))))
        factor = min(canvas.MAX_SIDE / max(size), 1) if max(size) > canvas.MIN_SIDE else canvas.MIN_SIDE // max(size)
        high, wide = round(height * factor), round(width * factor)
        column = max(wide, png_image.COLUMN)
        assert sheet.shape[1] == 2 * png_image.MARGIN + 3 * column + 2 * png_image.GAP
        assert sheet.shape[0] == png_image.HEAD + high + png_image.FOOT + png_image.MARGIN
        lefts = [png_image.MARGIN + n * (column + png_image.GAP) + (column - wide) // 2 for n in range(3)]
        panels = [sheet[png_image.HEAD : png_image.HEAD + high, left : left + wide] for left in lefts]
        expected_panels = canvas.canvas(rationale)
        originals = (expected_panels.original, expected_panels.heat(), expected_panels.cutout())
        for panel, expected in zip(panels, originals, strict=True):
            assert np.array_equal(panel, expected)

    def test_the_cut_out_is_the_original_where_selected_and_pale_elsewhere(self) -> None:
        rationale = image_rationale(squares())
        assert rationale.image is not None
        cutout, chosen = canvas.canvas(rationale).cutout(), rationale.selected().reshape(300, 400)
        assert np.array_equal(cutout[chosen], rationale.image[chosen])
        assert cutout[~chosen].min() >= 190
        assert np.ptp(cutout[~chosen].astype(int), axis=-1).max() == 0  # no colour is left

    def test_a_small_image_is_enlarged_in_squares(self) -> None:
        rationale = image_rationale(np.random.default_rng(0).random((5, 8)))
        enlarged = canvas.canvas(rationale)
        assert enlarged.original.shape == (160, 256, 3)
        assert np.array_equal(enlarged.original[::32, ::32], rationale.image)
        assert np.array_equal(enlarged.selected[31::32, 31::32].ravel(), rationale.selected())

    @pytest.mark.parametrize("ground", [0, 128, 255])
    def test_higher_scores_are_lighter_and_warmer_over_any_grey(self, ground: int) -> None:
        pixels = np.full((8, 256, 3), ground, dtype=np.uint8)
        rationale = image_rationale(np.linspace(0, 1, 256)[None].repeat(8, 0), image=pixels)
        heat = canvas.canvas(rationale).heat().astype(int)[0]
        warmth, light = heat[:, 0] - heat[:, 2], heat @ [0.2126, 0.7152, 0.0722]
        assert warmth[0] == 0
        assert (np.diff(warmth[:128:16]) > 0).all()
        assert (warmth[128:] > 100).all()
        assert (np.diff(light[128::16]) > 0).all()

    def test_scores_against_the_target_are_blue(self) -> None:
        scores = np.array([[-1.0, 0.0, 1.0, 0.5]] * 4)
        heat = canvas.canvas(image_rationale(scores, rule=Rule(top=3), image=None)).heat().astype(int)[0, ::64]
        assert heat[0, 2] > heat[0, 0]
        assert heat[2, 0] > heat[2, 2]
        assert heat[1, 0] == heat[1, 2]

    def test_a_loaded_rationale_has_no_image_and_says_so(self, tmp_path: Path) -> None:
        saved = image_rationale(squares()).save(tmp_path / "r.json")
        again = Rationale.load(saved)
        assert again.image is None
        written = again.to_png(tmp_path / "r.png")
        assert written.read_bytes() == png(again)
        assert "not saved" in canvas.captions(again)[0]
        assert np.ptp(canvas.canvas(again).original) == 0
        assert np.ptp(canvas.canvas(again).heat()) > 50

    def test_what_cannot_be_drawn_or_written_is_told(self, tmp_path: Path) -> None:
        with pytest.raises(OptionError, match="to_html"):
            make_rationale("a text").to_png(tmp_path / "r.png")
        with pytest.raises(InputError, match="does not exist"):
            image_rationale(squares()).to_png(tmp_path / "nowhere" / "r.png")

    def test_any_name_fits(self) -> None:
        plain_size = Image.open(io.BytesIO(png(image_rationale(squares())))).size
        for target in ("", "long " * 200, "two\nlines\x00", "字 א", HOSTILE):
            assert Image.open(io.BytesIO(png(image_rationale(squares(), target=target)))).size == plain_size

    def test_scores_that_are_no_numbers_are_drawn_without_colour(self) -> None:
        scores = np.array([[np.nan, np.inf, -np.inf, 1.0]] * 4)
        rationale = image_rationale(scores, rule=Rule(top=4))
        assert png(rationale)
        assert page([rationale])
        quiet = canvas.canvas(replace(rationale, image=None)).heat()[0, 0].astype(int)
        assert np.ptp(quiet) == 0


class TestPage:
    @given(
        arrays.arrays(
            np.float32,
            st.tuples(st.integers(4, 9), st.integers(4, 9)),
            elements=st.floats(-1e6, 1e6, width=32),
        )
    )
    @settings(max_examples=40, deadline=None)
    def test_the_embedded_image_is_the_scores(self, scores: np.ndarray) -> None:
        data = Reader(page([image_rationale(scores, rule=Rule(share=0.2))])).data
        grey = opened(data["scores"])
        assert grey.dtype == np.uint8
        read = data["lowest"] + (data["highest"] - data["lowest"]) * grey.astype(np.float64) / 255
        assert np.abs(read - scores).max() <= float(np.ptp(scores.astype(np.float64))) / 255 + 1e-9

    def test_the_script_knows_the_selection_and_every_count(self) -> None:
        rationale = image_rationale(np.random.default_rng(2).random((40, 50)), rule=Rule(share=0.1))
        data = Reader(page([rationale])).data
        assert np.array_equal(opened(data["rule_selection"]).astype(bool).ravel(), rationale.selected())
        steps = len(data["counts"]) - 1
        for tick in (0, 1, steps // 3, steps):
            threshold = data["low"] + (data["high"] - data["low"]) * tick / steps
            assert data["counts"][tick] == rationale.selected(threshold=threshold).sum()

    def test_photograph_and_still_are_of_one_size_and_bounded(self) -> None:
        rationale = image_rationale(np.random.default_rng(0).random((1000, 2000)))
        images = [a for tag, a in Reader(page([rationale])).elements if tag == "img"]
        assert [image["class"] for image in images] == ["still", "photo"]
        for image in images:
            assert opened(image["src"] or "").shape == (384, 768, 3)
            assert (image["height"], image["width"]) == ("384", "768")

    def test_without_a_script_the_heat_map_is_there(self) -> None:
        still = next(a for tag, a in Reader(page([image_rationale(squares(), image=None)])).elements if tag == "img")
        pixels = opened(still["src"] or "").astype(int)
        inside, outside = pixels[40:60, 50:90].mean((0, 1)), pixels[150:180, 50:90].mean((0, 1))
        assert inside[0] - inside[2] > 60
        assert abs(outside[0] - outside[2]) < 30

    def test_nothing_is_fetched(self) -> None:
        rationale = image_rationale(squares(), labels=1000)
        for source in (page([rationale, make_rationale("a text")]), fragment(rationale)):
            assert not re.search(r"https?:|url\(|@import|<link|<iframe", source)
            for _, attributes in Reader(source).elements:
                assert (attributes.get("src") or "data:").startswith("data:")
                assert (attributes.get("href") or "#").startswith("#")
                assert "style" not in attributes  # the policy would not allow it

    def test_a_hostile_name_stays_a_name(self) -> None:
        def structure(name: str) -> list[tuple[str, list[str]]]:
            labels = tuple(f"{name}{number}" for number in range(12))
            fields = {"target": labels[3], "labels": labels, "name": name, "model": name, "baseline": name}
            chances = {"full": dict.fromkeys(labels, 1 / 12)}
            rationale = replace(image_rationale(squares()), notes=(Note(name, name),), probabilities=chances, **fields)
            readers = [Reader(source) for source in (page([rationale, rationale]), fragment(rationale))]
            assert all(name in reader.text for reader in readers)
            return [(tag, sorted(attributes)) for reader in readers for tag, attributes in reader.elements]

        assert structure(HOSTILE) == structure("harmless")

    def test_it_says_what_is_selected(self) -> None:
        text = Reader(page([image_rationale(squares())])).text
        assert "2 regions · 4.1 % of the image · 4,900 of 120,000 pixels" in text  # 60 · 80 + 10 · 10
        assert "4.0 % of the image, columns 30 to 109, rows 20 to 79" in text
        assert "Full image" in text
        assert "Full text" not in text
        assert "No pixel reached the threshold" in Reader(page([image_rationale(np.zeros((5, 5)))])).text

    def test_a_thousand_labels_are_not_listed(self) -> None:
        rationale = image_rationale(squares(), labels=1000, target="<700>")
        assert listed_labels(rationale) == (*(f"<{number}>" for number in range(5)), "<700>")
        for text in (Reader(page([rationale])).text, plain(rationale)):
            assert set(re.findall(r"<\d+>", text)) == set(listed_labels(rationale))
        few = image_rationale(squares(), labels=8)
        assert listed_labels(few) == few.labels

    def test_texts_and_image_stand_on_one_page(self) -> None:
        reader = Reader(page([make_rationale("a b"), image_rationale(squares(), name=None)]))
        kinds = [attributes.get("class") for tag, attributes in reader.elements if tag == "article"]
        assert kinds == [None, "image"]
        assert "image of 400 × 300 pixels" in reader.text
        ids = [attributes["id"] for _, attributes in reader.elements if "id" in attributes]
        assert len(ids) == len(set(ids))
        assert "canvas" not in page([make_rationale("a b")])  # a page of texts carries nothing of this

    def test_a_notebook_shows_three_image_and_no_script(self) -> None:
        elements = Reader(fragment(image_rationale(squares()))).elements
        assert sum(tag == "img" for tag, _ in elements) == 3
        assert not any(tag == "script" or "id" in attributes for tag, attributes in elements)


class TestTerminal:
    def test_regions_are_listed_with_area_place_and_score(self) -> None:
        lines = plain(image_rationale(squares(), notes=(Note("x", "look again"),))).splitlines()
        assert "Image of 400 × 300 pixels" in lines
        assert any(re.fullmatch(r"1 +4\.0 % +columns 30 to 109, rows 20 to 79 +0\.90", line) for line in lines)
        assert any(re.fullmatch(r"2 +< 0\.1 % +columns 300 to 309, rows 200 to 209 +0\.70", line) for line in lines)
        assert any(line.startswith("Full image ") for line in lines)
        assert "note: look again" in lines

    def test_many_regions_are_counted(self) -> None:
        scores = np.zeros((20, 20))
        scores[::2, ::2] = 1  # 100 pixels, none beside another
        output = plain(image_rationale(scores))
        assert len(re.findall("columns", output)) == 5
        assert "and 95 regions more, 23.8 % of the image" in output  # 95 of 400

    def test_nothing_selected_is_said(self) -> None:
        assert "nothing is selected" in plain(image_rationale(np.zeros((5, 5))))

    @pytest.mark.parametrize("colours", [True, False])
    def test_show_says_the_same_with_and_without_colours(self, colours: bool) -> None:
        buffer = io.StringIO()
        options = {"color_system": "truecolor"} if colours else {"no_color": True}
        show(image_rationale(squares()), Console(file=buffer, width=100, force_terminal=True, **options))  # type: ignore[arg-type]
        output = buffer.getvalue()
        assert bool(re.search(r"\x1b\[[0-9;]*48;2;", output)) == colours
        bare = [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", output).splitlines()]
        assert bare == plain(image_rationale(squares())).splitlines()

    def test_no_name_can_steer_the_terminal(self) -> None:
        rationale = image_rationale(squares(), name="\x1b]0;x\x07", target="\x1b[2J", labels=12)
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", plain(rationale))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_the_script_runs_in_a_browser_under_the_policy(tmp_path: Path) -> None:
    image_rationale(squares()).to_html(tmp_path / "page.html")
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"]
    command += ["--disable-background-networking", "--disable-component-update", f"--user-data-dir={tmp_path}/profile"]
    command += ["--disable-quic", "--virtual-time-budget=3000", "--dump-dom", (tmp_path / "page.html").as_uri()]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    assert 'class="image seen"' in dom  # only the script says so, once both images are decoded
    assert '<canvas width="400" height="300"' in dom
    assert 'aria-valuetext="0.50"' in dom


def test_a_warning_stands_below_the_panels_and_information_does_not() -> None:
    plain_rationale = image_rationale(np.eye(8))
    warned = replace(plain_rationale, notes=(Note("evidence-against", "the class rises without the selection"),))
    informed = replace(plain_rationale, notes=(Note("baselines", "replaced pixels become black"),))
    heights = [Image.open(io.BytesIO(png(rationale))).height for rationale in (plain_rationale, warned, informed)]
    assert heights == [heights[0], heights[0] + png_image.NOTE, heights[0]]
