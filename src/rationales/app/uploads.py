"""Images, sounds and tables that a visitor sends, decoded within the limits.

An upload is one string: base64, or a data URL (data:image/png;name=cat.png;base64,…). It is never written to a file.
"""

from __future__ import annotations

import base64
import binascii
import io
import warnings
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import numpy as np

from rationales.app.limits import BASE64_GROWTH, Limits
from rationales.errors import InputError, ModelError
from rationales.models.image.reading import ImageInput, read_image

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")  # decoders without helper programs
MAX_NAME = 80  # characters
SHOWN_SIDE = 1024  # pixels of the longer side; larger images are reduced, models read far less
MEGABYTE = 1_000_000


@dataclass(frozen=True)
class Upload:
    """The bytes of a file and its name, which comes from the visitor and is only displayed."""

    content: bytes
    name: str


def decode_upload(value: str, max_bytes: int, noun: str) -> Upload:
    """The upload in a base64 string or data URL; `noun` names it where there is no name."""
    if len(value) > max_bytes * BASE64_GROWTH + 1_000:
        raise InputError(_too_large(noun, max_bytes))
    name, encoded = noun, value.strip()
    if encoded.startswith("data:"):
        header, separator, encoded = encoded.partition(",")
        parameters = header.removeprefix("data:").split(";")
        if not separator or parameters[-1] != "base64":
            raise InputError(f"{noun} is not a data URL in base64; send base64 or data:TYPE;base64,…")
        names = [unquote(text.removeprefix("name=")) for text in parameters if text.startswith("name=")]
        name = file_name(names[0]) if names and file_name(names[0]) else noun
    try:
        content = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise InputError(f"{noun} is not valid base64; send the bytes of the file as base64") from None
    if len(content) > max_bytes:
        raise InputError(_too_large(noun, max_bytes))
    if not content:
        raise InputError(f"{noun} is empty; choose another file")
    return Upload(content, name)


def file_name(raw: str) -> str:
    """The last part of a name as a visitor sent it, without control characters; it is displayed, never opened."""
    last = raw.replace("\\", "/").rsplit("/", 1)[-1]
    visible = "".join(character for character in last if character.isprintable())
    return visible[:MAX_NAME].strip()


def read_upload_image(upload: Upload, limits: Limits) -> ImageInput:
    """The image, at most `SHOWN_SIDE` pixels on a side; its size is checked before it is decoded."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise ModelError("images need Pillow, which is not installed: pip install 'rationales[images]'") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about sizes, which are checked here
            with Image.open(io.BytesIO(upload.content), formats=FORMATS) as image:
                pixels = image.width * image.height
                if pixels > limits.pixels:
                    raise InputError(
                        f"{upload.name} has {pixels:,} pixels; this server takes {limits.pixels:,}; make it smaller"
                    )
                return _reduced(read_image(image, upload.name))
    except InputError:
        raise
    except (UnidentifiedImageError, Image.DecompressionBombError):
        known = ", ".join(FORMATS)
        raise InputError(f"{upload.name} is no image that this server reads; give one of {known}") from None
    except (OSError, ValueError, SyntaxError, EOFError) as error:
        raise InputError(f"{upload.name} is damaged or cut off ({type(error).__name__}); save it anew") from None


def read_upload_sound(upload: Upload, limits: Limits) -> tuple[np.ndarray, int]:
    """(frames, channels) float32 samples and their rate; at most the permitted seconds are decoded."""
    try:
        import soundfile as untyped  # type: ignore[import-untyped]  # comes without types
    except ImportError:
        raise ModelError("sounds need soundfile, which is not installed: pip install 'rationales[audio]'") from None
    soundfile: Any = untyped
    try:
        with soundfile.SoundFile(io.BytesIO(upload.content)) as file:
            rate = int(file.samplerate)
            max_samples = int(limits.sound_seconds * rate)
            samples = file.read(max_samples + 1, dtype="float32", always_2d=True)
    except (soundfile.LibsndfileError, RuntimeError, TypeError, ValueError):
        raise InputError(f"{upload.name} is no sound that this server reads; give a WAV, FLAC or Ogg file") from None
    if len(samples) > max_samples:
        raise InputError(f"{upload.name} is longer than {limits.sound_seconds:g} s, the limit of this server; cut it")
    if not len(samples):
        raise InputError(f"{upload.name} holds no samples; give a WAV, FLAC or Ogg file")
    return samples.clip(-1.0, 1.0), rate


def _reduced(image: ImageInput) -> ImageInput:
    longest = max(image.size)
    if longest <= SHOWN_SIDE:
        return image
    from PIL import Image

    height, width = (max(1, round(side * SHOWN_SIDE / longest)) for side in image.size)
    resized = Image.fromarray(image.pixels).resize((width, height), Image.Resampling.LANCZOS)
    return read_image(resized, image.name)


def _too_large(noun: str, max_bytes: int) -> str:
    return f"{noun} is larger than {max_bytes / MEGABYTE:g} MB, the limit of this server; make it smaller"
