"""A watermark at a random position in a box: "IMG" in white, four digits in black (Zhou et al. 2022, B.1)."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rationales.errors import ModelError, OptionError
from rationales.groundtruth.plants.box_plants import BoxPlant
from rationales.groundtruth.plants.image_plants import REFERENCE_SIDE, scale

if TYPE_CHECKING:
    from typing_extensions import Self

Ink = NDArray[np.float64]  # (rows, columns) in [0, 1]: the opacity of each pixel
WHITE, BLACK = "IMG", "0123456789"
N_DIGITS = 4


@dataclass(frozen=True)
class Watermark(BoxPlant):
    """A text at a random position in a box; the region is the entire box."""

    name: ClassVar[str] = "watermark"
    summary: ClassVar[str] = "IMG and four random digits are written at a random position in a box"
    visibility_field: ClassVar[str] = "font"
    levels: ClassVar[tuple[float, ...]] = (7, 9, 11, 13, 15)

    font: float = 11.0  # font size

    @classmethod
    def sample(cls, rng: np.random.Generator) -> Self:
        height, width = float(rng.uniform(40, 200)), float(rng.uniform(100, 200))
        top, left = float(rng.uniform(0, REFERENCE_SIDE - height)), float(rng.uniform(0, REFERENCE_SIDE - width))
        return cls(top, left, height, width, font=float(rng.uniform(cls.levels[0], cls.levels[-1])))

    def change(self, pixels: NDArray[np.uint8], rngs: Sequence[np.random.Generator]) -> NDArray[np.uint8]:
        top, bottom, left, right = self.box(*pixels.shape[1:3])
        size = self.font * scale(*pixels.shape[1:3])
        changed = pixels.copy()
        for image, rng in zip(changed, rngs, strict=True):
            ink, colour = render_text(size, rng.integers(0, 10, N_DIGITS).tolist())
            rows, columns = bottom - top - ink.shape[0], right - left - ink.shape[1]
            if min(rows, columns) < 0:
                raise OptionError(
                    f"watermark: letters of {self.font:g} need {ink.shape[1]} × {ink.shape[0]} pixels here, the box "
                    f"has {right - left} × {bottom - top}; make the box larger or the font smaller"
                )
            y, x = top + int(rng.integers(0, rows + 1)), left + int(rng.integers(0, columns + 1))
            patch = image[y : y + ink.shape[0], x : x + ink.shape[1]]
            patch[:] = np.rint(patch + ink[..., None] * (colour[..., None] - patch)).astype(np.uint8)
        return changed


def render_text(size: float, digits: Sequence[int]) -> tuple[Ink, Ink]:
    """The opacity and the colour (255 or 0) of each pixel of the text, without empty rows and columns at its edges."""
    letters = [*WHITE, *(BLACK[digit] for digit in digits)]
    glyphs, tops = zip(*(_glyph(size, letter) for letter in letters), strict=True)
    first, last = min(tops), max(top + glyph.shape[0] for top, glyph in zip(tops, glyphs, strict=True))
    width = sum(glyph.shape[1] for glyph in glyphs)
    ink, colour = np.zeros((last - first, width)), np.zeros((last - first, width))
    left = 0
    for letter, glyph, top in zip(letters, glyphs, tops, strict=True):
        right = left + glyph.shape[1]
        ink[top - first : top - first + glyph.shape[0], left:right] = glyph
        colour[:, left:right] = 255.0 if letter in WHITE else 0.0
        left = right
    rows, columns = (np.flatnonzero(ink.any(axis)) for axis in (1, 0))
    inked = (slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1))
    return ink[inked], colour[inked]


@functools.lru_cache(maxsize=512)
def _glyph(size: float, letter: str) -> tuple[Ink, int]:
    """The ink of one letter, as wide as its advance, and its first row."""
    image, draw, font = _pillow()
    try:
        face = font.load_default(max(size, 1.0))
    except (ImportError, OSError):
        raise ModelError("a watermark needs Pillow with FreeType support; install Pillow from its wheel") from None
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
        raise ModelError("images need Pillow, which is not installed: pip install 'rationales[images]'") from None
    return Image, ImageDraw, ImageFont
