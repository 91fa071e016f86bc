"""An image that is ready to be explained, and what is known of it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from torch import Tensor

from rationales.models.batch.rows import content_key
from rationales.models.image.baseline_choice import BaselineChoice
from rationales.models.image.reading import ImageInput

_keys: WeakKeyDictionary[ImageInput, dict[int, int]] = WeakKeyDictionary()  # by seed


@dataclass(frozen=True, eq=False)
class KnownPredictions:
    """Predictions for one image that need not be computed again while the weights stay as they are."""

    logits: Tensor  # (classes,) of the image
    baseline: Tensor  # (classes,) probabilities of its plain colour


@dataclass(frozen=True)
class EncodedImage:
    """An image as the model reads it, ready to be explained."""

    source: ImageInput
    pixels: Tensor  # (channels, H, W) as the model reads it
    real: Tensor  # (H, W) bool: not padding
    baseline_choice: BaselineChoice | None = None  # where the baselines are chosen for each image
    known: KnownPredictions | None = None  # what the model was asked to choose a plain colour; see `encode`


def image_key(seed: int, image: EncodedImage) -> int:
    """The key of an image's random numbers, from its content."""
    keys = _keys.setdefault(image.source, {})
    if seed not in keys:
        digest = hashlib.blake2b(image.source.pixels.tobytes()).digest()  # other threads run meanwhile
        keys[seed] = content_key(seed, repr(image.source.size), digest)
    return keys[seed]
