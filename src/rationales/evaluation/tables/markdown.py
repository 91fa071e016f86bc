"""Numbers, estimates with their intervals, and tables as Markdown."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rationales.evaluation.tables.statistics import Estimate
from rationales.evaluation.tables.table import short


def number(value: float) -> str:
    """'.614'; a dash for NaN."""
    return "–" if math.isnan(value) else short(value)


def percent(value: float) -> str:
    """A share in percent, such as '98.5 %'; a dash for NaN."""
    return "–" if math.isnan(value) else f"{100 * value:.1f} %"


def estimate(value: Estimate) -> str:
    """The mean with its interval, such as '.614 [.581 .648]'; a dash without a mean."""
    return number(value.mean) + ("" if math.isnan(value.low) else f" [{short(value.low)} {short(value.high)}]")


def table(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table; empty if there are no lines."""
    if not lines:
        return ""
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (headings, ["---"] * len(headings), *lines))
