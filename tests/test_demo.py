"""`make demo` shows a real result: in the terminal with its probabilities, and as a page."""

from __future__ import annotations

from pathlib import Path

import pytest

from rationales import demo
from rationales.models.image.efficientnet import lite_weights


def test_the_text_is_long_enough_to_need_an_explanation() -> None:
    assert 80 <= len(demo.REVIEW.split()) <= 150


def test_the_demo_prints_rationales_and_writes_a_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    examples = (demo.explain_text, lambda: demo.explain_image(steps=6))  # with all steps an image takes half a minute
    monkeypatch.setattr(demo, "EXAMPLES", examples)
    demo.main(tmp_path / "demo")
    output = capsys.readouterr().out
    assert "[[" in output
    for row in ("Full text", "Rationale alone", "Complement"):
        assert row in output
    page = (tmp_path / "demo" / "index.html").read_text(encoding="utf-8")
    assert "laundrette" in page
    assert "Why <em>negative</em>?" in page
    if lite_weights() is not None:
        assert "Why <em>espresso</em>?" in page
        assert "Full image" in output
