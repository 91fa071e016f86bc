"""Notes on a result that follow from its four probabilities, with advice for the user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rationales.models.kinds import kind_named
from rationales.rationale import Note

SUFFICIENT = 0.9  # a rationale alone should give the target this share of its probability for the full input
INSUFFICIENT = 0.5  # below this share there is a note
INFORMATIVE = 0.7  # a baseline that gives the target this probability is not uninformative
REDUNDANT = 0.9  # a complement with this share of the full input's probability shows that the rationale is not needed


@dataclass(frozen=True)
class SelectionSummary:
    """The facts about one result that the checks use."""

    kind: str  # of the model: text, image, audio, spectrogram
    unit: str
    target: str
    probabilities: Mapping[str, Mapping[str, float]]  # full, rationale, complement, baseline -> label -> probability
    baseline: str
    selected: int  # units in the rationale
    units: int
    sparsity: float | None = None  # the method's option, where it decides the size of the rationale


def selection_notes(selection: SelectionSummary) -> list[Note]:
    """The notes on a result of any method; empty for a result that is sufficient and comprehensive."""
    full, alone, complement, empty = (
        selection.probabilities[name][selection.target] for name in ("full", "rationale", "complement", "baseline")
    )
    notes = []
    if empty > INFORMATIVE:
        message = f"the baseline {selection.baseline} alone already gives {selection.target} {empty:.2f}"
        baselines = kind_named(selection.kind).suggested_baselines
        message += f", so it is not uninformative; try another baseline ({baselines})"
        notes.append(Note("informative-baseline", message))
    if selection.selected == 0:
        message = f"no {selection.unit} was selected, so there is no rationale"
        return [*notes, Note("empty-rationale", f"{message}; {_select_more(selection)}")]
    if _insufficient(selection, full, alone):
        message = f"the selected {selection.unit}s alone give {selection.target} {alone:.2f}"
        message += f", the whole {kind_named(selection.kind).noun} {full:.2f}: not sufficient"
        advice = _select_more(selection)
        notes.append(Note("not-sufficient", f"{message}; {advice}" if advice else message))
    if complement >= full and complement > empty:
        notes.append(Note("evidence-against", _contradiction(selection, full, complement)))
    elif complement >= REDUNDANT * full and complement > empty:
        message = f"without the selected {selection.unit}s {selection.target} still has {complement:.2f} of {full:.2f}"
        message += ": not comprehensive, since the rest of the input leads to the same decision"
        notes.append(Note("not-comprehensive", message))
    return notes


def _insufficient(selection: SelectionSummary, full: float, alone: float) -> bool:
    """Whether the rationale alone loses half of the target's probability, or changes the predicted label."""
    if alone < INSUFFICIENT * full:
        return True
    full_input, rationale = (selection.probabilities[name] for name in ("full", "rationale"))
    is_predicted = full == max(full_input.values()) and len(full_input) > 1
    return is_predicted and max(rationale, key=lambda label: rationale[label]) != selection.target


def _contradiction(selection: SelectionSummary, full: float, complement: float) -> str:
    return (
        f"without the selected {selection.unit}s {selection.target} rises from {full:.2f} to {complement:.2f}: the "
        f"selection also holds evidence against {selection.target}, so do not read it as the reason; compare another "
        "method, or ask why it is this class rather than its strongest rival (against)"
    )


def _select_more(selection: SelectionSummary) -> str:
    """Advice on how to select more units; empty where everything is selected already."""
    if selection.selected >= selection.units:
        return ""
    share = min(1.0, max(2 * selection.selected / selection.units, 0.1))
    advice = f"select more, for instance share={share:.2g}"
    if selection.sparsity:
        advice += f", or lower sparsity (now {selection.sparsity:g})"
    return advice
