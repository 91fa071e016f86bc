"""Links in the documentation lead somewhere: to a file of the repository and, where they name one, to a heading."""

from __future__ import annotations

from pathlib import Path

import pytest
from doc_pages import PAGES, ROOT, Page, parse

PARSED = {path: parse(path) for path in PAGES}
ELSEWHERE = ("http://", "https://", "mailto:")


def broken_links(page: Page) -> list[str]:
    """Relative links of a page whose file or heading does not exist."""
    broken = []
    for number, link in page.links:
        if link.startswith(ELSEWHERE):
            continue
        target, _, anchor = link.partition("#")
        path = (page.path.parent / target).resolve() if target else page.path
        if not path.exists() or not path.is_relative_to(ROOT):
            broken.append(f"{page.name}, line {number}: there is no {target}")
        elif anchor and anchor not in (PARSED.get(path) or parse(path)).anchors:
            broken.append(f"{page.name}, line {number}: {target or page.name} has no heading #{anchor}")
    return broken


@pytest.mark.parametrize("page", PARSED.values(), ids=lambda page: page.name)
def test_every_relative_link_exists(page: Page) -> None:
    assert broken_links(page) == []


def test_every_page_can_be_reached_from_the_front_page() -> None:
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        path = waiting.pop()
        if path in reached or path not in PARSED:
            continue
        reached.add(path)
        targets = (link.partition("#")[0] for _, link in PARSED[path].links if not link.startswith(ELSEWHERE))
        waiting += [(path.parent / target).resolve() for target in targets if target]
    assert sorted(set(PARSED) - reached) == []


def test_a_missing_file_and_a_missing_heading_are_found() -> None:
    path = ROOT / "docs" / "imagined.md"
    links = ((1, "methods.md"), (2, "nowhere.md"), (3, "methods.md#no-such-heading"), (4, "https://example.org/x"))
    page = Page(path, (), links, frozenset())
    assert [line.split(",")[1].split(":")[0].strip() for line in broken_links(page)] == ["line 2", "line 3"]


def test_headings_become_the_anchors_that_github_gives_them(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    page = "# Which words, and `why`?\n\n## Twice\n\n## Twice\n\n```text\n# no heading\n```\n"
    path.write_text(page, encoding="utf-8")
    assert parse(path).anchors == {"which-words-and-why", "twice", "twice-1"}
