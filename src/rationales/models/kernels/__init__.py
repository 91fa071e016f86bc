"""Fast paths inside copies of encoders, each equal to the plain one in the tests and loaded only where it can run."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from torch import Tensor


def norm_kernel(tensor: Tensor) -> ModuleType | None:
    """The kernels of a normalised sum for the device of `tensor`; None: there are none, or Triton is not installed."""
    return loaded("rationales.models.kernels.triton_norm") if tensor.is_cuda else None


@lru_cache
def loaded(name: str) -> ModuleType | None:
    """A module of kernels; None where Triton is not installed."""
    return import_module(name) if find_spec("triton") is not None else None
