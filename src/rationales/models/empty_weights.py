"""Modules whose weights have shapes but neither memory nor values, until a file's weights take their place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


@contextmanager
def empty_weights() -> Iterator[None]:
    """Inside the block modules are built on the meta device; `load_state_dict(weights, assign=True)` fills them.

    Initialisation is skipped: it is in vain, and on the meta device a normal distribution imports torch's compiler,
    which takes longer than importing torch.
    """
    with torch.device("meta"), _NoInitialisation():
        yield


class _NoInitialisation(TorchFunctionMode):
    """Functions of `torch.nn.init` return their tensor as it is."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        arguments = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init":
            return args[0] if args else arguments["tensor"]
        return func(*args, **arguments)
