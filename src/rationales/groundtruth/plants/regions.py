"""Regions of plants, as pixels of an image or characters of a text, and the units of a model that they cover."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rationales.data.example import Extent, joined
from rationales.errors import DataError
from rationales.models.text.units import trim
from rationales.rationale_parts import Grid, Unit

Mask = NDArray[np.bool_]
Spans = tuple[Extent, ...]  # sorted and disjoint
Region = Mask | Spans  # (h, w) bool for an image; spans of characters for a text


def union_region(regions: Sequence[Region]) -> Region:
    """The union over all manipulations (section 4): a model may also use the absence of a plant."""
    if not regions:
        raise DataError("there is no joint region of no regions")
    if all(isinstance(region, tuple) for region in regions):
        return joined(span for region in regions if isinstance(region, tuple) for span in region)
    masks = [region for region in regions if isinstance(region, np.ndarray)]
    if len(masks) < len(regions) or any(mask.shape != masks[0].shape for mask in masks):
        raise DataError("regions of different images, or of a text and an image, have no union")
    union: Mask = np.logical_or.reduce(masks)
    return union


def units_in_region(region: Region, units: Sequence[Unit] | Grid | Any, text: str = "") -> Mask:
    """(n,) bool: the units that share a pixel, or a visible character, with the region.

    `units` are those of a Rationale. A grid must have the size of the image, as the results of `explain` have. The
    spans of a text belong to its first part, so the units of the second text of a pair are never inside.
    """
    if isinstance(region, np.ndarray):
        if not isinstance(units, Grid):
            raise DataError("a region of pixels needs the units of an image")
        if (units.height, units.width) != region.shape:
            height, width = region.shape
            raise DataError(
                f"scores are {units.height} × {units.width}, the region {height} × {width}; explain the planted "
                "image at its own size"
            )
        return region.flatten()
    if isinstance(units, Grid):
        raise DataError("spans of characters need the units of a text")
    extents = [trim(text, unit.start, unit.end) if text else (unit.start, unit.end) for unit in units]
    unit_starts, unit_ends = (np.array([extent[side] for extent in extents], dtype=np.int64) for side in (0, 1))
    span_starts, span_ends = (np.array([span[side] for span in region], dtype=np.int64) for side in (0, 1))
    # Spans are disjoint: a unit touches one iff more spans start before its end than end at or before its start.
    touched = np.searchsorted(span_starts, unit_ends, side="left") > np.searchsorted(
        span_ends, unit_starts, side="right"
    )
    in_first_text = np.array([unit.text_index == 0 for unit in units], dtype=bool)
    inside: Mask = touched & in_first_text & (unit_starts < unit_ends)
    return inside


def area(region: Mask) -> float:
    """The share of units (pixels, words) inside the region: the expected Attr% of random scores."""
    return float(np.mean(region)) if region.size else 0.0
