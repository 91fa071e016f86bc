"""Context managers that change a model, an object or the interpreter and always restore it, even after an exception."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn


@contextmanager
def frozen(*modules: nn.Module) -> Iterator[None]:
    """Evaluation mode and no weight gradients inside the block; on exit each flag is restored."""
    training = [(submodule, submodule.training) for module in modules for submodule in module.modules()]
    gradient_flags = [(weight, weight.requires_grad) for module in modules for weight in module.parameters()]
    try:
        for submodule, _ in training:
            submodule.training = False
        for weight, _ in gradient_flags:
            weight.requires_grad_(False)
        yield
    finally:
        for submodule, flag in training:
            submodule.training = flag
        for weight, flag in gradient_flags:
            weight.requires_grad_(flag)


@contextmanager
def output_replaced(module: nn.Module, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Inside the block, the output of `module` is replaced by `change(output)`."""

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
def garbage_collection_paused() -> Iterator[None]:
    """Inside the block, garbage collection is off; it dominates the time to make many small objects that stay."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()
