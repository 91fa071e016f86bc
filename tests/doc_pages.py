"""The Markdown pages of the project, taken apart: code blocks with their marks, links and headings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])

_FENCE = re.compile(r"^```(\w*)\s*$")
_MARK = re.compile(r"^<!-- (not run|slow): (\S.*?) -->$")
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*$")


@dataclass(frozen=True)
class CodeBlock:
    """A fenced block; `not_run` and `slow` hold the reason of the comment right before it."""

    line: int  # of the opening fence, from 1
    language: str
    text: str
    not_run: str = ""
    slow: str = ""


@dataclass(frozen=True)
class Page:
    """What a page consists of; lines inside of code blocks are no links and no headings."""

    path: Path
    blocks: tuple[CodeBlock, ...]
    links: tuple[tuple[int, str], ...]  # line number and target
    anchors: frozenset[str]

    @property
    def name(self) -> str:
        return self.path.relative_to(ROOT).as_posix()


def parse(path: Path) -> Page:
    """Read a page."""
    blocks: list[CodeBlock] = []
    links: list[tuple[int, str]] = []
    anchors: list[str] = []
    language, opened, content, mark = "", 0, [], {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        fence = _FENCE.match(line)
        if opened:
            if fence:
                blocks.append(CodeBlock(opened, language, "\n".join(content), **mark))
                opened, content, mark = 0, [], {}
            else:
                content.append(line)
        elif fence:
            opened, language = number, fence.group(1)
        else:
            marked = _MARK.match(line)
            mark = {marked.group(1).replace(" ", "_"): marked.group(2)} if marked else {}
            links += [(number, target) for target in _LINK.findall(line)]
            if heading := _HEADING.match(line):
                anchors.append(_anchor(heading.group(1), anchors))
    if opened:
        raise ValueError(f"{path}, line {opened}: the code block is not closed")
    return Page(path, tuple(blocks), tuple(links), frozenset(anchors))


def _anchor(heading: str, used: list[str]) -> str:
    """The anchor that GitHub gives a heading: lower case, punctuation left out, spaces as dashes."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    anchor = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
    return anchor if anchor not in used else f"{anchor}-{used.count(anchor)}"
