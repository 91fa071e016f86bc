"""The words and numbers that every report shares, so that terminal and page say the same."""

from __future__ import annotations

import math
from collections.abc import Mapping

from rationales.rationale import Rationale

# key in `Rationale.probabilities`, its name, and what the model was given
GIVEN = (
    ("full", "Full text", "as it stands"),
    ("rationale", "Rationale alone", "only the marked {units}"),
    ("complement", "Complement", "everything but them"),
    ("baseline", "Baseline", "no {unit} at all"),
)


def percent(probability: float) -> str:
    """A probability as a percentage that never rounds to certainty: 0.99996 is '> 99.9 %', not '100 %'."""
    if not math.isfinite(probability):
        return "?"
    if 0.999 < probability < 1:
        return "> 99.9 %"
    if 0 < probability < 0.001:
        return "< 0.1 %"
    return f"{100 * probability:.1f} %"


def unit_name(rationale: Rationale) -> str:
    """What one unit is called: word, token or sentence."""
    return str(getattr(rationale, "unit", None) or "word")


def count(number: int, noun: str) -> str:
    """'1 span', '12,000 words'."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def selection(rationale: Rationale) -> str:
    """How much of the text the rationale is: '2 spans · 7 of 120 words'."""
    chosen, total = int(rationale.selected().sum()), len(rationale.units)
    return f"{count(len(rationale.spans()), 'span')} · {chosen:,} of {count(total, unit_name(rationale))}"


def runner_up(rationale: Rationale) -> str | None:
    """The label that comes first in the full text when the target is set aside; None when there is no other."""
    full = rationale.probabilities.get("full", {})
    rivals = [label for label in full if label != rationale.target]
    return max(rivals, key=lambda label: full[label]) if rivals else None


def rows(rationale: Rationale) -> list[tuple[str, str, Mapping[str, float]]]:
    """(name, what the model was given, label -> probability) for each measured input, in reading order."""
    unit = unit_name(rationale)
    found = []
    for key, name, given in GIVEN:
        if key in rationale.probabilities:
            hint = given.format(unit=unit, units=unit + "s")
            if key == "baseline" and rationale.baseline:
                hint = f"{hint}: {rationale.baseline}"
            found.append((name, hint, rationale.probabilities[key]))
    return found


def rule(rationale: Rationale) -> str:
    """The method's own rule in words."""
    own = rationale.rule
    if own.threshold is not None:
        return f"score above {own.threshold:g}"
    if own.share is not None:
        return f"the best {100 * own.share:g} %"
    return f"the best {own.top}"
