"""The scores along the text as a small chart with the threshold as a horizontal line."""

from __future__ import annotations

import numpy as np

from rationales.rationale import Rationale
from rationales.report.scale import Scale

BINS = 600  # maximal number of columns; a longer text shows the strongest score of each column
HEIGHT = 100


def profile(rationale: Rationale, scale: Scale, threshold: float) -> str:
    """An SVG with one column per unit (or per bin of units), in the order of the text."""
    values = columns(np.nan_to_num(rationale.scores.astype(np.float64), posinf=scale.high, neginf=scale.low))
    if not len(values):
        return ""

    def height(value: float) -> float:
        return round(HEIGHT * (scale.high - value) / (scale.high - scale.low), 1)

    zero, width = height(0.0), len(values)

    def area(heights: np.ndarray, name: str) -> str:
        if not heights.any():
            return ""
        outline = "".join(f"V{height(value):g}H{column}" for column, value in enumerate(heights.tolist(), 1))
        return f'<path class="{name}" d="M0 {zero:g}{outline}V{zero:g}Z"/>'

    line = min(max(height(threshold), 0.0), float(HEIGHT))
    seam = ""
    if rationale.pair is not None and len(rationale.words):
        first = sum(unit.text_index == 0 for unit in rationale.words) * width / len(rationale.words)
        seam = f'<line class="seam" x1="{first:g}" x2="{first:g}" y1="0" y2="{HEIGHT}"/>'
    return (
        f'<svg class="profile" viewBox="0 0 {width} {HEIGHT}" preserveAspectRatio="none" aria-hidden="true">'
        f"{area(values.clip(min=0), 'for')}{area(values.clip(max=0), 'against')}{seam}"
        f'<line class="level" x1="0" x2="{width}" y1="{line:g}" y2="{line:g}"/></svg>'
    )


def columns(values: np.ndarray, bins: int = BINS) -> np.ndarray:
    """(min(n, bins),): the value of largest magnitude in each bin."""
    if len(values) <= bins:
        return values
    edges = np.linspace(0, len(values), bins + 1).astype(int)[:-1]
    largest, smallest = np.maximum.reduceat(values, edges), np.minimum.reduceat(values, edges)
    return np.where(np.abs(smallest) > np.abs(largest), smallest, largest)
