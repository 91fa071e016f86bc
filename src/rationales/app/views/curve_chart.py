"""The probability of the target over the size of the selection: alone (sufficiency) and removed (comprehensiveness)."""

from __future__ import annotations

from collections.abc import Sequence

from rationales.rationale import Rationale
from rationales.report.comparison import curve_areas
from rationales.report.html.marked_text import display_text, escape
from rationales.report.wording import input_noun, percent, unit_name

WIDTH, HEIGHT = 320, 120  # units of the drawing; the browser scales it


def curve_chart(rationale: Rationale) -> str:
    """A figure with two lines and a legend; empty without a curve."""
    curve, target = rationale.curve, rationale.target
    full = rationale.probabilities.get("full", {}).get(target)
    if curve is None or full is None or len(curve) < 2:
        return ""
    alone, without = (by_label[target] for by_label in (curve.rationale, curve.complement))
    largest = curve.shares[-1] or 1.0  # below 1 where the model does not read all of an image
    shares = [share / largest for share in curve.shares]
    lines = (
        f'<line class="full" x1="0" x2="{WIDTH}" y1="{_y(full)}" y2="{_y(full)}"/>'
        f'<polyline class="without" points="{_points(shares, without)}"/>'
        f'<polyline class="alone" points="{_points(shares, alone)}"/>'
    )
    share = min(float(rationale.selected().mean()) / largest, 1.0) if len(rationale.units) else 0.0
    chosen = f'<line class="size" x1="{share * WIDTH:.1f}" x2="{share * WIDTH:.1f}" y1="0" y2="{HEIGHT}"/>'
    noun, unit = input_noun(rationale), unit_name(rationale)
    summary = (
        f"Probability of {target} by the share of {unit}s selected. Full {noun}: {percent(full)}. "
        f"At half of the {unit}s: {percent(_middle(shares, alone))} alone, "
        f"{percent(_middle(shares, without))} without them."
    )
    return (
        '<figure class="curve"><figcaption>Probability of '
        f"<em>{display_text(target)}</em> by the size of the selection</figcaption>"
        f'<div class="plot"><span class="top">100 %</span><span class="bottom">0 %</span>'
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img" aria-label="{escape(summary)}">'
        f'<path class="frame" d="M0 0V{HEIGHT}H{WIDTH}"/>{chosen}{lines}</svg></div>'
        f'<p class="axis" aria-hidden="true"><span>no {escape(unit)}</span><span>all {escape(unit)}s</span></p>'
        f"{_legend(rationale)}</figure>"
    )


def time_note(rationale: Rationale) -> str:
    """How long the explanation took, and its steps."""
    steps = f" · {rationale.steps:,} steps" if rationale.steps else ""
    return f'<p class="took">{escape(f"{rationale.seconds:.2f} s")}{escape(steps)}</p>'


def _legend(rationale: Rationale) -> str:
    areas = curve_areas(rationale)
    values = ("", "") if areas is None else tuple(f" {area:+.2f}".replace("-", "−") for area in areas)
    names = (
        ("alone", "selection alone", "sufficiency", values[0]),
        ("without", "everything else", "comprehensiveness", values[1]),
    )
    items = "".join(
        f'<li><svg viewBox="0 0 24 6" aria-hidden="true"><line class="{key}" x1="0" x2="24" y1="3" y2="3"/></svg>'
        f"{escape(name)}<small>{escape(metric)}{escape(value)}</small></li>"
        for key, name, metric, value in names
    )
    return f'<ul class="lines">{items}</ul>'


def _points(shares: Sequence[float], probabilities: Sequence[float]) -> str:
    return " ".join(f"{share * WIDTH:.1f},{_y(value)}" for share, value in zip(shares, probabilities, strict=True))


def _y(probability: float) -> str:
    return f"{HEIGHT * (1 - min(max(probability, 0.0), 1.0)):.1f}"


def _middle(shares: Sequence[float], probabilities: Sequence[float]) -> float:
    """The probability at the size nearest to half of the units."""
    return min(zip(shares, probabilities, strict=True), key=lambda pair: abs(pair[0] - 0.5))[1]
