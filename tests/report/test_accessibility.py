"""Every page in Chromium: no serious finding of axe-core, nothing wider than the window, no error and no request.

Each page is opened on a phone in light colours and on a desktop in dark ones.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from browser import accessibility_findings, chromium, overflow
from samples import make_rationale
from torch import nn

pytest.importorskip("PIL")
pytest.importorskip("skimage")

from PIL import Image

import rationales
from rationales.rationale import Note, Rule
from rationales.report.html.page import page
from rationales.report.html.table_page import table_page
from rationales.study.page import study_page
from rationales.study.trials import make_study

TEXTS = ["The acting is fine, but the plot is bad.", "A good film with bad songs.", "הסרט הזה היה bad מאוד"]
METHODS = ["loo-empty", "random"]
VIEWS = {
    "phone": {"viewport": {"width": 390, "height": 800}, "color_scheme": "light"},
    "dark desktop": {"viewport": {"width": 1280, "height": 800}, "color_scheme": "dark"},
}


def text_model():
    """Says yes to the word 'bad'."""
    return rationales.load(lambda texts: [0.9 if "bad" in text else 0.2 for text in texts], labels=["no", "yes"])


def image_model():
    """A linear classifier of 16 x 16 pixels."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.AvgPool2d(8), nn.Flatten(), nn.Linear(12, 3))

    def pixels(image: Image.Image) -> torch.Tensor:
        return torch.from_numpy(np.asarray(image.resize((16, 16)), np.float32) / 255).movedim(-1, 0)

    return rationales.load(module, pixels, labels=["a", "b", "c"])


def images() -> list[Image.Image]:
    rng = np.random.default_rng(0)
    return [Image.fromarray(rng.integers(0, 255, (16, side, 3), dtype=np.uint8)) for side in (12, 24)]


def one_text() -> str:
    scores = [-0.2, 0.9, 0.1, 0.4, 0.0, 0.3]
    notes = (Note("not-sufficient", "the selected words are not enough"), Note("reduced", "for information"))
    return page(make_rationale("Not a very good film, alas.", scores, rule=Rule(top=2), notes=notes))


def comparison_of_texts() -> str:
    return str(rationales.compare(text_model(), TEXTS[0], METHODS, curve=True).to_html())


def comparison_of_images() -> str:
    return str(rationales.compare(image_model(), images()[0], ["saliency", "random"], curve=True).to_html())


def grid_of_images(folder: Path) -> str:
    comparisons = rationales.compare(image_model(), images(), ["saliency", "random"], curve=True)
    return rationales.picture_grid(comparisons, folder / "grid.html").read_text(encoding="utf-8")


def stability_of_texts() -> str:
    model = rationales.load()
    return str(rationales.stability(model, TEXTS[:2], METHODS[1:], seeds=(0, 1), baselines=()).to_html())


def study(task: str) -> str:
    model = text_model()
    explained = {method: rationales.explain(model, TEXTS, method=method, share=0.3) for method in METHODS}
    return study_page(make_study(explained, task, title="Films & songs"))


def table() -> str:
    examples = [rationales.Example(text, text, label) for text, label in zip(TEXTS, ["yes", "yes", "no"], strict=True)]
    evaluated = rationales.evaluate(text_model(), examples, methods=["loo-empty"], metrics=["sufficiency"])
    return table_page({"sufficiency": evaluated})


PAGES: dict[str, Callable[[], str]] = {
    "one text": one_text,
    "many texts": lambda: page(rationales.explain(text_model(), TEXTS, method="loo-empty", curve=True)),
    "one image": lambda: page(rationales.explain(image_model(), images()[0], method="saliency", curve=True)),
    "comparison of texts": comparison_of_texts,
    "comparison of images": comparison_of_images,
    "stability": stability_of_texts,
    "study that compares": lambda: study("compare"),
    "study that marks": lambda: study("mark"),
    "table of an evaluation": table,
}


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


@pytest.mark.parametrize("name", [*PAGES, "grid of images"])
def test_a_page_can_be_used_by_everybody(name, browser, tmp_path):
    content = grid_of_images(tmp_path) if name == "grid of images" else PAGES[name]()
    path = tmp_path / "page.html"
    path.write_text(content, encoding="utf-8")
    findings = []
    for view, options in VIEWS.items():
        with browser.new_context(**options) as context:
            window, problems = context.new_page(), []
            window.on("console", lambda message, to=problems: to.append(message.text))
            window.on("pageerror", lambda error, to=problems: to.append(str(error)))
            window.on("request", lambda request, to=problems: to.append(request.url) if _leaves(request.url) else None)
            window.goto(path.as_uri())
            if "study" in name:
                window.fill("#person", "p1")
                window.click("#start")
            problems += accessibility_findings(window)
            if overflow(window) > 0:
                problems.append(f"{overflow(window)} pixels wider than the window")
            findings += [f"{view}: {problem}" for problem in problems]
    assert findings == []


def _leaves(address: str) -> bool:
    return not address.startswith(("file:", "data:", "blob:"))


def test_a_finding_is_reported(browser):
    """The check itself: grey on grey, and an image without a description."""
    with browser.new_context() as context:
        window = context.new_page()
        pale = '<p style="color:#bbb;background:#fff">pale</p>'
        window.set_content(f'<html lang="en"><title>x</title><main>{pale}<img src="data:,"></main>')
        rules = {finding.split(" ")[0] for finding in accessibility_findings(window)}
    assert rules == {"color-contrast", "image-alt"}
