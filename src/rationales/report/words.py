"""The words and numbers that every report shares, so that terminal and page say the same."""

from __future__ import annotations

import math
from collections.abc import Mapping

from rationales.rationale import Frames, Grid, Rationale, Region, Rule, Spectrogram, Stretch

# key in `Rationale.probabilities`, its name, and what the model was given
GIVEN = (
    ("full", "Full {whole}", "as it stands"),
    ("rationale", "Rationale alone", "only the marked {units}"),
    ("complement", "Complement", "everything but them"),
    ("baseline", "Baseline", "no {unit} at all"),
)
FEW = 8  # labels that a report lists all of
LIKELIEST = 5  # of more than that


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
    """What one unit is called: word, token, sentence, pixel, frame or bin."""
    return str(getattr(rationale, "unit", None) or "word")


def count(number: int, noun: str) -> str:
    """'1 span', '12,000 words'."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def selection(rationale: Rationale) -> str:
    """How much the rationale is: '2 spans · 7 of 120 words', '1 region · 6.2 % of the picture · 31 of 500 pixels'."""
    chosen, total = int(rationale.selected().sum()), len(rationale.units)
    if isinstance(rationale.units, Grid):
        found = (
            f"{count(len(rationale.regions()), 'region')} · {percent(chosen / max(total, 1))} of the {whole(rationale)}"
        )
        return f"{found} · {chosen:,} of {count(total, unit_name(rationale))}"
    if isinstance(rationale.units, Frames):
        times = rationale.times()
        heard = sum(one.end - one.start for one in times)
        found = f"{count(len(times), 'span')} · {heard:.2f} of {rationale.units.duration:.2f} s"
        return f"{found} · {chosen:,} of {count(total, unit_name(rationale))}"
    return f"{count(len(rationale.spans()), 'span')} · {chosen:,} of {count(total, unit_name(rationale))}"


def predicted(rationale: Rationale) -> str | None:
    """The label that the model gives the full input; None where that was not measured."""
    full = rationale.probabilities.get("full", {})
    if not full or full.get(rationale.target, -1.0) >= max(full.values()):
        return rationale.target if full else None
    return max(full, key=lambda label: full[label])


def verdict(rationale: Rationale) -> str:
    """'The model predicts positive (98.0 %); explained: negative (2.0 %)', or only the first half of it."""
    full, best = rationale.probabilities.get("full", {}), predicted(rationale)
    if best is None or rationale.target not in full:
        return f"Explained: {rationale.target}"
    words = f"The model predicts {best} ({percent(full[best])})"
    if best == rationale.target:
        return words
    return f"{words}; explained: {rationale.target} ({percent(full[rationale.target])})"


def runner_up(rationale: Rationale) -> str | None:
    """The label that the target is set against, or else the next likely of the full input; None without another."""
    if rationale.against is not None:
        return rationale.against
    full = rationale.probabilities.get("full", {})
    rivals = [label for label in full if label != rationale.target]
    return max(rivals, key=lambda label: full[label]) if rivals else None


def leading(rationale: Rationale) -> tuple[str, ...]:
    """The labels worth a row: all when they are few, else the likeliest and the target, likeliest first."""
    if len(rationale.labels) <= FEW:
        return rationale.labels
    full = rationale.probabilities.get("full", {})
    ranked = sorted(rationale.labels, key=lambda label: -full.get(label, 0.0))
    return tuple(
        label for rank, label in enumerate(ranked) if rank < LIKELIEST or label in (rationale.target, rationale.against)
    )


def size(rationale: Rationale) -> str:
    """'picture of 640 × 480 pixels', 'sound of 4.68 s'; nothing for a text."""
    units = rationale.units
    if isinstance(units, Spectrogram):
        return f"spectrogram of {units.width * units.seconds:.2f} s, {units.width} frames × {units.height} frequencies"
    if isinstance(units, Frames):
        return f"sound of {units.duration:.2f} s"
    return f"picture of {units.width} × {units.height} pixels" if isinstance(units, Grid) else ""


def whole(rationale: Rationale) -> str:
    """What was explained: a text, a picture or a sound."""
    if isinstance(rationale.units, (Frames, Spectrogram)):
        return "sound"
    return "picture" if isinstance(rationale.units, Grid) else "text"


def when(stretch: Stretch) -> str:
    """'1.38 to 3.20 s'."""
    return f"{stretch.start:.2f} to {stretch.end:.2f} s"


def box(region: Region, grid: Grid | None = None) -> str:
    """Where a region lies: 'columns 3 to 80, rows 10 to 44'; in a spectrogram '0.30 to 0.81 s, bands 4 to 9'."""
    if isinstance(grid, Spectrogram):
        times = f"{region.left * grid.seconds:.2f} to {region.right * grid.seconds:.2f} s"
        return f"{times}, bands {grid.height - region.bottom} to {grid.height - 1 - region.top}"
    return f"columns {region.left} to {region.right - 1}, rows {region.top} to {region.bottom - 1}"


def rows(rationale: Rationale) -> list[tuple[str, str, str, Mapping[str, float]]]:
    """(key, name, what the model was given, label -> probability) for each measured input, in reading order."""
    unit = unit_name(rationale)
    measured = []
    for key, name, given in GIVEN:
        if key in rationale.probabilities:
            hint = given.format(unit=unit, units=unit + "s")
            if key == "baseline" and rationale.baseline:
                hint = f"{hint}: {rationale.baseline}"
            measured.append((key, name.format(whole=whole(rationale)), hint, rationale.probabilities[key]))
    return measured


def rule(rationale: Rationale) -> str:
    """The method's own rule in words."""
    return _rule(rationale.rule) + (", then whole word groups" if rationale.selection is not None else "")


def _rule(own: Rule) -> str:
    if own.threshold is not None:
        return f"score above {own.threshold:g}"
    if own.share is not None:
        return f"the best {100 * own.share:g} %"
    return f"the best {own.top}"
