"""Sentences and formatted numbers that all reports share, so that terminal and page say the same."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rationales.rationale import Frames, Grid, Rationale, Region, Spectrogram, Stretch, TextAndImage

if TYPE_CHECKING:
    from rationales.pipeline.word_candidates import Candidate, CandidateList, Prediction

# key in `Rationale.probabilities`, its name, and what the model gets as input
MODEL_INPUTS = (
    ("full", "Full {input}", "as it stands"),
    ("rationale", "Rationale alone", "only the marked {units}"),
    ("complement", "Complement", "everything but them"),
    ("baseline", "Baseline", "every {unit} replaced"),
)
MAX_LISTED = 8  # a report lists all labels up to this number
N_LIKELIEST = 5  # and this many of more labels


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
    """The noun for one unit: word, token, sentence, pixel, frame or bin."""
    return str(getattr(rationale, "unit", None) or "word")


def count(number: int, noun: str) -> str:
    """'1 span', '12,000 words'."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def selection_size(rationale: Rationale) -> str:
    """'2 spans · 7 of 120 words', '1 region · 6.2 % of the image · 31 of 500 pixels'."""
    if isinstance(rationale.units, TextAndImage):
        return f"{selection_size(rationale.text_part)} · {selection_size(rationale.image_part)}"
    selected, total = int(rationale.selected().sum()), len(rationale.units)
    if isinstance(rationale.units, Grid):
        share = f"{percent(selected / max(total, 1))} of the {input_noun(rationale)}"
        spans = f"{count(len(rationale.regions()), 'region')} · {share}"
    elif isinstance(rationale.units, Frames):
        times = rationale.times()
        seconds = sum(stretch.end - stretch.start for stretch in times)
        spans = f"{count(len(times), 'span')} · {seconds:.2f} of {rationale.units.duration:.2f} s"
    else:
        spans = count(len(rationale.spans()), "span")
    return f"{spans} · {selected:,} of {count(total, unit_name(rationale))}"


def predicted_label(rationale: Rationale) -> str | None:
    """The label that the model predicts for the full input; None where that was not measured."""
    full = rationale.probabilities.get("full", {})
    if not full or full.get(rationale.target, -1.0) >= max(full.values()):
        return rationale.target if full else None
    return max(full, key=lambda label: full[label])


def prediction_sentence(rationale: Rationale) -> str:
    """'The model predicts positive (98.0 %); explained: negative (2.0 %)', or only the first half of it."""
    full, best = rationale.probabilities.get("full", {}), predicted_label(rationale)
    if best is None or rationale.target not in full:
        return f"Explained: {rationale.target}"
    words = f"The model predicts {best} ({percent(full[best])})"
    if best == rationale.target:
        return words
    return f"{words}; explained: {rationale.target} ({percent(full[rationale.target])})"


def runner_up(rationale: Rationale) -> str | None:
    """The label that the target is contrasted with, else the likeliest other label; None for a single label."""
    if rationale.against is not None:
        return rationale.against
    full = rationale.probabilities.get("full", {})
    rivals = [label for label in full if label != rationale.target]
    return max(rivals, key=lambda label: full[label]) if rivals else None


def listed_labels(rationale: Rationale) -> tuple[str, ...]:
    """The labels that get a row: all when they are few, else the likeliest and the target, likeliest first."""
    if len(rationale.labels) <= MAX_LISTED:
        return rationale.labels
    full = rationale.probabilities.get("full", {})
    ranked = sorted(rationale.labels, key=lambda label: -full.get(label, 0.0))
    required = (rationale.target, rationale.against)
    return tuple(label for rank, label in enumerate(ranked) if rank < N_LIKELIEST or label in required)


def input_size(rationale: Rationale) -> str:
    """'image of 640 × 480 pixels', 'sound of 4.68 s'; empty for a text."""
    units = rationale.units
    if isinstance(units, TextAndImage):
        return f"image of {units.grid.width} × {units.grid.height} pixels with a text of {len(units.words):,} words"
    if isinstance(units, Spectrogram):
        return f"spectrogram of {units.width * units.seconds:.2f} s, {units.width} frames × {units.height} frequencies"
    if isinstance(units, Frames):
        return f"sound of {units.duration:.2f} s"
    return f"image of {units.width} × {units.height} pixels" if isinstance(units, Grid) else ""


def input_noun(rationale: Rationale) -> str:
    """The kind of input: 'text', 'image' or 'sound'; 'input' for a text and an image."""
    if isinstance(rationale.units, (Frames, Spectrogram)):
        return "sound"
    if isinstance(rationale.units, TextAndImage):
        return "input"
    return "image" if isinstance(rationale.units, Grid) else "text"


def time_range(stretch: Stretch) -> str:
    """'1.38 to 3.20 s'."""
    return f"{stretch.start:.2f} to {stretch.end:.2f} s"


def region_bounds(region: Region, grid: Grid | None = None) -> str:
    """The position of a region: 'columns 3 to 80, rows 10 to 44'; in a spectrogram '0.30 to 0.81 s, bands 4 to 9'."""
    if isinstance(grid, Spectrogram):
        times = f"{region.left * grid.seconds:.2f} to {region.right * grid.seconds:.2f} s"
        return f"{times}, bands {grid.height - region.bottom} to {grid.height - 1 - region.top}"
    return f"columns {region.left} to {region.right - 1}, rows {region.top} to {region.bottom - 1}"


def probability_rows(rationale: Rationale) -> list[tuple[str, str, str, Mapping[str, float]]]:
    """(key, name, description, label -> probability) of each input that the model was run on, in reading order."""
    unit = unit_name(rationale)
    measured = []
    for key, name, description in MODEL_INPUTS:
        if key in rationale.probabilities:
            units = "words and pixels" if isinstance(rationale.units, TextAndImage) else unit + "s"
            hint = description.format(unit=unit, units=units)
            if key == "baseline" and rationale.baseline:
                hint = f"{hint}: {rationale.baseline}"
            measured.append((key, name.format(input=input_noun(rationale)), hint, rationale.probabilities[key]))
    return measured


def rule_text(rationale: Rationale) -> str:
    """The rule that selected the rationale, in words."""
    rule = rationale.rule
    by_groups = rationale.selection is not None and not isinstance(rationale.units, (Grid, TextAndImage))
    ending = ", then whole word groups" if by_groups else ""
    if rationale.selected_by == "spans":
        return "connected spans" if rule.share is None else f"{100 * rule.share:g} %, in connected spans"
    if rule.pixel_threshold is not None:
        return f"words with a score above {rule.threshold:g}, pixels above {rule.pixel_threshold:g}"
    if rule.threshold is not None:
        return f"score above {rule.threshold:g}{ending}"
    if rule.share is not None:
        return f"the best {100 * rule.share:g} %{ending}"
    return f"the best {rule.top}{ending}"


def candidates_sentence(candidates: CandidateList) -> str:
    """What the list of a filler's candidates shows."""
    return (
        f"What {candidates.filler} expects in the place of each word, its likelihood, and the probability of "
        f"{candidates.target} with that word ({percent(candidates.probability)} for the text as it is). "
        "A word that is expected for itself is in bold. Beside each word, what is predicted without it, in bold where "
        f"the label is not that of the text as it is ({prediction_text(candidates.predicted)})."
    )


def prediction_text(prediction: Prediction) -> str:
    """'positive 99.8 %'."""
    return f"{prediction.label} {percent(prediction.probability)}"


def candidate_figures(candidate: Candidate) -> str:
    """'.979 → 99.8 %': the likelihood, and the probability of the explained class with this word."""
    return f"{candidate.likelihood:.3f}".removeprefix("0") + f" → {percent(candidate.probability)}"


def candidate_line(candidate: Candidate) -> str:
    """'stepping .979 → 99.8 %'."""
    return f"{candidate.word} {candidate_figures(candidate)}"
