"""The paper's claims with verdicts on our runs, and the formatting of numbers and tables in Markdown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rationales.evaluation.tables.statistics import Estimate
from rationales.evaluation.tables.table import short


@dataclass(frozen=True)
class ClaimVerdict:
    """Whether a claim holds under one reading; None: the runs that it needs are missing."""

    holds: bool | None
    figures: str
    reading: str = "here"

    @property
    def word(self) -> str:
        """The verdict in words."""
        return "not judged" if self.holds is None else "holds" if self.holds else "does not hold"


@dataclass(frozen=True)
class PaperClaim:
    """One claim of a section of the paper, with a verdict for each reading."""

    section: str  # empty: not a claim of the paper
    text: str
    verdicts: tuple[ClaimVerdict, ...]


def judge_claim(section: str, text: str, holds: bool | None, figures: str) -> PaperClaim:
    """A claim with a single reading."""
    return PaperClaim(section, text, (ClaimVerdict(holds, figures),))


def claims_markdown(claims: Sequence[PaperClaim]) -> str:
    """All claims as a list, with a line for each reading."""
    lines = []
    for claim in claims:
        section = f"Section {claim.section}" if claim.section else "Not in the paper"
        lines.append(f"- {section}: **{claim.text}**")
        lines += [f"  - {verdict.reading}: **{verdict.word}** ({verdict.figures})" for verdict in claim.verdicts]
    return "\n".join(lines)


def table_markdown(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table; empty if there are no lines."""
    if not lines:
        return ""
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (heads, ["---"] * len(heads), *lines))


def format_estimate(estimate: Estimate) -> str:
    """The mean with its interval, such as `.5 [.4 .6]`."""
    if estimate.n == 0 or math.isnan(estimate.mean):
        return "–"
    interval = "" if math.isnan(estimate.low) else f" [{short(estimate.low)} {short(estimate.high)}]"
    return short(estimate.mean) + interval


def format_number(value: float) -> str:
    """A number, or a dash for NaN."""
    return "–" if math.isnan(value) else short(value)


def format_percent(value: float) -> str:
    """A share in percent, such as `98.5 %`, or a dash for NaN."""
    return "–" if math.isnan(value) else f"{100 * value:.1f} %"
