"""Pictures in memory: examples that carry their pixels, read from files at one size so that regions stay exact."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rationales.data.example import Example
from rationales.errors import DataError, InputError, OptionError
from rationales.models.pictures import SMALLEST, Fit, place, read

Pixels = NDArray[np.uint8]  # (h, w, 3)
TOLD = 3  # unreadable files that a message names


@dataclass(frozen=True, eq=False)
class Shot(Example):
    """An example whose picture is held as pixels; `picture` says where it came from."""

    pixels: Pixels | None = None  # (h, w, 3), never None once it is made

    def __post_init__(self) -> None:
        super().__post_init__()
        found = self.pixels
        if found is None or found.dtype != np.uint8 or found.ndim != 3 or found.shape[2] != 3:
            told = "nothing" if found is None else f"{found.dtype} of the shape {found.shape}"
            raise DataError(f"{self.name}: pixels are uint8 (height, width, 3), not {told}")

    def given(self) -> Any:
        """The pixels: what `rationales.explain` takes."""
        return self.pixels


@dataclass(frozen=True)
class Loaded:
    """The pictures that could be read, and what was wrong with the others, by name."""

    shots: tuple[Shot, ...]
    unreadable: tuple[tuple[str, str], ...] = ()


def shot(name: str, pixels: Pixels, label: str | None = None, source: Path | None = None) -> Shot:
    """An example of a picture that is there as an array."""
    # evaluation tells pictures from texts by this path, so there always is one
    return Shot(name=name, label=label, picture=source or Path(name), pixels=pixels)


def pixels_of(example: Example) -> Pixels:
    """(h, w, 3): an example's picture, read from its file where it is not held in memory."""
    if isinstance(example, Shot) and example.pixels is not None:
        return example.pixels
    if example.picture is None:
        raise DataError(f"{example.name} is a text; this plant changes pictures")
    return read(example.picture, example.name).pixels


def load_shots(examples: Sequence[Example], size: int = 112, progress: Callable[[float], None] | None = None) -> Loaded:
    """Pictures cut to size x size: short side resized, the middle taken.

    A model must read planted pictures as they are: a region would no longer be exact after resizing. Files that cannot
    be read are left out and listed; when more than half cannot, that is an error.
    """
    if size < SMALLEST:
        raise OptionError(f"pictures have at least {SMALLEST} pixels a side, not {size}")
    fit = Fit("crop", size, size)
    shots: list[Shot] = []
    unreadable: list[tuple[str, str]] = []
    for number, example in enumerate(examples):
        if example.picture is None:
            raise DataError(f"{example.name} is a text; pictures were expected")
        try:
            picture = read(example.given(), example.name)
        except InputError as error:
            unreadable.append((example.name, str(error)))
            continue
        made = np.rint(place(picture, fit)[0].permute(1, 2, 0).numpy() * 255).astype(np.uint8)
        made.flags.writeable = False
        shots.append(Shot(example.name, label=example.label, picture=example.picture, meta=example.meta, pixels=made))
        if progress is not None:
            progress((number + 1) / len(examples))
    if 2 * len(shots) <= len(examples):
        told = "; ".join(reason for _, reason in unreadable[:TOLD]) or "there are none"
        raise DataError(f"only {len(shots)} of {len(examples)} pictures can be read: {told}")
    return Loaded(tuple(shots), tuple(unreadable))
