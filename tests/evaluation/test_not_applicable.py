"""A method that is not defined for a model has a row of n/a with the reason; the other rows are as without it."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest
from commands import error, run
from families import tiny
from methods.keyword import keyword_model
from rich.console import Console

pytest.importorskip("PIL")
from PIL import Image
from report.test_comparison import image_model as image_model
from report.test_comparison import noise

import rationales
from rationales.data.example import Example
from rationales.errors import NotApplicableError
from rationales.evaluation.bias.protocol_comparison import compare_protocols
from rationales.evaluation.evaluate import evaluate
from rationales.evaluation.sanity.check import SanitySettings, sanity_check
from rationales.evaluation.tables.table import Table
from rationales.evaluation.tables.table_html import to_html
from rationales.report.terminal.metric_table import show_table

EXAMPLES = [Example("a", "bread and soup", "found"), Example("b", "all that bread", "found")]
REASON = "raw-attention needs the attention weights of an encoder"


@pytest.fixture(scope="module")
def model():
    return rationales.load(*keyword_model("bread"))  # no attention


@pytest.fixture(scope="module")
def table(model):
    return evaluate(model, EXAMPLES, ["raw-attention", "occlusion"], metrics=["sufficiency", "comprehensiveness"])


class TestTable:
    def test_the_row_is_empty_and_the_others_are_as_without_it(self, model, table):
        assert [row.title for row in table.rows] == ["raw-attention", "occlusion", "random"]
        row = table["raw-attention"]
        assert not row.cells
        assert row.not_applicable.startswith(REASON)
        without = evaluate(model, EXAMPLES, ["occlusion"], metrics=["sufficiency", "comprehensiveness"])
        assert table["occlusion"].cells == without["occlusion"].cells

    def test_every_form_of_the_table_shows_it(self, table):
        for reference in (None, "occlusion", "raw-attention"):
            markdown = table.to_markdown(reference)
            assert "| raw-attention | n/a | n/a |" in markdown
            assert f"raw-attention: n/a ({REASON}" in markdown
        assert '<th scope="row">raw-attention</th><td>n/a</td><td>n/a</td>' in to_html(table)
        buffer = io.StringIO()
        show_table(table, "occlusion", Console(file=buffer, force_terminal=True, width=120, color_system=None))
        (line,) = [line for line in buffer.getvalue().splitlines() if line.strip().startswith("raw-attention  ")]
        assert line.split()[1:3] == ["n/a", "n/a"]
        again = Table.from_json(table.to_json())
        assert again["raw-attention"].not_applicable == table["raw-attention"].not_applicable
        lines = [line for line in csv.DictReader(io.StringIO(table.to_csv())) if line["title"] == "raw-attention"]
        assert [(line["metric"], line["mean"], line["n"]) for line in lines] == [
            ("sufficiency", "n/a", "0"),
            ("comprehensiveness", "n/a", "0"),
        ]

    def test_an_error_where_no_method_is_defined(self, model):
        for methods in (["raw-attention"], ["chefer", "random", "raw-attention"]):
            with pytest.raises(NotApplicableError, match="needs the attention weights"):
                evaluate(model, EXAMPLES, methods)

    def test_under_several_protocols(self, model):
        comparison = compare_protocols(model, EXAMPLES, ["raw-attention", "occlusion"], ["delete", "pad"])
        assert "| raw-attention | n/a | n/a |" in comparison.to_markdown()
        assert f"raw-attention: n/a ({REASON}" in comparison.to_markdown()
        assert np.isnan(comparison.ranks("deletion")[:, 0]).all()
        assert np.isfinite(comparison.ranks("deletion")[:, 1:]).all()

    def test_in_the_sanity_check(self):
        encoder, one_head = rationales.load(*tiny("bert")), SanitySettings(runs=1)
        table = sanity_check(encoder, EXAMPLES, ["llm-ranking", "occlusion"], settings=one_head)
        assert "llm-ranking" in table["llm-ranking"].not_applicable
        assert not table["llm-ranking"].cells
        assert table["occlusion"].cells["sanity-score-change"].estimate.n == 2
        with pytest.raises(NotApplicableError, match="llm-ranking"):
            sanity_check(encoder, EXAMPLES, ["llm-ranking"], settings=one_head)


class TestComparison:
    def test_it_is_listed_with_the_reason(self, model):
        comparison = rationales.compare(model, "all that bread", ["raw-attention", "occlusion", "random"])
        assert comparison.titles == ("occlusion", "random")
        assert comparison.not_applicable["raw-attention"].startswith(REASON)
        assert comparison.to_dict()["not_applicable"] == dict(comparison.not_applicable)
        for text in (str(comparison), comparison.to_html()):
            assert f"raw-attention: n/a ({REASON}" in text
        assert '<th scope="row">raw-attention</th><td>n/a</td>' in comparison.to_html()
        (line,) = [line for line in str(comparison).splitlines() if line.startswith("raw-attention  ")]
        assert set(line.split()[1:]) == {"n/a"}

    def test_an_error_where_no_method_is_defined(self, model):
        with pytest.raises(NotApplicableError, match="needs the attention weights"):
            rationales.compare(model, "all that bread", ["raw-attention", "chefer"])
        with pytest.raises(NotApplicableError, match="needs the attention weights"):  # people's marks are no method
            rationales.compare(model, "all that bread", ["raw-attention"], marks=[(9, 14)])

    def test_a_grid_of_images_has_a_column_for_it(self, image_model, tmp_path):
        methods = ["saliency", "raw-attention"]
        several = rationales.compare(image_model, [noise(16, 12), noise(12, 24)], methods)
        page = rationales.picture_grid(several, tmp_path / "grid.html").read_text(encoding="utf-8")
        assert page.count("<td>n/a</td>") == 2
        assert page.count("raw-attention: n/a (raw-attention needs") == 1
        with (
            Image.open(rationales.picture_grid(several, tmp_path / "grid.png")) as grid,
            Image.open(several[0].to_png(tmp_path / "one.png")) as one,
            Image.open(rationales.picture_grid(several[0], tmp_path / "same.png")) as same,
        ):
            assert grid.width > 3 * 180
            assert one.size == same.size


class TestCommands:
    @pytest.fixture(autouse=True)
    def home(self, tmp_path, monkeypatch, model):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setitem(vars(rationales), "load", lambda *_, **__: model)

    def test_evaluate_compares_with_the_first_row_that_has_values(self, tmp_path):
        lines = [json.dumps({"text": example.text, "label": example.label}) for example in EXAMPLES]
        (tmp_path / "t.jsonl").write_text("\n".join(lines), encoding="utf-8")
        arguments = ("evaluate", "t.jsonl", "--no-cache", "--metrics", "sufficiency", "--methods")
        done = run(*arguments, "raw-attention,occlusion", "--out", "out")
        assert done.exit_code == 0, done.output
        assert "| raw-attention | n/a |" in done.stdout
        assert "differs from occlusion" in done.stdout
        assert "<td>n/a</td>" in (tmp_path / "out" / "tables.html").read_text(encoding="utf-8")
        assert "needs the attention weights" in error(run(*arguments, "raw-attention"))

    def test_compare_shows_the_others(self):
        done = run("compare", "all that bread", "--methods", "occlusion,raw-attention")
        assert done.exit_code == 0, done.output
        assert f"note: raw-attention: n/a ({REASON}" in done.stdout
        data = json.loads(run("compare", "all that bread", "--methods", "occlusion,raw-attention", "--json").stdout)
        assert data["methods"] == ["occlusion"]
        assert data["not_applicable"]["raw-attention"].startswith(REASON)
