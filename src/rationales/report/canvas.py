"""The rationale of an image as pixels: the original, a heat map over it, and the cut-out.

Pillow (`pip install 'rationales[images]'`) is imported when the first image is drawn.
"""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rationales.errors import ModelError, OptionError
from rationales.rationale import Grid, Rationale, Spectrogram
from rationales.report.scale import Scale, scale_of
from rationales.report.wording import count, input_size, percent, unit_name

if TYPE_CHECKING:
    from PIL import Image

MAX_SIDE = 512  # pixels of a panel's longer side
MIN_SIDE = 256  # a smaller image is enlarged by an integer factor to about this longer side
OPACITY = 0.8  # default opacity of the heat map
DIM = 0.4  # share of its brightness that the image loses under a heat map of full opacity
MAX_OUTLINE = 0.1  # largest share of the pixels that an outline may cover
PALE, FADE = 236, 0.82  # the grey blended over unselected pixels of the cut-out, and its opacity
MISSING_GREY = 150  # stands for an image that was not saved

# Colours at rising strength; lightness rises with it, so that the order is visible without hue.
_STOPS = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
_FOR = np.array([(84, 44, 4), (152, 84, 8), (214, 126, 12), (245, 166, 35), (255, 206, 96)])
_AGAINST = np.array([(6, 30, 84), (14, 72, 152), (37, 110, 214), (86, 156, 255), (170, 208, 255)])
_ALPHA = np.array([0.0, 0.55, 0.8, 0.93, 1.0])
_LUMINANCE = np.array([0.2126, 0.7152, 0.0722])  # the weights of CSS's grayscale()


@dataclass(frozen=True, eq=False)
class Canvas:
    """A rationale at display size."""

    original: np.ndarray  # (h, w, 3) uint8
    scores: np.ndarray  # (h, w) float32, finite
    selected: np.ndarray  # (h, w) bool
    scale: Scale

    def heat(self, opacity: float = OPACITY, outline: bool = False) -> np.ndarray:
        """(h, w, 3): the scores as colours over the greyed image.

        `outline`: with a line around the selection, unless it is so scattered that lines would hide the scores.
        """
        base = self.original.astype(np.float32)
        base += opacity * ((base @ _LUMINANCE.astype(np.float32))[..., None] - base)
        base *= 1 - DIM * opacity
        colours = ramp(self.scale.strength(self.scores))
        alpha = opacity * colours[..., 3:]
        blended = base * (1 - alpha) + colours[..., :3] * alpha
        if outline:
            inside, outside = edges(self.selected)
            if inside.mean() <= MAX_OUTLINE:
                blended[outside] *= 0.4
                blended[inside] = 255
        return _bytes(blended)

    def cutout(self) -> np.ndarray:
        """(h, w, 3): the selected pixels unchanged, all others faded."""
        grey = (self.original @ _LUMINANCE)[..., None]
        return np.where(self.selected[..., None], self.original, _bytes(PALE * FADE + grey * (1 - FADE)))


def canvas(rationale: Rationale, max_side: int = MAX_SIDE, min_side: int = MIN_SIDE) -> Canvas:
    """The rationale reduced to `max_side` pixels on its longer side; a tiny one enlarged to about `min_side`."""
    grid = grid_of(rationale)
    size = (grid.height, grid.width)
    scale = scale_of(rationale)
    pixels = rationale.image if rationale.image is not None else np.full((*size, 3), MISSING_GREY, dtype=np.uint8)
    scores, selected = finite(rationale, scale).reshape(size), rationale.selected().reshape(size)
    longer = max(size)
    if longer > max_side:
        height, width = (max(1, round(side * max_side / longer)) for side in size)
        return Canvas(
            np.asarray(image_of(pixels).resize((width, height), pillow().Resampling.LANCZOS)),
            _averaged(scores, height, width),
            _averaged(selected.astype(np.float32), height, width) > 0.5,
            scale,
        )
    factor = enlargement(grid, min_side)
    return Canvas(_enlarged(pixels, factor), _enlarged(scores, factor), _enlarged(selected, factor), scale)


def enlargement(grid: Grid, min_side: int) -> int:
    """The integer factor by which a small image is enlarged."""
    return max(1, min_side // max(grid.height, grid.width))


def ramp(strength: np.ndarray) -> np.ndarray:
    """(..., 4): red, green and blue up to 255 and opacity up to 1 for a strength in [-1, 1]."""
    magnitude = np.abs(strength)
    channels = [
        np.where(strength < 0, np.interp(magnitude, _STOPS, against), np.interp(magnitude, _STOPS, towards))
        for towards, against in zip(_FOR.T, _AGAINST.T, strict=True)
    ]
    return np.stack([*channels, np.interp(magnitude, _STOPS, _ALPHA)], axis=-1).astype(np.float32)


def edges(selected: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two (h, w) boolean masks: selected pixels with an unselected neighbour, and the reverse."""

    def touches(mask: np.ndarray) -> np.ndarray:
        beside = np.zeros_like(mask)
        beside[1:] |= mask[:-1]
        beside[:-1] |= mask[1:]
        beside[:, 1:] |= mask[:, :-1]
        beside[:, :-1] |= mask[:, 1:]
        return beside

    return selected & touches(~selected), ~selected & touches(selected)


def finite(rationale: Rationale, scale: Scale) -> np.ndarray:
    """(n,) float32: the scores with NaN replaced by 0 and infinities by the ends of the scale."""
    return np.nan_to_num(rationale.scores.astype(np.float32), nan=0.0, posinf=scale.high, neginf=scale.low)


def grid_of(rationale: Rationale) -> Grid:
    """The grid of an image's rationale; an OptionError for a text or a sound."""
    if not isinstance(rationale.units, Grid):
        raise OptionError("a text cannot be drawn as an image; write a page with to_html")
    return rationale.units


def captions(rationale: Rationale) -> tuple[str, str, str]:
    """The captions of the original, the heat map and the cut-out."""
    grid, selected = grid_of(rationale), int(rationale.selected().sum())
    if rationale.image is None:
        original = "The image was not saved"
    elif isinstance(grid, Spectrogram):
        original = input_size(rationale).capitalize()
    else:
        original = f"Image, {grid.width} by {grid.height}"
    unit = unit_name(rationale)
    return original, "Scores", f"Rationale, {percent(selected / max(len(grid), 1))} of {count(len(grid), unit)}"


def data_uri(pixels: np.ndarray, lossless: bool = False) -> str:
    """(h, w, 3) or (h, w) uint8, or (h, w) bool, as a data: URI."""
    kind, options = ("png", {"optimize": True}) if lossless else ("jpeg", {"quality": 88})
    content = encoded(image_of(pixels), kind.upper(), **options)
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    """The bytes of an image file of this kind (PNG, JPEG)."""
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def _averaged(values: np.ndarray, height: int, width: int) -> np.ndarray:
    """(height, width): the mean over the area of each new pixel."""
    return np.asarray(image_of(values).resize((width, height), pillow().Resampling.BOX))


def _enlarged(values: np.ndarray, factor: int) -> np.ndarray:
    return values.repeat(factor, 0).repeat(factor, 1)


def image_of(values: np.ndarray) -> Image.Image:
    """A Pillow image of an array."""
    image: Image.Image = pillow().fromarray(np.ascontiguousarray(values))
    return image


def _bytes(values: np.ndarray) -> np.ndarray:
    rounded: np.ndarray = np.clip(np.rint(values), 0, 255).astype(np.uint8)
    return rounded


def pillow() -> Any:
    """`PIL.Image`, or a ModelError that says how to install Pillow."""
    try:
        from PIL import Image
    except ImportError:
        raise ModelError("images need Pillow, which is not installed: pip install 'rationales[images]'") from None
    return Image
