"""Sounds: read from WAV files and arrays, mixed down to one channel, and taken to the rate that a model reads."""

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

RATES = (1_000, 768_000)  # samples per second that are believed
LONGEST = 4 * 3600  # seconds; longer recordings are better cut first
LOUDEST = 1.5  # decoders overshoot 1 a little; far more is another scale
CROSSINGS = 24  # of the sinc on either side, when the rate is changed
_CHUNK = 1 << 15  # samples that are made at once
_STREAMED = 0x7FFFF000  # bytes: a header written before the length was known says this or more
# The first bytes of what is often given in place of a WAV file.
_OTHERS = {b"ID3": "MP3", b"\xff\xfb": "MP3", b"\xff\xf3": "MP3", b"OggS": "Ogg", b"fLaC": "FLAC", b"FORM": "AIFF"}
_ADVICE = "convert it first (ffmpeg -i IN -ac 1 -c:a pcm_s16le OUT.wav), or give (samples, rate)"


@dataclass(frozen=True, eq=False)
class Sound:
    """A recording as it is heard: one channel, samples in [-1, 1]."""

    samples: NDArray[np.float32]  # (n,), read-only
    rate: int  # samples per second
    name: str
    channels: int = 1  # before they were mixed down

    @property
    def seconds(self) -> float:
        """How long it is."""
        return len(self.samples) / self.rate


def read(source: Any, name: str | None = None) -> Sound:
    """A sound from the path of a WAV file (PCM of 8, 16, 24 or 32 bits) or from a tuple (samples, rate).

    Samples: an array or a tensor (n,), or with channels (n, c) or (c, n); integers of 8 to 32 bits, or floats in
    [-1, 1]. Channels are averaged, and `channels` says how many there were.
    """
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        return _finished(*_decoded(path, name or str(source)), name or str(source))
    if isinstance(source, tuple) and len(source) == 2:
        title = name or "the array"
        return _finished(_scaled(source[0], title), _rate(source[1], title), title)
    raise InputError(f"a sound is the path of a WAV file or a tuple (samples, rate), not {type(source).__name__}")


def resampled(samples: NDArray[np.float32], rate: int, wanted: int) -> NDArray[np.float32]:
    """(n,) at `rate` -> (ceil(n wanted / rate),) at `wanted`: a sinc under a Hann window, `CROSSINGS` zeros a side.

    What the new rate cannot hold is filtered out; beyond its ends the sound is silent.
    """
    if rate == wanted:
        return samples
    shared = math.gcd(rate, wanted)
    down, up = rate // shared, wanted // shared
    cut = min(1.0, up / down)  # the highest frequency that both rates hold, as a share of what the old one holds
    reach = math.ceil(CROSSINGS / cut)  # samples on either side that a new one is made of
    padded = np.pad(samples.astype(np.float64), (reach, reach + 1))
    count = -(-len(samples) * up // down)
    result = np.empty(count, dtype=np.float32)
    offsets = np.arange(-reach + 1, reach + 1)
    for begin in range(0, count, _CHUNK):
        place = np.arange(begin, min(begin + _CHUNK, count), dtype=np.int64) * down
        phases, which = np.unique(place % up, return_inverse=True)  # few, whatever the length
        distance = (offsets - (phases / up)[:, None]) * cut
        weight = np.sinc(distance) * cut * np.cos(np.pi / 2 * np.clip(distance / CROSSINGS, -1, 1)) ** 2
        around = padded[(place // up + reach)[:, None] + offsets]
        result[begin : begin + len(place)] = (around * weight[which]).sum(1)
    return result


def _decoded(path: Path, title: str) -> tuple[NDArray[np.float32], int]:
    try:
        with path.open("rb") as file:
            start = file.read(12)
            file.seek(0)
            if other := _other(start):
                raise InputError(f"{title} is {other}, not WAV; {_ADVICE}")
            with wave.open(file) as opened:
                channels, width, rate = opened.getnchannels(), opened.getsampwidth(), opened.getframerate()
                said = opened.getnframes() * channels * width
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
    if len(raw) < said < _STREAMED:
        raise InputError(f"{title} is truncated: {len(raw):,} of {said:,} bytes of sound; get the whole file")
    raw = raw[: len(raw) // (channels * width) * channels * width]
    return _pcm(raw, width).reshape(-1, channels), _rate(rate, title)


def _other(start: bytes) -> str | None:
    """What kind of file this is, where it is a well-known other one."""
    if start[4:8] == b"ftyp":
        return "MP4 or M4A"
    return next((kind for mark, kind in _OTHERS.items() if start.startswith(mark)), None)


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
    """An array of any accepted kind -> (n, channels) floats."""
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


def _rate(rate: Any, title: str) -> int:
    whole = isinstance(rate, (int, np.integer)) and not isinstance(rate, bool)
    if not whole or not RATES[0] <= rate <= RATES[1]:
        raise InputError(f"the rate of {title} is {rate!r}; give samples per second, {RATES[0]} to {RATES[1]}")
    return int(rate)


def _finished(samples: NDArray[np.float32], rate: int, title: str) -> Sound:
    """(n, channels) -> a sound, checked."""
    if not samples.size:
        raise InputError(f"{title} is empty: it holds no samples")
    if not np.isfinite(samples).all():
        raise InputError(f"{title} holds NaN or infinite samples; check how it was made")
    if (peak := float(np.abs(samples).max())) > LOUDEST:
        raise InputError(f"{title} reaches {peak:g}; give samples in [-1, 1] (16-bit numbers divided by 32768)")
    if len(samples) > LONGEST * rate:
        raise InputError(f"{title} is longer than {LONGEST // 3600} hours; cut it and explain the parts")
    mono = np.ascontiguousarray(samples.mean(1, dtype=np.float64), dtype=np.float32)
    mono.flags.writeable = False
    return Sound(mono, rate, title, samples.shape[1])


def as_tensor(sound: Sound, rate: int) -> Tensor:
    """(n,) float32 at the rate that is asked for."""
    return torch.from_numpy(resampled(sound.samples, sound.rate, rate).copy())
