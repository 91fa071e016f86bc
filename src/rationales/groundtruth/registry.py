"""The plants that can be asked for by name. All of them stand in `PLANTS`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from rationales.errors import OptionError
from rationales.groundtruth.artefacts import Casing, Punctuation
from rationales.groundtruth.article_plants import Articles, HalfArticles, LateArticles
from rationales.groundtruth.colour_plants import Brightness, StripedHue
from rationales.groundtruth.image_plants import Blur, StripedNoise
from rationales.groundtruth.insertions import Phrase, Sentence, Trigger
from rationales.groundtruth.plant import Plant
from rationales.groundtruth.watermark import Watermark

PLANTS: dict[str, type[Plant]] = {
    plant.name: plant
    for plant in (
        *(Blur, Brightness, StripedHue, StripedNoise, Watermark),
        *(Articles, HalfArticles, LateArticles, Trigger, Phrase, Sentence, Casing, Punctuation),
    )
}


def find_plant(wanted: str | Plant, options: Mapping[str, Any] | None = None) -> Plant:
    """A plant by name with these parameters, the others as they usually are."""
    if isinstance(wanted, Plant):
        return wanted
    if wanted not in PLANTS:
        raise OptionError(f"there is no plant {wanted!r}; there are: {', '.join(PLANTS)}")
    known = [one.name for one in fields(PLANTS[wanted])]
    for name in options or {}:
        if name not in known:
            raise OptionError(f"{wanted} has no parameter {name!r}; its parameters are: {', '.join(known)}")
    try:
        return PLANTS[wanted](**(options or {}))
    except TypeError as error:
        raise OptionError(f"{wanted}: a parameter has a wrong type ({error})") from None
