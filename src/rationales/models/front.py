"""One door for every kind of model: looks at what was given, and hands it to its loader."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from rationales.errors import OptionError
from rationales.models.audio import AudioModel
from rationales.models.audio_loading import load_audio, reads_sounds
from rationales.models.image import ImageModel
from rationales.models.image_loading import LITE, is_processor, load_image
from rationales.models.loading import Source, load_text
from rationales.models.model import Model
from rationales.models.text import TextModel


def load(
    source: Source | Sequence[Source] | None = None,
    tokenizer: Any = None,
    *,
    device: str | torch.device | None = None,
    unit: str = "word",
    baseline: Any = None,
    segment: int | None = None,
    overlap: int = 100,
    labels: Sequence[str] | None = None,
    rate: int | None = None,
    frame: float | None = None,
    fit: str | None = None,
    trust_remote_code: bool = False,
) -> TextModel | ImageModel | AudioModel:
    """Make a classifier explainable.

    `source`: nothing (the embedded sentiment model), the name of a model of ours, a Hugging Face id, a folder, a module
    (then give its tokenizer, its image processor or its feature extractor too, or a callable that turns a PIL image
    into a tensor), or a list of text models that share one tokenizer and are explained together.

    Texts: `unit` is what is kept or replaced: word, token or sentence; `baseline` what a replaced unit becomes: pad,
    mask, unk, zero, mean, a word of the vocabulary, or a vector, by default the first of these that the tokenizer has;
    `segment` is the tokens per segment, by default all that the model takes, and `overlap` the tokens segments share.

    Pictures: `baseline` is one or several of black, white, mean, noise, blur-N and pictures of yours (a path, a PIL
    image, an array), by default those that tell the model least; `fit` is how a picture that is not square gets into
    the model: crop, pad or squash, by default as its preprocessing does it; `labels` names the classes of a module that
    does not name them itself.

    Sounds: `rate` is the samples per second that a module reads, (S, samples) or, with a callable that turns samples
    into (frames, bins), (S, frames, bins); `frame` the seconds of a waveform that are kept or replaced as one;
    `baseline` is one or several of silence, noise and blur-N; `segment` is the seconds per segment.
    """
    if reads_sounds(source, tokenizer, rate):
        _check_unit(unit, "sounds are explained by frames")
        return load_audio(
            source,
            tokenizer,
            device=device,
            baseline=baseline,
            labels=labels,
            rate=rate,
            frame=frame,
            segment=segment,
            remote=trust_remote_code,
        )
    if reads_pictures(source, tokenizer):
        _check_unit(unit, "pictures are explained by pixels")
        return load_image(source, tokenizer, device, baseline, labels, trust_remote_code, fit)
    if fit is not None:
        raise OptionError("fit is for models of pictures")
    return load_text(
        source,
        tokenizer,
        device=device,
        unit=unit,
        baseline=baseline,  # a list of baselines is told to be wrong there
        segment=segment,
        overlap=overlap,
        trust_remote_code=trust_remote_code,
    )


def as_model(given: Any) -> Model:
    """The model itself, or the one that a name, a folder or a tuple (module, tokenizer) stands for."""
    if hasattr(given, "encode") and hasattr(given, "batch") and hasattr(given, "labels"):
        model: Model = given
        return model
    if isinstance(given, (str, os.PathLike)):
        return load(given)
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], nn.Module):
        return load(*given)
    if isinstance(given, nn.Module):
        name = type(given).__name__
        raise OptionError(
            f"{name} is a module without its tokenizer or processor; call model = rationales.load(module, tokenizer) "
            "first and give that model, or give the tuple (module, tokenizer)"
        )
    raise OptionError(
        f"the model is what rationales.load(…) returns, or a model's name, its folder or a tuple (module, tokenizer); "
        f"not {type(given).__name__}; call model = rationales.load(…) first"
    )


def _check_unit(unit: str, units: str) -> None:
    if unit != "word":
        raise OptionError(f"unit={unit!r} is for models of texts; {units}")


def reads_pictures(source: Any, given: Any) -> bool:
    """Whether this is a model of pictures, by its name, its processor or its configuration."""
    if source == LITE or is_processor(given):
        return True
    if isinstance(source, nn.Module):
        return callable(given) and not hasattr(given, "get_vocab")
    if not isinstance(source, (str, Path)) or given is not None:
        return False
    config = Path(source) / "config.json"
    try:
        told = json.loads(config.read_text(encoding="utf-8")) if config.is_file() else {}
    except (OSError, ValueError):
        return False
    names = told.get("architectures") if isinstance(told, dict) else None
    return any(str(name).endswith("ForImageClassification") for name in names or [])
