"""The paper's bird photographs: pairs of species, and training pictures whose labels are drawn anew every epoch."""

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

from rationales.data import read_data
from rationales.data.example import Example
from rationales.errors import DataError
from rationales.groundtruth import ImageExample, load_images, random_generator, reassignment_keeping
from rationales.groundtruth.encoded_examples import EncodedImages
from rationales.groundtruth.image_examples import read_pixels
from rationales.groundtruth.plants.bordered import BorderedPlant
from rationales.groundtruth.plants.catalogue import PLANTS
from rationales.groundtruth.plants.image_plants import ImagePlant
from rationales.groundtruth.plants.regions import area
from rationales.models.image.reading import read_image as read_picture

DATA = "birds-112"
SIZE = 112  # largest side in pixels
SIMILAR_KINDS = (
    ("brandts_cormorant", "pelagic_cormorant"),
    ("common_raven", "fish_crow"),
    ("common_tern", "forsters_tern"),
    ("long_tailed_jaeger", "pomarine_jaeger"),
)  # the pairs of species that the paper's model confuses most
MIN_AREA, MAX_AREA = 0.02, 0.9  # share of a picture that a plant may cover
VERSIONS = 4  # shifted and mirrored versions of every training picture
MAX_SHIFT = 8 / 112  # as a share of the side
THREADS = 8  # that decode pictures
_SPLITS = ("train", "val", "test")


@dataclass(frozen=True)
class BirdPictures:
    """Pictures of two species."""

    train: tuple[ImageExample, ...]
    val: tuple[ImageExample, ...]
    test: tuple[ImageExample, ...]
    kinds: tuple[str, str]

    @property
    def size(self) -> int:
        """Side in pixels."""
        return len(read_pixels(self.test[0]))


def choose_kinds(seed: int, distinct: bool) -> tuple[str, str]:
    """Two species that are easily confused; `distinct`: one species of each of two such pairs."""
    rng = random_generator(seed, "pair", "")
    first_pair, second_pair = (SIMILAR_KINDS[number] for number in rng.permutation(len(SIMILAR_KINDS))[:2])
    if not distinct:
        return first_pair
    first, second = sorted((first_pair[int(rng.integers(2))], second_pair[int(rng.integers(2))]))
    return first, second


def read_kinds(folder: Path | None, kinds: tuple[str, str]) -> BirdPictures:
    """The pictures of these species; each species is read from disk once."""
    splits = {split: tuple(shot for kind in kinds for shot in _read_shots(folder, split, kind)) for split in _SPLITS}
    return BirdPictures(**splits, kinds=kinds)


def read_all_kinds(folder: Path | None, split: str) -> list[ImageExample]:
    """The pictures of every species of a split, species by species."""
    return [shot for kind in sorted(_examples_by_kind(folder, split)) for shot in _read_shots(folder, split, kind)]


@functools.cache
def _read_shots(folder: Path | None, split: str, kind: str) -> tuple[ImageExample, ...]:
    examples = _examples_by_kind(folder, split).get(kind)
    if not examples:
        raise DataError(f"{DATA} has no pictures of {kind} in its {split} split; is the data set complete?")
    height, width = read_picture(examples[0].raw_input(), examples[0].name).size
    size = min(SIZE, height, width)
    count = -(-len(examples) // THREADS)
    chunks = [examples[begin : begin + count] for begin in range(0, len(examples), count)]
    with ThreadPoolExecutor(THREADS) as threads:  # decoding releases the interpreter lock
        loaded = list(threads.map(lambda chunk: load_images(chunk, size).examples, chunks))
    return tuple(shot for shots in loaded for shot in shots)


@functools.cache
def _examples_by_kind(folder: Path | None, split: str) -> dict[str, list[Example]]:
    by_kind: dict[str, list[Example]] = {}
    for example in read_data(DATA, split, folder):
        by_kind.setdefault(str(example.label), []).append(example)
    return by_kind


def draw_plant(name: str, level: int, seed: int, size: int) -> ImagePlant:
    """A plant at a random position, drawn as in the paper; `level`: its visibility, 0: as drawn.

    The paper blurs with a standard deviation of 2 pixels in 224, one pixel in 112; here the blur has a random level.
    """
    rng = random_generator(seed, "place", name)
    plant_class = PLANTS[name]
    if not issubclass(plant_class, ImagePlant):
        raise DataError(f"{name} is not a plant for pictures")
    while True:
        plant = plant_class.sample(rng)
        if name == "blur":
            plant = plant.at_level(int(rng.integers(1, len(plant_class.levels) + 1)))
        if MIN_AREA <= area(plant.region(size, size)) <= MAX_AREA:
            return plant.at_level(level) if level else plant


@dataclass(eq=False)
class RelabelledPictures:
    """Training pictures in several versions, with and without the plant; every epoch draws new labels.

    A version shifts every picture by a few pixels and may mirror it before the plant is added, so that the plant keeps
    its position. No label can be memorised, and few pictures suffice.
    """

    shots: Sequence[ImageExample]
    plant: ImagePlant
    labels: tuple[str, ...]  # the original labels, which are the new ones as well
    r: float
    seed: int
    device: torch.device
    versions: int = VERSIONS
    _futures: dict[int, Future[tuple[Tensor, Tensor]]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        threads = ThreadPoolExecutor(min(self.versions, os.cpu_count() or 1))
        self._futures = {number: threads.submit(self._make_version, number) for number in range(self.versions)}
        threads.shutdown(wait=False)
        matrix = reassignment_keeping(self.labels, self.r).array
        rows = [self.labels.index(str(shot.label)) for shot in self.shots]
        self._plant_probability = torch.tensor([matrix[row, 1] for row in rows])

    def epoch(self, number: int) -> EncodedImages:
        """The training data of an epoch."""
        plain, planted = self._futures[number % self.versions].result()
        random = torch.Generator().manual_seed(self.seed + number)
        labels = (torch.rand(len(self.shots), generator=random) < self._plant_probability).long().to(self.device)
        return EncodedImages(labels, torch.where(labels[:, None, None, None] == 1, planted, plain))

    def epoch_slice(self, number: int, slices: int) -> EncodedImages:
        """Slice `number`, counted over all epochs, where every epoch is cut into `slices` random slices."""
        epoch = self.epoch(number // slices)
        order = torch.randperm(len(epoch), generator=torch.Generator().manual_seed(self.seed + number // slices))
        indices = order[number % slices :: slices].to(self.device)
        return EncodedImages(epoch.labels[indices], epoch.pixels[indices])

    def _make_version(self, number: int) -> tuple[Tensor, Tensor]:
        """(N, 3, H, W) uint8 without and with the plant."""
        pixels = np.stack([read_pixels(shot) for shot in self.shots])
        if number:
            pixels = shift_and_mirror(pixels, random_generator(self.seed, "moved", str(number)))
        rngs = [random_generator(self.seed, f"version {number}", shot.name) for shot in self.shots]
        if isinstance(self.plant, BorderedPlant):  # with and without the plant alike
            pixels = self.plant.with_borders(pixels, rngs)
        planted = self.plant.change_all(pixels, rngs)
        return self._to_tensor(pixels), self._to_tensor(planted)

    def _to_tensor(self, pixels: NDArray[np.uint8]) -> Tensor:
        return torch.from_numpy(pixels).to(self.device).permute(0, 3, 1, 2).contiguous()


def shift_and_mirror(pixels: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.uint8]:
    """(N, H, W, 3): every picture shifted by a few pixels, with reflected borders, and half of them mirrored."""
    count, height, width = pixels.shape[:3]
    max_shifts = [round(MAX_SHIFT * side) for side in (height, width)]
    tops, lefts = (shift + rng.integers(-shift, shift + 1, count) for shift in max_shifts)
    mirrored = np.less(rng.random(count), 0.5).tolist()
    padded = np.pad(pixels, ((0, 0), *((shift, shift) for shift in max_shifts), (0, 0)), mode="symmetric")
    shifted = np.empty_like(pixels)
    for number, (top, left, mirror) in enumerate(zip(tops.tolist(), lefts.tolist(), mirrored, strict=True)):
        window = padded[number, top : top + height, left : left + width]
        shifted[number] = window[:, ::-1] if mirror else window
    return shifted
