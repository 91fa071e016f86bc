"""Every table of figures in docs/ says how it is made: the line after it begins with one of two phrases.

`Command: ` and the command, in backticks, or `Settings, not results.`
"""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest
from doc_pages import ROOT

from rationales.experiments import EXPERIMENTS

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
ORIGINS = ("Command: `", "Settings, not results.")
FIGURE = re.compile(r"[*−+~<>≤≥-]*[\d.]*\d")  # a cell that begins with a number
SHARE_OF_FIGURES = 0.4  # of the cells beside the first column, from which on a table is one of figures


def tables(text: str) -> list[tuple[int, list[str], str]]:
    """(line number, lines, next line that is not empty) of every table outside code blocks."""
    lines, all_tables, in_code = [*text.split("\n"), ""], [], False
    start = 0
    for number, (line, following) in enumerate(pairwise(lines)):
        in_code ^= line.startswith("```")
        if in_code or not line.startswith("|"):
            start = number + 1
        elif not following.startswith("|"):
            after = next((candidate for candidate in lines[number + 1 :] if candidate.strip()), "")
            all_tables.append((start + 1, lines[start : number + 1], after))
    return all_tables


def has_figures(table: list[str]) -> bool:
    """Whether enough cells beside the first column begin with a number."""
    cells = [cell.strip() for line in table[2:] for cell in line.strip("|").split("|")[1:]]
    figures = sum(FIGURE.match(cell) is not None for cell in cells)
    return figures >= max(2, SHARE_OF_FIGURES * len(cells))


def unexplained_tables(text: str) -> list[int]:
    """Line numbers of tables of figures without a line that says where they come from."""
    return [number for number, table, after in tables(text) if has_figures(table) and not after.startswith(ORIGINS)]


def untested_verdicts(text: str) -> list[str]:
    """Clauses that say that a claim holds and give no p-value.

    A claim is a row of a table or an item of a list that begins in italics, or stands where "claim" is said.
    """
    blocks = re.split(r"\n(?=\s*(?:[-|#]|\n))", text)  # paragraphs, items of lists, rows of tables
    about_claims = [block for block in blocks if re.search(r"\bclaim|^\s*- \*[^*]|^\|.*(?:\*\*|\| )holds?\b", block)]
    clauses = [clause for block in about_claims for clause in re.split(r"(?<=[\w)*])[.;](?=\s)", block)]
    verdicts = [clause for clause in clauses if re.search(r"(?<!not )(?<!may )(?<![^*]\*)\bholds?\b", clause)]
    return [" ".join(clause.split()) for clause in verdicts if not re.search(r"\bp\s[=<]\s", clause)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
class TestEveryPage:
    def test_tables_of_figures_name_their_command(self, page: Path) -> None:
        assert unexplained_tables(page.read_text(encoding="utf-8")) == []

    def test_named_commands_exist(self, page: Path) -> None:
        lines = [line for line in page.read_text(encoding="utf-8").split("\n") if line.startswith("Command: ")]
        for command in (command for line in lines for command in re.findall(r"`((?:rationales|python) [^`]*)`", line)):
            program, first, *arguments = command.split()
            if program == "python":
                script = f"{arguments[0].replace('.', '/')}.py" if first == "-m" else first
                assert (ROOT / script).is_file(), command
            elif first == "reproduce":
                assert arguments[0] in EXPERIMENTS, command

    def test_claims_hold_only_with_a_p_value(self, page: Path) -> None:
        assert untested_verdicts(page.read_text(encoding="utf-8")) == []


def test_a_table_of_figures_without_a_command_is_noticed() -> None:
    table = "| method | mAP |\n| --- | --- |\n| a | .5 [.4 .6] |\n| b | −.25 |\n"
    assert unexplained_tables(f"# Results\n\n{table}\nA remark.\n") == [3]
    assert unexplained_tables(f"{table}\nCommand: `rationales reproduce marc-table1`\n") == []
    assert unexplained_tables(f"{table}\nNo command: measured by hand.\n") == [1]
    assert unexplained_tables(f"```\n{table}```\n") == []
    assert unexplained_tables(table) == [1]


def test_a_table_of_words_needs_none() -> None:
    assert (
        unexplained_tables("| option | default |\n| --- | --- |\n| a | 5 |\n| b | none |\n| c | all |\n| d | – |") == []
    )


@pytest.mark.parametrize(
    ("text", "noticed"),
    [
        ("- The claims of section 5 all hold: every one.", ["- The claims of section 5 all hold: every one."]),
        (
            "- *A beats B*: by F1 it holds on SST\n  alone; by IoU it holds (p < .001).",
            ["- *A beats B*: by F1 it holds on SST alone"],
        ),
        ("| A beats B | **holds**: .5 |", ["| A beats B | **holds**: .5 |"]),
        ("| A beats B | **holds, p = .01**: .5 |", []),
        ("The claim that A beats B does not hold.\n\nThe file holds everything.", []),
        ("A claim *holds* where a test supports it.", []),
    ],
)
def test_a_verdict_without_a_p_value_is_noticed(text: str, noticed: list[str]) -> None:
    assert untested_verdicts(text) == noticed
