"""The rationale of a sound as a PNG: its waveform, the stretches of the rationale behind it, the scores below.

Pillow (`pip install 'rationales[images]'`) is imported when the first sound is drawn.
"""

from __future__ import annotations

import os
from pathlib import Path

from rationales.errors import OptionError
from rationales.files import write_bytes
from rationales.rationale import Frames, Rationale
from rationales.report.canvas import encoded, pillow
from rationales.report.envelope import envelope
from rationales.report.png.image import HEAD, INK, MARGIN, PAPER, SOFT, draw_heading, fitted
from rationales.report.scale import scale_of
from rationales.report.wording import selection_size

WIDTH, WAVE, SCORES, FOOT = 960, 180, 60, 30  # pixels
_SELECTED, _EDGE = (251, 224, 174), (194, 115, 10)
_FOR, _AGAINST = (224, 147, 15), (59, 130, 246)


def png(rationale: Rationale) -> bytes:
    """The waveform with the rationale marked, the scores below, a heading with target and probabilities: PNG bytes."""
    frames = rationale.units
    if not isinstance(frames, Frames):
        raise OptionError("only a sound has a waveform")
    pillow()  # raises an error that says what to install
    from PIL import Image, ImageDraw, ImageFont

    sheet = Image.new("RGB", (WIDTH + 2 * MARGIN, HEAD + WAVE + SCORES + FOOT), PAPER)
    pen = ImageDraw.Draw(sheet)
    draw_heading(pen, rationale, WIDTH)
    small = ImageFont.load_default(13)

    def across(seconds: float) -> float:
        return MARGIN + WIDTH * min(seconds / max(frames.duration, 1e-9), 1.0)

    for stretch in rationale.times():
        left, right = across(stretch.start), across(stretch.end)
        pen.rectangle((left, HEAD, max(right - 1, left), HEAD + WAVE), fill=_SELECTED, outline=_EDGE)
    middle = HEAD + WAVE / 2
    loudness = envelope(rationale, WIDTH)
    for column in range(WIDTH):
        x, height = MARGIN + column, float(loudness[column * len(loudness) // WIDTH])
        reach = height * (WAVE / 2 - 6) if rationale.sound is not None else 0
        pen.line((x, middle - reach, x, middle + reach), fill=INK)
    scale = scale_of(rationale)
    bottom = HEAD + WAVE + SCORES
    for index, strength in enumerate(scale.strength(rationale.scores).tolist()):
        left, right = across(index * frames.seconds), across((index + 1) * frames.seconds)
        top = bottom - abs(strength) * (SCORES - 10)
        pen.rectangle((left, top, max(right - 1, left), bottom), fill=_FOR if strength >= 0 else _AGAINST)
    pen.text((MARGIN, bottom + FOOT // 2), "0 s", SOFT, small, anchor="lm")
    pen.text((MARGIN + WIDTH, bottom + FOOT // 2), f"{frames.duration:.2f} s", SOFT, small, anchor="rm")
    caption = fitted(selection_size(rationale), small, WIDTH - 160)
    pen.text((MARGIN + WIDTH / 2, bottom + FOOT // 2), caption, SOFT, small, anchor="mm")
    return encoded(sheet, "PNG", optimize=True)


def to_png(rationale: Rationale, path: str | os.PathLike[str]) -> Path:
    """Write `png` to `path` atomically."""
    return write_bytes(path, png(rationale))
