"""The baselines of a model that are tried one at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rationales.errors import OptionError
from rationales.models.image.baseline_choice import CANDIDATES
from rationales.models.image.model import AUTOMATIC, ImageModel
from rationales.models.model import Model
from rationales.models.text.model import TextModel

TEXT_BASELINES = ("pad", "mask", "unk", "zero")


def text_or_image_model(model: Model) -> TextModel | ImageModel:
    """The model itself; an OptionError where it reads neither texts nor images."""
    if not isinstance(model, (TextModel, ImageModel)):
        raise OptionError(f"stability is measured for texts and images; {model.name} is a model of {model.kind}")
    return model


def single_baselines(model: TextModel | ImageModel) -> tuple[str, ...]:
    """Baselines to try alone: those in use, else those that one would choose from.

    Images: the several baselines of the model, or all candidates of the automatic choice. Texts: the model's baseline
    and those of pad, mask, unk and zero that the tokenizer has.
    """
    if isinstance(model, ImageModel):
        names = tuple(dict.fromkeys(model.baselines))
        return names if model.baselines != AUTOMATIC and len(names) > 1 else CANDIDATES
    tokenizer: Any = model.tokenizer
    available = [name for name in TEXT_BASELINES[:-1] if getattr(tokenizer, f"{name}_token_id", None) is not None]
    return tuple(dict.fromkeys((*_named(model), *available, TEXT_BASELINES[-1])))


def only_baseline(model: TextModel | ImageModel) -> str | None:
    """The model's baseline where it has exactly one."""
    if isinstance(model, ImageModel):
        names = set(model.baselines)
        return names.pop() if model.baselines != AUTOMATIC and len(names) == 1 else None
    return model.baseline


def _named(model: TextModel) -> Sequence[str]:
    """The model's own baseline where it has a name; one given as a tensor has none."""
    return () if model.baseline == "given" else (model.baseline,)
