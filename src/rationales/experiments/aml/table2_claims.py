"""What the paper says about Table 2 (section 4.1), judged on our scenarios by the rules of Table 1's claims."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rationales.evaluation.tables.table import Table
from rationales.experiments.aml.row_specs import FAML, LLM, PAML, RANDOM, SIG
from rationales.experiments.aml.table1_claims import SECTION, SELECTED_RIVALS, best_in_most, better_in_all, with_rows
from rationales.experiments.claims import PaperClaim

GRADIENTS = ("deep-lift", "gradient-shap", "input-x-gradient")  # of the paper's Table 2, beside sequential IG
RIVALS = (SIG, *GRADIENTS, LLM)


def claims(tables: Mapping[Any, Table]) -> list[PaperClaim]:
    """All claims with their verdicts; `tables`: scenario -> its table."""
    fixed, selected = with_rows(tables, [FAML]), with_rows(tables, ["faml-selected"])
    return [
        PaperClaim(
            SECTION,
            "fAML outperforms the other methods in the majority of cases",
            (
                best_in_most(fixed, FAML, (PAML, *RIVALS), "fixed budgets, the paper's methods"),
                best_in_most(fixed, FAML, (PAML, *RIVALS, "marc", "words"), "fixed budgets, with MaRC"),
                best_in_most(selected, "faml-selected", SELECTED_RIVALS, "all selected by the metric"),
            ),
        ),
        PaperClaim(
            SECTION,
            "pAML is the runner-up in the majority of cases",
            (best_in_most(with_rows(tables, [PAML]), PAML, RIVALS, "better than all but fAML"),),
        ),
        PaperClaim(
            SECTION,
            "The language model's own ranking is worse than the leading methods",
            (
                better_in_all(tables, PAML, LLM),
                better_in_all(tables, "marc", LLM),
                better_in_all(tables, SIG, LLM),
            ),
        ),
        PaperClaim(
            "", "The language model's own ranking is better than random scores", (better_in_all(tables, LLM, RANDOM),)
        ),
        PaperClaim(
            "", "MaRC is better than random scores by Comp everywhere", (better_in_all(tables, "marc", RANDOM),)
        ),
    ]
