"""A user's model is borrowed: frozen while it is explained, and given back as it was, whatever happens."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn


@contextmanager
def frozen(*modules: nn.Module) -> Iterator[None]:
    """Evaluation mode and no gradients for weights inside the block; flags are restored one by one afterwards."""
    training = [(part, part.training) for module in modules for part in module.modules()]
    wanted = [(weight, weight.requires_grad) for module in modules for weight in module.parameters()]
    try:
        for part, _ in training:
            part.training = False
        for weight, _ in wanted:
            weight.requires_grad_(False)
        yield
    finally:
        for part, flag in training:
            part.training = flag
        for weight, flag in wanted:
            weight.requires_grad_(flag)


@contextmanager
def output_replaced(module: nn.Module, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Inside the block, what `module` gives out is passed through `change`."""

    def hook(_module: nn.Module, _arguments: Any, output: Tensor) -> Tensor:
        return change(output)

    handle = module.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def attribute_set(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Inside the block, `owner.name` is `value`."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


@contextmanager
def no_collection() -> Iterator[None]:
    """Inside the block, garbage is not looked for: where many small objects are made that stay, that takes longest."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()
