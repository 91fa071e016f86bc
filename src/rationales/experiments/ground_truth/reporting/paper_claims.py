"""What the paper says of its figures, asked of ours: does it hold, and by which numbers?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rationales.evaluation.statistics import Estimate
from rationales.evaluation.table import short


@dataclass(frozen=True)
class Verdict:
    """Whether a claim holds under one reading; None: what it needs is not there."""

    holds: bool | None
    figures: str
    reading: str = "here"

    @property
    def word(self) -> str:
        """The verdict."""
        return "not judged" if self.holds is None else "holds" if self.holds else "does not hold"


@dataclass(frozen=True)
class Claim:
    """One claim of a section of the paper, and whether it holds."""

    section: str  # empty: not in the paper
    text: str
    verdicts: tuple[Verdict, ...]


def judged(section: str, text: str, holds: bool | None, figures: str) -> Claim:
    """A claim with one reading."""
    return Claim(section, text, (Verdict(holds, figures),))


def claim_list(found: Sequence[Claim]) -> str:
    """Every claim with a line for each reading. Markdown."""
    lines = []
    for one in found:
        where = f"Section {one.section}" if one.section else "Not in the paper"
        lines.append(f"- {where}: **{one.text}**")
        lines += [f"  - {verdict.reading}: **{verdict.word}** ({verdict.figures})" for verdict in one.verdicts]
    return "\n".join(lines)


def markdown(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table; empty where there are no lines."""
    if not lines:
        return ""
    rows = ["| " + " | ".join(one) + " |" for one in (heads, ["---"] * len(heads), *lines)]
    return "\n".join(rows)


def cell(own: Estimate) -> str:
    """A mean with its interval."""
    if own.n == 0 or math.isnan(own.mean):
        return "–"
    return short(own.mean) + ("" if math.isnan(own.low) else f" [{short(own.low)} {short(own.high)}]")


def number(value: float) -> str:
    """A number, or a dash where there is none."""
    return "–" if math.isnan(value) else short(value)


def percent(value: float) -> str:
    """98.5 %."""
    return "–" if math.isnan(value) else f"{100 * value:.1f} %"
