"""Maskers for networks that were just trained on planted data: AML's methods need one for every network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rationales.errors import ModelError
from rationales.masks.instant.aml.pretraining import pretrain
from rationales.masks.instant.aml.settings import AmlTraining
from rationales.methods import Method
from rationales.methods.aml_method import AmlMethod
from rationales.models.model import Model
from rationales.models.text.model import TextModel

TRAINING = AmlTraining(search="random", trials=8, learning_rate=1e-3)  # a network from scratch has no pretrained layers


def needs_masker(method: Method) -> bool:
    """Whether the method is one of AML's, without the file of a masker."""
    return isinstance(method, AmlMethod) and not method.masker


def with_trained_masker(
    method: Method, model: Model, texts: Sequence[str], folder: Path, training: AmlTraining | None = None
) -> Method:
    """The method with a masker that is trained on these texts and stored in `folder`; other methods as they are."""
    if not isinstance(method, AmlMethod) or method.masker:
        return method
    if not isinstance(model, TextModel) or not texts:
        raise ModelError(f"{method.name} needs texts to train its masker on, and {model.name} reads none")
    path = folder / "masker.safetensors"
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        pretrain(model, list(texts), training or TRAINING, data="planted texts").save(path)
    return replace(method, masker=str(path))
