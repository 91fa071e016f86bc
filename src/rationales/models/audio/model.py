"""Audio classifiers: sounds in, a Batch of rows out.

The units of a model that reads waveforms are frames on a line; those of a model that reads spectrograms are bins on a
grid of time and frequency. Sounds longer than a segment are cut into overlapping segments, as long texts are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rationales.errors import InputError
from rationales.models.audio.baselines import baseline
from rationales.models.audio.batch import AudioBatch, audio_logits
from rationales.models.audio.frontend import SpectrogramFrontend, WaveformFrontend
from rationales.models.audio.reading import Sound, as_tensor, read_sound
from rationales.models.batch import Rows
from rationales.models.batch.execution import available_bytes
from rationales.models.batch.rows import Window, content_key, windows
from rationales.models.classes import Head
from rationales.models.display import label_list
from rationales.models.model import InputDescription
from rationales.models.module_model import ModuleModel
from rationales.rationale import Frames, Note, Spectrogram

BLACK_SHARE = 0.02  # share of the bins that are black in the image of a spectrogram


@dataclass(frozen=True, eq=False)
class AudioSegment:
    """The frames of one window of a sound."""

    window: Window
    samples: Tensor  # (samples,) in [-1, 1], at the model's sample rate
    values: Tensor  # (samples,) or (height, width), as the model reads it


@dataclass(frozen=True, eq=False)
class EncodedSound:
    """A sound cut into preprocessed segments, ready to be explained."""

    source: Sound
    segments: list[AudioSegment]

    @property
    def frames(self) -> int:
        """The number of frames."""
        return self.segments[-1].window.last


@dataclass(eq=False, repr=False)
class AudioModel(ModuleModel):
    """An audio classifier that can be explained."""

    module: nn.Module
    frontend: WaveformFrontend | SpectrogramFrontend
    sample_rate: int
    head: Head
    labels: tuple[str, ...]
    name: str
    segment: int  # samples that the model reads at once, at most
    overlap: int  # samples shared by neighbouring segments
    baselines: tuple[str, ...] = ("silence",)
    _value_bytes: float = field(default=0.0, init=False, repr=False)

    def facts(self) -> dict[str, str]:
        """Facts for `repr` and notebooks."""
        return {
            "reads": f"sounds at {self.sample_rate:,} samples per second",
            "labels": label_list(self.labels),
            "unit": self.unit,
            "baseline": self.baseline,
            "segments": f"{self.segment / self.sample_rate:g} s",
            "device": str(self.device_and_dtype[0]),
        }

    @property
    def kind(self) -> str:
        """`audio` for a line of frames, `spectrogram` for a grid."""
        return "audio" if isinstance(self.frontend, WaveformFrontend) else "spectrogram"

    @property
    def unit(self) -> str:
        """What is kept or replaced: a frame or a bin."""
        return "frame" if isinstance(self.frontend, WaveformFrontend) else "bin"

    def read(self, raw_input: Any, name: str | None) -> Sound:
        """A sound from the path of a WAV file or from (samples, sample_rate)."""
        return read_sound(raw_input, name)

    def encode(self, sounds: Sequence[Sound]) -> list[EncodedSound]:
        """Every sound at the model's sample rate, cut into preprocessed segments."""
        return [EncodedSound(sound, self._segments(sound)) for sound in sounds]

    def _segments(self, sound: Sound) -> list[AudioSegment]:
        samples = as_tensor(sound, self.sample_rate)
        frame = self.frontend.frame
        shortest = frame if isinstance(self.frontend, WaveformFrontend) else self.frontend.window
        if len(samples) < shortest:
            raise InputError(
                f"{sound.name} is too short to explain ({sound.seconds:.3f} s); "
                f"give at least {shortest / self.sample_rate:.3f} s"
            )
        if isinstance(self.frontend, WaveformFrontend):
            count = -(-len(samples) // frame)
            cuts = windows([frame] * count, max(self.segment // frame, 1) * frame, self.overlap)
        else:
            count, limit = self.frontend.frames(len(samples)), self.frontend.frames(self.segment)
            cuts = windows([1] * count, limit, self.overlap // frame)
        return [self._cut(samples, window, window.last == count) for window in cuts]

    def _cut(self, samples: Tensor, window: Window, ends: bool) -> AudioSegment:
        """The segment of one window; where it `ends` the sound, to the last sample."""
        frame = self.frontend.frame
        if isinstance(self.frontend, WaveformFrontend):
            last = window.last * frame
        else:
            last = (window.last - 1) * frame + self.frontend.window
        segment_samples = samples[window.first * frame : None if ends else last]
        return AudioSegment(window, segment_samples, self.frontend.features(segment_samples))

    def describe(self, encoded: EncodedSound, scores: Tensor) -> InputDescription:
        """What a result says about the sound."""
        source, frame_seconds = encoded.source, self.frontend.frame / self.sample_rate
        notes: tuple[Note, ...] = ()
        if source.channels > 1:
            notes = (Note("mixed-down", f"{source.channels} channels were averaged into one"),)
        common: dict[str, Any] = {"name": source.name, "segments": len(encoded.segments), "notes": notes}
        if isinstance(self.frontend, WaveformFrontend):
            units = Frames(encoded.frames, frame_seconds, source.seconds)
            return InputDescription("", units, scores.numpy(), sound=source.samples, **common)
        by_frame = scores.view(encoded.frames, -1)
        bins = Spectrogram(by_frame.shape[1], by_frame.shape[0], frame_seconds)
        low_at_bottom = np.ascontiguousarray(by_frame.T.flip(0).numpy()).reshape(-1)
        return InputDescription("", bins, low_at_bottom, image=self._spectrogram_image(encoded), **common)

    def _spectrogram_image(self, encoded: EncodedSound) -> np.ndarray:
        """(bins, frames, 3) uint8: the spectrogram, loud bins are light."""
        pieces, last_frame = list[Tensor](), 0
        for segment in encoded.segments:
            pieces.append(self._over_time(segment)[last_frame - segment.window.first :])
            last_frame = segment.window.last
        spectrogram = torch.cat(pieces).float()
        low, high = np.quantile(spectrogram.numpy(), (BLACK_SHARE, 1.0))
        grey = (255 * (spectrogram - float(low)) / max(float(high - low), 1e-6)).clamp(0, 255)
        return np.ascontiguousarray(grey.round().byte().T.flip(0).numpy()[..., None].repeat(3, -1))

    def _over_time(self, segment: AudioSegment) -> Tensor:
        """(frames, bins) of a segment, without padding."""
        values = segment.values.T if self._time_last else segment.values
        return values[: segment.window.last - segment.window.first]

    @property
    def _time_last(self) -> bool:
        return isinstance(self.frontend, SpectrogramFrontend) and self.frontend.time_last

    def batch(self, encoded: Sequence[EncodedSound], seed: int = 0) -> AudioBatch:
        """The rows of all these sounds on every baseline."""
        device, dtype = self.device_and_dtype
        segments = [segment for sound in encoded for segment in sound.segments]
        input_numbers = [number for number, sound in enumerate(encoded) for _ in sound.segments]
        content = [hashlib.blake2b(sound.source.samples.tobytes()).hexdigest() for sound in encoded]
        keys = [
            content_key(seed, content[number], i)
            for number, sound in enumerate(encoded)
            for i in range(len(sound.segments))
        ]
        views, masks = len(self.baselines), len(segments)
        baseline_values = [
            self._baseline_values(name, segment, key)
            for name in self.baselines
            for segment, key in zip(segments, keys, strict=True)
        ]
        is_waveform = isinstance(self.frontend, WaveformFrontend)
        values = _padded_stack([segment.values for segment in segments])
        unit, real, position, blend = self._units(segments, values)
        shapes = [tuple(segment.values.shape) for segment in segments]
        rows = Rows(
            input=torch.tensor(input_numbers, device=device).repeat(views),
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
            grid=None if is_waveform else (values.shape[1], values.shape[2]),
            budget=max(1, int(available_bytes(device) / self._bytes_per_value(segments[0].values.to(device, dtype)))),
            module=self.module,
            values=values.to(device=device, dtype=dtype),
            baseline_values=_padded_stack(baseline_values).to(device=device, dtype=dtype),
            shapes=shapes * views,
            frame=self.frontend.frame if is_waveform else 0,
            time_last=self._time_last,
        )

    def _baseline_values(self, name: str, segment: AudioSegment, key: int) -> Tensor:
        """The preprocessed baseline of a segment, in the shape of its values."""
        samples = baseline(name, segment.samples, self.sample_rate, key)
        if isinstance(self.frontend, WaveformFrontend):  # normalised like the sound, so that keep = 1 changes nothing
            shift, scale = self.frontend.shift_and_scale(segment.samples)
            return (samples - shift) * scale
        return self.frontend.features(samples)

    def _units(self, segments: Sequence[AudioSegment], values: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """unit, real (M, n), position (n,) or (n, 2), blend (M, n); units are numbered within the sound."""
        counts = torch.tensor([segment.window.last - segment.window.first for segment in segments])
        first = torch.tensor([segment.window.first for segment in segments])
        longest = int(counts.max())
        if isinstance(self.frontend, SpectrogramFrontend):
            longest = values.shape[2 if self.frontend.time_last else 1]
        frame = torch.arange(longest)
        weight = torch.zeros(len(segments), longest)
        for row, segment in enumerate(segments):
            weight[row, : len(segment.window.weight)] = torch.tensor(segment.window.weight)
        is_real = frame < counts[:, None]
        frame_number = torch.where(is_real, first[:, None] + frame, 0)
        if isinstance(self.frontend, WaveformFrontend):
            return frame_number, is_real, frame, weight
        bins = values.shape[1 if self.frontend.time_last else 2]
        unit = frame_number[:, :, None] * bins + torch.arange(bins) * is_real[:, :, None]
        real, blend = (values[:, :, None].expand(-1, -1, bins) for values in (is_real, weight))
        if self.frontend.time_last:
            unit, real, blend = (values.transpose(1, 2) for values in (unit, real, blend))
        position = torch.cartesian_prod(torch.arange(unit.shape[1]), torch.arange(unit.shape[2]))
        return unit.flatten(1), real.flatten(1), position, blend.flatten(1)

    def _bytes_per_value(self, values: Tensor) -> float:
        """Memory for the backward pass per value of the input, measured once."""
        if not self._value_bytes:
            stored: dict[int, int] = {}

            def record(value: Tensor) -> Tensor:
                stored[value.data_ptr()] = value.nbytes
                return value

            with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(record, lambda value: value):
                audio_logits(self.module, values[None].detach().requires_grad_())
            self._value_bytes = max(sum(stored.values()), values.nbytes) / values.numel()
        return self._value_bytes


def _padded_stack(values: Sequence[Tensor]) -> Tensor:
    """Tensors of different sizes as one, padded with zeros at their ends."""
    size = [max(tensor.shape[axis] for tensor in values) for axis in range(values[0].dim())]
    stacked = torch.zeros(len(values), *size, dtype=values[0].dtype)
    for row, tensor in enumerate(values):
        stacked[row][tuple(slice(length) for length in tensor.shape)] = tensor
    return stacked
