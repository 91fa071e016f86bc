"""Tables: nothing is lost on the way to a file and back, and what is printed says what it is."""

from __future__ import annotations

import csv
import io
import json
import math
import re

import numpy as np
import pytest

from rationales.errors import InputError, OptionError
from rationales.evaluation.protocols import PRESETS
from rationales.evaluation.tables.table import Cell, Table, TableRow
from rationales.evaluation.tables.table_html import to_html
from rationales.report.html.table_page import table_page

NAN = math.nan


def sample_table(**fields) -> Table:
    rows = (
        TableRow(
            "marc",
            {
                "sufficiency": Cell((0.0, 0.1, 0.2, NAN)),
                "token-f1-micro": Cell((1.0, 0.5, 0.0, NAN), (1.0, 2.0, 1.0, 0.0)),
            },
            "marc",
            {"steps": 80},
            None,
            1.25,
            {"d": "NaN | infinity"},
            {"share": (0.05, 0.1), "kept": (0.5, 0.75)},
        ),
        TableRow("occlusion, smooth 6", {"sufficiency": Cell((0.5, 0.6, 0.7, 12.5))}, "occlusion", {}, 6.0, 0.5),
        TableRow("people", {"token-f1-micro": Cell((NAN, NAN, NAN, NAN))}),
    )
    defaults = {
        "rows": rows, "metrics": ("sufficiency", "token-f1-micro"), "inputs": ("a", "b", "c", "d"),
        "protocol": PRESETS["marc"], "selection": "fitted", "model": "tiny", "baseline": "pad", "seed": 3,
        "versions": {"rationales": "0"},
    }  # fmt: skip
    return Table(**(defaults | fields))


def test_json_brings_everything_back():
    table = sample_table()
    text = table.to_json()
    again = Table.from_json(text)
    assert again.to_json() == text
    assert again.protocol == table.protocol
    assert again["marc"].options == {"steps": 80}
    assert again["marc"].failures == {"d": "NaN | infinity"}
    assert math.isnan(again["people"].seconds)
    for row, restored in zip(table.rows, again.rows, strict=True):
        for name, cell in row.cells.items():
            assert np.array_equal(cell.values, restored.cells[name].values, equal_nan=True)
            assert cell.weights == restored.cells[name].weights
    data = json.loads(text)
    assert data["described"].startswith("marc: ")
    assert data["rows"][0]["cells"]["sufficiency"]["n"] == 3


def test_json_as_a_file(tmp_path):
    sample_table().to_json(tmp_path / "t.json")
    assert Table.from_json(tmp_path / "t.json").inputs == ("a", "b", "c", "d")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ('{"format": 7}', "format 7"),
        ('{"format": 1}', "no whole table"),
        ('{"format": 1, "rows": [{}]}', "no whole table"),
    ],
)
def test_other_files_are_refused(text, message, tmp_path):
    with pytest.raises(InputError, match=message):
        Table.from_json(text)
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(InputError, match="holds no table"):
        Table.from_json(tmp_path / "list.json")


def test_markdown_says_how_many_inputs_had_a_value():
    text = str(sample_table())
    lines = text.splitlines()
    assert lines[0] == "| method | sufficiency ↓ | token-f1-micro ↑ | s / input |"
    assert lines[1] == "| --- | --- | --- | --- |"
    assert lines[2].startswith("| marc | .100 [.000 .200] (n = 3) | .500 [")
    assert lines[3].startswith("| occlusion, smooth 6 | 3.575 [")
    assert lines[3].endswith(" | – | 0.5 |")
    assert lines[4] == "| people | – | undefined (n = 0) | – |"
    assert "Protocol marc: replaced by pad, 19 levels" in text
    assert "Model tiny, baseline pad, 4 inputs, seed 3" in text
    assert "marc: no scores for 1 of 4 inputs (d: NaN | infinity)." in text
    assert "Words were selected by otsu." in sample_table(selection="otsu").to_markdown()


def test_negative_and_small_numbers():
    table = sample_table(
        rows=(
            TableRow("x", {"sufficiency": Cell((-0.0474, -0.0474))}),
            TableRow("y", {"sufficiency": Cell((-1e-9, 0.0))}),
        )
    )
    lines = table.to_markdown().splitlines()
    assert "−.047 [−.047 −.047] (n = 2)" in lines[2]
    assert "| .000 [.000 .000]" in lines[3]


def test_csv_has_one_line_per_row_and_metric():
    lines = list(csv.DictReader(io.StringIO(sample_table().to_csv())))
    assert [(line["title"], line["metric"]) for line in lines] == [
        ("marc", "sufficiency"), ("marc", "token-f1-micro"), ("occlusion, smooth 6", "sufficiency"),
        ("people", "token-f1-micro"),
    ]  # fmt: skip
    assert float(lines[0]["mean"]) == pytest.approx(0.1)
    assert (lines[0]["n"], lines[0]["inputs"], lines[0]["protocol"]) == ("3", "4", "marc")
    assert lines[3]["mean"] == ""


def test_pairs_are_tested_and_corrected():
    random = np.random.default_rng(0)
    base = random.normal(size=40)
    rows = (
        TableRow("ours", {"sufficiency": Cell(tuple(base))}),
        TableRow("near", {"sufficiency": Cell(tuple(base + random.normal(0, 0.1, 40)))}),
        TableRow("far", {"sufficiency": Cell(tuple(base + 1 + random.normal(0, 0.1, 40)))}),
    )
    table = sample_table(rows=rows, metrics=("sufficiency",), inputs=tuple(str(n) for n in range(40)))
    comparisons = table.against("ours")["sufficiency"]
    assert set(comparisons) == {"near", "far"}
    assert comparisons["far"].adjusted == pytest.approx(2 * comparisons["far"].p)
    assert comparisons["far"].adjusted < 0.05 < comparisons["near"].adjusted
    text = table.to_markdown("ours")
    assert [line.count("*") for line in text.splitlines()[2:5]] == [0, 0, 1]
    assert "* differs from ours with p < 0.05" in text
    with pytest.raises(OptionError, match="no row 'theirs'; its rows are: ours, near, far"):
        table.against("theirs")


def test_html_has_the_stars_of_markdown():
    rng = np.random.default_rng(0)
    values = rng.normal(size=20)
    names = tuple(f"input {number}" for number in range(20))
    rows = (
        TableRow("marc", {"sufficiency": Cell(tuple(values))}, "marc"),
        TableRow("worse", {"sufficiency": Cell(tuple(values + 1))}, "occlusion"),
        TableRow("level", {"sufficiency": Cell(tuple(values + rng.normal(size=20) / 100))}, "lime"),
    )
    table = sample_table(rows=rows, metrics=("sufficiency",), inputs=names)
    starred = re.findall(r'<th scope="row">(\w+)</th><td>[^<]*\*', to_html(table, "marc"))
    assert starred == ["worse"]
    assert "differs from marc" in to_html(table, "marc")
    page = table_page({"first": table, "second": table}, references={"first": "marc"})
    assert page.count("differs from marc") == 1
    assert "differs from" not in to_html(table)


def test_a_row_can_be_added():
    table = sample_table().with_row("humans", {"token-f1-micro": [0.5, 0.5, NAN, 1.0]})
    assert table["humans"].cells["token-f1-micro"].estimate.n == 3
    with pytest.raises(OptionError, match="2 values of token-f1-micro for the table's 4 inputs"):
        sample_table().with_row("humans", {"token-f1-micro": [0.5, 0.5]})


def test_a_title_with_bars_and_line_ends_stays_in_its_cell():
    table = sample_table(rows=(TableRow("a | b\nc", {"sufficiency": Cell((0.5,) * 4)}),), metrics=("sufficiency",))
    line = table.to_markdown().splitlines()[2]
    assert line == "| a \\| b c | .500 [.500 .500] |"


@pytest.mark.parametrize("title", ["=1+1", "+1", "-1", "@sum(a)", "\tx", "\rx", "fine", "a=1", "'=1"])
def test_no_cell_of_the_csv_is_a_formula(title):
    table = sample_table(
        rows=(TableRow(title, {"sufficiency": Cell((-0.5,) * 4)}, title),), model=title, selection=title
    )
    (line,) = csv.DictReader(io.StringIO(table.to_csv(), newline=""))
    expected = title if title in ("fine", "a=1", "'=1") else "'" + title.replace("\r", "\n")
    assert [line[name] for name in ("title", "method", "model", "selection")] == [expected] * 4
    assert float(line["mean"]) == -0.5  # numbers stay numbers


def test_a_notebook_shows_a_table_and_nothing_in_it_is_markup():
    table = sample_table(model="<img src=x onerror=alert(1)>").with_row(
        "<script>&", {"sufficiency": [0.25] * 4}, failures={"a": "<b>"}
    )
    page = table._repr_html_()
    assert not {"<img", "<script", "<b>"} & set(re.findall(r"<\w+|<b>", page))
    assert "&lt;script&gt;&amp;" in page
    rows = re.findall(r"<tr>(.*?)</tr>", page)
    assert len(rows) == 1 + len(table.rows)
    assert re.findall(r'<th scope="col">(.*?)</th>', rows[0]) == [
        "method", "sufficiency ↓", "token-f1-micro ↑", "s / input",
    ]  # fmt: skip
    first = [re.sub(r"<.*?>", " ", cell) for cell in re.findall(r"<td>(.*?)</td>", rows[1])]
    assert first[0].split() == [".100", ".000", "…", ".200", "n", "=", "3"]
    assert re.findall(r"<td>(.*?)</td>", rows[3]) == ["–", "undefined", "–"]
    assert "Protocol marc" in page


class TestPlot:
    @pytest.mark.parametrize("kind", ["png", "svg"])
    def test_is_drawn(self, tmp_path, kind):
        pytest.importorskip("matplotlib")
        path = sample_table().plot(tmp_path / f"t.{kind}")
        content = path.read_bytes()
        assert content.startswith(b"\x89PNG" if kind == "png" else b"<?xml")
        assert len(content) > 2000

    def test_other_endings_and_a_missing_library_are_told(self, tmp_path, monkeypatch):
        with pytest.raises(OptionError, match=r"ends in png, svg, pdf, not t\.txt"):
            sample_table().plot(tmp_path / "t.txt")
        monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
        with pytest.raises(OptionError, match="needs matplotlib"):
            sample_table().plot(tmp_path / "t.png")
