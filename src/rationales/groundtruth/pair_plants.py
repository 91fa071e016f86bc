"""Plants in pictures with captions: a known cause of the label in the words, in the picture, or in both together.

The labels of the pairs are drawn anew and independent of what is in them (Zhou et al. 2022, section 4, with r = 1/2),
so that the plant alone tells the label. `both`: class 1 has the trigger word of class 1 and the tinted corner; class 0
has only one of them, or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rationales.data.example import Example
from rationales.groundtruth.captioned_shapes import CaptionedPicture
from rationales.groundtruth.plants.colour_plants import ColourCast
from rationales.groundtruth.plants.image_plants import ImagePlant
from rationales.groundtruth.plants.insertions import Trigger
from rationales.groundtruth.plants.plant import random_generator
from rationales.groundtruth.plants.regions import Mask, Spans
from rationales.groundtruth.plants.text_plants import TextPlant

CAUSES = ("words", "picture", "both")
WORD_PLANT = Trigger()
PICTURE_PLANT = ColourCast(corner="bottom-right", radius=80.0, hue=0.83, strength=0.8)
_WITHOUT = ((0, 0), (0, 1), (1, 0))  # manipulations of words and picture in class 0 of `both`


@dataclass(frozen=True, eq=False)
class PlantedPair:
    """A picture with a caption after planting, its label, and where the cause of the label is."""

    name: str
    pixels: NDArray[np.uint8]  # (H, W, 3)
    caption: str
    label: int
    words: Spans  # the inserted words; empty where words are no cause
    picture: Mask  # (H, W) the tinted corner; empty where the picture is no cause


def planted_pairs(
    pictures: Sequence[CaptionedPicture],
    cause: str,
    seed: int = 0,
    word_plant: TextPlant = WORD_PLANT,
    picture_plant: ImagePlant = PICTURE_PLANT,
) -> list[PlantedPair]:
    """The pictures with new labels and a plant; `cause` is one of `CAUSES`."""
    if cause not in CAUSES:
        raise ValueError(f"the cause is one of {', '.join(CAUSES)}, not {cause!r}")
    return [_planted(picture, cause, seed, word_plant, picture_plant) for picture in pictures]


def _planted(
    picture: CaptionedPicture, cause: str, seed: int, word_plant: TextPlant, picture_plant: ImagePlant
) -> PlantedPair:
    rng = random_generator(seed, f"pair plant in {cause}", picture.name)
    label = int(rng.integers(2))
    in_words, in_picture = (label, label) if cause != "both" or label else _WITHOUT[int(rng.integers(len(_WITHOUT)))]
    caption = picture.caption
    spans: Spans = ()
    if cause != "picture":
        planted = word_plant.apply(Example(picture.name, picture.caption), rng, in_words)
        caption, spans = planted.example.text, tuple(planted.example.spans or ())
    pixels, region = picture.pixels, np.zeros(picture.pixels.shape[:2], dtype=bool)
    if cause != "words":
        region = picture_plant.region(*pixels.shape[:2])
        pixels = picture_plant.change(pixels[None], [rng])[0] if in_picture else pixels
    return PlantedPair(picture.name, pixels, caption, label, spans, region)
