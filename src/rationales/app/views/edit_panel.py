"""Edit and see: the input with parts that can be switched off, and the model's probabilities without them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from rationales.app.editing import EditableInput
from rationales.rationale import Frames, Rationale
from rationales.report.canvas import canvas, data_uri
from rationales.report.envelope import envelope
from rationales.report.html.marked_text import display_text, escape, right_to_left
from rationales.report.html.waveform import COLUMNS, HEIGHT
from rationales.report.wording import percent

SHOWN_SIDE = 560  # pixels of the longer side of an image
MAX_LABELS = 6  # rows of the table of probabilities
PART_NAMES = ("Text", "Second text")


def edit_panel(editable: EditableInput, rationale: Rationale) -> str:
    """A button for each unit of a text; for an image or a sound a grid of cells over it, see edit.js."""
    if editable.cells is None:
        parts = "".join(f'<div class="words">{words}</div>' for words in _texts(rationale))
        return f'<div class="edit">{parts}{_shortcuts(rationale)}</div>'
    rows, columns = editable.cells
    label = "frames of the sound" if isinstance(rationale.units, Frames) else "regions of the image"
    return (
        f'<div class="edit"><div class="brush{" sound" if rows == 1 else ""}" tabindex="0" role="application" '
        f'data-rows="{rows}" data-columns="{columns}" '
        f'aria-label="{label}: draw to take parts out; arrow keys move, space takes out or puts back">'
        f"{_background(rationale)}</div>{_shortcut('Put everything back', ())}</div>"
    )


def _shortcuts(rationale: Rationale) -> str:
    """Buttons that set many units at once; their numbers are in `data-parts`."""
    selected = rationale.selected()
    rationale_units, complement_units = np.flatnonzero(selected).tolist(), np.flatnonzero(~selected).tolist()
    return (
        f"{_shortcut('Take out the rationale', rationale_units)}"
        f"{_shortcut('Keep only the rationale', complement_units)}"
        f"{_shortcut('Put everything back', ())}"
    )


def _shortcut(name: str, parts: Sequence[int]) -> str:
    return f'<button type="button" class="shortcut" data-parts="{",".join(map(str, parts))}">{escape(name)}</button>'


def _texts(rationale: Rationale) -> Iterator[str]:
    for text_index in range(1 if rationale.pair is None else 2):
        text = rationale.text_at(text_index)
        direction = "rtl" if right_to_left(text) else "ltr"
        name = f'<p class="part">{PART_NAMES[text_index]}</p>' if rationale.pair is not None else ""
        pieces = "".join(_pieces(rationale, text_index))
        yield f'{name}<p class="toggles" dir="{direction}" lang="">{pieces}</p>'


def _pieces(rationale: Rationale, text_index: int) -> Iterator[str]:
    """The text, character for character, each unit as an inline button that is pressed when the unit is off."""
    text, position = rationale.text_at(text_index), 0
    for number, unit in enumerate(rationale.words):
        if unit.text_index != text_index:
            continue
        start = max(unit.start, position)
        end = max(unit.end, start)
        yield display_text(text[position:start])
        word = display_text(text[start:end])
        reached = 0 if number == 0 else -1  # by the tabulator; edit.js moves from word to word
        yield f'<span role="button" tabindex="{reached}" data-part="{number}" aria-pressed="false">{word}</span>'
        position = end
    yield display_text(text[position:])


def _background(rationale: Rationale) -> str:
    """The image, or the waveform of a sound, under the cells."""
    if not isinstance(rationale.units, Frames):
        pixels = canvas(rationale, SHOWN_SIDE).original
        return f'<img src="{data_uri(pixels)}" alt="" draggable="false">'
    if rationale.sound is None:
        return ""
    heights = np.round(envelope(rationale, COLUMNS) * HEIGHT / 2, 1).tolist()
    middle = HEIGHT / 2
    path = "".join(f"M{x + 0.5:g} {middle - height:g}V{middle + height:g}" for x, height in enumerate(heights))
    shape = f'viewBox="0 0 {len(heights)} {HEIGHT}" preserveAspectRatio="none" aria-hidden="true"'
    return f'<svg {shape}><path d="{path}"/></svg>'


def edited_view(before: Mapping[str, float], after: Mapping[str, float], target: str, removed: int, noun: str) -> str:
    """The probabilities of the likeliest classes and the target, before and after the edit, with bars."""
    labels = shown_labels(before, after, target)
    summary = f"{removed:,} {noun}{'' if removed == 1 else 's'} taken out" if removed else "nothing taken out yet"
    rows = "".join(_row(label, before[label], after[label], label == target) for label in labels)
    return (
        f'<div class="edited"><p class="what">{escape(summary)}</p><table><thead><tr><th scope="col">class</th>'
        '<th scope="col"><span class="unseen">bar</span></th><th scope="col">now</th><th scope="col">full input</th>'
        f"</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def shown_labels(before: Mapping[str, float], after: Mapping[str, float], target: str) -> Sequence[str]:
    """The target first, then the classes that are likeliest before or after."""
    other_labels = sorted(
        (label for label in before if label != target), key=lambda label: -max(before[label], after[label])
    )
    return [target, *other_labels][:MAX_LABELS]


def _row(label: str, before: float, after: float, is_target: bool) -> str:
    width, mark = 100 * min(max(after, 0.0), 1.0), 100 * min(max(before, 0.0), 1.0)
    bar = (
        '<svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="track" width="100" height="10"/><rect class="now" width="{width:.1f}" height="10"/>'
        f'<line x1="{mark:.1f}" x2="{mark:.1f}" y1="0" y2="10"/></svg>'
    )
    return (
        f'<tr{" class=target" if is_target else ""}><th scope="row">{display_text(label)}</th>'
        f'<td class="bar">{bar}</td><td class="now">{escape(percent(after))}</td>'
        f"<td>{escape(percent(before))}</td></tr>"
    )
