"""Reads pairs of an image and a text, and cuts them into pixels and words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from rationales.errors import InputError
from rationales.models.batch.rows import content_key
from rationales.models.image.reading import ImageInput, read_image
from rationales.models.text.tokens import EncodedText, TextInput, TokenRow, read_text_input

EXPECTED = 'an input of an image-text model is a tuple (image, text), such as ("photo.jpg", "a red bus")'


@dataclass(frozen=True, eq=False)
class ImageTextInput:
    """An image and a text that belong together."""

    image: ImageInput
    caption: TextInput
    name: str

    @property
    def text(self) -> str:
        """The text."""
        return self.caption.text


@dataclass(frozen=True, eq=False)
class EncodedImageText:
    """An image as the model reads it, and the words and tokens of its text."""

    source: ImageTextInput
    pixels: Tensor  # (channels, H, W) as the model reads it
    real: Tensor  # (H, W) bool: not padding
    words: EncodedText

    @property
    def tokens(self) -> TokenRow:
        """The tokens of the text, all in one row."""
        return self.words.rows[0]


def read_pair(raw_input: Any, name: str | None) -> ImageTextInput:
    """A checked input made from a tuple of an image (a path, a PIL image or an array) and a text."""
    if not isinstance(raw_input, tuple) or len(raw_input) != 2:
        raise InputError(f"{EXPECTED}, not {type(raw_input).__name__}")
    picture, text = raw_input
    if not isinstance(text, str):
        if isinstance(picture, str):
            raise InputError(f"{EXPECTED}: the image comes first")
        raise InputError(f"{EXPECTED}; its text is {type(text).__name__}")
    caption = read_text_input(text, None)
    if not text.strip():
        raise InputError(f"the text of {name or 'the input'} is empty; there are no words to explain")
    image = read_image(picture, name)
    return ImageTextInput(image, caption, name or f"{image.name} with {caption.title}")


def pair_key(seed: int, source: ImageTextInput) -> int:
    """The key of an input's random numbers, from its content."""
    return content_key(seed, source.image.pixels.tobytes(), source.caption.text)
