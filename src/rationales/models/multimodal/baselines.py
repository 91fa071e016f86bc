"""Baselines of image-text models: what a word becomes when it is replaced, and what a pixel becomes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rationales.errors import OptionError

PIXEL_BASELINES = ("black", "white", "mean")  # by default; the mean over them is taken, as in MaRC's appendix A.2
PARTS = ("text", "image")


@dataclass(frozen=True)
class PartBaselines:
    """A baseline for each part, as the user asks for it; None: the default."""

    text: Any = None  # as for text models: a name, a word or a vector
    image: Any = PIXEL_BASELINES  # as for image models: names, images of the user's, or several of them


def part_baselines(requested: Any) -> PartBaselines:
    """From None, a mapping with `text` and `image`, or a string such as "mask; black, white" (words; pixels)."""
    if requested is None:
        return PartBaselines()
    if isinstance(requested, str):
        words, separator, pixels = (piece.strip() for piece in requested.partition(";"))
        if not separator:
            raise OptionError(
                f"an image-text model has two baselines, for words and for pixels; write both with a semicolon, as in "
                f"'{requested}; black, white', or {{'text': …, 'image': …}}"
            )
        return PartBaselines(words or None, pixels or PIXEL_BASELINES)
    if not isinstance(requested, Mapping) or not {*requested} <= {*PARTS}:
        raise OptionError("the baselines of an image-text model are {'text': …, 'image': …}, or a string 'mask; black'")
    return PartBaselines(requested.get("text"), requested.get("image", PIXEL_BASELINES))
