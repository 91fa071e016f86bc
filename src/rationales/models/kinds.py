"""The list of kinds of models: what each reads, how it is recognised, and which loader makes it explainable."""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from rationales.errors import OptionError
from rationales.models.catalogue import (
    AUDIO_MODEL,
    CATALOGUE,
    EMBEDDED,
    IMAGE_MODEL,
    IMAGE_MODEL_NAMES,
    LANGUAGE_MODELS,
)

# Loaders are imported where they are called: this list is also read by the command line before anything is loaded.


@dataclass(frozen=True)
class LoadRequest:
    """The arguments of `rationales.load`."""

    source: Any
    preprocessor: Any  # a tokenizer, image processor, feature extractor or callable
    device: Any
    unit: str
    baseline: Any
    segment: Any
    overlap: int
    labels: Any
    sample_rate: int | None
    frame: float | None
    fit: str | None
    trust_remote_code: bool
    template: Any = None
    chat: bool = False
    separator: str | None = None
    continuations: Any = None
    explain_prompt: bool = False
    length_normalised: bool = False
    calibrated: bool = False

    @functools.cached_property
    def pretrained_kind(self) -> str | None:
        """The kind of classifier at a hub id or folder, by its configuration; None for anything else."""
        if not isinstance(self.source, (str, os.PathLike)) or str(self.source) in (
            *CATALOGUE,
            *IMAGE_MODEL_NAMES,
            AUDIO_MODEL,
        ):
            return None
        if str(self.source) in LANGUAGE_MODELS:
            return "prompt"
        from rationales.models.recognition import pretrained_kind

        return pretrained_kind(str(self.source), self.trust_remote_code)


@dataclass(frozen=True)
class Kind:
    """One kind of model."""

    name: str  # `Model.kind`
    noun: str  # what an input is called in messages
    units: str  # what its units are called in messages
    inputs_at_once: int  # inputs that `explain` prepares together; the engine decides how many are in flight
    suggested_baselines: str  # for a user whose baseline is informative
    default_model: str  # of the command line; empty: there is none
    recognise: Callable[[LoadRequest], bool]
    load: Callable[[LoadRequest], Any]


def kind_named(name: str) -> Kind:
    """The kind of a model, by `Model.kind`."""
    return _BY_NAME[name]


def recognised_kind(request: LoadRequest) -> Kind:
    """The first kind in the list that recognises the model."""
    kind = next(kind for kind in KINDS if kind.recognise(request))
    if request.unit != "word" and kind.name != "text":
        raise OptionError(f"unit={request.unit!r} is for models of texts; {kind.noun}s are explained by {kind.units}")
    if request.fit is not None and kind.name != "image":
        raise OptionError("fit is for models of images")
    return kind


def _is_audio(request: LoadRequest) -> bool:
    if request.source == AUDIO_MODEL or request.sample_rate is not None:
        return True
    if request.preprocessor is None:
        return request.pretrained_kind == "audio"
    from rationales.models.audio.loading import is_extractor

    return is_extractor(request.preprocessor)


def _is_image(request: LoadRequest) -> bool:
    if isinstance(request.source, str) and request.source in IMAGE_MODEL_NAMES:
        return True
    if request.preprocessor is None:
        return request.pretrained_kind == "image"
    from torch import nn

    from rationales.models.image.loading import is_processor

    if is_processor(request.preprocessor):
        return True
    is_tokenizer = hasattr(request.preprocessor, "get_vocab")
    return isinstance(request.source, nn.Module) and callable(request.preprocessor) and not is_tokenizer


def _is_language_model(request: LoadRequest) -> bool:
    from torch import nn

    asks_for_prompt = request.template is not None or request.continuations is not None
    if isinstance(request.source, nn.Module):
        from rationales.models.recognition import is_language_model

        return asks_for_prompt or is_language_model(request.source)
    if not isinstance(request.source, (str, os.PathLike)):
        return False
    return request.pretrained_kind == "prompt" or (asks_for_prompt and str(request.source) not in CATALOGUE)


def _is_image_text(request: LoadRequest) -> bool:
    if request.preprocessor is None:
        return request.pretrained_kind == "image-text"
    from rationales.models.multimodal.loading import is_image_text_preprocessor

    return is_image_text_preprocessor(request.preprocessor)


def _loader(module: str, function: str, *options: str) -> Callable[[LoadRequest], Any]:
    """Loads a model by a function that is imported when it is called, with these fields of the request."""

    def load(request: LoadRequest) -> Any:
        settings = {name: getattr(request, name) for name in ("device", "baseline", "trust_remote_code", *options)}
        return getattr(importlib.import_module(module), function)(request.source, request.preprocessor, **settings)

    return load


PROMPT_OPTIONS = (
    "template",
    "chat",
    "separator",
    "continuations",
    "explain_prompt",
    "length_normalised",
    "calibrated",
)


def _load_text(request: LoadRequest) -> Any:
    """A language model with its prompt, a classifier with its tokenizer, or a function from texts to probabilities."""
    from rationales.models.function.sources import is_text_function

    if _is_language_model(request):
        options = ("unit", "segment", "overlap", "labels", *PROMPT_OPTIONS)
        return _loader("rationales.models.prompt.loading", "load_prompt", *options)(request)
    for name in PROMPT_OPTIONS:
        if getattr(request, name) not in (None, False):
            raise OptionError(f"{name} is for language models, which classify by a prompt; this is no such model")

    if is_text_function(request.source, request.preprocessor):
        return _loader("rationales.models.function.model", "load_function", "unit", "labels")(request)
    if request.labels is not None:
        raise OptionError(
            "labels is for language models and functions of texts; a classifier's own labels are in its configuration "
            "(id2label)"
        )
    return _loader("rationales.models.text.loading", "load_text", "unit", "segment", "overlap")(request)


_AUDIO = Kind(
    name="audio",
    noun="sound",
    units="frames",
    inputs_at_once=64,
    suggested_baselines="silence, noise, blur-20",
    default_model=AUDIO_MODEL,
    recognise=_is_audio,
    load=_loader("rationales.models.audio.loading", "load_audio", "labels", "sample_rate", "frame", "segment"),
)
# In the order in which they are tried: text is last and takes everything else.
KINDS = (
    Kind(
        name="image-text",
        noun="image-text pair",
        units="words and pixels",
        inputs_at_once=32,
        suggested_baselines="'unk; black', 'mask; noise', 'pad; blur-20'",
        default_model="",
        recognise=_is_image_text,
        load=_loader("rationales.models.multimodal.loading", "load_image_text", "labels"),
    ),
    _AUDIO,
    # loaded as `audio`; the model is of this kind if its front end returns spectrograms
    replace(_AUDIO, name="spectrogram", units="bins", inputs_at_once=16),
    Kind(
        name="image",
        noun="image",
        units="pixels",
        inputs_at_once=64,
        suggested_baselines="black, white, mean, blur-20, noise",
        default_model=IMAGE_MODEL,
        recognise=_is_image,
        load=_loader("rationales.models.image.loading", "load_image", "labels", "fit"),
    ),
    Kind(
        name="text",
        noun="text",
        units="words, tokens or sentences",
        inputs_at_once=512,
        suggested_baselines="mask, unk, zero, mean",
        default_model=EMBEDDED,
        recognise=lambda _request: True,
        load=_load_text,
    ),
)
_BY_NAME = {kind.name: kind for kind in KINDS}
