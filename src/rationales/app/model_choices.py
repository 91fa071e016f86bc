"""The models that a server offers, each loaded once, and the methods that fit each."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rationales.app.model_lock import ModelLock
from rationales.errors import OptionError
from rationales.methods import METHODS
from rationales.models.catalogue import AUDIO_MODEL, EMBEDDED, IMAGE_MODEL, list_models
from rationales.models.function.model import FunctionModel
from rationales.models.kinds import kind_named
from rationales.models.load import load
from rationales.models.model import Model

KIND_OF_CATALOGUE_MODEL = {EMBEDDED: "text", IMAGE_MODEL: "image", AUDIO_MODEL: "audio"}
NEEDS_FILES = frozenset({"an AML masker", "a filler", "training data"})  # methods that need more than the model
NEEDS_BY_KIND = {  # what only inputs of one kind have
    "text": frozenset({"texts", "attention", "a masker"}),
    "image": frozenset({"feature maps"}),
}
DEFAULT_METHODS = {"text": ("marc", "occlusion"), "image": ("grad-cam", "marc")}  # the quick one first


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A loaded model and its lock."""

    title: str
    model: Model
    lock: ModelLock = field(default_factory=ModelLock)

    @property
    def noun(self) -> str:
        """What an input is called: text, image or sound."""
        return kind_named(self.model.kind).noun

    @property
    def methods(self) -> list[str]:
        """The names of the methods that can explain this model without files of their own."""
        return fitting_methods(self.model)

    @property
    def default_methods(self) -> list[str]:
        """The methods that are chosen at first."""
        preferred = DEFAULT_METHODS.get(self.model.kind, ("marc", "occlusion"))
        fitting = self.methods
        return [name for name in preferred if name in fitting] or fitting[:1]


def fitting_methods(model: Model) -> list[str]:
    """The names of the methods that can explain `model` without files of their own, in the order of the list."""
    other_kinds = {need for kind, needs in NEEDS_BY_KIND.items() if kind != model.kind for need in needs}
    missing = NEEDS_FILES | other_kinds
    if model.name != EMBEDDED:  # the only model with a masker in the package
        missing |= {"a masker"}
    if isinstance(model, FunctionModel):
        missing |= {"gradients", "attention"}
    return [name for name, method in METHODS.items() if not missing & set(method.needs)]


class ModelChoices:
    """The models by their titles. Those of the package are loaded when they are first used."""

    def __init__(self, sources: Sequence[str] = (), device: str | None = None, trust_remote_code: bool = False) -> None:
        self._device = device
        self._loaded: dict[str, ServedModel] = {}
        self._loading = threading.Lock()
        available = {info.name for info in list_models() if info.available}
        self._catalogue = [name for name in KIND_OF_CATALOGUE_MODEL if name in available]
        for source in sources:
            if source in self._catalogue:
                continue
            title = _title(source)
            if title in self._loaded:
                raise OptionError(f"two models are called {title}; give one of them another folder name")
            model = load(source, device=device, trust_remote_code=trust_remote_code)
            self._loaded[title] = ServedModel(title, model)
        self._titles = [*self._loaded, *self._catalogue]  # those that were asked for come first

    def add(self, title: str, model: Model) -> None:
        """Offer a loaded model under this title, last in the list."""
        if title in self._titles:
            raise OptionError(f"two models are called {title}; give one of them another title")
        self._loaded[title] = ServedModel(title, model)
        self._titles.append(title)

    @property
    def titles(self) -> list[str]:
        """The models in the order in which they are offered."""
        return list(self._titles)

    def titles_of(self, noun: str) -> list[str]:
        """The models that read inputs of this name: text, image or sound."""
        return [title for title in self._titles if self.noun(title) == noun]

    def noun(self, title: str) -> str:
        """What an input of this model is called; nothing is loaded for it."""
        loaded = self._loaded.get(title)
        return loaded.noun if loaded is not None else kind_named(KIND_OF_CATALOGUE_MODEL[self._known(title)]).noun

    def get(self, title: str) -> ServedModel:
        """The model of this title; only models that the server offers can be named."""
        known = self._known(title)
        with self._loading:
            if known not in self._loaded:
                self._loaded[known] = ServedModel(known, load(known, device=self._device))
            return self._loaded[known]

    def _known(self, title: str) -> str:
        if title not in self._titles:
            raise OptionError(f"this server offers no model {title!r}; it offers: {', '.join(self._titles)}")
        return title


def _title(source: str) -> str:
    """The name of a model as visitors see it: without the folders that it lies in."""
    path = Path(source)
    return path.resolve().name if path.exists() else source
