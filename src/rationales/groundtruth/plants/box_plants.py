"""Base class of plants that change pixels inside a box."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rationales.errors import OptionError
from rationales.groundtruth.plants.image_plants import REFERENCE_SIDE, ImagePlant, check_positive
from rationales.groundtruth.plants.regions import Mask


@dataclass(frozen=True)
class BoxPlant(ImagePlant):
    """A plant whose region is a box of pixels."""

    top: float = 10.0
    left: float = 10.0
    height: float = 80.0
    width: float = 130.0

    def __post_init__(self) -> None:
        visibility = {self.visibility_field: getattr(self, self.visibility_field)}
        check_positive(self.name, height=self.height, width=self.width, **visibility)
        if min(self.top, self.left) < 0 or max(self.top + self.height, self.left + self.width) > REFERENCE_SIDE + 1e-6:
            raise OptionError(f"{self.name}: the box must lie within {REFERENCE_SIDE} × {REFERENCE_SIDE}, not {self}")

    def box(self, height: int, width: int) -> tuple[int, int, int, int]:
        """First and last row, first and last column in an image of this size; the last are exclusive."""
        top, left = round(self.top * height / REFERENCE_SIDE), round(self.left * width / REFERENCE_SIDE)
        bottom = round((self.top + self.height) * height / REFERENCE_SIDE)
        right = round((self.left + self.width) * width / REFERENCE_SIDE)
        return top, min(bottom, height), left, min(right, width)

    def region(self, height: int, width: int) -> Mask:
        top, bottom, left, right = self.box(height, width)
        inside = np.zeros((height, width), dtype=bool)
        inside[top:bottom, left:right] = True
        return inside
