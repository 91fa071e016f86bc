"""Changes of pictures with exact regions (Zhou et al. 2022, appendix B.1): peripheral blur and striped noise.

Lengths are those of a picture of 224 x 224 pixels, as in the paper, and scale with the picture: rows with its height,
columns with its width, radii, blurs and letters with its short side. The region says where a manipulation can act,
whatever is drawn and however visible it is; pixels outside are bit for bit the same.
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
from rationales.groundtruth.plant import Plant, Planted
from rationales.groundtruth.regions import Mask, joint
from rationales.groundtruth.shots import Pixels, Shot, pixels_of

if TYPE_CHECKING:
    from typing_extensions import Self

SIDE = 224  # pixels of the pictures that parameters speak of
AT_ONCE = 64  # pictures changed together: larger blocks leave the processor's caches


@dataclass(frozen=True)
class ImagePlant(Plant):
    """One change of the pictures of class 1; those of class 0 stay as they are."""

    kind: ClassVar[str] = "image"
    visible: ClassVar[str]  # the field that makes it more or less visible
    levels: ClassVar[tuple[float, ...]]  # of that field, least visible first (appendix B.5)

    @abstractmethod
    def region(self, height: int, width: int) -> Mask:
        """(height, width) bool: where the change can act; the same for every level of visibility."""

    @abstractmethod
    def change(self, pixels: NDArray[np.uint8], rngs: Sequence[np.random.Generator]) -> NDArray[np.uint8]:
        """(N, h, w, 3) -> (N, h, w, 3): the changed pictures; each draws from its own generator."""

    def change_all(self, pixels: NDArray[np.uint8], rngs: Sequence[np.random.Generator]) -> NDArray[np.uint8]:
        """The same for any number of pictures, some at a time."""
        starts = range(0, len(pixels), AT_ONCE)
        return np.concatenate([self.change(pixels[one : one + AT_ONCE], rngs[one : one + AT_ONCE]) for one in starts])

    @classmethod
    @abstractmethod
    def drawn(cls, rng: np.random.Generator) -> Self:
        """The plant of one run: where and how large it is, drawn from the paper's ranges."""

    def at(self, level: int) -> Self:
        """The same place at visibility 1 (hardly to be seen) to 5."""
        if not 1 <= level <= len(self.levels):
            raise OptionError(f"levels of visibility are 1 to {len(self.levels)}, not {level}")
        return replace(self, **{self.visible: self.levels[level - 1]})

    def apply(self, example: Example, rng: np.random.Generator, which: int = 1) -> Planted:
        return self.apply_all([example], [rng], [which])[0]

    def apply_all(
        self, examples: Sequence[Example], rngs: Sequence[np.random.Generator], which: Sequence[int]
    ) -> list[Planted]:
        """The same for many pictures; those of one size are changed together."""
        before = [pixels_of(example) for example in examples]
        after = list(before)
        for group in _groups([pixels.shape for pixels in before], [self.check_which(one) == 1 for one in which]):
            changed = self.change_all(np.stack([before[one] for one in group]), [rngs[one] for one in group])
            changed.flags.writeable = False
            for place, one in enumerate(group):
                after[one] = changed[place]
        return [
            planted_shot(example, old, new, _fixed(self, *old.shape[:2]), number)
            for example, old, new, number in zip(examples, before, after, which, strict=True)
        ]


@dataclass(frozen=True)
class PerClass(Plant):
    """Another change for each class, None for none; the joint region is the union of all of theirs (section 4)."""

    name: ClassVar[str] = "per-class"
    summary: ClassVar[str] = "another change of pictures for each class; the region is the union of all"
    kind: ClassVar[str] = "image"

    plants: tuple[ImagePlant | None, ...]

    def __post_init__(self) -> None:
        if len(self.plants) < 2 or all(one is None for one in self.plants):
            raise OptionError("per-class needs two manipulations or more, one of them a plant")
        if len(set(self.plants)) < len(self.plants):
            raise OptionError("per-class needs a manipulation of its own for each class; two of these are the same")

    @property
    def classes(self) -> int:
        return len(self.plants)

    def region(self, height: int, width: int) -> Mask:
        """(height, width) bool: the union of all manipulations' regions."""
        union = joint([one.region(height, width) for one in self.plants if one is not None])
        return np.asarray(union, dtype=bool)

    def apply(self, example: Example, rng: np.random.Generator, which: int = 1) -> Planted:
        old = pixels_of(example)
        chosen = self.plants[self.check_which(which)]
        new = old if chosen is None else chosen.change(old[None], [rng])[0]
        return planted_shot(example, old, new, _fixed(self, *old.shape[:2]), which)


@dataclass(frozen=True)
class Blur(ImagePlant):
    """A Gaussian blur outside of a circle around the centre."""

    name: ClassVar[str] = "blur"
    summary: ClassVar[str] = "the picture is blurred outside of a circle around its centre"
    visible: ClassVar[str] = "std"
    levels: ClassVar[tuple[float, ...]] = (2, 4, 6, 8, 10)

    radius: float = 100.0  # of what stays sharp
    std: float = 2.0  # of the Gaussian

    def __post_init__(self) -> None:
        positive(self.name, radius=self.radius, std=self.std)

    @classmethod
    def drawn(cls, rng: np.random.Generator) -> Self:
        return cls(radius=float(rng.uniform(80, 130)))

    def region(self, height: int, width: int) -> Mask:
        outside: Mask = distance(height, width) >= self.radius * scale(height, width)
        return outside

    def change(self, pixels: NDArray[np.uint8], rngs: Sequence[np.random.Generator]) -> NDArray[np.uint8]:
        height, width = pixels.shape[1:3]
        std = self.std * scale(height, width)
        down, across = _gaussian(height, std), _gaussian(width, std)
        # one matrix product for each colour of each picture: the same bits alone and in any company
        blurred = down @ pixels.transpose(0, 3, 1, 2).astype(np.float64) @ across.T
        made = np.rint(blurred).astype(np.uint8).transpose(0, 2, 3, 1)
        return np.where(_fixed(self, height, width)[..., None], made, pixels)


@dataclass(frozen=True)
class Stripe(ImagePlant):
    """A band of rows over the whole width; what happens in it is the subclass's."""

    top: float = 72.0  # the first row of the band
    bottom: float = 152.0  # the first row below it

    def __post_init__(self) -> None:
        if not 0 <= self.top < self.bottom <= SIDE:
            raise OptionError(f"{self.name}: the band is 0 <= top < bottom <= {SIDE}, not {self.top} to {self.bottom}")
        positive(self.name, **{self.visible: getattr(self, self.visible)})

    def rows(self, height: int) -> tuple[int, int]:
        """The first row of the band and the first below it, in a picture of this height; at least one row."""
        first = min(round(self.top * height / SIDE), height - 1)
        return first, max(round(self.bottom * height / SIDE), first + 1)

    def region(self, height: int, width: int) -> Mask:
        first, last = self.rows(height)
        inside = np.zeros((height, width), dtype=bool)
        inside[first:last] = True
        return inside

    @staticmethod
    def band(rng: np.random.Generator) -> dict[str, float]:
        """Where a band of 20 to 224 rows may lie."""
        height = rng.uniform(20, SIDE)
        top = rng.uniform(0, SIDE - height)
        return {"top": float(top), "bottom": float(min(top + height, SIDE))}


@dataclass(frozen=True)
class StripedNoise(Stripe):
    """Some pixels of the band become any colour."""

    name: ClassVar[str] = "noise"
    summary: ClassVar[str] = "some pixels of a band of rows are replaced by random colours"
    visible: ClassVar[str] = "share"
    levels: ClassVar[tuple[float, ...]] = (0.02, 0.04, 0.06, 0.08, 0.1)

    share: float = 0.06  # of the band's pixels, in expectation

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.share > 1:
            raise OptionError(f"noise: the share of replaced pixels lies between 0 and 1, not {self.share}")

    @classmethod
    def drawn(cls, rng: np.random.Generator) -> Self:
        return cls(**cls.band(rng), share=float(rng.uniform(cls.levels[0], cls.levels[-1])))

    def change(self, pixels: NDArray[np.uint8], rngs: Sequence[np.random.Generator]) -> NDArray[np.uint8]:
        first, last = self.rows(pixels.shape[1])
        made = pixels.copy()
        for picture, rng in zip(made, rngs, strict=True):
            band = picture[first:last]
            hit = rng.random(band.shape[:2]) < self.share
            band[hit] = rng.integers(0, 256, (int(hit.sum()), 3), dtype=np.uint8)
        return made


def planted_shot(example: Example, old: Pixels, new: Pixels, region: Mask, which: int) -> Planted:
    """What is known of a picture before and after."""
    changed: Mask = (old != new).any(-1)
    return Planted(
        example=Shot(example.name, label=example.label, picture=example.picture, meta=example.meta, pixels=new),
        region=region,
        changed=changed,
        distractors=_nowhere(*region.shape),
        which=which,
    )


def scale(height: int, width: int) -> float:
    """By how much radii, blurs and letters are smaller than in a picture of 224 x 224."""
    return min(height, width) / SIDE


@functools.lru_cache(maxsize=8)
def distance(height: int, width: int) -> NDArray[np.float64]:
    """(height, width): how far the centre of each pixel is from the centre of the picture, in pixels."""
    down = np.arange(height) + 0.5 - height / 2
    across = np.arange(width) + 0.5 - width / 2
    found: NDArray[np.float64] = np.hypot(down[:, None], across[None])
    return found


def positive(name: str, **values: float) -> None:
    """Raise an OptionError unless all of these parameters are above 0."""
    for parameter, value in values.items():
        if not 0 < value < math.inf:
            raise OptionError(f"{name}: {parameter} must be greater than 0, not {value}")


@functools.lru_cache(maxsize=64)
def _fixed(plant: ImagePlant | PerClass, height: int, width: int) -> Mask:
    """The plant's region, computed once for all pictures of a size."""
    region = plant.region(height, width)
    if not region.any():
        raise DataError(f"{plant} touches no pixel of a picture of {width} × {height}; make it larger")
    region.flags.writeable = False
    return region


@functools.lru_cache(maxsize=8)
def _nowhere(height: int, width: int) -> Mask:
    empty = np.zeros((height, width), dtype=bool)
    empty.flags.writeable = False
    return empty


@functools.lru_cache(maxsize=16)
def _gaussian(size: int, std: float) -> NDArray[np.float64]:
    """(size, size): a Gaussian blur along one side as a matrix; beyond its ends the picture is mirrored."""
    place = np.arange(size)
    total = np.zeros((size, size))
    reach = max(1, math.ceil(4 * std))
    offsets = np.arange(-reach, reach + 1)
    weights = np.exp(-0.5 * (offsets / std) ** 2)
    for offset, weight in zip(offsets, weights / weights.sum(), strict=True):
        seen = (place + offset) % (2 * size)
        total[place, np.minimum(seen, 2 * size - 1 - seen)] += weight  # mirrored: -1 is 0, size is size - 1
    return total


def _groups(shapes: Sequence[tuple[int, ...]], wanted: Sequence[bool]) -> list[list[int]]:
    """The numbers of pictures to be changed, those of one size together."""
    by_shape: dict[tuple[int, ...], list[int]] = {}
    for number, (shape, one) in enumerate(zip(shapes, wanted, strict=True)):
        if one:
            by_shape.setdefault(shape, []).append(number)
    return list(by_shape.values())
