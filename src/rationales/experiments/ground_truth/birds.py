"""The paper's bird photographs: pairs of kinds, and decks of training pictures whose labels are dealt anew."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rationales.data import read
from rationales.data.example import Example
from rationales.errors import DataError
from rationales.groundtruth import ImageExample, load_images, random_generator, reassignment_keeping
from rationales.groundtruth.encoded_examples import EncodedImages
from rationales.groundtruth.image_examples import read_pixels
from rationales.groundtruth.plants.catalogue import PLANTS
from rationales.groundtruth.plants.image_plants import ImagePlant
from rationales.groundtruth.plants.regions import area
from rationales.models.pictures import read as read_picture

DATA = "birds-112"
SIZE = 112  # pixels a side, at most
SIMILAR = (
    ("brandts_cormorant", "pelagic_cormorant"),
    ("common_raven", "fish_crow"),
    ("common_tern", "forsters_tern"),
    ("long_tailed_jaeger", "pomarine_jaeger"),
)  # the pairs that the paper's model confuses most
SMALLEST, LARGEST = 0.02, 0.9  # share of a picture that a drawn plant may cover
VERSIONS = 4  # of every training picture, moved and mirrored
MOVED = 8 / 112  # of a side, at most
THREADS = 8  # that read and plant pictures


@dataclass(frozen=True)
class Parts:
    """Pictures of two kinds."""

    train: tuple[ImageExample, ...]
    val: tuple[ImageExample, ...]
    test: tuple[ImageExample, ...]
    kinds: tuple[str, str]

    @property
    def size(self) -> int:
        """Pixels a side."""
        return len(read_pixels(self.test[0]))


def pair(seed: int, distinct: bool) -> tuple[str, str]:
    """Two kinds that are easily confused, or one of each of two such pairs."""
    rng = random_generator(seed, "pair", "")
    first, second = (SIMILAR[number] for number in rng.permutation(len(SIMILAR))[:2])
    if not distinct:
        return first
    one, other = sorted((first[int(rng.integers(2))], second[int(rng.integers(2))]))
    return one, other


def parts(folder: Path | None, kinds: tuple[str, str]) -> Parts:
    """The pictures of these kinds, read once."""
    made = {split: tuple(one for kind in kinds for one in _shots(folder, split, kind)) for split in _SPLITS}
    return Parts(**made, kinds=kinds)


_SPLITS = ("train", "val", "test")


@functools.cache
def _shots(folder: Path | None, split: str, kind: str) -> tuple[ImageExample, ...]:
    examples = _by_kind(folder, split).get(kind)
    if not examples:
        raise DataError(f"{DATA} has no pictures of {kind} in its part {split}; is this the whole data set?")
    height, width = read_picture(examples[0].given(), examples[0].name).size
    size = min(SIZE, height, width)
    count = -(-len(examples) // THREADS)
    chunks = [examples[begin : begin + count] for begin in range(0, len(examples), count)]
    with ThreadPoolExecutor(THREADS) as threads:  # decoding leaves the interpreter free
        loaded = list(threads.map(lambda some: load_images(some, size).examples, chunks))
    return tuple(shot for some in loaded for shot in some)


@functools.cache
def _by_kind(folder: Path | None, split: str) -> dict[str, list[Example]]:
    found: dict[str, list[Example]] = {}
    for one in read(DATA, split, folder):
        found.setdefault(str(one.label), []).append(one)
    return found


def place(name: str, level: int, seed: int, size: int) -> ImagePlant:
    """A plant of this kind somewhere, as the paper draws it; at a level of visibility, where one is given.

    The paper's blur has a standard deviation of 2 pixels in 224, one pixel in 112: here any of its levels is drawn.
    """
    rng = random_generator(seed, "place", name)
    kind = PLANTS[name]
    if not issubclass(kind, ImagePlant):
        raise DataError(f"{name} is no change of pictures")
    while True:
        drawn = kind.sample(rng)
        if name == "blur":
            drawn = drawn.at_level(int(rng.integers(1, len(kind.levels) + 1)))
        if SMALLEST <= area(drawn.region(size, size)) <= LARGEST:
            return drawn.at_level(level) if level else drawn


@dataclass(eq=False)
class Deck:
    """Training pictures in several versions, each with and without the plant; labels are dealt anew for every epoch.

    A version moves every picture by a few pixels and may mirror it, before anything is planted: the plant is where it
    always is. No label can be learned by heart, and few pictures go a long way.
    """

    shots: Sequence[ImageExample]
    plant: ImagePlant
    labels: tuple[str, ...]  # the original ones, which are the new ones as well
    r: float
    seed: int
    device: torch.device
    versions: int = VERSIONS
    _made: dict[int, Future[tuple[Tensor, Tensor]]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        threads = ThreadPoolExecutor(min(self.versions, os.cpu_count() or 1))
        self._made = {number: threads.submit(self._version, number) for number in range(self.versions)}
        threads.shutdown(wait=False)
        matrix = reassignment_keeping(self.labels, self.r).array
        self._chance = torch.tensor([matrix[self.labels.index(str(one.label)), 1] for one in self.shots])

    def fold(self, epoch: int) -> EncodedImages:
        """The training part of this epoch."""
        plain, planted = self._made[epoch % self.versions].result()
        random = torch.Generator().manual_seed(self.seed + epoch)
        labels = (torch.rand(len(self.shots), generator=random) < self._chance).long().to(self.device)
        return EncodedImages(labels, torch.where(labels[:, None, None, None] == 1, planted, plain))

    def piece(self, number: int, pieces: int) -> EncodedImages:
        """One of so many parts of an epoch."""
        whole = self.fold(number // pieces)
        order = torch.randperm(len(whole), generator=torch.Generator().manual_seed(self.seed + number // pieces))
        own = order[number % pieces :: pieces].to(self.device)
        return EncodedImages(whole.labels[own], whole.pixels[own])

    def _version(self, number: int) -> tuple[Tensor, Tensor]:
        """(N, 3, H, W) uint8 without and with the plant."""
        before = np.stack([read_pixels(one) for one in self.shots])
        if number:
            before = moved(before, random_generator(self.seed, "moved", str(number)))
        rngs = [random_generator(self.seed, f"version {number}", one.name) for one in self.shots]
        planted = self.plant.change_all(before, rngs)
        return self._tensor(before), self._tensor(planted)

    def _tensor(self, pixels: NDArray[np.uint8]) -> Tensor:
        return torch.from_numpy(pixels).to(self.device).permute(0, 3, 1, 2).contiguous()


def moved(pixels: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.uint8]:
    """(N, H, W, 3): every picture moved by a few pixels, mirrored at its rim, and half of them turned around."""
    count, *sides = pixels.shape[:3]
    reach = [round(MOVED * side) for side in sides]
    down, across = (most + rng.integers(-most, most + 1, count) for most in reach)
    turned = np.less(rng.random(count), 0.5).tolist()
    wide = np.pad(pixels, ((0, 0), *((most, most) for most in reach), (0, 0)), mode="symmetric")
    made = np.empty_like(pixels)
    for number, (top, left, around) in enumerate(zip(down.tolist(), across.tolist(), turned, strict=True)):
        own = wide[number, top : top + sides[0], left : left + sides[1]]
        made[number] = own[:, ::-1] if around else own
    return made
