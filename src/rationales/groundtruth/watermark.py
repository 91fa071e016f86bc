"""A watermark somewhere in a box: "IMG" in white and four digits in black (Zhou et al. 2022, appendix B.1)."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rationales.errors import ModelError, OptionError
from rationales.groundtruth.image_plants import SIDE, ImagePlant, positive, scale
from rationales.groundtruth.regions import Mask

if TYPE_CHECKING:
    from typing_extensions import Self

Ink = NDArray[np.float64]  # (rows, columns) in [0, 1]: how far a pixel is covered
WHITE, BLACK = "IMG", "0123456789"
DIGITS = 4


@dataclass(frozen=True)
class Watermark(ImagePlant):
    """The text lies anywhere in the box; the region is the box, all of it."""

    name: ClassVar[str] = "watermark"
    summary: ClassVar[str] = "IMG and four random digits are written somewhere in a box"
    visible: ClassVar[str] = "font"
    levels: ClassVar[tuple[float, ...]] = (7, 9, 11, 13, 15)

    top: float = 10.0
    left: float = 10.0
    height: float = 80.0
    width: float = 130.0
    font: float = 11.0  # size of the letters

    def __post_init__(self) -> None:
        positive(self.name, height=self.height, width=self.width, font=self.font)
        if min(self.top, self.left) < 0 or max(self.top + self.height, self.left + self.width) > SIDE + 1e-6:
            raise OptionError(f"watermark: the box must lie within {SIDE} × {SIDE}, not {self}")

    @classmethod
    def drawn(cls, rng: np.random.Generator) -> Self:
        height, width = float(rng.uniform(40, 200)), float(rng.uniform(100, 200))
        top, left = float(rng.uniform(0, SIDE - height)), float(rng.uniform(0, SIDE - width))
        return cls(top, left, height, width, font=float(rng.uniform(cls.levels[0], cls.levels[-1])))

    def box(self, height: int, width: int) -> tuple[int, int, int, int]:
        """First and last row, first and last column, in a picture of this size; the last ones are not included."""
        top, left = round(self.top * height / SIDE), round(self.left * width / SIDE)
        bottom, right = round((self.top + self.height) * height / SIDE), round((self.left + self.width) * width / SIDE)
        return top, min(bottom, height), left, min(right, width)

    def region(self, height: int, width: int) -> Mask:
        top, bottom, left, right = self.box(height, width)
        inside = np.zeros((height, width), dtype=bool)
        inside[top:bottom, left:right] = True
        return inside

    def change(self, pixels: NDArray[np.uint8], rngs: Sequence[np.random.Generator]) -> NDArray[np.uint8]:
        top, bottom, left, right = self.box(*pixels.shape[1:3])
        size = self.font * scale(*pixels.shape[1:3])
        made = pixels.copy()
        for picture, rng in zip(made, rngs, strict=True):
            ink, colour = written(size, rng.integers(0, 10, DIGITS).tolist())
            rows, columns = bottom - top - ink.shape[0], right - left - ink.shape[1]
            if min(rows, columns) < 0:
                raise OptionError(
                    f"watermark: letters of {self.font:g} need {ink.shape[1]} × {ink.shape[0]} pixels here, the box "
                    f"has {right - left} × {bottom - top}; make the box larger or the font smaller"
                )
            down, across = top + int(rng.integers(0, rows + 1)), left + int(rng.integers(0, columns + 1))
            place = picture[down : down + ink.shape[0], across : across + ink.shape[1]]
            place[:] = np.rint(place + ink[..., None] * (colour[..., None] - place)).astype(np.uint8)
        return made


def written(size: float, digits: Sequence[int]) -> tuple[Ink, Ink]:
    """The text: how far each pixel is covered, and with what, 255 or 0; no empty row or column at its edges."""
    glyphs = [*WHITE, *(BLACK[digit] for digit in digits)]
    shapes, heights = [_glyph(size, one)[0] for one in glyphs], [_glyph(size, one)[1] for one in glyphs]
    first, last = min(heights), max(top + shape.shape[0] for top, shape in zip(heights, shapes, strict=True))
    width = sum(shape.shape[1] for shape in shapes)
    ink, colour = np.zeros((last - first, width)), np.zeros((last - first, width))
    across = 0
    for letter, shape, top in zip(glyphs, shapes, heights, strict=True):
        end = across + shape.shape[1]
        ink[top - first : top - first + shape.shape[0], across:end] = shape
        colour[:, across:end] = 255.0 if letter in WHITE else 0.0
        across = end
    rows, columns = (np.flatnonzero(ink.any(axis)) for axis in (1, 0))
    own = (slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1))
    return ink[own], colour[own]


@functools.lru_cache(maxsize=512)
def _glyph(size: float, letter: str) -> tuple[Ink, int]:
    """One letter's ink, as wide as the letter advances, and the row at which it begins."""
    image, draw, font = _pillow()
    try:
        face = font.load_default(max(size, 1.0))
    except (ImportError, OSError):
        raise ModelError(
            "a watermark needs a Pillow that can draw letters (with FreeType); install its wheel"
        ) from None
    _, top, right, bottom = face.getbbox(letter)
    width, height = max(round(face.getlength(letter)), int(np.ceil(right)), 1), max(int(np.ceil(bottom)), 1)
    canvas: Any = image.new("L", (width, height), 0)
    draw.Draw(canvas).text((0, 0), letter, fill=255, font=face)
    first = max(int(np.floor(top)), 0)
    return np.asarray(canvas, dtype=np.float64)[first:] / 255, first


def _pillow() -> tuple[Any, Any, Any]:
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ImportError:
        raise ModelError("pictures need Pillow, which is not installed: pip install 'rationales[images]'") from None
    return Image, ImageDraw, ImageFont
