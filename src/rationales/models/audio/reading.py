"""Reads sounds from files and arrays, mixes them down to one channel and resamples them.

Files are decoded by soundfile and sample rates changed by soxr (`pip install 'rationales[audio]'`); both are imported
when they are first needed.
"""

from __future__ import annotations

import importlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rationales.errors import InputError, ModelError

SAMPLE_RATES = (1_000, 768_000)  # accepted range, samples per second
MAX_SECONDS = 4 * 3600
MAX_AMPLITUDE = 1.5  # decoders overshoot 1 a little; samples beyond this are on another scale
_BLOCK = 1 << 20  # frames that are decoded at once: a header that lies about the length reserves no memory
_STREAMED = 0x7FFFF000  # bytes: headers written before the length was known say this or more
_ADVICE = "convert it first (ffmpeg -i IN -ac 1 -c:a pcm_s16le OUT.wav)"


@dataclass(frozen=True, eq=False)
class Sound:
    """A recording, mixed down to one channel."""

    samples: NDArray[np.float32]  # (n,) in [-1, 1], read-only
    sample_rate: int
    name: str
    channels: int = 1  # before they were mixed down

    @property
    def seconds(self) -> float:
        """The duration."""
        return len(self.samples) / self.sample_rate


def read_sound(source: Any, name: str | None = None) -> Sound:
    """A sound from the path of a file (WAV, FLAC, Ogg, MP3, AIFF) or from a tuple (samples, sample_rate).

    Samples: an array or a tensor (n,), (n, channels) or (channels, n); integers of 8 to 32 bits, or floats in [-1, 1].
    Channels are averaged.
    """
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        return _finished(*_decoded(path, name or str(source)), name or str(source))
    if isinstance(source, tuple) and len(source) == 2:
        title = name or "the array"
        return _finished(_scaled(source[0], title), _checked_rate(source[1], title), title)
    raise InputError(f"a sound is the path of a file or a tuple (samples, sample_rate), not {type(source).__name__}")


def resample(samples: NDArray[np.float32], old_rate: int, new_rate: int) -> NDArray[np.float32]:
    """(n,) at `old_rate` -> about (n new_rate / old_rate,) at `new_rate`."""
    if old_rate == new_rate:
        return samples
    resampled: NDArray[np.float32] = _library("soxr").resample(samples, old_rate, new_rate, quality="HQ")
    return resampled


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ModelError(f"this needs {name}, which is not installed: pip install 'rationales[audio]'") from None


def _decoded(path: Path, title: str) -> tuple[NDArray[np.float32], int]:
    """(n, channels) samples and the sample rate."""
    try:
        with path.open("rb"):  # soundfile does not say why a file cannot be opened
            pass
    except FileNotFoundError:
        raise InputError(f"there is no file {path}") from None
    except IsADirectoryError:
        raise InputError(f"{title} is a folder; give a sound file") from None
    except OSError as error:
        raise InputError(f"cannot read {title}: {error.strerror}") from error
    library = _library("soundfile")
    try:
        with library.SoundFile(path) as file:
            sample_rate = _checked_rate(file.samplerate, title)
            _check_length(file.frames, sample_rate, title)
            _check_complete(file.extra_info, title)
            blocks = [np.zeros((0, file.channels), np.float32)]
            while len(block := file.read(_BLOCK, dtype="float32", always_2d=True)):
                blocks.append(block)
    except library.LibsndfileError as error:
        raise InputError(f"{title} is no sound file that can be read ({error.error_string}); {_ADVICE}") from None
    return np.concatenate(blocks), sample_rate


def _check_complete(header: str, title: str) -> None:
    """Raise an InputError where a WAV file has fewer bytes than its header says; libsndfile only notes it."""
    match = re.search(r"^data : (\d+) \(should be (\d+)\)", header, re.MULTILINE)
    if match and int(match[2]) < int(match[1]) < _STREAMED:
        raise InputError(
            f"{title} is truncated: {int(match[2]):,} of {int(match[1]):,} bytes of sound; get the whole file"
        )


def _check_length(samples: int, sample_rate: int, title: str) -> None:
    if samples > MAX_SECONDS * sample_rate:
        raise InputError(f"{title} is longer than {MAX_SECONDS // 3600} hours; cut it and explain the parts")


def _scaled(samples: Any, title: str) -> NDArray[np.float32]:
    """An array of any accepted type -> (n, channels) floats."""
    values = samples.detach().cpu().numpy() if isinstance(samples, Tensor) else np.asarray(samples)
    if values.ndim not in (1, 2) or values.dtype.kind not in "iuf":
        raise InputError(f"{title} has the shape {values.shape} of {values.dtype}; give samples (n,) or (n, channels)")
    if values.ndim == 2 and values.shape[0] < values.shape[1]:
        values = values.T  # channels first
    if values.dtype.kind == "u":
        values = values.astype(np.float64) / 2 ** (8 * values.dtype.itemsize - 1) - 1
    elif values.dtype.kind == "i":
        values = values / 2.0 ** (8 * values.dtype.itemsize - 1)
    return (values[:, None] if values.ndim == 1 else values).astype(np.float32)


def _checked_rate(sample_rate: Any, title: str) -> int:
    is_integer = isinstance(sample_rate, (int, np.integer)) and not isinstance(sample_rate, bool)
    low, high = SAMPLE_RATES
    if not is_integer or not low <= sample_rate <= high:
        raise InputError(f"the sample rate of {title} is {sample_rate!r}; give samples per second, {low} to {high}")
    return int(sample_rate)


def _finished(samples: NDArray[np.float32], sample_rate: int, title: str) -> Sound:
    """(n, channels) -> a sound, checked and mixed down."""
    if not samples.size:
        raise InputError(f"{title} is empty: it holds no samples")
    if not np.isfinite(samples).all():
        raise InputError(f"{title} holds NaN or infinite samples; check how it was made")
    if (peak := float(np.abs(samples).max())) > MAX_AMPLITUDE:
        raise InputError(f"{title} reaches {peak:g}; give samples in [-1, 1] (16-bit numbers divided by 32768)")
    _check_length(len(samples), sample_rate, title)
    mono = np.ascontiguousarray(samples.mean(1, dtype=np.float64), dtype=np.float32)
    mono.flags.writeable = False
    return Sound(mono, sample_rate, title, samples.shape[1])


def as_tensor(sound: Sound, sample_rate: int) -> Tensor:
    """(n,) float32 at `sample_rate`."""
    return torch.from_numpy(resample(sound.samples, sound.sample_rate, sample_rate).copy())
