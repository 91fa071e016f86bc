"""The rationale of a picture as pictures: the original, a heat map over it, and the cut-out, side by side.

Pillow is needed here (`pip install 'rationales[images]'`) and is imported when the first picture is drawn.
"""

from __future__ import annotations

import base64
import io
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rationales.errors import ModelError, OptionError
from rationales.files import write_bytes
from rationales.rationale import Grid, Rationale, Spectrogram
from rationales.report.scale import Scale, scale_of
from rationales.report.words import count, percent, rows, size, unit_name

if TYPE_CHECKING:
    from PIL import Image, ImageFont

PANEL = 512  # pixels of a panel's long side, at most
LEAST = 256  # a smaller picture is enlarged by a whole number, its pixels staying squares, to about this
MARGIN, GAP, HEAD, FOOT = 16, 16, 48, 26  # pixels around and between the panels, for the heading and the captions
COLUMN = 180  # pixels that a panel's column is wide at least, so that its caption can be read
OPACITY = 0.8  # of the heat map, unless told otherwise
DIM = 0.4  # share of its brightness that the picture loses under a heat map of full opacity
PALE, FADE = 236, 0.82  # the grey that hides what is not selected, and how much of it
UNKNOWN = 150  # the grey that stands for a picture that was not saved

# Colour at rising strength; lightness rises with it throughout, so that the order survives without hue.
_STOPS = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
_FOR = np.array([(84, 44, 4), (152, 84, 8), (214, 126, 12), (245, 166, 35), (255, 206, 96)])
_AGAINST = np.array([(6, 30, 84), (14, 72, 152), (37, 110, 214), (86, 156, 255), (170, 208, 255)])
_ALPHA = np.array([0.0, 0.55, 0.8, 0.93, 1.0])
_LUMINANCE = np.array([0.2126, 0.7152, 0.0722])  # the weights of CSS's grayscale()
_INK, _SOFT, _PAPER = (29, 33, 38), (100, 106, 115), (255, 255, 255)


@dataclass(frozen=True, eq=False)
class Canvas:
    """A rationale at the size it is drawn."""

    original: np.ndarray  # (h, w, 3) uint8
    scores: np.ndarray  # (h, w) float32, finite
    chosen: np.ndarray  # (h, w) bool
    scale: Scale

    def heat(self, opacity: float = OPACITY, outline: bool = False) -> np.ndarray:
        """(h, w, 3): the scores as colours over the picture, which steps back into grey; the selection outlined."""
        base = self.original.astype(np.float32)
        base += opacity * ((base @ _LUMINANCE.astype(np.float32))[..., None] - base)
        base *= 1 - DIM * opacity
        colours = ramp(self.scale.strength(self.scores))
        alpha = opacity * colours[..., 3:]
        drawn = base * (1 - alpha) + colours[..., :3] * alpha
        if outline:
            inside, outside = edges(self.chosen)
            drawn[outside] *= 0.4
            drawn[inside] = 255
        return _bytes(drawn)

    def cutout(self) -> np.ndarray:
        """(h, w, 3): what is selected as it is, the rest faded."""
        grey = (self.original @ _LUMINANCE)[..., None]
        return np.where(self.chosen[..., None], self.original, _bytes(PALE * FADE + grey * (1 - FADE)))


def canvas(rationale: Rationale, longest: int = PANEL, least: int = LEAST) -> Canvas:
    """The rationale reduced to `longest` pixels on its long side; a tiny one enlarged to about `least`."""
    grid = grid_of(rationale)
    size = (grid.height, grid.width)
    scale = scale_of(rationale)
    pixels = rationale.picture if rationale.picture is not None else np.full((*size, 3), UNKNOWN, dtype=np.uint8)
    scores, chosen = finite(rationale, scale).reshape(size), rationale.selected().reshape(size)
    long = max(size)
    if long > longest:
        height, width = (max(1, round(side * longest / long)) for side in size)
        return Canvas(
            np.asarray(_image(pixels).resize((width, height), pillow().Resampling.LANCZOS)),
            _averaged(scores, height, width),
            _averaged(chosen.astype(np.float32), height, width) > 0.5,
            scale,
        )
    factor = enlargement(grid, least)
    return Canvas(_enlarged(pixels, factor), _enlarged(scores, factor), _enlarged(chosen, factor), scale)


def enlargement(grid: Grid, least: int) -> int:
    """How many times a small picture is enlarged."""
    return max(1, least // max(grid.height, grid.width))


def ramp(strength: np.ndarray) -> np.ndarray:
    """(..., 4): red, green and blue up to 255 and opacity up to 1 for a strength in [-1, 1]."""
    size = np.abs(strength)
    channels = [
        np.where(strength < 0, np.interp(size, _STOPS, against), np.interp(size, _STOPS, towards))
        for towards, against in zip(_FOR.T, _AGAINST.T, strict=True)
    ]
    return np.stack([*channels, np.interp(size, _STOPS, _ALPHA)], axis=-1).astype(np.float32)


def edges(chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(h, w) booleans, twice: selected pixels beside others, and others beside selected ones."""

    def touches(mask: np.ndarray) -> np.ndarray:
        beside = np.zeros_like(mask)
        beside[1:] |= mask[:-1]
        beside[:-1] |= mask[1:]
        beside[:, 1:] |= mask[:, :-1]
        beside[:, :-1] |= mask[:, 1:]
        return beside

    return chosen & touches(~chosen), ~chosen & touches(chosen)


def finite(rationale: Rationale, scale: Scale) -> np.ndarray:
    """(n,) float32: the scores, with a number in place of what is none."""
    return np.nan_to_num(rationale.scores.astype(np.float32), nan=0.0, posinf=scale.high, neginf=scale.low)


def grid_of(rationale: Rationale) -> Grid:
    """The pixels of the rationale, or an error that says that it has none."""
    if not isinstance(rationale.units, Grid):
        raise OptionError("a text cannot be drawn as a picture; write a page with to_html")
    return rationale.units


def png(rationale: Rationale) -> bytes:
    """Three panels with their captions under a line that tells the target and its probabilities."""
    drawn = canvas(rationale)
    height, width = drawn.chosen.shape
    column = max(width, COLUMN)
    size = (2 * MARGIN + 3 * column + 2 * GAP, HEAD + height + FOOT + MARGIN)
    sheet = pillow().new("RGB", size, _PAPER)
    from PIL import ImageDraw, ImageFont

    pen = ImageDraw.Draw(sheet)
    large, small = ImageFont.load_default(17), ImageFont.load_default(13)
    room = size[0] - 2 * MARGIN
    title = fitted(rationale.target, large, room)
    pen.text((MARGIN, HEAD // 2), title, _INK, large, anchor="lm")
    used = large.getlength(title) + 18
    told = fitted(numbers(rationale), small, room - used)
    pen.text((MARGIN + used, HEAD // 2 + 1), told, _SOFT, small, anchor="lm")
    panels = (drawn.original, drawn.heat(), drawn.cutout())
    for number, (panel, caption) in enumerate(zip(panels, captions(rationale), strict=True)):
        left = MARGIN + number * (column + GAP)
        sheet.paste(_image(panel), (left + (column - width) // 2, HEAD))
        text = fitted(caption, small, column)
        pen.text((left + column // 2, HEAD + height + FOOT // 2), text, _SOFT, small, anchor="mm")
    return encoded(sheet, "PNG", optimize=True)


def to_png(rationale: Rationale, path: str | os.PathLike[str]) -> Path:
    """Write `png`, whole or not at all."""
    return write_bytes(path, png(rationale))


def captions(rationale: Rationale) -> tuple[str, str, str]:
    """What stands under the original, the heat map and the cut-out."""
    grid, chosen = grid_of(rationale), int(rationale.selected().sum())
    original = (
        size(rationale).capitalize() if isinstance(grid, Spectrogram) else f"Picture, {grid.width} by {grid.height}"
    )
    if rationale.picture is None:
        original = "The picture was not saved"
    unit = unit_name(rationale)
    return original, "Scores", f"Rationale, {percent(chosen / max(len(grid), 1))} of {count(len(grid), unit)}"


def data_uri(pixels: np.ndarray, lossless: bool = False) -> str:
    """(h, w, 3) or (h, w) uint8, or (h, w) bool, as the address of an image that holds itself."""
    if lossless:
        return _uri("png", encoded(_image(pixels), "PNG", optimize=True))
    return _uri("jpeg", encoded(_image(pixels), "JPEG", quality=88))


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    """The bytes of an image file."""
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def _uri(kind: str, content: bytes) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def numbers(rationale: Rationale) -> str:
    """'Full picture 91.0 % · Rationale alone 88.0 % · Complement 3.0 %'."""
    values = [(name, given[rationale.target]) for _, name, _, given in rows(rationale)[:3] if rationale.target in given]
    return " · ".join(f"{name} {percent(value)}" for name, value in values)


def fitted(text: str, font: ImageFont.FreeTypeFont | ImageFont.ImageFont, room: float) -> str:
    """One line of `text`, cut where the room ends."""
    line = " ".join(text.split())[:400]
    if font.getlength(line) <= room:
        return line
    while line and font.getlength(line + "…") > room:
        line = line[:-1]
    return line.rstrip() + "…" if line else ""


def _averaged(values: np.ndarray, height: int, width: int) -> np.ndarray:
    """(height, width): the mean of what each pixel covers."""
    return np.asarray(_image(values).resize((width, height), pillow().Resampling.BOX))


def _enlarged(values: np.ndarray, factor: int) -> np.ndarray:
    return values.repeat(factor, 0).repeat(factor, 1)


def _image(values: np.ndarray) -> Image.Image:
    image: Image.Image = pillow().fromarray(np.ascontiguousarray(values))
    return image


def _bytes(values: np.ndarray) -> np.ndarray:
    whole: np.ndarray = np.clip(np.rint(values), 0, 255).astype(np.uint8)
    return whole


def pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise ModelError("pictures need Pillow, which is not installed: pip install 'rationales[images]'") from None
    return Image
