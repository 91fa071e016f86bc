"""Classifiers of sounds from a name of ours, a Hugging Face id or folder, or a module with the rate it reads."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rationales.errors import ModelError, OptionError
from rationales.models.audio import AudioModel
from rationales.models.audio_baselines import blur_width
from rationales.models.audio_form import Spectrograms, Waveforms
from rationales.models.audio_silero import CHUNK, LABELS, RATE, load_silero
from rationales.models.default import AUDIO_MODEL
from rationales.models.heads import Head
from rationales.models.labels import class_names
from rationales.models.loading import device_of
from rationales.models.pretrained import load_pretrained

SILERO = AUDIO_MODEL
FRAME = 0.032  # seconds of a unit, where the model does not say
SEGMENT, OVERLAP = 60.0, 1.0  # seconds given to a model at once, and shared by neighbouring segments
SHIFT, WINDOW = 0.010, 0.025  # seconds between the frames of an audio spectrogram transformer, and seen by each


def load_audio(
    source: Any,
    extractor: Any = None,
    *,
    device: str | torch.device | None = None,
    baseline: Any = None,
    labels: Sequence[str] | None = None,
    rate: int | None = None,
    frame: float | None = None,
    segment: float | None = None,
    remote: bool = False,
) -> AudioModel:
    """Make a classifier of sounds explainable; the options are those of `rationales.load`."""
    baselines = _checked(baseline)
    for name, value in (("frame", frame), ("segment", segment)):
        if value is not None and (type(value) not in (int, float) or not 0 < value < float("inf")):
            raise OptionError(f"{name} is a number of seconds greater than 0 for sounds, not {value!r}")
    length = SEGMENT if segment is None else segment
    if source == SILERO:
        given = CHUNK / RATE if frame is None else frame
        model = from_waveforms(load_silero(), RATE, LABELS, SILERO, given, length, baselines)
    elif is_extractor(extractor) or not isinstance(source, nn.Module):
        module, own = (
            (source, extractor)
            if isinstance(source, nn.Module)
            else load_pretrained("Audio", "FeatureExtractor", str(source), extractor, remote)
        )
        name = (
            getattr(source, "name_or_path", "") or type(source).__name__
            if isinstance(source, nn.Module)
            else str(source)
        )
        model = from_extractor(module, own, name, FRAME if frame is None else frame, length, baselines)
    elif rate is None:
        raise OptionError("say how many samples per second the module reads: rate=16000")
    else:
        named, name = class_names(source, labels), type(source).__name__
        if extractor is None:
            model = from_waveforms(source, rate, named, name, FRAME if frame is None else frame, length, baselines)
        else:
            model = from_spectrograms(source, extractor, rate, named, name, length, baselines)
    if device is not None:
        model.module.to(device_of(device))
    return model


def from_waveforms(
    module: nn.Module,
    rate: int,
    labels: Sequence[str],
    name: str = "module",
    frame: float = FRAME,
    segment: float = SEGMENT,
    baselines: Sequence[str] = ("silence",),
) -> AudioModel:
    """Any module from (S, samples) in [-1, 1] to logits (S, classes), or to one logit each for two labels."""
    reading = Waveforms(max(1, round(frame * rate)))
    return _model(module, reading, rate, labels, name, segment, baselines)


def from_spectrograms(
    module: nn.Module,
    prepare: Callable[[Tensor], Any],  # a tensor, if all is well
    rate: int,
    labels: Sequence[str],
    name: str = "module",
    segment: float = SEGMENT,
    baselines: Sequence[str] = ("silence",),
) -> AudioModel:
    """Any module from (S, frames, bins) to logits, with a callable that makes (frames, bins) of samples (n,).

    The callable must not pad: how far apart its frames are, and how much each looks at, is read off what it makes of
    longer and longer silence.
    """
    step, window = _stride(prepare, rate)
    return _model(module, Spectrograms(step, prepare, window), rate, labels, name, segment, baselines)


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
    labels = [str(config.id2label[index]) for index in sorted(config.id2label, key=int)]
    several = getattr(config, "problem_type", None) == "multi_label_classification"
    head = Head.MULTI_LABEL if several else Head.SOFTMAX

    def prepare(samples: Tensor) -> Tensor:
        made = extractor(samples.numpy(), sampling_rate=rate, return_tensors="pt")
        values: Tensor = made[extractor.model_input_names[0]][0]
        return values

    probe = prepare(torch.zeros(rate))
    if probe.dim() == 1:
        reading = Waveforms(max(1, round(frame * rate)), prepare, bool(getattr(extractor, "do_normalize", False)))
        return _model(module, reading, rate, labels, name, segment, baselines, head)
    hop = getattr(extractor, "hop_length", None)
    if hop:  # frames stand around every hop-th sample, padded to a fixed length
        most = int(getattr(extractor, "n_samples", segment * rate))
        last = probe.shape[0] == getattr(extractor, "feature_size", 0) != probe.shape[1]
        spectrograms = Spectrograms(int(hop), prepare, int(hop), last)
    elif hasattr(extractor, "max_length"):
        spectrograms = Spectrograms(round(SHIFT * rate), prepare, round(WINDOW * rate))
        most = round((extractor.max_length - 1) * SHIFT * rate + WINDOW * rate)
    else:
        raise ModelError(
            f"{type(extractor).__name__} does not say how far apart its frames are; give rationales.load a callable "
            "that makes (frames, bins) of samples, and rate="
        )
    return _model(module, spectrograms, rate, labels, name, min(segment, most / rate), baselines, head)


def is_extractor(given: Any) -> bool:
    """Whether this is a feature extractor of Hugging Face for sounds."""
    return hasattr(given, "sampling_rate") and bool(getattr(given, "model_input_names", ()))


def reads_sounds(source: Any, given: Any, rate: int | None) -> bool:
    """Whether this is a model of sounds, by its name, its feature extractor or the files in its folder."""
    if source == SILERO or is_extractor(given) or rate is not None:
        return True
    if not isinstance(source, (str, Path)) or given is not None:
        return False
    told = Path(source) / "preprocessor_config.json"
    try:
        found = json.loads(told.read_text(encoding="utf-8")) if told.is_file() else {}
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and "sampling_rate" in found and "feature_extractor_type" in found


def _model(
    module: nn.Module,
    reading: Waveforms | Spectrograms,
    rate: int,
    labels: Sequence[str],
    name: str,
    segment: float,
    baselines: Sequence[str],
    head: Head | None = None,
) -> AudioModel:
    samples, least = round(segment * rate), reading.frame if isinstance(reading, Waveforms) else reading.window
    if samples < 4 * least:
        raise OptionError(f"a segment must have at least {4 * least / rate:.3f} s, not {segment}")
    overlap = round(OVERLAP * rate)
    model = AudioModel(module, reading, rate, Head.SOFTMAX, tuple(labels), name, samples, overlap, tuple(baselines))
    model.head = head or _head(model)
    return model


def _head(model: AudioModel) -> Head:
    """One logit for two labels is a yes or no; tried on a little silence."""
    from rationales.models.audio_batch import call
    from rationales.models.audio_reading import Sound

    seconds = min(1.0, model.segment / model.rate)
    silence = Sound(torch.zeros(round(seconds * model.rate)).numpy(), model.rate, "silence")
    weight = next(model.module.parameters(), torch.zeros(()))
    with model.borrowed(), torch.no_grad():
        outputs = call(model.module, model.encode([silence])[0].segments[0].values[None].to(weight)).shape[1]
    if outputs == 1 and len(model.labels) == 2:
        return Head.SIGMOID
    if outputs != len(model.labels):
        raise OptionError(f"the module gives {outputs} logits, but {len(model.labels)} labels were named")
    return Head.SOFTMAX


def _stride(prepare: Callable[[Tensor], Any], rate: int) -> tuple[int, int]:
    """Samples between two frames, and samples that a frame needs, by where another frame appears."""

    def frames(samples: int) -> int:
        made = prepare(torch.zeros(samples))
        if not isinstance(made, Tensor) or made.dim() != 2:
            raise ModelError("the preprocessing must give a tensor (frames, bins)")
        return int(made.shape[0])

    longest = rate
    most = frames(longest)
    if most < 3:
        raise ModelError(f"the preprocessing makes only {most} frames of a second; it must give (frames, bins)")

    def first_with(count: int) -> int:
        """The least number of samples that give so many frames."""
        low, high = 1, longest
        while low < high:
            middle = (low + high) // 2
            try:
                enough = frames(middle) >= count
            except ModelError:
                raise
            except Exception:  # noqa: BLE001  # too short for whatever it does: not enough
                enough = False
            low, high = (low, middle) if enough else (middle + 1, high)
        return low

    last = first_with(most)
    step = max(1, last - first_with(most - 1))
    return step, max(1, last - (most - 1) * step)


def _checked(baselines: Any) -> tuple[str, ...]:
    if isinstance(baselines, Tensor):
        raise OptionError("a baseline for sounds is given by name: silence, noise or blur-N")
    chosen = tuple([baselines] if isinstance(baselines, str) else baselines or ("silence",))
    for name in chosen:
        if name not in ("silence", "noise"):
            blur_width(name)  # says what there is
    return chosen
