"""Changes of colour with exact regions: a dimmed centre and a band of shifted hue (Zhou et al. 2022, appendix B.1).

Colours are taken as hue, saturation and value, each in [0, 1]; value is the largest of red, green and blue.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from rationales.errors import OptionError
from rationales.groundtruth.image_plants import ImagePlant, Stripe, distance, positive, scale
from rationales.groundtruth.regions import Mask

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True)
class Brightness(ImagePlant):
    """The centre is dimmed, most in the middle and ever less towards the rim: value - shift x cos²(pi d / 2 radius)."""

    name: ClassVar[str] = "brightness"
    summary: ClassVar[str] = "the centre of the picture is dimmed, fading towards a circle"
    visible: ClassVar[str] = "shift"
    levels: ClassVar[tuple[float, ...]] = (0.1, 0.15, 0.2, 0.25, 0.3)

    radius: float = 75.0
    shift: float = 0.3  # of the value, at the centre

    def __post_init__(self) -> None:
        positive(self.name, radius=self.radius, shift=self.shift)
        if self.shift > 1:
            raise OptionError(f"brightness: the shift lies between 0 and 1, not {self.shift}")

    @classmethod
    def drawn(cls, rng: np.random.Generator) -> Self:
        return cls(radius=float(rng.uniform(40, 112)))

    def region(self, height: int, width: int) -> Mask:
        """The disc; at its very rim the shift is less than half a step of brightness, and nothing changes."""
        inside: Mask = distance(height, width) < self.radius * scale(height, width)
        return inside

    def change(self, pixels: NDArray[np.uint8], rngs: Sequence[np.random.Generator]) -> NDArray[np.uint8]:
        height, width = pixels.shape[1:3]
        radius, inside = self.radius * scale(height, width), self.region(height, width)
        fall = self.shift * np.cos(0.5 * np.pi * distance(height, width)[inside] / radius) ** 2  # (inside,)
        before = pixels[:, inside].astype(np.float64)  # (N, inside, 3)
        value = _over_colours(np.maximum, before)
        after = np.maximum(value - 255 * fall, 0)
        # hue and saturation stay when all three colours are multiplied with the same number
        share = np.divide(after, value, out=np.zeros_like(value), where=value > 0)
        made = pixels.copy()
        made[:, inside] = np.rint(before * share[..., None]).astype(np.uint8)
        return made


@dataclass(frozen=True)
class StripedHue(Stripe):
    """From top to bottom of the band the hue is first raised and then lowered: hue + shift x sin(2 pi row / rows)."""

    name: ClassVar[str] = "hue"
    summary: ClassVar[str] = "the hue of a band of rows is shifted, up and then down along a sine"
    visible: ClassVar[str] = "shift"
    levels: ClassVar[tuple[float, ...]] = (0.05, 0.1, 0.15, 0.2, 0.25)

    shift: float = 0.15  # of the hue, at most; 1 is once around the circle

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shift > 0.5:
            raise OptionError(f"hue: the shift lies between 0 and 0.5, half of the circle; not {self.shift}")

    @classmethod
    def drawn(cls, rng: np.random.Generator) -> Self:
        return cls(**cls.band(rng), shift=float(rng.uniform(cls.levels[0], cls.levels[-1])))

    def change(self, pixels: NDArray[np.uint8], rngs: Sequence[np.random.Generator]) -> NDArray[np.uint8]:
        first, last = self.rows(pixels.shape[1])
        turn = self.shift * np.sin(2 * np.pi * (np.arange(last - first) + 0.5) / (last - first))
        made = pixels.copy()
        made[:, first:last] = with_hue_turned(pixels[:, first:last], turn[:, None])
        return made


def with_hue_turned(pixels: NDArray[np.uint8], turn: NDArray[np.float64]) -> NDArray[np.uint8]:
    """(..., 3) uint8 with `turn` (...) added to the hue, saturation and value unchanged; 1 is once around the circle.

    With n in sixths of the circle, a colour is value - spread x clip(min(k, 4 - k), 0, 1), k = (n + hue) mod 6, where n
    is 5 for red, 3 for green and 1 for blue.
    """
    colours = pixels.astype(np.float64)
    red, green, blue = (colours[..., one] for one in range(3))
    value = _over_colours(np.maximum, colours)
    spread = value - _over_colours(np.minimum, colours)
    with np.errstate(invalid="ignore", divide="ignore"):
        around = np.select(
            [spread == 0, value == red, value == green],
            [np.zeros_like(value), (green - blue) / spread, 2 + (blue - red) / spread],
            4 + (red - green) / spread,
        )
    around = around + 6 * turn
    made = np.empty_like(colours)
    for colour, offset in enumerate((5, 3, 1)):
        k = (offset + around) % 6
        made[..., colour] = value - spread * np.clip(np.minimum(k, 4 - k), 0, 1)
    return np.rint(made).astype(np.uint8)


def _over_colours(extreme: np.ufunc, colours: NDArray[np.float64]) -> NDArray[np.float64]:
    """(..., 3) -> (...): the largest or smallest of the three; reducing so short an axis takes many times as long."""
    found: NDArray[np.float64] = extreme(extreme(colours[..., 0], colours[..., 1]), colours[..., 2])
    return found
