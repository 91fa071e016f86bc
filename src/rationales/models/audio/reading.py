"""Reads sounds from WAV files and arrays, mixes them down to one channel and resamples them."""

from __future__ import annotations

import math
import os
import wave
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rationales.errors import InputError

SAMPLE_RATES = (1_000, 768_000)  # accepted range, samples per second
MAX_SECONDS = 4 * 3600
MAX_AMPLITUDE = 1.5  # decoders overshoot 1 a little; samples beyond this are on another scale
ZERO_CROSSINGS = 24  # of the sinc on either side, in resampling
_CHUNK = 1 << 15  # samples that are computed at once
_STREAMED = 0x7FFFF000  # bytes: headers written before the length was known say this or more
# First bytes of formats that are often given in place of a WAV file.
_OTHER_FORMATS = {
    b"ID3": "MP3",
    b"\xff\xfb": "MP3",
    b"\xff\xf3": "MP3",
    b"OggS": "Ogg",
    b"fLaC": "FLAC",
    b"FORM": "AIFF",
}
_ADVICE = "convert it first (ffmpeg -i IN -ac 1 -c:a pcm_s16le OUT.wav), or give (samples, sample_rate)"


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
    """A sound from the path of a WAV file (PCM of 8, 16, 24 or 32 bits) or from a tuple (samples, sample_rate).

    Samples: an array or a tensor (n,), (n, channels) or (channels, n); integers of 8 to 32 bits, or floats in [-1, 1].
    Channels are averaged.
    """
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        return _finished(*_decoded(path, name or str(source)), name or str(source))
    if isinstance(source, tuple) and len(source) == 2:
        title = name or "the array"
        return _finished(_scaled(source[0], title), _checked_rate(source[1], title), title)
    raise InputError(
        f"a sound is the path of a WAV file or a tuple (samples, sample_rate), not {type(source).__name__}"
    )


def resample(samples: NDArray[np.float32], old_rate: int, new_rate: int) -> NDArray[np.float32]:
    """(n,) at `old_rate` -> (ceil(n new_rate / old_rate),) at `new_rate`, by a Hann-windowed sinc.

    Frequencies above half the new rate are filtered out; beyond its ends the sound is silent.
    """
    if old_rate == new_rate:
        return samples
    divisor = math.gcd(old_rate, new_rate)
    down, up = old_rate // divisor, new_rate // divisor
    cutoff = min(1.0, up / down)  # the highest frequency that both rates can represent, relative to the old one's
    reach = math.ceil(ZERO_CROSSINGS / cutoff)  # samples on either side that contribute to a new one
    padded = np.pad(samples.astype(np.float64), (reach, reach + 1))
    count = -(-len(samples) * up // down)
    result = np.empty(count, dtype=np.float32)
    offsets = np.arange(-reach + 1, reach + 1)
    for begin in range(0, count, _CHUNK):
        position = np.arange(begin, min(begin + _CHUNK, count), dtype=np.int64) * down
        phases, phase_index = np.unique(position % up, return_inverse=True)  # at most `up`
        distance = (offsets - (phases / up)[:, None]) * cutoff
        weight = np.sinc(distance) * cutoff * np.cos(np.pi / 2 * np.clip(distance / ZERO_CROSSINGS, -1, 1)) ** 2
        neighbours = padded[(position // up + reach)[:, None] + offsets]
        result[begin : begin + len(position)] = (neighbours * weight[phase_index]).sum(1)
    return result


def _decoded(path: Path, title: str) -> tuple[NDArray[np.float32], int]:
    try:
        with path.open("rb") as file:
            start = file.read(12)
            file.seek(0)
            if format_name := _other_format(start):
                raise InputError(f"{title} is {format_name}, not WAV; {_ADVICE}")
            with wave.open(file) as opened:
                channels, width, rate = opened.getnchannels(), opened.getsampwidth(), opened.getframerate()
                declared = opened.getnframes() * channels * width
                raw = opened.readframes(opened.getnframes())
    except FileNotFoundError:
        raise InputError(f"there is no file {path}") from None
    except IsADirectoryError:
        raise InputError(f"{title} is a folder; give a WAV file") from None
    except OSError as error:
        raise InputError(f"cannot read {title}: {error.strerror}") from error
    except (wave.Error, EOFError) as error:
        raise InputError(
            f"{title} is no WAV file of plain PCM samples ({str(error) or 'it ends too early'}); {_ADVICE}"
        ) from None
    if len(raw) < declared < _STREAMED:
        raise InputError(f"{title} is truncated: {len(raw):,} of {declared:,} bytes of sound; get the whole file")
    raw = raw[: len(raw) // (channels * width) * channels * width]
    return _pcm(raw, width).reshape(-1, channels), _checked_rate(rate, title)


def _other_format(start: bytes) -> str | None:
    """The name of a well-known format that is not WAV, or None."""
    if start[4:8] == b"ftyp":
        return "MP4 or M4A"
    return next((kind for mark, kind in _OTHER_FORMATS.items() if start.startswith(mark)), None)


def _pcm(raw: bytes, width: int) -> NDArray[np.float32]:
    """Bytes of little-endian PCM -> floats in [-1, 1); 8 bits are unsigned, all others signed."""
    if width == 1:
        return ((np.frombuffer(raw, np.uint8).astype(np.float32) - 128) / 128).astype(np.float32)
    if width == 3:
        bytes_ = np.frombuffer(raw, np.uint8).reshape(-1, 3)
        high = np.concatenate([np.zeros((len(bytes_), 1), np.uint8), bytes_], axis=1)  # the low byte of 32 bits is 0
        return (np.ascontiguousarray(high).view("<i4")[:, 0] / 2.0**31).astype(np.float32)
    return (np.frombuffer(raw, f"<i{width}") / 2.0 ** (8 * width - 1)).astype(np.float32)


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
    if len(samples) > MAX_SECONDS * sample_rate:
        raise InputError(f"{title} is longer than {MAX_SECONDS // 3600} hours; cut it and explain the parts")
    mono = np.ascontiguousarray(samples.mean(1, dtype=np.float64), dtype=np.float32)
    mono.flags.writeable = False
    return Sound(mono, sample_rate, title, samples.shape[1])


def as_tensor(sound: Sound, sample_rate: int) -> Tensor:
    """(n,) float32 at `sample_rate`."""
    return torch.from_numpy(resample(sound.samples, sound.sample_rate, sample_rate).copy())
