"""Manipulations of images with exact regions (Zhou et al. 2022, appendix B.1): peripheral blur and striped noise.

Lengths refer to an image of 224 x 224 pixels, as in the paper, and scale with the image: rows with its height, columns
with its width, radii, blurs and letters with its short side. The region holds every pixel that a manipulation can
change, for all random draws and levels of visibility; pixels outside are unchanged to the bit.
"""

from __future__ import annotations

import functools
import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from rationales.data.example import Example
from rationales.errors import DataError, OptionError
from rationales.groundtruth.image_examples import ImageExample, Pixels, read_pixels
from rationales.groundtruth.plants.plant import Plant, PlantedExample
from rationales.groundtruth.plants.regions import Mask, union_region

if TYPE_CHECKING:
    from typing_extensions import Self

REFERENCE_SIDE = 224  # pixels; the image size that parameters refer to
CHUNK = 64  # images changed at once: larger blocks do not fit the processor's caches


@dataclass(frozen=True)
class ImagePlant(Plant):
    """Base class of plants for images: changes the images of class 1 and leaves those of class 0 unchanged."""

    kind: ClassVar[str] = "image"
    visibility_field: ClassVar[str]  # name of the parameter that sets the visibility
    levels: ClassVar[tuple[float, ...]]  # its values, least visible first (appendix B.5)

    @abstractmethod
    def region(self, height: int, width: int) -> Mask:
        """(height, width) bool: the pixels that can change; the same for every level of visibility."""

    @abstractmethod
    def change(self, pixels: NDArray[np.uint8], rngs: Sequence[np.random.Generator]) -> NDArray[np.uint8]:
        """(N, h, w, 3) -> (N, h, w, 3): the changed images; each has its own generator."""

    def change_all(self, pixels: NDArray[np.uint8], rngs: Sequence[np.random.Generator]) -> NDArray[np.uint8]:
        """`change` for any number of images, in chunks."""
        chunks = (slice(start, start + CHUNK) for start in range(0, len(pixels), CHUNK))
        return np.concatenate([self.change(pixels[chunk], rngs[chunk]) for chunk in chunks])

    @classmethod
    @abstractmethod
    def sample(cls, rng: np.random.Generator) -> Self:
        """Draw the position, the size and the strength of a plant from the ranges of the paper."""

    def at_level(self, level: int) -> Self:
        """The same plant at visibility 1 (hardly visible) to 5."""
        if not 1 <= level <= len(self.levels):
            raise OptionError(f"levels of visibility are 1 to {len(self.levels)}, not {level}")
        return replace(self, **{self.visibility_field: self.levels[level - 1]})

    def apply(self, example: Example, rng: np.random.Generator, manipulation: int = 1) -> PlantedExample:
        return self.apply_all([example], [rng], [manipulation])[0]

    def apply_all(
        self, examples: Sequence[Example], rngs: Sequence[np.random.Generator], manipulations: Sequence[int]
    ) -> list[PlantedExample]:
        """`apply` for many images; those of one size are changed together."""
        originals = [read_pixels(example) for example in examples]
        results = list(originals)
        selected = [self.check_manipulation(manipulation) == 1 for manipulation in manipulations]
        for indices in _group_by_shape([pixels.shape for pixels in originals], selected):
            changed = self.change_all(np.stack([originals[i] for i in indices]), [rngs[i] for i in indices])
            changed.flags.writeable = False
            for i, pixels in zip(indices, changed, strict=True):
                results[i] = pixels
        return [
            planted_image(example, old, new, _cached_region(self, *old.shape[:2]), manipulation)
            for example, old, new, manipulation in zip(examples, originals, results, manipulations, strict=True)
        ]


@dataclass(frozen=True)
class PerClass(Plant):
    """A different plant for each class, None for no change; the joint region is the union of theirs (section 4)."""

    name: ClassVar[str] = "per-class"
    summary: ClassVar[str] = "a different manipulation of images for each class; the region is the union of all"
    kind: ClassVar[str] = "image"

    plants: tuple[ImagePlant | None, ...]

    def __post_init__(self) -> None:
        if len(self.plants) < 2 or all(plant is None for plant in self.plants):
            raise OptionError("per-class needs two manipulations or more, one of them a plant")
        if len(set(self.plants)) < len(self.plants):
            raise OptionError("per-class needs a different manipulation for each class; two of these are the same")

    @property
    def n_classes(self) -> int:
        return len(self.plants)

    def region(self, height: int, width: int) -> Mask:
        """(height, width) bool: the union of the regions of all manipulations."""
        union = union_region([plant.region(height, width) for plant in self.plants if plant is not None])
        return np.asarray(union, dtype=bool)

    def apply(self, example: Example, rng: np.random.Generator, manipulation: int = 1) -> PlantedExample:
        old = read_pixels(example)
        plant = self.plants[self.check_manipulation(manipulation)]
        new = old if plant is None else plant.change(old[None], [rng])[0]
        return planted_image(example, old, new, _cached_region(self, *old.shape[:2]), manipulation)


@dataclass(frozen=True)
class Blur(ImagePlant):
    """A Gaussian blur outside a circle around the centre."""

    name: ClassVar[str] = "blur"
    summary: ClassVar[str] = "the image is blurred outside a circle around its centre"
    visibility_field: ClassVar[str] = "std"
    levels: ClassVar[tuple[float, ...]] = (2, 4, 6, 8, 10)

    radius: float = 100.0  # of the circle that stays sharp
    std: float = 2.0  # of the Gaussian

    def __post_init__(self) -> None:
        check_positive(self.name, radius=self.radius, std=self.std)

    @classmethod
    def sample(cls, rng: np.random.Generator) -> Self:
        return cls(radius=float(rng.uniform(80, 130)))

    def region(self, height: int, width: int) -> Mask:
        outside: Mask = distance_to_centre(height, width) >= self.radius * scale(height, width)
        return outside

    def change(self, pixels: NDArray[np.uint8], rngs: Sequence[np.random.Generator]) -> NDArray[np.uint8]:
        height, width = pixels.shape[1:3]
        std = self.std * scale(height, width)
        vertical, horizontal = _gaussian(height, std), _gaussian(width, std)
        # One matrix product for each channel of each image: the same bits alone and in any batch.
        blurred = vertical @ pixels.transpose(0, 3, 1, 2).astype(np.float64) @ horizontal.T
        rounded = np.rint(blurred).astype(np.uint8).transpose(0, 2, 3, 1)
        return np.where(_cached_region(self, height, width)[..., None], rounded, pixels)


@dataclass(frozen=True)
class Stripe(ImagePlant):
    """Base class of plants that change a band of rows over the full width."""

    top: float = 72.0  # the first row of the band
    bottom: float = 152.0  # the first row below it

    def __post_init__(self) -> None:
        if not 0 <= self.top < self.bottom <= REFERENCE_SIDE:
            raise OptionError(
                f"{self.name}: the band is 0 <= top < bottom <= {REFERENCE_SIDE}, not {self.top} to {self.bottom}"
            )
        check_positive(self.name, **{self.visibility_field: getattr(self, self.visibility_field)})

    def rows(self, height: int) -> tuple[int, int]:
        """The first row of the band and the first below it, in an image of this height; at least one row."""
        first = min(round(self.top * height / REFERENCE_SIDE), height - 1)
        return first, max(round(self.bottom * height / REFERENCE_SIDE), first + 1)

    def region(self, height: int, width: int) -> Mask:
        first, last = self.rows(height)
        inside = np.zeros((height, width), dtype=bool)
        inside[first:last] = True
        return inside

    @classmethod
    def sample(cls, rng: np.random.Generator) -> Self:
        """Draw a band of 20 to 224 rows and its visibility."""
        height = rng.uniform(20, REFERENCE_SIDE)
        top = rng.uniform(0, REFERENCE_SIDE - height)
        visibility = {cls.visibility_field: float(rng.uniform(cls.levels[0], cls.levels[-1]))}
        return cls(top=float(top), bottom=float(min(top + height, REFERENCE_SIDE)), **visibility)


@dataclass(frozen=True)
class StripedNoise(Stripe):
    """Random pixels of the band get random colours."""

    name: ClassVar[str] = "noise"
    summary: ClassVar[str] = "random pixels in a band of rows get random colours"
    visibility_field: ClassVar[str] = "share"
    levels: ClassVar[tuple[float, ...]] = (0.02, 0.04, 0.06, 0.08, 0.1)

    share: float = 0.06  # of the band's pixels, in expectation

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.share > 1:
            raise OptionError(f"noise: the share of replaced pixels lies between 0 and 1, not {self.share}")

    def change(self, pixels: NDArray[np.uint8], rngs: Sequence[np.random.Generator]) -> NDArray[np.uint8]:
        first, last = self.rows(pixels.shape[1])
        changed = pixels.copy()
        for image, rng in zip(changed, rngs, strict=True):
            band = image[first:last]
            replaced = rng.random(band.shape[:2]) < self.share
            band[replaced] = rng.integers(0, 256, (int(replaced.sum()), 3), dtype=np.uint8)
        return changed


def planted_image(example: Example, old: Pixels, new: Pixels, region: Mask, manipulation: int) -> PlantedExample:
    """The planted example of an image, from its pixels before and after the manipulation."""
    changed: Mask = (old != new).any(-1)
    planted = ImageExample(example.name, label=example.label, image=example.image, meta=example.meta, pixels=new)
    return PlantedExample(planted, region, changed, _empty_mask(*region.shape), manipulation)


def scale(height: int, width: int) -> float:
    """The factor of radii, blurs and letters relative to an image of 224 x 224."""
    return min(height, width) / REFERENCE_SIDE


@functools.lru_cache(maxsize=8)
def distance_to_centre(height: int, width: int) -> NDArray[np.float64]:
    """(height, width): the distance of each pixel from the centre of the image, in pixels."""
    y = np.arange(height) + 0.5 - height / 2
    x = np.arange(width) + 0.5 - width / 2
    distances: NDArray[np.float64] = np.hypot(y[:, None], x[None])
    return distances


def check_positive(name: str, **values: float) -> None:
    """Raise an OptionError unless all of these parameters are positive and finite."""
    for parameter, value in values.items():
        if not 0 < value < math.inf:
            raise OptionError(f"{name}: {parameter} must be greater than 0, not {value}")


@functools.lru_cache(maxsize=64)
def _cached_region(plant: ImagePlant | PerClass, height: int, width: int) -> Mask:
    """The region of the plant, computed once per image size."""
    region = plant.region(height, width)
    if not region.any():
        raise DataError(f"{plant} touches no pixel of an image of {width} × {height}; make it larger")
    region.flags.writeable = False
    return region


@functools.lru_cache(maxsize=8)
def _empty_mask(height: int, width: int) -> Mask:
    empty = np.zeros((height, width), dtype=bool)
    empty.flags.writeable = False
    return empty


@functools.lru_cache(maxsize=16)
def _gaussian(size: int, std: float) -> NDArray[np.float64]:
    """(size, size): the matrix of a Gaussian blur along one axis, with the image mirrored at its borders."""
    positions = np.arange(size)
    matrix = np.zeros((size, size))
    reach = max(1, math.ceil(4 * std))
    offsets = np.arange(-reach, reach + 1)
    weights = np.exp(-0.5 * (offsets / std) ** 2)
    for offset, weight in zip(offsets, weights / weights.sum(), strict=True):
        source = (positions + offset) % (2 * size)
        matrix[positions, np.minimum(source, 2 * size - 1 - source)] += weight  # -1 -> 0, size -> size - 1
    return matrix


def _group_by_shape(shapes: Sequence[tuple[int, ...]], selected: Sequence[bool]) -> list[list[int]]:
    """The indices of the selected images, grouped by image size."""
    by_shape: dict[tuple[int, ...], list[int]] = {}
    for index, (shape, is_selected) in enumerate(zip(shapes, selected, strict=True)):
        if is_selected:
            by_shape.setdefault(shape, []).append(index)
    return list(by_shape.values())
