"""A sound as HTML: its waveform over one element per frame, which the page's script can mark."""

from __future__ import annotations

import numpy as np

from rationales.rationale import Frames, Rationale
from rationales.report.envelope import envelope
from rationales.report.html.marked_text import LEVELS, unit_class
from rationales.report.scale import Scale

COLUMNS = 800  # of the waveform
HEIGHT = 100


def wave(rationale: Rationale, frames: Frames, scale: Scale, *, live: bool) -> str:
    """The waveform over one element for each frame, coloured by its score; a span of the rationale is outlined."""
    levels = np.rint(scale.strength(rationale.scores) * LEVELS).astype(int).tolist()
    stretches = rationale.times()
    opening, closing = {stretch.first for stretch in stretches}, {stretch.last for stretch in stretches}
    pieces = []
    for index, (level, selected) in enumerate(zip(levels, rationale.selected().tolist(), strict=True)):
        flags = ("in" if selected else "", "first" if index in opening else "", "last" if index in closing else "")
        title = f' title="{index * frames.seconds:.2f} s: {scale.number(float(rationale.scores[index]))}"'
        tag = "mark" if selected else "span"
        pieces.append(f"<{tag}{unit_class(level, *flags)}{'' if live else title}></{tag}>")
    walk = ' tabindex="0" role="group" aria-label="Sound; arrow keys walk through it"' if live else ""
    missing = "" if rationale.sound is not None else '<p class="caption">The sound was not saved with the scores.</p>'
    return (
        f'<div class="text wave" dir="ltr"{walk}><i class="envelope">{_curve(rationale)}</i>{"".join(pieces)}</div>'
        f'<p class="seconds"><span>0 s</span><span>{frames.duration:.2f} s</span></p>{missing}'
    )


def _curve(rationale: Rationale) -> str:
    """The envelope, mirrored at the middle, as an SVG."""
    if rationale.sound is None:
        return ""
    heights = np.round(envelope(rationale, COLUMNS) * HEIGHT / 2, 1).tolist()
    middle = HEIGHT / 2
    above = "".join(f"L{column + 0.5:g} {middle - height:g}" for column, height in enumerate(heights))
    below = "".join(f"L{column + 0.5:g} {middle + height:g}" for column, height in reversed(list(enumerate(heights))))
    shape = f'viewBox="0 0 {len(heights)} {HEIGHT}" preserveAspectRatio="none" aria-hidden="true"'
    return f'<svg {shape}><path d="M0 {middle:g}{above}L{len(heights)} {middle:g}{below}Z"/></svg>'
