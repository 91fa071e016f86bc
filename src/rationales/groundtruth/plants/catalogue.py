"""All plants by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from rationales.errors import OptionError
from rationales.groundtruth.plants.article_plants import Articles, FirstHalfArticles, SecondHalfArticles
from rationales.groundtruth.plants.bordered import BorderedNoise, BorderedWatermark
from rationales.groundtruth.plants.casing_punctuation import Casing, Punctuation
from rationales.groundtruth.plants.colour_plants import Brightness, ColourCast, StripedHue
from rationales.groundtruth.plants.image_plants import Blur, StripedNoise
from rationales.groundtruth.plants.insertions import InsertedPhrase, InsertedSentence, Trigger
from rationales.groundtruth.plants.jpeg_blocks import JpegBlocks
from rationales.groundtruth.plants.plant import Plant
from rationales.groundtruth.plants.watermark import Watermark

PLANTS: dict[str, type[Plant]] = {
    plant.name: plant
    for plant in (
        *(Blur, Brightness, StripedHue, StripedNoise, Watermark),
        *(ColourCast, JpegBlocks, BorderedWatermark, BorderedNoise),
        *(Articles, FirstHalfArticles, SecondHalfArticles),
        *(Trigger, InsertedPhrase, InsertedSentence, Casing, Punctuation),
    )
}


def find_plant(name: str | Plant, options: Mapping[str, Any] | None = None) -> Plant:
    """Build the plant with this name; parameters that are not in `options` have their defaults."""
    if isinstance(name, Plant):
        return name
    if name not in PLANTS:
        raise OptionError(f"there is no plant {name!r}; there are: {', '.join(PLANTS)}")
    known = [parameter.name for parameter in fields(PLANTS[name])]
    for option in options or {}:
        if option not in known:
            raise OptionError(f"{name} has no parameter {option!r}; its parameters are: {', '.join(known)}")
    try:
        return PLANTS[name](**(options or {}))
    except TypeError as error:
        raise OptionError(f"{name}: a parameter has a wrong type ({error})") from None
