"""Claims of papers with verdicts on our runs.

A verdict is 'holds' only where a test supports it, and then its p value stands beside the word. A claim that is true of
the means but not significant is called that; so is one for which there is no test.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rationales.evaluation.tables.table import SIGNIFICANCE_LEVEL, short


@dataclass(frozen=True)
class ClaimVerdict:
    """Whether a claim is true of the means under one reading; None: the runs or rows that it needs are missing."""

    holds: bool | None
    figures: str
    reading: str = "here"
    p: float = math.nan  # of the test that the claim rests on; NaN: there is none

    @property
    def word(self) -> str:
        """'holds', 'not significant', 'true of the figures, not tested', 'does not hold' or 'not judged'."""
        if self.holds is None:
            return "not judged"
        if not self.holds:
            return "does not hold"
        if math.isnan(self.p):
            return "true of the figures, not tested"
        return "holds" if self.p < SIGNIFICANCE_LEVEL else "not significant"

    @property
    def word_with_p(self) -> str:
        """'holds, p = .012': the word and, where there is a test, its p value."""
        return self.word if self.holds is None or math.isnan(self.p) else f"{self.word}, {p_text(self.p)}"


@dataclass(frozen=True)
class PaperClaim:
    """One claim of a paper, with a verdict for each reading."""

    section: str | None  # of the paper; empty: not a claim of the paper, None: not printed
    text: str
    verdicts: tuple[ClaimVerdict, ...]


def judge_claim(section: str, text: str, holds: bool | None, figures: str, p: float = math.nan) -> PaperClaim:
    """A claim with a single reading."""
    return PaperClaim(section, text, (ClaimVerdict(holds, figures, p=p),))


def joint_claims(by_title: Mapping[str, Sequence[PaperClaim]]) -> list[PaperClaim]:
    """The claims of several groups of runs: each claim once, with the verdicts of every group under its title."""
    verdicts: dict[tuple[str | None, str], list[ClaimVerdict]] = {}
    for title, claims in by_title.items():
        for claim in claims:
            verdicts.setdefault((claim.section, claim.text), []).extend(
                replace(verdict, reading=f"{title}, {verdict.reading}") if title else verdict
                for verdict in claim.verdicts
            )
    return [PaperClaim(section, text, tuple(of_claim)) for (section, text), of_claim in verdicts.items()]


def p_text(p: float) -> str:
    """'p = .012', 'p < .001'."""
    return "p < .001" if p < 0.001 else f"p = {short(p)}"


def p_at_least(p_values: Sequence[float], needed: int, total: int) -> float:
    """p value of "at least `needed` of `total` statements are true", from the p values of those that look true.

    Bonferroni's bound for partial conjunctions (Benjamini and Heller 2008): (total - needed + 1) times the p value in
    place `needed`. NaN where one of them is NaN, or there are too few.
    """
    if len(p_values) < needed or any(math.isnan(p) for p in p_values):
        return math.nan
    return min(1.0, (total - needed + 1) * sorted(p_values)[needed - 1])


def claims_markdown(claims: Sequence[PaperClaim]) -> str:
    """All claims as a list, with a line for each reading."""
    lines = []
    for claim in claims:
        section = f"Section {claim.section}: " if claim.section else ""
        lines.append(f"- {'Not in the paper: ' if claim.section == '' else section}**{claim.text}**")
        lines += [f"  - {verdict.reading}: **{verdict.word_with_p}** ({verdict.figures})" for verdict in claim.verdicts]
    return "\n".join(lines)
