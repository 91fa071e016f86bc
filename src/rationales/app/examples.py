"""Inputs to try, for the models of the package."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from rationales.app.model_choices import ModelChoices
from rationales.demo import REVIEW
from rationales.models.catalogue import EMBEDDED, IMAGE_MODEL

NEGATION = "Not a good film, whatever the posters say. Still, the music is lovely and I stayed to the end."
PRAISE = (
    "The book starts slowly, and I put it down twice. By the last hundred pages I could not stop reading: the two "
    "sisters are drawn with such warmth that I missed them when it was over."
)


@dataclass(frozen=True)
class TrialInput:
    """An input with its name; `text` or `upload` says what it is."""

    title: str
    model: str
    text: str = ""
    upload: Callable[[], str] | None = None  # makes a data URL


def _photograph(name: str) -> Callable[[], str]:
    def upload() -> str:
        from PIL import Image
        from skimage import data as untyped

        photographs: Any = untyped  # comes without types
        buffer = io.BytesIO()
        Image.fromarray(getattr(photographs, name)()).save(buffer, "JPEG", quality=90)
        return f"data:image/jpeg;name={name}.jpg;base64,{base64.b64encode(buffer.getvalue()).decode()}"

    return upload


def examples(choices: ModelChoices) -> Sequence[TrialInput]:
    """The examples whose models are offered and whose files are installed."""
    listed = [
        TrialInput("A mixed film review", EMBEDDED, REVIEW),
        TrialInput("A negation", EMBEDDED, NEGATION),
        TrialInput("A book with a slow start", EMBEDDED, PRAISE),
    ]
    if find_spec("skimage") is not None and find_spec("PIL") is not None:
        listed.append(TrialInput("A cup of coffee", IMAGE_MODEL, upload=_photograph("coffee")))
    return [example for example in listed if example.model in choices.titles]
