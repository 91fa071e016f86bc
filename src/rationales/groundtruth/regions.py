"""Where a plant acts: pixels of a picture, or characters of a text, and which units of a model these are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rationales.data.example import Extent, joined
from rationales.errors import DataError
from rationales.models.units import trim
from rationales.parts import Grid, Unit

Mask = NDArray[np.bool_]
Spans = tuple[Extent, ...]  # sorted, apart from each other
Region = Mask | Spans  # (h, w) bool of a picture; spans of characters of a text


def joint(regions: Sequence[Region]) -> Region:
    """The union over all manipulations (section 4): a model may decide by what is absent, too."""
    if not regions:
        raise DataError("there is no joint region of no regions")
    if all(isinstance(one, tuple) for one in regions):
        return joined(span for one in regions if isinstance(one, tuple) for span in one)
    masks = [one for one in regions if isinstance(one, np.ndarray)]
    if len(masks) < len(regions) or any(one.shape != masks[0].shape for one in masks):
        raise DataError("regions of different pictures, or of a text and a picture, have no union")
    union: Mask = np.logical_or.reduce(masks)
    return union


def on_units(region: Region, units: Sequence[Unit] | Grid | Any, text: str = "") -> Mask:
    """(n,) bool: the units that share a pixel, or a visible character, with the region.

    `units`: of a Rationale. A grid must have the picture's own size, as results of `explain` have; the spans of a text
    are those of its first part, so a pair's units are never inside.
    """
    if isinstance(region, np.ndarray):
        if not isinstance(units, Grid):
            raise DataError("a region of pixels needs the units of a picture")
        if (units.height, units.width) != region.shape:
            height, width = region.shape
            raise DataError(
                f"scores are {units.height} × {units.width}, the region {height} × {width}; explain the planted "
                "picture at its own size"
            )
        return region.flatten()
    if isinstance(units, Grid):
        raise DataError("spans of characters need the units of a text")
    seen = [trim(text, unit.start, unit.end) if text else (unit.start, unit.end) for unit in units]
    begins, ends = (np.array([extent[side] for extent in seen], dtype=np.int64) for side in (0, 1))
    starts, stops = (np.array([span[side] for span in region], dtype=np.int64) for side in (0, 1))
    # spans are apart, so that a unit touches one if more of them begin before its end than stop by its beginning
    touched = np.searchsorted(starts, ends, side="left") > np.searchsorted(stops, begins, side="right")
    first = np.array([unit.part == 0 for unit in units], dtype=bool)
    inside: Mask = touched & first & (begins < ends)
    return inside


def area(region: Mask) -> float:
    """The share of the units (pixels, words) that lies in the region: what a scorer reaches by chance."""
    return float(np.mean(region)) if region.size else 0.0
