"""The rationale of a text and an image in the terminal, on a page, as a PNG and on the command line."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("PIL")
pytest.importorskip("skimage")

from commands import run
from families import tokenizer_of
from models.multimodal.pairs import SIDE, scene
from PIL import Image

import rationales
from rationales.data.example import Example
from rationales.errors import OptionError
from rationales.models.multimodal.pair_network import PairConfiguration, PairNetwork
from rationales.rationale import Grid, Rationale, Rule, TextAndImage, Unit
from rationales.report.terminal.overview import show_overview

TEXT = "a <b>red</b> circle"


@pytest.fixture
def rationale():
    """Two of three words and a square of the picture are selected."""
    words = (Unit("a", 0, 1), Unit("<b>red</b>", 2, 12), Unit("circle", 13, 19))
    pixels = np.zeros((SIDE, SIDE), dtype=np.float32)
    pixels[3:11, 12:20] = 0.8
    return Rationale(
        text=TEXT,
        units=TextAndImage(words, Grid(SIDE, SIDE)),
        scores=np.concatenate([np.array([0.1, 0.9, 0.7], dtype=np.float32), pixels.flatten()]),
        target="match",
        labels=("no match", "match"),
        probabilities={
            name: {"no match": 1 - value, "match": value}
            for name, value in (("full", 0.9), ("rationale", 0.85), ("complement", 0.2), ("baseline", 0.4))
        },
        method="marc",
        model="shapes",
        image=scene(),
        name="shapes.png",
        unit="word or pixel",
    )


class TestReports:
    def test_the_terminal_shows_the_words_and_the_regions(self, rationale):
        printed = str(rationale)
        assert "a [[<b>red</b> circle]]" in printed
        assert "columns 12 to 19, rows 3 to 10" in printed
        assert "1 span · 2 of 3 words · 1 region" in printed
        assert "only the marked words and pixels" in printed

    def test_the_page_shows_both_and_escapes_the_text(self, rationale):
        page = rationale.to_html()
        assert "<b>red</b>" not in page
        assert "&lt;b&gt;red" in page
        assert page.count("data:image/") == 3
        assert "rows 3 to 10" in page
        fragment = rationale._repr_html_()
        assert "&lt;b&gt;red" in fragment
        assert fragment.count("data:image/") == 3

    def test_the_png_is_higher_by_its_words(self, rationale, tmp_path):
        both = Image.open(rationale.to_png(tmp_path / "both.png"))
        alone = Image.open(rationale.image_part.to_png(tmp_path / "alone.png"))
        assert both.size[0] == alone.size[0]
        assert both.size[1] > alone.size[1] + 20
        below = np.asarray(both)[alone.size[1] - 16 :]
        assert (below != 255).any()

    def test_one_of_many_has_a_line(self, rationale, capsys):
        show_overview([rationale, rationale])
        assert "<b>red</b> circle · 1 region" in capsys.readouterr().out

    def test_parts_are_rationales_of_their_own(self, rationale):
        assert rationale.text_part.selected().tolist() == [False, True, True]
        assert rationale.image_part.units == Grid(SIDE, SIDE)
        assert rationale.image_part.selected().sum() == 64
        assert repr(rationale).startswith("Rationale(marc: match <- '<b>red</b> circle' and 11% of")

    def test_pixels_may_have_a_threshold_of_their_own(self, rationale):
        from dataclasses import replace

        stricter = replace(rationale, rule=Rule(threshold=0.5, pixel_threshold=0.9))
        assert stricter.text_part.selected().sum() == 2
        assert not stricter.image_part.selected().any()


class TestCommandLine:
    @pytest.fixture
    def folder(self, tmp_path):
        tokenizer = tokenizer_of("bert")
        config = PairConfiguration(len(tokenizer), {0: "no match", 1: "match"}, SIDE, 8, tokenizer.pad_token_id)
        PairNetwork(config).save(tmp_path / "model", tokenizer)
        Image.fromarray(scene()).save(tmp_path / "shapes.png")
        return tmp_path

    def test_a_text_with_an_image_is_explained_by_a_model_of_both(self, folder):
        picture, page, sheet = folder / "shapes.png", folder / "r.html", folder / "r.png"
        outcome = run(
            *("explain", "the old stone bridge", "--image", str(picture), "--model", str(folder / "model")),
            *("--method", "occlusion", "--set", "window=8", "--set", "stride=8", "--json"),
            *("--html", str(page), "--png", str(sheet), "--save", str(folder / "r.json")),
        )
        assert outcome.exit_code == 0, outcome.output
        result = json.loads(outcome.stdout)
        assert [unit["text"] for unit in result["units"]["words"]] == ["the", "old", "stone", "bridge"]
        assert result["units"]["grid"] == {"height": SIDE, "width": SIDE}
        assert len(result["scores"]) == 4 + SIDE * SIDE
        assert {"spans", "regions"} <= result.keys()
        assert page.exists()
        assert sheet.exists()
        assert len(Rationale.load(folder / "r.json").words) == 4

    def test_methods_are_compared_on_both(self, folder):
        page = folder / "c.html"
        arguments = ("the old stone bridge", "--image", str(folder / "shapes.png"), "--model", str(folder / "model"))
        methods = ("--methods", "occlusion:window=8:stride=8,saliency")
        outcome = run("compare", *arguments, *methods, "--html", str(page))
        assert outcome.exit_code == 0, outcome.output
        assert "sufficiency" in outcome.stdout
        assert "Rank correlation and overlap are with occlusion" in outcome.stdout
        assert page.read_text(encoding="utf-8").count("<article") == 2
        data = json.loads(run("compare", *arguments, *methods, "--json").stdout)
        assert [len(result["scores"]) for result in data["results"]] == [4 + SIDE * SIDE] * 2

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("a text", "--image", "shapes.png"), "a model that reads both is given with --model"),
            (("a", "--image", "shapes.png", "--model", "model", "--png", "c.png"), "--png draws images alone"),
            (("a", "--image", "shapes.png", "--model", "model", "--mark", "a"), "--mark is for texts alone"),
            (("--image", "shapes.png", "--model", "model"), "reads an image with a text; give both"),
        ],
    )
    def test_a_mistake_in_a_comparison_is_reported(self, folder, monkeypatch, arguments, message):
        monkeypatch.chdir(folder)
        outcome = run("compare", *arguments, "--methods", "saliency,occlusion")
        assert outcome.exit_code == 2
        assert message in " ".join(outcome.output.split())

    def test_evaluate_says_what_it_measures(self, folder):
        model = rationales.load(folder / "model")
        pair = Example("a", "the old stone bridge", "match", image=folder / "shapes.png")
        for metrics in (None, ["sanity"]):
            with pytest.raises(OptionError, match=r"models of images, and .+ reads image-text pairs"):
                rationales.evaluate(model, [pair], ["occlusion"], metrics=metrics)

    @pytest.mark.parametrize(
        ("method", "options", "message"),
        [
            ("lime", {"segments": "slic"}, "beside a text, pixels are grouped in cells"),
            ("rise", {}, "masks the plane of an image and no words beside it"),
        ],
    )
    def test_a_method_for_images_says_that_there_are_words(self, folder, method, options, message):
        pair = (folder / "shapes.png", "the old stone bridge")
        with pytest.raises(OptionError, match=message):
            rationales.explain(rationales.load(folder / "model"), pair, method=method, options=options)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("a text", "--image", "shapes.png"), "a model that reads both is given with --model"),
            (("--image", "shapes.png", "--model", "model"), "reads an image with a text; give both"),
            (("a text", "--model", "model"), "reads an image with a text; give both"),
            (("a", "b", "--image", "shapes.png", "--model", "model"), "one text is expected beside --image, not 2"),
            (("a", "--pair", "b", "--image", "shapes.png", "--model", "model"), "--pair is a second text"),
            (("a text", "--image", "shapes.png", "--unit", "token", "--model", "model"), "pixels and words"),
        ],
    )
    def test_a_mistake_is_reported(self, folder, monkeypatch, arguments, message):
        monkeypatch.chdir(folder)
        outcome = run("explain", *arguments)
        assert outcome.exit_code == 2
        assert message in " ".join(outcome.output.split())
