"""The page for users names everything that there is."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from rationales.evaluation.metrics import METRICS
from rationales.evaluation.protocols import PRESETS, REMOVALS, Protocol
from rationales.evaluation.selection.rules import SELECTIONS

PAGE = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [*METRICS, *PRESETS, *REMOVALS, *(spec.name for spec in fields(Protocol))])
def test_everything_is_named(name):
    assert f"`{name}`" in PAGE


@pytest.mark.parametrize("name", SELECTIONS)
def test_every_selection_is_named(name):
    assert f"`{name}`" in PAGE or f"`{name}=" in PAGE


def test_the_table_of_protocols_says_what_the_presets_are():
    """Removal, normaliser, label, selection and what is compared, column by column."""
    lines = [
        [cell.strip(" `") for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line.startswith("|")
    ]
    head = next(line for line in lines if line[1:2] == ["marc"])
    for field in ("removal", "normaliser", "label", "selection", "agreement_on"):
        row = next(line for line in lines if line[0] == field and len(line) == len(head))
        assert row[1:] == [str(getattr(PRESETS[name], field)) for name in head[1:]]
