"""Claims of papers with verdicts on our runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class ClaimVerdict:
    """Whether a claim holds under one reading; None: the runs or rows that it needs are missing."""

    holds: bool | None
    figures: str
    reading: str = "here"

    @property
    def word(self) -> str:
        """'holds', 'does not hold' or 'not judged'."""
        return "not judged" if self.holds is None else "holds" if self.holds else "does not hold"


@dataclass(frozen=True)
class PaperClaim:
    """One claim of a paper, with a verdict for each reading."""

    section: str | None  # of the paper; empty: not a claim of the paper, None: not printed
    text: str
    verdicts: tuple[ClaimVerdict, ...]


def judge_claim(section: str, text: str, holds: bool | None, figures: str) -> PaperClaim:
    """A claim with a single reading."""
    return PaperClaim(section, text, (ClaimVerdict(holds, figures),))


def claims_markdown(claims: Sequence[PaperClaim]) -> str:
    """All claims as a list, with a line for each reading."""
    lines = []
    for claim in claims:
        section = f"Section {claim.section}: " if claim.section else ""
        lines.append(f"- {'Not in the paper: ' if claim.section == '' else section}**{claim.text}**")
        lines += [f"  - {verdict.reading}: **{verdict.word}** ({verdict.figures})" for verdict in claim.verdicts]
    return "\n".join(lines)
