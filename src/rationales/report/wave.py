"""A sound as a line of frames: its envelope, and the frames as HTML that the page's script knows how to mark."""

from __future__ import annotations

import numpy as np

from rationales.rationale import Frames, Rationale
from rationales.report.marked import LEVELS, unit_class
from rationales.report.scale import Scale

COLUMNS = 800  # of a drawn waveform
HEIGHT = 100


def envelope(rationale: Rationale, columns: int) -> np.ndarray:
    """(columns,) in [0, 1]: how loud each part of the sound is, the loudest 1; flat where the sound was not saved."""
    if rationale.sound is None or not len(rationale.sound):
        return np.full(max(1, min(columns, len(rationale.units))), 0.5)
    columns = min(columns, len(rationale.sound))
    edges = np.linspace(0, len(rationale.sound), columns + 1).astype(int)[:-1]
    loud = np.maximum.reduceat(np.abs(rationale.sound.astype(np.float64)), edges)
    return loud / (loud.max() or 1.0)


def wave(rationale: Rationale, frames: Frames, scale: Scale, *, live: bool) -> str:
    """The waveform over one element for each frame, coloured by its score; a span of the rationale is one shape."""
    levels = np.rint(scale.strength(rationale.scores) * LEVELS).astype(int).tolist()
    times = rationale.times()
    opening, closing = {one.first for one in times}, {one.last for one in times}
    pieces = []
    for index, (level, chosen) in enumerate(zip(levels, rationale.selected().tolist(), strict=True)):
        flags = ("in" if chosen else "", "first" if index in opening else "", "last" if index in closing else "")
        title = f' title="{index * frames.seconds:.2f} s: {scale.number(float(rationale.scores[index]))}"'
        tag = "mark" if chosen else "span"
        pieces.append(f"<{tag}{unit_class(level, *flags)}{'' if live else title}></{tag}>")
    walk = ' tabindex="0" role="group" aria-label="Sound; arrow keys walk through it"' if live else ""
    missing = "" if rationale.sound is not None else '<p class="caption">The sound was not saved with the scores.</p>'
    return (
        f'<div class="text wave" dir="ltr"{walk}><i class="curve">{_curve(rationale)}</i>{"".join(pieces)}</div>'
        f'<p class="seconds"><span>0 s</span><span>{frames.duration:.2f} s</span></p>{missing}'
    )


def _curve(rationale: Rationale) -> str:
    """The envelope above and below the middle, as an SVG."""
    if rationale.sound is None:
        return ""
    heights = np.round(envelope(rationale, COLUMNS) * HEIGHT / 2, 1).tolist()
    middle = HEIGHT / 2
    above = "".join(f"L{column + 0.5:g} {middle - height:g}" for column, height in enumerate(heights))
    below = "".join(f"L{column + 0.5:g} {middle + height:g}" for column, height in reversed(list(enumerate(heights))))
    shape = f'viewBox="0 0 {len(heights)} {HEIGHT}" preserveAspectRatio="none" aria-hidden="true"'
    return f'<svg {shape}><path d="M0 {middle:g}{above}L{len(heights)} {middle:g}{below}Z"/></svg>'
