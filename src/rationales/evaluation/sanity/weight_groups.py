"""The weights of a classifier in groups, from the output to the input, and fresh random weights for them."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from rationales.errors import ModelError
from rationales.models.batch.rows import content_key

HEAD = "head"
DEFAULT_DEVIATION = 0.02  # of fresh weights of modules that say nothing else


@dataclass(frozen=True)
class WeightGroup:
    """Submodules that are re-initialised together, by their names in the module."""

    name: str
    submodules: tuple[str, ...]


def weight_groups(module: nn.Module) -> list[WeightGroup]:
    """All weights in groups: the head first, then the layers from the last to the first, then the embeddings.

    The head is everything outside of the child that holds the word embeddings (for BERT the last linear layer, for
    RoBERTa two of them); of a module without word embeddings it is the last submodule with weights. Numbered layers
    are groups of their own.
    """
    named = [name for name, submodule in module.named_modules() if any(True for _ in submodule.parameters(False))]
    if not named:
        raise ModelError(f"{type(module).__name__} has no weights, so there is nothing to randomise")
    encoder = _encoder_name(module)
    head = [name for name in named if not _inside(name, encoder)] if encoder is not None else named[-1:]
    if not head or len(head) == len(named) == 1:
        raise ModelError(
            f"{type(module).__name__} has no classification head apart from its embeddings; the sanity check and ROAR "
            "need one to randomise"
        )
    groups: dict[str, list[str]] = {HEAD: head}
    for name in reversed([name for name in named if name not in head]):
        groups.setdefault(_group_name(name), []).append(name)
    return [WeightGroup(name, tuple(submodules)) for name, submodules in groups.items()]


def randomise(module: nn.Module, groups: Sequence[WeightGroup], seed: int, *purpose: str | int) -> None:
    """Re-initialise the weights of these groups in place; the same seed and purpose give the same weights.

    The random numbers of a submodule come from a hash of seed, purpose and its name, on every device the same: those of
    `torch.manual_seed(seed)` are what the module's own weights may have been drawn from before it was trained.

    With a configuration that has an `initializer_range` (Hugging Face) matrices are drawn from a normal distribution of
    that deviation, biases are 0 and the factors of norms 1, as these models are initialised; other modules reset their
    parameters themselves (`reset_parameters`), or get matrices of the deviation that they had.
    """
    deviation = getattr(getattr(module, "config", None), "initializer_range", None)
    submodules = dict(module.named_modules())
    with torch.no_grad():
        for group in groups:
            for name in group.submodules:
                _reset(submodules[name], deviation, content_key(seed, *purpose, name))


def _reset(submodule: nn.Module, deviation: float | None, key: int) -> None:
    if deviation is None and callable(getattr(submodule, "reset_parameters", None)):
        _reset_by_itself(submodule, key)
        return
    generator = torch.Generator().manual_seed(key)
    for name, weight in submodule.named_parameters(recurse=False):
        if weight.dim() > 1:
            own_deviation = float(weight.std()) if weight.numel() > 1 else DEFAULT_DEVIATION
            scale = deviation if deviation is not None else own_deviation or DEFAULT_DEVIATION
            weight.copy_(scale * torch.randn(weight.shape, generator=generator))
        else:
            weight.fill_(0.0 if "bias" in name else 1.0)
    padding = getattr(submodule, "padding_idx", None)
    if isinstance(submodule, nn.Embedding) and padding is not None:
        submodule.weight[padding].zero_()


def _reset_by_itself(submodule: nn.Module, key: int) -> None:
    """`reset_parameters` takes its random numbers from the global generator, whose state is restored."""
    fresh: Any = copy.deepcopy(submodule).cpu()
    with torch.random.fork_rng([]):
        torch.default_generator.manual_seed(key)
        fresh.reset_parameters()
    submodule.load_state_dict(fresh.state_dict())


def _encoder_name(module: nn.Module) -> str | None:
    """Name of the direct child that holds the word embeddings; None if the module has none."""
    find = getattr(module, "get_input_embeddings", None)
    try:
        embedding = find() if find is not None else None
    except NotImplementedError:
        embedding = None
    if embedding is None:
        return None
    return next((name for name, child in module.named_children() if embedding in list(child.modules())), None)


def _inside(name: str, parent: str) -> bool:
    return name == parent or name.startswith(f"{parent}.")


def _group_name(name: str) -> str:
    """encoder.layer.3.output.dense -> encoder.layer.3; bert.embeddings.LayerNorm -> bert.embeddings."""
    components = name.split(".")
    numbered = next((position for position, component in enumerate(components) if component.isdigit()), None)
    return ".".join(components[:2] if numbered is None else components[: numbered + 1])
