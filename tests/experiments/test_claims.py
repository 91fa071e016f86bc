"""Verdicts on claims: 'holds' needs a test and its p value."""

from __future__ import annotations

import math

import pytest

from rationales.experiments.claims import ClaimVerdict, PaperClaim, claims_markdown, judge_claim, p_at_least


@pytest.mark.parametrize(
    ("holds", "p", "word"),
    [
        (True, 0.012, "holds, p = .012"),
        (True, 0.0001, "holds, p < .001"),
        (True, 0.05, "not significant, p = .050"),
        (True, 0.4, "not significant, p = .400"),
        (True, math.nan, "true of the figures, not tested"),
        (False, 0.3, "does not hold, p = .300"),
        (False, math.nan, "does not hold"),
        (None, math.nan, "not judged"),
    ],
)
def test_the_word_depends_on_the_test(holds, p, word):
    assert ClaimVerdict(holds, "figures", p=p).word_with_p == word


def test_holds_is_printed_only_with_its_p_value():
    claims = [
        judge_claim("5.1", "A is best", True, "A .6, B .5", 0.01),
        judge_claim("", "B is second", True, "B .5, C .4"),
        PaperClaim(None, "C is third", (ClaimVerdict(True, "C .4, D .39", "here", 0.6),)),
    ]
    assert claims_markdown(claims) == "\n".join(
        [
            "- Section 5.1: **A is best**",
            "  - here: **holds, p = .010** (A .6, B .5)",
            "- Not in the paper: **B is second**",
            "  - here: **true of the figures, not tested** (B .5, C .4)",
            "- **C is third**",
            "  - here: **not significant, p = .600** (C .4, D .39)",
        ]
    )


class TestPAtLeast:
    def test_is_bonferronis_bound_for_some_of_several(self):
        """Three of five: the third smallest p value, times the 5 - 3 + 1 = 3 ways in which one too many could fail."""
        assert p_at_least([0.01, 0.002, 0.02, 0.3], 3, 5) == pytest.approx(0.06)
        assert p_at_least([0.01, 0.002], 2, 2) == 0.01  # all of them: the largest
        assert p_at_least([0.01, 0.002, 0.4], 1, 3) == pytest.approx(0.006)  # one of them: Bonferroni
        assert p_at_least([0.9, 0.8], 1, 4) == 1.0

    def test_is_unknown_where_a_p_value_is_missing(self):
        assert math.isnan(p_at_least([0.01], 2, 3))
        assert math.isnan(p_at_least([0.01, math.nan], 1, 2))
