"""The rationale of a sound as a picture: its waveform, the stretches of the rationale behind it, the scores below.

Pillow is needed here (`pip install 'rationales[images]'`) and is imported when the first sound is drawn.
"""

from __future__ import annotations

import os
from pathlib import Path

from rationales.errors import OptionError
from rationales.files import write_bytes
from rationales.rationale import Frames, Rationale
from rationales.report.picture import encoded, fitted, numbers, pillow
from rationales.report.scale import scale_of
from rationales.report.wave import envelope
from rationales.report.words import selection

WIDTH, WAVE, SCORES, MARGIN, HEAD, FOOT = 960, 180, 60, 16, 48, 30  # pixels
_INK, _SOFT, _PAPER, _CHOSEN, _EDGE = (29, 33, 38), (100, 106, 115), (255, 255, 255), (251, 224, 174), (194, 115, 10)
_FOR, _AGAINST = (224, 147, 15), (59, 130, 246)


def png(rationale: Rationale) -> bytes:
    """The waveform with the rationale marked, the scores under it, and a line that tells target and probabilities."""
    frames = rationale.units
    if not isinstance(frames, Frames):
        raise OptionError("only a sound has a waveform")
    from PIL import Image, ImageDraw, ImageFont

    pillow()  # says what to install
    sheet = Image.new("RGB", (WIDTH + 2 * MARGIN, HEAD + WAVE + SCORES + FOOT), _PAPER)
    pen = ImageDraw.Draw(sheet)
    large, small = ImageFont.load_default(17), ImageFont.load_default(13)
    title = fitted(rationale.target, large, WIDTH)
    pen.text((MARGIN, HEAD // 2), title, _INK, large, anchor="lm")
    used = large.getlength(title) + 18
    pen.text((MARGIN + used, HEAD // 2 + 1), fitted(numbers(rationale), small, WIDTH - used), _SOFT, small, anchor="lm")

    def across(seconds: float) -> float:
        return MARGIN + WIDTH * min(seconds / max(frames.duration, 1e-9), 1.0)

    for one in rationale.times():
        box = (across(one.start), HEAD, max(across(one.end) - 1, across(one.start)), HEAD + WAVE)
        pen.rectangle(box, fill=_CHOSEN, outline=_EDGE)
    middle = HEAD + WAVE / 2
    loud = envelope(rationale, WIDTH)
    for column in range(WIDTH):
        place, height = MARGIN + column, float(loud[column * len(loud) // WIDTH])
        reach = height * (WAVE / 2 - 6) if rationale.sound is not None else 0
        pen.line((place, middle - reach, place, middle + reach), fill=_INK)
    scale = scale_of(rationale)
    bottom = HEAD + WAVE + SCORES
    for index, strength in enumerate(scale.strength(rationale.scores).tolist()):
        left, right = across(index * frames.seconds), across((index + 1) * frames.seconds)
        top = bottom - abs(strength) * (SCORES - 10)
        pen.rectangle((left, top, max(right - 1, left), bottom), fill=_FOR if strength >= 0 else _AGAINST)
    pen.text((MARGIN, bottom + FOOT // 2), "0 s", _SOFT, small, anchor="lm")
    pen.text((MARGIN + WIDTH, bottom + FOOT // 2), f"{frames.duration:.2f} s", _SOFT, small, anchor="rm")
    told = fitted(selection(rationale), small, WIDTH - 160)
    pen.text((MARGIN + WIDTH / 2, bottom + FOOT // 2), told, _SOFT, small, anchor="mm")
    return encoded(sheet, "PNG", optimize=True)


def to_png(rationale: Rationale, path: str | os.PathLike[str]) -> Path:
    """Write `png`, whole or not at all."""
    return write_bytes(path, png(rationale))
