"""Models of sounds: waveforms or spectrograms in, a Batch of rows out.

A model that reads waveforms has a line of frames for units; one that reads spectrograms has a grid of time and
frequency. Sounds longer than a segment are cut into overlapping ones, as long texts are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rationales.errors import InputError
from rationales.models.audio_baselines import baseline
from rationales.models.audio_batch import AudioBatch, call
from rationales.models.audio_form import Spectrograms, Waveforms
from rationales.models.audio_reading import Sound, as_tensor, read
from rationales.models.batch import Rows
from rationales.models.heads import Head
from rationales.models.labels import label_number
from rationales.models.memory import available_bytes
from rationales.models.randomness import content_key
from rationales.models.segments import Window, windows
from rationales.models.shown import Shown, label_list
from rationales.models.state import frozen
from rationales.rationale import Frames, Note, Spectrogram

DEEPEST = 0.02  # share of the bins of a drawn spectrogram that are black


@dataclass(frozen=True, eq=False)
class Segment:
    """Frames first..last-1 of a sound: what the model reads of them, and their weights where segments overlap."""

    window: Window
    samples: Tensor  # (samples,) in [-1, 1], at the model's rate
    values: Tensor  # (samples,) or (height, width), as the model reads it


@dataclass(frozen=True, eq=False)
class EncodedSound:
    """A sound ready to be explained."""

    source: Sound
    segments: list[Segment]

    @property
    def frames(self) -> int:
        """How many frames it has."""
        return self.segments[-1].window.last


@dataclass(eq=False, repr=False)
class AudioModel(Shown):
    """A classifier of sounds that can be explained."""

    module: nn.Module
    reading: Waveforms | Spectrograms
    rate: int  # samples per second
    head: Head
    labels: tuple[str, ...]
    name: str
    segment: int  # samples at most that the model is given at once
    overlap: int  # samples that neighbouring segments share
    baselines: tuple[str, ...] = ("silence",)
    _value_bytes: float = field(default=0.0, init=False, repr=False)

    def facts(self) -> dict[str, str]:
        """What to show of it."""
        weight = next(self.module.parameters(), None)
        return {
            "reads": f"sounds at {self.rate:,} samples per second",
            "labels": label_list(self.labels),
            "unit": self.unit,
            "baseline": self.baseline,
            "segments": f"{self.segment / self.rate:g} s",
            "device": "cpu" if weight is None else str(weight.device),
        }

    @property
    def kind(self) -> str:
        """`audio` for a line of frames, `spectrogram` for a grid."""
        return "audio" if isinstance(self.reading, Waveforms) else "spectrogram"

    @property
    def unit(self) -> str:
        """What is kept or replaced."""
        return "frame" if isinstance(self.reading, Waveforms) else "bin"

    @property
    def baseline(self) -> str:
        """The names of the baselines."""
        return ", ".join(self.baselines)

    def read(self, given: Any, name: str | None) -> Sound:
        """A sound from the path of a WAV file or from (samples, rate)."""
        return read(given, name)

    def title(self, source: Sound) -> str:
        """What to call a sound in a message."""
        return source.name

    def target(self, wanted: str | int | None) -> int | None:
        """The number of a class given by label or number."""
        return label_number(self.labels, wanted)

    @contextmanager
    def borrowed(self) -> Iterator[None]:
        """A frozen module inside the block, given back as it was."""
        with frozen(self.module):
            yield

    def encode(self, sounds: Sequence[Sound]) -> list[EncodedSound]:
        """Every sound at the model's rate, in segments that it can read."""
        return [EncodedSound(one, self._segments(one)) for one in sounds]

    def _segments(self, sound: Sound) -> list[Segment]:
        samples = as_tensor(sound, self.rate)
        frame = self.reading.frame
        least = frame if isinstance(self.reading, Waveforms) else self.reading.window
        if len(samples) < least:
            raise InputError(
                f"{sound.name} is too short to explain ({sound.seconds:.3f} s); give at least {least / self.rate:.3f} s"
            )
        if isinstance(self.reading, Waveforms):
            count = -(-len(samples) // frame)
            cuts = windows([frame] * count, max(self.segment // frame, 1) * frame, self.overlap)
        else:
            count, most = self.reading.frames(len(samples)), self.reading.frames(self.segment)
            cuts = windows([1] * count, most, self.overlap // frame)
        return [self._cut(samples, one, one.last == count) for one in cuts]

    def _cut(self, samples: Tensor, window: Window, ends: bool) -> Segment:
        """The samples of a segment, to the sound's end where it is the last, and what the model reads of them."""
        frame = self.reading.frame
        if isinstance(self.reading, Waveforms):
            last = window.last * frame
        else:
            last = (window.last - 1) * frame + self.reading.window
        part = samples[window.first * frame : None if ends else last]
        return Segment(window, part, self.reading.features(part))

    def describe(self, encoded: EncodedSound, scores: Tensor) -> dict[str, Any]:
        """What a result says of the sound."""
        source, reading = encoded.source, self.reading
        said: dict[str, Any] = {"text": "", "name": source.name, "segments": len(encoded.segments)}
        if source.channels > 1:
            said["notes"] = (Note("mixed-down", f"{source.channels} channels were averaged into one"),)
        if isinstance(reading, Waveforms):
            units = Frames(encoded.frames, reading.frame / self.rate, source.seconds)
            return said | {"units": units, "scores": scores.numpy(), "sound": source.samples}
        picture = self._heard(encoded)
        over_time = scores.view(encoded.frames, -1)
        return said | {
            "units": Spectrogram(over_time.shape[1], over_time.shape[0], reading.frame / self.rate),
            "scores": np.ascontiguousarray(over_time.T.flip(0).numpy()).reshape(-1),  # low frequencies below
            "image": picture,
        }

    def _heard(self, encoded: EncodedSound) -> np.ndarray:
        """(bins, frames, 3) uint8: the spectrogram, loud is light."""
        shown, seen = list[Tensor](), 0
        for one in encoded.segments:
            shown.append(self._over_time(one)[seen - one.window.first :])
            seen = one.window.last
        whole = torch.cat(shown).float()
        low, high = np.quantile(whole.numpy(), (DEEPEST, 1.0))
        grey = (255 * (whole - float(low)) / max(float(high - low), 1e-6)).clamp(0, 255)
        return np.ascontiguousarray(grey.round().byte().T.flip(0).numpy()[..., None].repeat(3, -1))

    def _over_time(self, segment: Segment) -> Tensor:
        """(frames, bins) of a segment, without padding."""
        last = isinstance(self.reading, Spectrograms) and self.reading.time_last
        return (segment.values.T if last else segment.values)[: segment.window.last - segment.window.first]

    def batch(self, encoded: Sequence[EncodedSound], seed: int = 0) -> AudioBatch:
        """The rows of all these sounds, on every baseline."""
        device, dtype = _home(self.module)
        listed = [
            (number, place, one) for number, sound in enumerate(encoded) for place, one in enumerate(sound.segments)
        ]
        content = [hashlib.blake2b(one.source.samples.tobytes()).hexdigest() for one in encoded]
        keys = [content_key(seed, content[number], place) for number, place, _ in listed]
        views, masks = len(self.baselines), len(listed)
        empty = [
            self._empty(name, one, key)
            for name in self.baselines
            for (_, _, one), key in zip(listed, keys, strict=True)
        ]
        line = isinstance(self.reading, Waveforms)
        values = _stacked([one.values for _, _, one in listed])
        unit, real, position, blend = self._units([one for _, _, one in listed], values)
        shapes = [tuple(one.values.shape) for _, _, one in listed]
        last = isinstance(self.reading, Spectrograms) and self.reading.time_last
        rows = Rows(
            input=torch.tensor([number for number, _, _ in listed], device=device).repeat(views),
            mask=torch.arange(masks, device=device).repeat(views),
            view=torch.arange(views, device=device).repeat_interleave(masks),
            key=torch.tensor(keys, device=device).repeat(views),
            unit=unit.to(device).repeat(views, 1),
            real=real.to(device).repeat(views, 1),
            position=position.to(device=device, dtype=dtype).expand(masks * views, *position.shape),
            blend=(blend / views).to(device=device, dtype=dtype).repeat(views, 1),
        )
        return AudioBatch(
            rows=rows,
            inputs=len(encoded),
            views=views,
            classes=len(self.labels),
            head=self.head,
            grid=None if line else (values.shape[1], values.shape[2]),
            budget=max(1, int(available_bytes(device) / self._bytes_per_value(listed[0][2].values.to(device, dtype)))),
            module=self.module,
            values=values.to(device=device, dtype=dtype),
            empty=_stacked(empty).to(device=device, dtype=dtype),
            shapes=shapes * views,
            frame=self.reading.frame if line else 0,
            time_last=last,
        )

    def _empty(self, name: str, segment: Segment, key: int) -> Tensor:
        """What the model reads in place of a segment."""
        made = baseline(name, segment.samples, self.rate, key)
        if isinstance(self.reading, Waveforms):
            shift, scale = self.reading.shift(segment.samples)  # the sound's own: keeping all of it changes nothing
            return (made - shift) * scale
        return self.reading.features(made)

    def _units(self, segments: Sequence[Segment], values: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """unit, real (M, n), position (n,) or (n, 2), blend (M, n); units are counted over the whole sound."""
        counts = torch.tensor([one.window.last - one.window.first for one in segments])
        first = torch.tensor([one.window.first for one in segments])
        longest = int(counts.max())
        if isinstance(self.reading, Spectrograms):
            longest = values.shape[2 if self.reading.time_last else 1]
        frame = torch.arange(longest)
        weight = torch.zeros(len(segments), longest)
        for row, one in enumerate(segments):
            weight[row, : len(one.window.weight)] = torch.tensor(one.window.weight)
        there = frame < counts[:, None]
        place = torch.where(there, first[:, None] + frame, 0)
        if isinstance(self.reading, Waveforms):
            return place, there, frame, weight
        bins = values.shape[1 if self.reading.time_last else 2]
        unit = place[:, :, None] * bins + torch.arange(bins) * there[:, :, None]
        real, blend = (one[:, :, None].expand(-1, -1, bins) for one in (there, weight))
        if self.reading.time_last:
            unit, real, blend = (one.transpose(1, 2) for one in (unit, real, blend))
        rows, columns = torch.meshgrid(torch.arange(unit.shape[1]), torch.arange(unit.shape[2]), indexing="ij")
        position = torch.stack([rows.flatten(), columns.flatten()], -1)
        return unit.flatten(1), real.flatten(1), position, blend.flatten(1)

    def _bytes_per_value(self, values: Tensor) -> float:
        """What one number that is read stores for the backward pass, measured once."""
        if not self._value_bytes:
            stored: dict[int, int] = {}

            def note(value: Tensor) -> Tensor:
                stored[value.data_ptr()] = value.nbytes
                return value

            with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(note, lambda value: value):
                call(self.module, values[None].detach().requires_grad_())
            self._value_bytes = max(sum(stored.values()), values.nbytes) / values.numel()
        return self._value_bytes


def _stacked(values: Sequence[Tensor]) -> Tensor:
    """Tensors of different sizes as one, zeros behind their ends."""
    size = [max(one.shape[axis] for one in values) for axis in range(values[0].dim())]
    found = torch.zeros(len(values), *size, dtype=values[0].dtype)
    for row, one in enumerate(values):
        found[row][tuple(slice(length) for length in one.shape)] = one
    return found


def _home(module: nn.Module) -> tuple[torch.device, torch.dtype]:
    weight = next(module.parameters(), None)
    if weight is None:
        return torch.device("cpu"), torch.float32
    return weight.device, weight.dtype
