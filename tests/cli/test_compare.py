"""`rationales compare`: several methods on one input."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from commands import error, run
from reviews import GOOD, known_model

import rationales
from rationales.models.image.efficientnet import lite_weights


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plain = rationales.load
    monkeypatch.setitem(
        vars(rationales),
        "load",
        lambda source=None, **options: plain(*known_model()) if source in (None, "embedded") else plain(source),
    )
    return tmp_path


def test_every_method_shows_its_words(home):
    done = run("compare", GOOD[1], "--methods", "occlusion:window=1,random", "--smooth", "1e-3")
    assert done.exit_code == 0, done.output
    output = done.stdout
    assert "[[the bread]] was" in output
    assert output.index("occlusion (window=1") < output.index("random")
    assert "rank corr." in output
    assert "Rank correlation and overlap are with occlusion (window=1" in output


def test_a_terminal_shows_them_side_by_side(home, monkeypatch):
    monkeypatch.setattr("rich.console.Console.is_terminal", True)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    wide = run("compare", GOOD[0], "--methods", "occlusion,saliency").stdout
    assert any("occlusion" in line and "saliency" in line for line in wide.splitlines())
    monkeypatch.setenv("COLUMNS", "50")
    narrow = run("compare", GOOD[0], "--methods", "occlusion,saliency").stdout
    assert not any("occlusion" in line and "saliency" in line for line in narrow.splitlines())


def test_one_page_with_a_column_for_each(home):
    done = run("compare", GOOD[0], "--methods", "occlusion,saliency,random", "--html", "c.html", "--target", "positive")
    page = Path("c.html").read_text(encoding="utf-8")
    assert re.findall(r"<h2>(.*?)</h2>", page) == ["occlusion", "saliency", "random"]
    assert '<main class="side">' in page
    assert page.count("<article") == 3
    assert "Why <em>positive</em>?" in page
    assert "wrote c.html" in done.stderr


def test_titles_and_names_are_never_markup(home):
    run("compare", GOOD[0], "--methods", "occlusion:title=<b>bold</b>,random", "--html", "c.html")
    page = Path("c.html").read_text(encoding="utf-8")
    assert "<b>bold</b>" not in page
    assert "&lt;b&gt;bold" in page


def test_json_holds_results_and_agreement(home):
    done = run("compare", GOOD[0], "--methods", "saliency,input-x-gradient,random", "--json", "--seed", "2")
    data = json.loads(done.stdout)
    assert data["methods"] == ["saliency", "input-x-gradient", "random"]
    assert [result["method"] for result in data["results"]] == data["methods"]
    assert {result["target"] for result in data["results"]} == {"positive"}
    assert [line[number] for number, line in enumerate(data["overlap"])] == [1.0] * 3
    assert data["rank_correlation"][0][0] == pytest.approx(1.0)


def test_pictures(home):
    image = pytest.importorskip("PIL.Image")
    if lite_weights(0) is None:
        pytest.skip("the weights of EfficientNet-Lite0 are not installed")
    image.new("RGB", (40, 30), "red").save("square.png")
    done = run("compare", "--image", "square.png", "--methods", "saliency,random", "--html", "c.html")
    assert done.exit_code == 0, done.output
    assert "Image of 40 × 30 pixels" in done.stdout
    assert Path("c.html").read_text(encoding="utf-8").count('class="image"') == 2


@pytest.mark.slow
def test_several_pictures_are_drawn_as_a_grid(home):
    image = pytest.importorskip("PIL.Image")
    if lite_weights(0) is None:
        pytest.skip("the weights of EfficientNet-Lite0 are not installed")
    image.new("RGB", (40, 30), "red").save("square.png")
    image.new("RGB", (30, 40), "blue").save("other.png")
    both = run("compare", "--image", "square.png", "other.png", "--methods", "saliency,random", "--png", "grid.png")
    assert both.exit_code == 0, both.output
    assert "wrote grid.png" in both.stderr
    with image.open("grid.png") as grid:
        assert grid.height > 2 * 192


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a text", "--methods", "marc"], "at least two methods"),
        (["a text", "--methods", "marc,marcc"], "no method 'marcc'"),
        (["a text", "--methods", "occlusion,occlusion"], "two rows are called 'occlusion'"),
        (["--file", "two.csv", "--methods", "occlusion,random"], "compare takes one text"),
        (["a text", "--image", "a.png", "--methods", "marc,random"], "there is no file a.png"),
        (["a text", "--methods", "marc,random", "--html", "nowhere/c.html"], "nowhere does not exist"),
        (["a text", "--methods", "saliency,random:smooth=0"], "greater than 0"),
    ],
)
def test_mistakes_are_told_before_the_work(arguments, message):
    Path("two.csv").write_text("text\na\nb\n", encoding="utf-8")
    assert message in error(run("compare", *arguments))


def test_one_label_against_another(home):
    first, second = labels = rationales.load().labels[:2]
    done = run("compare", GOOD[1], "--methods", "occlusion,random", "--target", first, "--against", second)
    assert f"{first} rather than {second}" in done.stdout
    data = json.loads(
        run("explain", GOOD[1], "--method", "occlusion", "-t", first, "--against", second, "--json").stdout
    )
    assert (data["target"], data["against"]) == labels


def test_a_label_against_itself_is_refused(home):
    label = rationales.load().labels[0]
    done = run("explain", GOOD[1], "--method", "occlusion", "--target", label, "--against", label)
    assert f"are both {label}" in error(done)
