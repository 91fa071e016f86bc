"""The manual gives formula, source and cost of every method and metric that there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rationales.evaluation.metrics import METRICS
from rationales.methods import METHODS

DOCS = Path(__file__).parents[1] / "docs"
FACTS = ("Formula", "Source", "Cost")


def sections(page: str) -> dict[str, str]:
    """Heading -> text, of the headings of the second level."""
    parts = re.split(r"^## (.+)$", (DOCS / page).read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


METHOD_SECTIONS = {name: text for names, text in sections("methods.md").items() for name in names.split(", ")}
METRIC_SECTIONS = sections("metrics.md")


@pytest.mark.parametrize("name", METHODS)
def test_a_method_has_its_formula_source_and_cost(name):
    section = METHOD_SECTIONS[name]
    for fact in FACTS:
        (line,) = re.findall(rf"^- \*\*{fact}\.\*\* (.+)$", section, re.MULTILINE)
        assert len(line) >= len("no pass."), f"{fact} of {name}"


@pytest.mark.parametrize("name", METHODS)
def test_a_method_is_in_the_table_of_costs(name):
    page = (DOCS / "methods.md").read_text(encoding="utf-8")
    table = page[page.index("| method | needs |") : page.index("The passes are those of")]
    assert f"`{name}`" in table


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_has_its_formula_source_and_cost(name):
    """In a table whose last column is the source, in a section that has the cost."""
    rows = [
        (section, [cell.strip() for cell in line.replace("\\|", "¦").strip("|").split("|")])
        for section in METRIC_SECTIONS.values()
        for line in section.splitlines()
        if line.startswith("| `") and f"`{name}`" in line.split("|")[1]
    ]
    documented = [(section, cells) for section, cells in rows if len(cells) in (3, 4) and "| source |" in section]
    section, cells = documented[0]
    assert cells[1], "the formula"
    assert re.search(r"\d{4}|ours|Zarrieß", cells[-1]), "the source"
    assert re.search(r"^Cost: ", section, re.MULTILINE)
