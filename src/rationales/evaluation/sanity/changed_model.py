"""Copies of a model with other weights; the model itself is never touched."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch import nn

from rationales.errors import OptionError
from rationales.models.image.model import ImageModel
from rationales.models.model import Model
from rationales.models.text import baselines
from rationales.models.text.batch import TextClassifier
from rationales.models.text.model import TextModel


def modules_of(model: Model) -> list[nn.Module]:
    """The networks of a model of texts or images."""
    if isinstance(model, TextModel):
        return [network.module for network in model.networks]
    if isinstance(model, ImageModel):
        return [model.module]
    raise _unknown_weights(model)


def changed_model(model: Model, change: Callable[[nn.Module], None]) -> Model:
    """A copy of the model after `change` of a copy of each of its networks."""
    if isinstance(model, TextModel):
        return replace(model, networks=[_network(model, network, change) for network in model.networks])
    if isinstance(model, ImageModel):
        return replace(model, module=_changed(model.module, change))
    raise _unknown_weights(model)


def _unknown_weights(model: Model) -> OptionError:
    return OptionError(f"the weights of {model.name} are not known; this needs a model of texts or images")


def _changed(module: nn.Module, change: Callable[[nn.Module], None]) -> nn.Module:
    duplicate = copy.deepcopy(module)
    change(duplicate)
    return duplicate


def _network(model: TextModel, network: TextClassifier, change: Callable[[nn.Module], None]) -> TextClassifier:
    module: Any = _changed(network.module, change)
    embedding = module.get_input_embeddings()
    # a baseline given as a tensor stays; a named one is what the new embeddings say
    named = model.baseline != "given"
    vector = baselines.vector(model.baseline, model.tokenizer, embedding) if named else network.baseline
    return replace(network, module=module, embedding=embedding, baseline=vector)
