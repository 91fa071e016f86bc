"""Examples that hold their image in memory, loaded from files at a fixed size so that regions stay exact."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rationales.data.example import Example
from rationales.errors import DataError, InputError, OptionError
from rationales.models.image.reading import MIN_SIDE, Fit, fit_image, read_image

Pixels = NDArray[np.uint8]  # (h, w, 3)
LISTED_ERRORS = 3  # unreadable files that a message lists


@dataclass(frozen=True, eq=False)
class ImageExample(Example):
    """An example that holds the pixels of its image; `picture` is the path it was read from."""

    pixels: Pixels | None = None  # (h, w, 3); required, the default only follows those of the base class

    def __post_init__(self) -> None:
        super().__post_init__()
        pixels = self.pixels
        if pixels is None or pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3:
            actual = "nothing" if pixels is None else f"{pixels.dtype} of shape {pixels.shape}"
            raise DataError(f"{self.name}: pixels are uint8 of shape (height, width, 3), not {actual}")

    def raw_input(self) -> Any:
        """The pixels: the input that `rationales.explain` takes."""
        return self.pixels


@dataclass(frozen=True)
class LoadedImages:
    """The images that could be read; for the others their names and what was wrong."""

    examples: tuple[ImageExample, ...]
    unreadable: tuple[tuple[str, str], ...] = ()


def image_example(name: str, pixels: Pixels, label: str | None = None, source: Path | None = None) -> ImageExample:
    """An example made from an array of pixels."""
    # Evaluation tells images from texts by this path, so it is always set.
    return ImageExample(name=name, label=label, image=source or Path(name), pixels=pixels)


def read_pixels(example: Example) -> Pixels:
    """(h, w, 3): the image of an example, read from its file if it is not in memory."""
    if isinstance(example, ImageExample) and example.pixels is not None:
        return example.pixels
    if example.image is None:
        raise DataError(f"{example.name} is a text; this plant changes images")
    return read_image(example.image, example.name).pixels


def load_images(
    examples: Sequence[Example], size: int = 112, progress: Callable[[float], None] | None = None
) -> LoadedImages:
    """Read images, resize their short side to `size` and crop the central size x size square.

    The network must read planted images at this size: resizing would blur the border of a region. Files that cannot be
    read are left out and listed; it is an error if more than half of the files cannot be read.
    """
    if size < MIN_SIDE:
        raise OptionError(f"images have at least {MIN_SIDE} pixels per side, not {size}")
    fit = Fit("crop", size, size)
    loaded: list[ImageExample] = []
    unreadable: list[tuple[str, str]] = []
    for index, example in enumerate(examples):
        if example.image is None:
            raise DataError(f"{example.name} is a text; images were expected")
        try:
            picture = read_image(example.raw_input(), example.name)
        except InputError as error:
            unreadable.append((example.name, str(error)))
            continue
        pixels = np.rint(fit_image(picture, fit)[0].permute(1, 2, 0).numpy() * 255).astype(np.uint8)
        pixels.flags.writeable = False
        loaded.append(
            ImageExample(example.name, label=example.label, image=example.image, meta=example.meta, pixels=pixels)
        )
        if progress is not None:
            progress((index + 1) / len(examples))
    if 2 * len(loaded) <= len(examples):
        reasons = "; ".join(reason for _, reason in unreadable[:LISTED_ERRORS]) or "there are none"
        raise DataError(f"only {len(loaded)} of {len(examples)} images can be read: {reasons}")
    return LoadedImages(tuple(loaded), tuple(unreadable))
