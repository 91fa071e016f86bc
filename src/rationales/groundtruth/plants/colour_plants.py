"""Manipulations of colour with exact regions: a dimmed centre, a band of shifted hue and a tinted corner.

The first two are those of Zhou et al. (2022, B.1); the tinted corner is not in the paper.

Colours are in HSV: hue, saturation and value, each in [0, 1]; value is the maximum of red, green and blue.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from rationales.errors import OptionError
from rationales.groundtruth.plants.image_plants import ImagePlant, Stripe, check_positive, distance_to_centre, scale
from rationales.groundtruth.plants.regions import Mask

if TYPE_CHECKING:
    from typing_extensions import Self

CORNERS = ("top-left", "top-right", "bottom-left", "bottom-right")


@dataclass(frozen=True)
class Brightness(ImagePlant):
    """A dimmed disc in the centre that fades towards its rim: value - shift x cos²(pi d / 2 radius)."""

    name: ClassVar[str] = "brightness"
    summary: ClassVar[str] = "a disc in the centre of the image is dimmed, fading towards its rim"
    visibility_field: ClassVar[str] = "shift"
    levels: ClassVar[tuple[float, ...]] = (0.1, 0.15, 0.2, 0.25, 0.3)

    radius: float = 75.0
    shift: float = 0.3  # decrease of the value at the centre

    def __post_init__(self) -> None:
        check_positive(self.name, radius=self.radius, shift=self.shift)
        if self.shift > 1:
            raise OptionError(f"brightness: the shift lies between 0 and 1, not {self.shift}")

    @classmethod
    def sample(cls, rng: np.random.Generator) -> Self:
        return cls(radius=float(rng.uniform(40, 112)))

    def region(self, height: int, width: int) -> Mask:
        """The disc; at its very rim the shift rounds to 0, and nothing changes."""
        inside: Mask = distance_to_centre(height, width) < self.radius * scale(height, width)
        return inside

    def change(self, pixels: NDArray[np.uint8], rngs: Sequence[np.random.Generator]) -> NDArray[np.uint8]:
        height, width = pixels.shape[1:3]
        radius, inside = self.radius * scale(height, width), self.region(height, width)
        distance = distance_to_centre(height, width)[inside]  # (inside,)
        decrease = self.shift * np.cos(0.5 * np.pi * distance / radius) ** 2
        old = pixels[:, inside].astype(np.float64)  # (N, inside, 3)
        value = _reduce_channels(np.maximum, old)
        new_value = np.maximum(value - 255 * decrease, 0)
        # Hue and saturation do not change when all three channels are multiplied by the same factor.
        factor = np.divide(new_value, value, out=np.zeros_like(value), where=value > 0)
        changed = pixels.copy()
        changed[:, inside] = np.rint(old * factor[..., None]).astype(np.uint8)
        return changed


@dataclass(frozen=True)
class StripedHue(Stripe):
    """A band of rows whose hue is shifted along a sine: hue + shift x sin(2 pi row / rows)."""

    name: ClassVar[str] = "hue"
    summary: ClassVar[str] = "the hue of a band of rows is shifted along a sine"
    visibility_field: ClassVar[str] = "shift"
    levels: ClassVar[tuple[float, ...]] = (0.05, 0.1, 0.15, 0.2, 0.25)

    shift: float = 0.15  # largest shift of the hue; 1 is the full colour circle

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shift > 0.5:
            raise OptionError(f"hue: the shift lies between 0 and 0.5, half of the circle; not {self.shift}")

    def change(self, pixels: NDArray[np.uint8], rngs: Sequence[np.random.Generator]) -> NDArray[np.uint8]:
        first, last = self.rows(pixels.shape[1])
        shifts = self.shift * np.sin(2 * np.pi * (np.arange(last - first) + 0.5) / (last - first))
        changed = pixels.copy()
        changed[:, first:last] = shift_hue(pixels[:, first:last], shifts[:, None])
        return changed


@dataclass(frozen=True)
class ColourCast(ImagePlant):
    """A quarter of a disc around one corner is tinted: colour + strength x (tint - colour)."""

    name: ClassVar[str] = "colour-cast"
    summary: ClassVar[str] = "one corner of the image has a colour cast"
    visibility_field: ClassVar[str] = "strength"
    levels: ClassVar[tuple[float, ...]] = (0.1, 0.15, 0.2, 0.25, 0.3)

    corner: str = "top-left"
    radius: float = 110.0
    hue: float = 0.08  # of the tint, a pure colour; 0 is red, 1/3 green, 2/3 blue
    strength: float = 0.2  # share of the tint in every pixel of the corner

    def __post_init__(self) -> None:
        check_positive(self.name, radius=self.radius, strength=self.strength)
        if self.corner not in CORNERS:
            raise OptionError(f"colour-cast: the corner is one of {', '.join(CORNERS)}, not {self.corner!r}")
        if self.strength > 1 or not 0 <= self.hue <= 1:
            raise OptionError(f"colour-cast: strength and hue lie between 0 and 1, not {self.strength} and {self.hue}")

    @classmethod
    def sample(cls, rng: np.random.Generator) -> Self:
        corner = CORNERS[int(rng.integers(len(CORNERS)))]
        strength = float(rng.uniform(cls.levels[0], cls.levels[-1]))
        return cls(corner, float(rng.uniform(70, 180)), float(rng.random()), strength)

    def region(self, height: int, width: int) -> Mask:
        inside: Mask = np.hypot(*(np.indices((height, width)) + 0.5)) < self.radius * scale(height, width)
        vertical, horizontal = self.corner.split("-")
        return inside[:: 1 if vertical == "top" else -1, :: 1 if horizontal == "left" else -1].copy()

    @property
    def tint(self) -> NDArray[np.float64]:
        """(3,): red, green and blue of the pure colour of this hue, 0 to 255."""
        colour: NDArray[np.float64] = 255 * np.clip(np.abs((6 * self.hue + np.array([0, 4, 2])) % 6 - 3) - 1, 0, 1)
        return colour

    def change(self, pixels: NDArray[np.uint8], rngs: Sequence[np.random.Generator]) -> NDArray[np.uint8]:
        inside = self.region(*pixels.shape[1:3])
        old = pixels[:, inside].astype(np.float64)  # (N, inside, 3)
        changed = pixels.copy()
        changed[:, inside] = np.rint(old + self.strength * (self.tint - old)).astype(np.uint8)
        return changed


def shift_hue(pixels: NDArray[np.uint8], shift: NDArray[np.float64]) -> NDArray[np.uint8]:
    """(..., 3) uint8: add `shift` (...) to the hue; saturation and value do not change. 1 is the full colour circle.

    With the hue in sixths of the circle, a channel is value - chroma x clip(min(k, 4 - k), 0, 1), k = (n + hue) mod 6,
    where n is 5 for red, 3 for green and 1 for blue.
    """
    colours = pixels.astype(np.float64)
    red, green, blue = (colours[..., channel] for channel in range(3))
    value = _reduce_channels(np.maximum, colours)
    chroma = value - _reduce_channels(np.minimum, colours)
    with np.errstate(invalid="ignore", divide="ignore"):
        hue = np.select(
            [chroma == 0, value == red, value == green],
            [np.zeros_like(value), (green - blue) / chroma, 2 + (blue - red) / chroma],
            4 + (red - green) / chroma,
        )
    hue = hue + 6 * shift
    shifted = np.empty_like(colours)
    for channel, offset in enumerate((5, 3, 1)):
        k = (offset + hue) % 6
        shifted[..., channel] = value - chroma * np.clip(np.minimum(k, 4 - k), 0, 1)
    return np.rint(shifted).astype(np.uint8)


def _reduce_channels(extreme: np.ufunc, colours: NDArray[np.float64]) -> NDArray[np.float64]:
    """(..., 3) -> (...): maximum or minimum over the channels; much faster than reducing such a short axis."""
    reduced: NDArray[np.float64] = extreme(extreme(colours[..., 0], colours[..., 1]), colours[..., 2])
    return reduced
