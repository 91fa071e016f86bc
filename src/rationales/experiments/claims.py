"""Claims of papers with verdicts on our runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

SIGNIFICANT = 0.05  # p-values from which a difference may be chance


@dataclass(frozen=True)
class ClaimVerdict:
    """Whether a claim holds under one reading; None: the runs or rows that it needs are missing."""

    holds: bool | None
    figures: str
    reading: str = "here"
    p: float | None = None  # of the test of the difference that the claim is about; None: there is no test

    @property
    def word(self) -> str:
        """'holds', 'does not hold', 'not significant' or 'not judged'."""
        if self.holds is None:
            return "not judged"
        if self.p is not None and not self.p < SIGNIFICANT:
            return "not significant"
        return "holds" if self.holds else "does not hold"


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
