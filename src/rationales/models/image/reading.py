"""Reads images, fits them into a model's input, and resizes scores to the original size.

Pillow is needed here (`pip install 'rationales[images]'`) and is imported when the first image is read.
"""

from __future__ import annotations

import codecs
import functools
import os
import struct
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rationales.errors import InputError, ModelError, OptionError

if TYPE_CHECKING:
    from PIL import Image

MIN_SIDE = 4  # pixels; smaller images are refused
MAX_SIDE = 4096  # pixels of the long side; larger images are reduced to this
MAX_PIXELS = 100_000_000  # in all; larger images are refused before they are decoded
_FIRST_FRAME_ONLY = ("MPO", "PSD")  # a photograph with its preview, a drawing with its layers: the first is the image
_AVERAGEABLE = ("L", "LA", "RGB", "RGBA", "CMYK")  # modes whose pixels can be averaged as they are
_ORIENTATION = 0x0112  # the EXIF tag
# EXIF orientation -> Pillow's name of the transposition that makes the image upright.
_TURNS = {2: "FLIP_LEFT_RIGHT", 3: "ROTATE_180", 4: "FLIP_TOP_BOTTOM", 5: "TRANSPOSE"}
_TURNS |= {6: "ROTATE_270", 7: "TRANSVERSE", 8: "ROTATE_90"}

Source = Any  # a path, a PIL image or a NumPy array; Pillow's type cannot be named before it is imported


@dataclass(frozen=True, eq=False)
class ImageInput:
    """An image as it is displayed: upright, RGB, opaque."""

    pixels: NDArray[np.uint8]  # (h, w, 3), read-only
    name: str
    reduced_from: tuple[int, int] | None = None  # height and width before it was reduced to `MAX_SIDE`

    @property
    def size(self) -> tuple[int, int]:
        """Height and width."""
        return self.pixels.shape[0], self.pixels.shape[1]


def read_image(source: Source, name: str | None = None) -> ImageInput:
    """An image from a path, a PIL image, or an array (h, w), (h, w, 3) or (h, w, 4): uint8, or float in [0, 1].

    It is turned upright by its EXIF orientation; gray, palette, 16 bits and CMYK become RGB; transparent pixels become
    white; colour profiles are ignored. More than `MAX_SIDE` pixels on a side are reduced; then `reduced_from` is set.
    """
    return read_images([source], [name])[0]


def read_images(sources: Sequence[Source], names: Sequence[str | None], threads: int = 1) -> list[ImageInput]:
    """`read_image` for several images, in several threads; of several images that cannot be read, the first is told."""
    _pillow()
    with warnings.catch_warnings():  # here, since it is not safe inside of threads
        warnings.simplefilter("ignore")  # about sizes, which `MAX_PIXELS` limits, and unreadable metadata
        if min(threads, len(sources)) <= 1:
            return [_read(source, name) for source, name in zip(sources, names, strict=True)]
        with ThreadPoolExecutor(min(threads, len(sources))) as pool:  # decoders release the interpreter lock
            return list(pool.map(_read, sources, names))


def _read(source: Source, name: str | None) -> ImageInput:
    module = _pillow()
    if isinstance(source, np.ndarray):
        title = name or "the array"
        image: Image.Image = module.fromarray(_bytes(source, title))
        return _finished(image, title, _checked(image, title))
    if isinstance(source, module.Image):
        return _decoded(source, name or str(getattr(source, "filename", "")) or "the image", mutable=False)
    if isinstance(source, (str, os.PathLike)):
        return _opened(Path(source), name or str(source))
    raise InputError(f"an image is a path, a PIL image or a NumPy array, not {type(source).__name__}")


def _opened(path: Path, title: str) -> ImageInput:
    module = _pillow()
    try:
        with module.open(path) as image:
            return _decoded(image, title, mutable=True)
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"there is no file {path}") from None
    except IsADirectoryError:
        raise InputError(f"{title} is a folder; give an image file") from None
    except module.DecompressionBombError:
        raise InputError(_too_large(title, "far more")) from None
    except module.UnidentifiedImageError:
        raise InputError(_no_image(path, title)) from None
    except Exception as error:  # an error of the system, or one of the many kinds that decoders raise
        if isinstance(error, OSError) and error.strerror:
            raise InputError(f"cannot read {title}: {error.strerror}") from error
        raise InputError(_broken(title, error)) from error


def _decoded(image: Image.Image, title: str, mutable: bool) -> ImageInput:
    """Decode a PIL image; a user's is not `mutable` and is left as it is."""
    height, width = _checked(image, title)
    try:
        frames = 1 if image.format in _FIRST_FRAME_ONLY else int(getattr(image, "n_frames", 1))
        if frames > 1:
            raise InputError(f"{title} is animated or has pages ({frames} frames); save one of them as a PNG")
        if mutable and max(height, width) > MAX_SIDE:
            image.draft(None, _reduced(width, height))  # a JPEG is decoded at a half or a quarter, never below this
        image.load()
        turn = _turn(image)
        if max(height, width) > MAX_SIDE and image.mode in _AVERAGEABLE and "transparency" not in image.info:
            image = _shrunk(image, height, width)  # before anything is copied at full size
        return _finished(_coloured(image, title), title, (height, width), turn)
    except InputError:
        raise
    except Exception as error:  # decoders raise many kinds; each means that the image cannot be read
        raise InputError(_broken(title, error)) from error


def _checked(image: Image.Image, title: str) -> tuple[int, int]:
    """Height and width, from the header alone."""
    width, height = image.size
    if height * width > MAX_PIXELS:
        raise InputError(_too_large(title, f"{width} × {height}"))
    if min(height, width) < MIN_SIDE:
        raise InputError(
            f"{title} is too small to explain ({width} × {height} pixels); give at least {MIN_SIDE} × {MIN_SIDE}"
        )
    return height, width


def _finished(image: Image.Image, title: str, size: tuple[int, int], turn: str | None = None) -> ImageInput:
    """Reduce and turn an RGB image whose original `size` was (height, width)."""
    module = _pillow()
    large = max(size) > MAX_SIDE
    if large:
        image = _shrunk(image, *size)
    if turn is not None:
        image = image.transpose(module.Transpose[turn])
        size = (size[1], size[0]) if turn in ("TRANSPOSE", "TRANSVERSE", "ROTATE_90", "ROTATE_270") else size
    pixels = np.array(image, dtype=np.uint8)
    pixels.flags.writeable = False
    return ImageInput(pixels, title, size if large else None)


def _shrunk(image: Image.Image, height: int, width: int) -> Image.Image:
    return image.resize(_reduced(width, height), _pillow().Resampling.BICUBIC, reducing_gap=3.0)


def _reduced(width: int, height: int) -> tuple[int, int]:
    scale = MAX_SIDE / max(width, height)
    return max(1, round(width * scale)), max(1, round(height * scale))


def _turn(image: Image.Image) -> str | None:
    try:
        return _TURNS.get(image.getexif().get(_ORIENTATION, 1))
    except (OSError, SyntaxError, ValueError, TypeError, KeyError, struct.error):  # unreadable metadata: not turned
        return None


def _coloured(image: Image.Image, title: str) -> Image.Image:
    """Any mode -> RGB; transparent pixels become white."""
    module = _pillow()
    if image.mode.startswith("I"):
        values = np.asarray(image).astype(np.int64)
        if values.min() < 0 or values.max() > 65535:
            raise InputError(f"{title} has values outside of 0 to 65535; save it with 8 or 16 bits per colour")
        return _rgb(module.fromarray((values / 257).round().astype(np.uint8)))
    if image.mode == "F":
        return _rgb(module.fromarray(_bytes(np.asarray(image), title)))
    if image.has_transparency_data:
        transparent = image.convert("RGBA")
        return _rgb(module.alpha_composite(module.new("RGBA", transparent.size, "white"), transparent))
    return _rgb(image)


def _rgb(image: Image.Image) -> Image.Image:
    return image if image.mode == "RGB" else image.convert("RGB")


def _bytes(values: NDArray[Any], title: str) -> NDArray[np.uint8]:
    """An array as opaque uint8 (h, w, 3); an InputError where it is no image."""
    if values.ndim == 3 and values.shape[0] in (1, 3, 4) and values.shape[2] not in (3, 4):
        raise InputError(f"{title} has the shape {values.shape}, colours first; give array.transpose(1, 2, 0)")
    if values.ndim not in (2, 3) or (values.ndim == 3 and values.shape[2] not in (3, 4)):
        raise InputError(f"{title} has the shape {values.shape}; give (h, w), (h, w, 3) or (h, w, 4)")
    if values.size == 0:
        raise InputError(f"{title} is empty, its shape is {values.shape}; give at least {MIN_SIDE} × {MIN_SIDE}")
    if values.shape[0] * values.shape[1] > MAX_PIXELS:
        raise InputError(_too_large(title, f"{values.shape[1]} × {values.shape[0]}"))
    if np.issubdtype(values.dtype, np.floating):
        if not np.isfinite(values).all():
            raise InputError(f"{title} holds NaN or infinite values; give numbers in [0, 1]")
        low, high = float(values.min()), float(values.max())
        if low < 0 or high > 1:
            raise InputError(f"{title} has values from {low:.4g} to {high:.4g}; give floats in [0, 1], or uint8")
        values = (values.astype(np.float32) * 255).round().astype(np.uint8)
    if values.dtype != np.uint8:
        raise InputError(f"{title} holds {values.dtype}; give uint8 (0 to 255) or floats in [0, 1]")
    if values.ndim == 2:
        return np.repeat(values[..., None], 3, axis=2)
    if values.shape[2] == 4:
        opacity = values[..., 3:].astype(np.float32) / 255
        return (values[..., :3] * opacity + 255 * (1 - opacity)).round().astype(np.uint8)
    return np.ascontiguousarray(values)


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise ModelError("images need Pillow, which is not installed: pip install 'rationales[images]'") from None
    return Image


def _too_large(title: str, size: str) -> str:
    return (
        f"{title} is too large ({size} pixels; the limit is {MAX_PIXELS // 1_000_000} million); make it smaller first"
    )


def _no_image(path: Path, title: str) -> str:
    with path.open("rb") as file:
        start = file.read(4096)
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(start)  # may end in half a character
        kind = "empty" if not start else "no image that Pillow can read" if "\x00" in text else "a text, not an image"
    except UnicodeDecodeError:
        kind = "no image that Pillow can read"
    return f"{title} is {kind}; give an image file, such as a JPEG or PNG"


def _broken(title: str, error: Exception) -> str:
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return f"{title} is damaged, cut off or of an unknown kind ({reason}); get it again, or save it anew as a PNG"


@dataclass(frozen=True)
class Fit:
    """How an image of any size is fitted into a model's input of `height` × `width`.

    `squash`: resized without regard to its shape. `crop`: resized to `resize`, its short side or its (height, width),
    then the middle is cut out; by default as little is cut as possible. `pad`: resized so that all of it fits, centred
    on the colour `fill`.
    """

    kind: Literal["squash", "crop", "pad"]
    height: int
    width: int
    resize: int | tuple[int, int] | None = None
    fill: tuple[float, float, float] = (0.5, 0.5, 0.5)  # colour of the padding, in [0, 1]
    resample: str = "bilinear"  # or another of Pillow's names: bicubic, lanczos, nearest, box, hamming

    def __post_init__(self) -> None:
        if self.kind not in ("squash", "crop", "pad"):
            raise OptionError(f"there is no fit {self.kind!r}; there is: squash, crop, pad")
        if self.resize is not None and self.kind != "crop":
            raise OptionError(f"only the fit crop resizes before it cuts; {self.kind} has no resize")
        if min(self.height, self.width, *np.ravel(1 if self.resize is None else self.resize)) < 1:
            raise OptionError(f"the sizes of a fit are pixels, at least 1; not {self}")

    def layout(self, height: int, width: int) -> tuple[int, int, int, int]:
        """Rows and columns of the resized image, and the row and column of the input where it begins (may be < 0)."""
        if self.kind == "squash":
            return self.height, self.width, 0, 0
        if isinstance(self.resize, tuple):
            rows, columns = self.resize
        elif self.resize is not None:  # the long side is rounded down, as the usual preprocessors do
            rows, columns = (self.resize * side // min(height, width) for side in (height, width))
        else:
            bound = min if self.kind == "pad" else max
            scale = bound(self.height / height, self.width / width)
            rows, columns = (max(1, round(side * scale)) for side in (height, width))
        return rows, columns, -((rows - self.height) // 2), -((columns - self.width) // 2)

    def visible(self, height: int, width: int) -> tuple[int, int, int, int]:
        """The part of the resized image that the model reads: first and end row, first and end column."""
        rows, columns, top, left = self.layout(height, width)
        return max(0, -top), min(rows, self.height - top), max(0, -left), min(columns, self.width - left)


def fit_image(image: ImageInput, fit: Fit) -> tuple[Tensor, Tensor]:
    """The model's input, (3, H, W) float32 in [0, 1], and which of its pixels are not padding, (H, W) bool."""
    module = _pillow()
    filters = [resampling.name.lower() for resampling in module.Resampling]
    if fit.resample not in filters:
        raise OptionError(f"there is no resampling filter {fit.resample!r}; there is: {', '.join(filters)}")
    (height, width), (rows, columns, top, left) = image.size, fit.layout(*image.size)
    first, last, start, end = fit.visible(*image.size)
    box = (start * width / columns, first * height / rows, end * width / columns, last * height / rows)
    # Only the visible part is resized: the same numbers as cropping later, and a long thin image stays small.
    resized = module.fromarray(image.pixels).resize(
        (end - start, last - first), module.Resampling[fit.resample.upper()], box=box
    )
    pixels = torch.tensor(fit.fill, dtype=torch.float32)[:, None, None].repeat(1, fit.height, fit.width)
    area = (slice(top + first, top + last), slice(left + start, left + end))
    pixels[(slice(None), *area)] = torch.from_numpy(np.array(resized, dtype=np.float32) / 255).permute(2, 0, 1)
    return pixels, real_pixels(image.size, fit).clone()


@functools.lru_cache(64)
def real_pixels(size: tuple[int, int], fit: Fit) -> Tensor:
    """(H, W) bool: pixels of the model's input that belong to an image of this height and width, not to padding."""
    _, _, top, left = fit.layout(*size)
    first, last, start, end = fit.visible(*size)
    real = torch.zeros(fit.height, fit.width, dtype=torch.bool)
    real[top + first : top + last, left + start : left + end] = True
    return real


@functools.lru_cache(64)
def read_pixels(size: tuple[int, int], fit: Fit) -> NDArray[np.bool_]:
    """(h * w,) bool: pixels of an image of this height and width that the model reads, not cropped; read-only."""
    mask = np.asarray(_at_size(real_pixels(size, fit).float(), fit, size).flatten().numpy() > 0)
    mask.flags.writeable = False
    return mask


def scores_at_image_size(scores: Tensor, fit: Fit, image: ImageInput) -> Tensor:
    """Scores (…, H, W) of a model's input -> (…, h, w) float32 at the image's size; 0 for pixels that were cropped.

    Bilinear between the centres of pixels (averaged where the image is smaller than the input); padding is ignored.
    """
    if scores.shape[-2:] != (fit.height, fit.width):
        raise InputError(f"scores have the shape {tuple(scores.shape)}; the input is {fit.height} × {fit.width}")
    return _at_size(scores, fit, image.size)


AXES_REMEMBERED = (
    32  # sides of images; photographs of one collection have a few sizes, and a matrix takes up to 4 MB at 224
)


def _at_size(scores: Tensor, fit: Fit, size: tuple[int, int]) -> Tensor:
    rows, columns, top, left = fit.layout(*size)
    down = _axis(size[0], rows, top, fit.height, scores.device)
    across = _axis(size[1], columns, left, fit.width, scores.device)
    return down @ scores.float() @ across.T


@functools.lru_cache(AXES_REMEMBERED)
def _axis(size: int, resized: int, begin: int, input_size: int, device: torch.device) -> Tensor:
    """(size, input_size): the weight of every pixel of the input in every pixel of the image, along one side."""
    centre = (torch.arange(size, dtype=torch.float64)[:, None] + 0.5) * resized / size
    pixel = torch.arange(input_size, dtype=torch.float64) - begin + 0.5  # both in pixels of the resized image
    real = (pixel > 0) & (pixel < resized)
    share = (1 - (centre - pixel).abs() / max(1.0, resized / size)).clamp(min=0) * real
    visible = (centre >= -begin) & (centre <= input_size - begin)
    return (share / share.sum(1, keepdim=True).clamp(min=1e-9) * visible).float().to(device)
