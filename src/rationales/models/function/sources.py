"""Recognises objects of other libraries: what wraps a network and its preprocessor, and what is a function of texts.

None of these libraries is imported: objects are recognised by the module of their class and by their methods.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor, nn

from rationales.errors import ModelError, OptionError

PREPROCESSORS = {  # task of a transformers pipeline -> the attribute that holds the preprocessor of its network
    "text-classification": "tokenizer",
    "sentiment-analysis": "tokenizer",
    "image-classification": "image_processor",
    "audio-classification": "feature_extractor",
}
TEXTS_PER_CALL = 256


@dataclass(frozen=True, eq=False)
class TextFunction:
    """A function from a list of texts, or of tuples of two texts, to probabilities."""

    call: Callable[[list[Any]], Any]
    labels: tuple[str, ...] | None  # None: the function does not name its classes
    name: str

    def outputs(self, texts: Sequence[Any]) -> np.ndarray:
        """(texts, C) float64: the probabilities, checked; one column for a function that returns (texts,)."""
        calls = [list(texts[first : first + TEXTS_PER_CALL]) for first in range(0, len(texts), TEXTS_PER_CALL)]
        return np.concatenate([self._checked(self.call(group), len(group)) for group in calls])

    def _checked(self, returned: Any, count: int) -> np.ndarray:
        values = returned.detach().cpu().numpy() if isinstance(returned, Tensor) else returned
        try:
            probabilities = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            raise ModelError(
                f"{self.name} returns {type(returned).__name__}, which is no array of numbers; "
                "it must return the probabilities of all classes, one row for each text"
            ) from None
        if probabilities.shape == (count,):
            probabilities = probabilities[:, None]
        if probabilities.ndim != 2 or len(probabilities) != count or not probabilities.shape[1]:
            raise ModelError(
                f"{self.name} returns an array of shape {np.shape(values)} for {count} texts; it must return "
                "one row of probabilities for each text, (texts, classes), or one probability, (texts,)"
            )
        if not np.isfinite(probabilities).all():
            raise ModelError(f"{self.name} returns NaN or infinity")
        if probabilities.min() < -1e-6 or probabilities.max() > 1 + 1e-6:
            raise ModelError(
                f"{self.name} returns {probabilities.min():.3g} to {probabilities.max():.3g}, which are no "
                "probabilities; apply softmax or sigmoid to logits before returning them"
            )
        return probabilities


def unwrapped(source: Any, preprocessor: Any) -> tuple[Any, Any]:
    """The network and its preprocessor inside a transformers pipeline or a CrossEncoder; other sources unchanged."""
    if preprocessor is not None:
        return source, preprocessor
    if _is_from("transformers.pipelines", source):
        attribute = PREPROCESSORS.get(source.task)
        if attribute is not None and isinstance(source.model, nn.Module):
            return source.model, getattr(source, attribute, None)
    if _is_from("sentence_transformers", source) and type(source).__name__ == "CrossEncoder":
        return source.model, source.tokenizer
    return source, preprocessor


def is_text_function(source: Any, encoder: Any = None) -> bool:
    """Whether this is a function of texts: a callable, or a classifier with predict_proba (see `text_function`)."""
    if source is None or isinstance(source, (str, os.PathLike, nn.Module, list, tuple)):
        return False
    if encoder is not None and not _encodes(encoder):
        return False
    return callable(source) or hasattr(source, "predict_proba") or hasattr(source, "predict")


def text_function(source: Any, encoder: Any, labels: Sequence[str] | None) -> TextFunction:
    """The function of a classifier with predict_proba, of a classifier and an encoder of texts, or of a callable."""
    name = _title(source)
    if _is_from("transformers.pipelines", source):
        raise ModelError(
            f"a pipeline for {source.task} cannot be explained; give one for text, image or audio classification, "
            "or a function of texts that calls it and returns probabilities, with labels=[...]"
        )
    if hasattr(source, "predict_proba"):
        known = getattr(source, "classes_", getattr(source, "labels", None))
        if not isinstance(known, (list, tuple, np.ndarray)):
            known = None
        if encoder is not None:
            name = f"{name} on {_title(encoder)}"
            return TextFunction(lambda texts: source.predict_proba(_embed(encoder, texts)), _names(known, labels), name)
        return TextFunction(source.predict_proba, _names(known, labels), name)
    if not callable(source):
        raise ModelError(
            f"{name} predicts labels without probabilities, which methods need; calibrate it, for example with "
            "scikit-learn's CalibratedClassifierCV, or give a function that returns probabilities"
        )
    if encoder is not None:
        return TextFunction(lambda texts: source(_embed(encoder, texts)), _names(None, labels), name)
    return TextFunction(source, _names(None, labels), name)


def _names(known: Any, labels: Sequence[str] | None) -> tuple[str, ...] | None:
    if labels is not None:
        if isinstance(labels, str) or not all(isinstance(label, str) for label in labels):
            raise OptionError(f"labels is a list of names, one for each class, not {labels!r}")
        if known is not None and len(known) != len(labels):
            raise OptionError(f"{len(labels)} labels for the {len(known)} classes of the model")
        return tuple(labels)
    return None if known is None else tuple(str(label) for label in known)


def _embed(encoder: Any, texts: list[Any]) -> Any:
    """The vectors of the texts, by a sentence-transformers model or a fitted scikit-learn transformer."""
    if hasattr(encoder, "encode"):
        options = {"show_progress_bar": False} if _is_from("sentence_transformers", encoder) else {}
        return encoder.encode(texts, **options)
    return encoder.transform(texts)


def _encodes(encoder: Any) -> bool:
    is_tokenizer = hasattr(encoder, "get_vocab")
    return not is_tokenizer and (hasattr(encoder, "encode") or hasattr(encoder, "transform"))


def _is_from(module: str, source: Any) -> bool:
    return any(kind.__module__ == module or kind.__module__.startswith(f"{module}.") for kind in type(source).__mro__)


def _title(source: Any) -> str:
    name = getattr(source, "__name__", None)
    return name if isinstance(name, str) else type(source).__name__
