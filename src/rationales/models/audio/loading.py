"""Loads audio classifiers: by a name of the catalogue, a Hugging Face id or folder, or a module with a sample rate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rationales.errors import ModelError, OptionError
from rationales.models.audio.baselines import blur_width
from rationales.models.audio.batch import audio_logits
from rationales.models.audio.frontend import SpectrogramFrontend, WaveformFrontend
from rationales.models.audio.model import AudioModel
from rationales.models.audio.reading import Sound
from rationales.models.audio.silero import CHUNK, LABELS, SAMPLE_RATE, load_silero
from rationales.models.catalogue import AUDIO_MODEL
from rationales.models.classes import Head, class_names
from rationales.models.pretrained import device_of, load_pretrained

FRAME = 0.032  # seconds of a unit of a waveform
SEGMENT, OVERLAP = 60.0, 1.0  # seconds that a model reads at once, and that neighbouring segments share
AST_HOP, AST_WINDOW = 0.010, 0.025  # seconds between the frames of an audio spectrogram transformer, and in each


def load_audio(
    source: Any,
    extractor: Any = None,
    *,
    device: str | torch.device | None = None,
    baseline: Any = None,
    labels: Sequence[str] | None = None,
    sample_rate: int | None = None,
    frame: float | None = None,
    segment: float | None = None,
    trust_remote_code: bool = False,
) -> AudioModel:
    """Make an audio classifier explainable; the options are those of `rationales.load`."""
    baselines = _checked(baseline)
    for name, value in (("frame", frame), ("segment", segment)):
        if value is not None and (type(value) not in (int, float) or not 0 < value < float("inf")):
            raise OptionError(f"{name} is a number of seconds greater than 0 for sounds, not {value!r}")
    length = SEGMENT if segment is None else segment
    frame_seconds = FRAME if frame is None else frame
    if source == AUDIO_MODEL:
        frame_seconds = CHUNK / SAMPLE_RATE if frame is None else frame
        model = from_waveforms(load_silero(), SAMPLE_RATE, LABELS, AUDIO_MODEL, frame_seconds, length, baselines)
    elif not isinstance(source, nn.Module):
        module, loaded_extractor = load_pretrained(
            "Audio", "FeatureExtractor", str(source), extractor, trust_remote_code
        )
        model = from_extractor(module, loaded_extractor, str(source), frame_seconds, length, baselines)
    elif is_extractor(extractor):
        name = getattr(source, "name_or_path", "") or type(source).__name__
        model = from_extractor(source, extractor, name, frame_seconds, length, baselines)
    elif sample_rate is None:
        raise OptionError("say how many samples per second the module reads: sample_rate=16000")
    else:
        names, name = class_names(source, labels), type(source).__name__
        if extractor is None:
            model = from_waveforms(source, sample_rate, names, name, frame_seconds, length, baselines)
        else:
            model = from_spectrograms(source, extractor, sample_rate, names, name, length, baselines)
    if device is not None:
        model.module.to(device_of(device))
    return model


def from_waveforms(
    module: nn.Module,
    sample_rate: int,
    labels: Sequence[str],
    name: str = "module",
    frame: float = FRAME,
    segment: float = SEGMENT,
    baselines: Sequence[str] = ("silence",),
) -> AudioModel:
    """Any module from (S, samples) in [-1, 1] to logits (S, classes), or to one logit each for two labels."""
    frontend = WaveformFrontend(max(1, round(frame * sample_rate)))
    return _model(module, frontend, sample_rate, labels, name, segment, baselines)


def from_spectrograms(
    module: nn.Module,
    prepare: Callable[[Tensor], Any],  # a tensor, if all is well
    sample_rate: int,
    labels: Sequence[str],
    name: str = "module",
    segment: float = SEGMENT,
    baselines: Sequence[str] = ("silence",),
) -> AudioModel:
    """Any module from (S, frames, bins) to logits, with a callable that turns samples (n,) into (frames, bins).

    The callable must not pad: its hop and window lengths are measured with silence of different lengths.
    """
    hop, window = _hop_and_window(prepare, sample_rate)
    return _model(module, SpectrogramFrontend(hop, prepare, window), sample_rate, labels, name, segment, baselines)


def from_extractor(
    module: nn.Module,
    extractor: Any,
    name: str,
    frame: float = FRAME,
    segment: float = SEGMENT,
    baselines: Sequence[str] = ("silence",),
) -> AudioModel:
    """A Hugging Face audio classifier with its own feature extractor."""
    rate = int(extractor.sampling_rate)
    config: Any = module.config
    labels = class_names(module, None)
    several = getattr(config, "problem_type", None) == "multi_label_classification"
    head = Head.MULTI_LABEL if several else Head.SOFTMAX

    def prepare(samples: Tensor) -> Tensor:
        features = extractor(samples.numpy(), sampling_rate=rate, return_tensors="pt")
        values: Tensor = features[extractor.model_input_names[0]][0]
        return values

    probe = prepare(torch.zeros(rate))
    if probe.dim() == 1:
        normalised = bool(getattr(extractor, "do_normalize", False))
        frontend = WaveformFrontend(max(1, round(frame * rate)), prepare, normalised)
        return _model(module, frontend, rate, labels, name, segment, baselines, head)
    hop = getattr(extractor, "hop_length", None)
    if hop:  # frames are centred on every hop-th sample and padded to a fixed length
        longest = int(getattr(extractor, "n_samples", segment * rate))
        time_last = probe.shape[0] == getattr(extractor, "feature_size", 0) != probe.shape[1]
        spectrograms = SpectrogramFrontend(int(hop), prepare, int(hop), time_last)
    elif hasattr(extractor, "max_length"):
        spectrograms = SpectrogramFrontend(round(AST_HOP * rate), prepare, round(AST_WINDOW * rate))
        longest = round((extractor.max_length - 1) * AST_HOP * rate + AST_WINDOW * rate)
    else:
        raise ModelError(
            f"{type(extractor).__name__} does not say its hop length; give rationales.load a callable that turns "
            "samples into (frames, bins), and sample_rate="
        )
    return _model(module, spectrograms, rate, labels, name, min(segment, longest / rate), baselines, head)


def is_extractor(preprocessor: Any) -> bool:
    """Whether this is an audio feature extractor of Hugging Face."""
    return hasattr(preprocessor, "sampling_rate") and bool(getattr(preprocessor, "model_input_names", ()))


def _model(
    module: nn.Module,
    frontend: WaveformFrontend | SpectrogramFrontend,
    sample_rate: int,
    labels: Sequence[str],
    name: str,
    segment: float,
    baselines: Sequence[str],
    head: Head | None = None,
) -> AudioModel:
    samples = round(segment * sample_rate)
    shortest = 4 * (frontend.frame if isinstance(frontend, WaveformFrontend) else frontend.window)
    if samples < shortest:
        raise OptionError(f"a segment must have at least {shortest / sample_rate:.3f} s, not {segment}")
    model = AudioModel(
        module=module,
        frontend=frontend,
        sample_rate=sample_rate,
        head=Head.SOFTMAX,
        labels=tuple(labels),
        name=name,
        segment=samples,
        overlap=round(OVERLAP * sample_rate),
        baselines=tuple(baselines),
    )
    model.head = head or _head(model)
    return model


def _head(model: AudioModel) -> Head:
    """The head by the number of logits for a short silence: one logit for two labels is a sigmoid."""
    seconds = min(1.0, model.segment / model.sample_rate)
    silence = Sound(torch.zeros(round(seconds * model.sample_rate)).numpy(), model.sample_rate, "silence")
    device, dtype = model.device_and_dtype
    with model.frozen(), torch.no_grad():
        values = model.encode([silence])[0].segments[0].values[None].to(device=device, dtype=dtype)
        outputs = audio_logits(model.module, values).shape[1]
    if outputs == 1 and len(model.labels) == 2:
        return Head.SIGMOID
    if outputs != len(model.labels):
        raise OptionError(f"the module gives {outputs} logits, but {len(model.labels)} labels were named")
    return Head.SOFTMAX


def _hop_and_window(prepare: Callable[[Tensor], Any], sample_rate: int) -> tuple[int, int]:
    """Samples between two frames, and samples in a frame, by the lengths at which another frame appears."""

    def frames(samples: int) -> int:
        spectrogram = prepare(torch.zeros(samples))
        if not isinstance(spectrogram, Tensor) or spectrogram.dim() != 2:
            raise ModelError("the preprocessing must return a tensor (frames, bins)")
        return int(spectrogram.shape[0])

    count = frames(sample_rate)
    if count < 3:
        raise ModelError(f"the preprocessing returns only {count} frames for a second; it must return (frames, bins)")

    def shortest_with(frame_count: int) -> int:
        """The smallest number of samples that give so many frames."""
        low, high = 1, sample_rate
        while low < high:
            middle = (low + high) // 2
            try:
                enough = frames(middle) >= frame_count
            except ModelError:
                raise
            except Exception:  # noqa: BLE001  # any error of the user's callable: too short for it
                enough = False
            low, high = (low, middle) if enough else (middle + 1, high)
        return low

    shortest = shortest_with(count)
    hop = max(1, shortest - shortest_with(count - 1))
    return hop, max(1, shortest - (count - 1) * hop)


def _checked(baselines: Any) -> tuple[str, ...]:
    if isinstance(baselines, Tensor):
        raise OptionError("a baseline for sounds is given by name: silence, noise or blur-N")
    names = tuple([baselines] if isinstance(baselines, str) else baselines or ("silence",))
    for name in names:
        if name not in ("silence", "noise"):
            blur_width(name)  # raises an error that lists the baselines
    return names
