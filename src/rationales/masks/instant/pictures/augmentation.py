"""Training pictures: read when needed, cropped and mirrored at random."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rationales.errors import InputError
from rationales.models.image.model import ImageModel
from rationales.models.image.reading import ImageInput

MIN_AREA = 0.4  # of a random crop, as a share of the picture
MIN_SIDE = 32  # pixels of a random crop


@dataclass(eq=False)
class TrainingPictures:
    """Pictures by number: paths, PIL images or arrays."""

    model: ImageModel
    sources: Sequence[Any]

    def __len__(self) -> int:
        return len(self.sources)

    def picture(self, number: int, generator: torch.Generator | None = None) -> ImageInput:
        """The picture; with a generator, a random crop of it that is mirrored or not."""
        image = self.model.read(self.sources[number], None)
        if generator is None:
            return image
        area, top, left, mirrored = torch.rand(4, generator=generator).tolist()
        share = (MIN_AREA + (1 - MIN_AREA) * area) ** 0.5
        height, width = (min(side, max(MIN_SIDE, round(share * side))) for side in image.size)
        first_row, first_column = int(top * (image.size[0] - height + 1)), int(left * (image.size[1] - width + 1))
        pixels = image.pixels[first_row : first_row + height, first_column : first_column + width]
        return ImageInput(np.ascontiguousarray(pixels[:, ::-1] if mirrored < 0.5 else pixels), image.name)

    def draw(self, count: int, generator: torch.Generator) -> list[ImageInput]:
        """`count` random pictures, cropped; those that cannot be read are replaced by others."""
        pictures: list[ImageInput] = []
        failures = 0
        while len(pictures) < count:
            number = int(torch.randint(len(self), (1,), generator=generator))
            try:
                pictures.append(self.picture(number, generator))
            except InputError:
                failures += 1
                if failures > len(self) + 100:
                    raise
        return pictures


def picture_files(folder: Path) -> list[Path]:
    """All pictures below a folder, in the order of their names."""
    suffixes = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff"}
    return sorted(path for path in folder.rglob("*") if path.suffix.lower() in suffixes and path.is_file())
