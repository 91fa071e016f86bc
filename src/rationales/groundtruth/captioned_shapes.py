"""Small pictures of coloured shapes with captions, drawn by this module: does the caption fit the picture?

A picture has two shapes of different colours in two of its four quarters, on a noisy grey ground. A caption names a
colour and a shape among words that say nothing. It fits if the picture has that shape in that colour. A caption that
does not fit names a colour and a shape of the picture in a combination that is not there, or one that is there with
another colour or shape, so that neither the words nor the picture alone tell whether the two fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rationales.data.example import Extent

SIDE = 32  # pixels
LABELS = ("no match", "match")
COLOURS = {"red": (220, 40, 40), "green": (40, 180, 60), "blue": (50, 80, 220), "yellow": (230, 210, 50)}
SHAPES = ("circle", "square", "triangle")
GROUND, NOISE = (110, 150), 12  # range of the grey ground, and the size of the noise on it
TEMPLATES = (
    "a {figure}",
    "there is a {figure}",
    "a picture of a {figure}",
    "we see a {figure} here",
    "somewhere in it a {figure}",
    "this one shows a {figure}",
)


@dataclass(frozen=True)
class Figure:
    """A shape of one colour in a quarter of the picture."""

    colour: str
    shape: str
    quarter: int  # 0: top left, 1: top right, 2: bottom left, 3: bottom right

    @property
    def title(self) -> str:
        """'red circle'."""
        return f"{self.colour} {self.shape}"


@dataclass(frozen=True, eq=False)
class CaptionedPicture:
    """A picture, its caption and whether they fit."""

    name: str
    pixels: NDArray[np.uint8]  # (SIDE, SIDE, 3)
    caption: str
    label: int  # index in LABELS
    named: NDArray[np.bool_]  # (SIDE, SIDE) the shape that the caption names; nothing where there is none
    words: tuple[Extent, ...]  # the colour and the shape in the caption


def captioned_pictures(count: int, seed: int = 0) -> list[CaptionedPicture]:
    """So many pictures with captions, every second one fitting; each depends on its number and the seed alone."""
    return [_captioned_picture(number, seed) for number in range(count)]


def _captioned_picture(number: int, seed: int) -> CaptionedPicture:
    rng = np.random.default_rng([seed, number])
    colours = rng.choice(list(COLOURS), 2, replace=False).tolist()
    quarters = rng.choice(4, 2, replace=False).tolist()
    shapes = rng.choice(SHAPES, 2).tolist()
    figures = [Figure(*values) for values in zip(colours, shapes, quarters, strict=True)]
    label = number % 2
    named = figures[int(rng.integers(2))].title if label else _absent(figures, rng)
    template = TEMPLATES[int(rng.integers(len(TEMPLATES)))]
    caption = template.format(figure=named)
    start = caption.index(named)
    colour = named.split()[0]
    extents = ((start, start + len(colour)), (start + len(colour) + 1, start + len(named)))
    pixels, masks = _draw(figures, rng)
    region = np.zeros((SIDE, SIDE), dtype=bool)
    for figure, mask in zip(figures, masks, strict=True):
        region |= mask & (figure.title == named)
    return CaptionedPicture(f"picture {number}", pixels, caption, label, region, extents)


def _absent(figures: Sequence[Figure], rng: np.random.Generator) -> str:
    """A colour and a shape that no figure of the picture has together; half of the time both are in the picture."""
    present = {figure.title for figure in figures}
    figure, neighbour = figures if rng.integers(2) else figures[::-1]
    crossed = f"{figure.colour} {neighbour.shape}"
    if crossed not in present and rng.random() < 0.5:
        return crossed
    candidates = [
        *(f"{colour} {figure.shape}" for colour in COLOURS),
        *(f"{figure.colour} {shape}" for shape in SHAPES),
    ]
    absent = [title for title in candidates if title not in present]
    return absent[int(rng.integers(len(absent)))]


def _draw(figures: Sequence[Figure], rng: np.random.Generator) -> tuple[NDArray[np.uint8], list[NDArray[np.bool_]]]:
    """The picture, and the pixels of each figure."""
    grey = rng.integers(*GROUND) + rng.normal(0, NOISE, (SIDE, SIDE, 1)).repeat(3, 2)
    masks = [_mask(figure, rng) for figure in figures]
    for figure, mask in zip(figures, masks, strict=True):
        grey[mask] = np.array(COLOURS[figure.colour]) + rng.normal(0, NOISE / 2, (int(mask.sum()), 1))
    return np.clip(np.rint(grey), 0, 255).astype(np.uint8), masks


def _mask(figure: Figure, rng: np.random.Generator) -> NDArray[np.bool_]:
    """(SIDE, SIDE) bool: the pixels of the shape, in the middle of its quarter or a pixel beside it."""
    half = SIDE // 2
    size = half - 2
    top, left = (1 + int(rng.integers(-1, 2)) + half * half_number for half_number in divmod(figure.quarter, 2))
    rows, columns = np.mgrid[:SIDE, :SIDE]
    inside: NDArray[np.bool_] = (rows >= top) & (rows < top + size) & (columns >= left) & (columns < left + size)
    y, x = rows - top - (size - 1) / 2, columns - left - (size - 1) / 2
    if figure.shape == "circle":
        inside &= x**2 + y**2 <= (size / 2) ** 2
    elif figure.shape == "triangle":
        inside &= np.abs(x) <= (y + size / 2) / 2
    return inside
