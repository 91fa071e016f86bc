"""Features that tell nothing: a white border around a random half of the images, beside a plant that tells the class.

Zhou et al. 2022, section 3: F_N is independent of the label. A model may react to it, but any reliance on it costs
accuracy, so that Attr%(F_N) should fall to 0 as a model learns. Whether an image has the border is drawn from its own
generator, before and independent of the manipulation; the border is the example's `distractors`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from rationales.data.example import Example
from rationales.errors import OptionError
from rationales.groundtruth.image_examples import ImageExample, read_pixels
from rationales.groundtruth.plants.image_plants import ImagePlant, StripedNoise, check_positive, scale
from rationales.groundtruth.plants.plant import PlantedExample
from rationales.groundtruth.plants.regions import Mask
from rationales.groundtruth.plants.watermark import Watermark

if TYPE_CHECKING:
    from typing_extensions import Self

WHITE = 255


@dataclass(frozen=True)
class BorderedPlant(ImagePlant):
    """A plant in images of which a random share has a white border; subclasses name the plant."""

    visibility_field: ClassVar[str] = "plant"
    levels: ClassVar[tuple[float, ...]] = (1, 2, 3, 4, 5)  # those of the plant

    plant: ImagePlant = field(default_factory=Watermark)
    border: float = 12.0  # pixels of an image of 224 x 224
    share: float = 0.5  # of the images that have the border

    def __post_init__(self) -> None:
        check_positive(self.name, border=self.border)
        if not 0 < self.share < 1:
            raise OptionError(f"{self.name}: the share of images with a border lies between 0 and 1, not {self.share}")

    def at_level(self, level: int) -> Self:
        return replace(self, plant=self.plant.at_level(level))

    def region(self, height: int, width: int) -> Mask:
        return self.plant.region(height, width)

    def border_region(self, height: int, width: int) -> Mask:
        """(height, width) bool: the border, without the pixels of the plant's region."""
        thickness = max(1, round(self.border * scale(height, width)))
        inside = np.zeros((height, width), dtype=bool)
        inside[thickness : height - thickness, thickness : width - thickness] = True
        return ~inside & ~self.region(height, width)

    def with_borders(self, pixels: NDArray[np.uint8], rngs: Sequence[np.random.Generator]) -> NDArray[np.uint8]:
        """(N, h, w, 3): a white border around a random `share` of the images; each is drawn from its own generator."""
        bordered = pixels.copy()
        selected = np.array([rng.random() < self.share for rng in rngs])
        mask = self.border_region(*pixels.shape[1:3])
        bordered[selected[:, None, None] & mask] = WHITE
        return bordered

    def change(self, pixels: NDArray[np.uint8], rngs: Sequence[np.random.Generator]) -> NDArray[np.uint8]:
        return self.plant.change(pixels, rngs)

    def apply_all(
        self, examples: Sequence[Example], rngs: Sequence[np.random.Generator], manipulations: Sequence[int]
    ) -> list[PlantedExample]:
        bordered = [
            ImageExample(
                example.name,
                label=example.label,
                image=example.image,
                meta=example.meta,
                pixels=self.with_borders(read_pixels(example)[None], [rng])[0],
            )
            for example, rng in zip(examples, rngs, strict=True)
        ]
        planted = super().apply_all(bordered, rngs, manipulations)
        return [
            replace(item, distractors=self.border_region(*read_pixels(example).shape[:2]))
            for item, example in zip(planted, bordered, strict=True)
        ]


@dataclass(frozen=True)
class BorderedWatermark(BorderedPlant):
    """A watermark tells the class, a white border nothing."""

    name: ClassVar[str] = "watermark-border"
    summary: ClassVar[str] = "a watermark, and a white border around a random half of the images that tells nothing"

    plant: ImagePlant = field(default_factory=Watermark)

    @classmethod
    def sample(cls, rng: np.random.Generator) -> Self:
        return cls(plant=Watermark.sample(rng))


@dataclass(frozen=True)
class BorderedNoise(BorderedPlant):
    """Striped noise tells the class, a white border nothing."""

    name: ClassVar[str] = "noise-border"
    summary: ClassVar[str] = "striped noise, and a white border around a random half of the images that tells nothing"

    plant: ImagePlant = field(default_factory=StripedNoise)

    @classmethod
    def sample(cls, rng: np.random.Generator) -> Self:
        return cls(plant=StripedNoise.sample(rng))
