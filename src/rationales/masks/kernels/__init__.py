"""Fast paths of the fields, each equal to the plain one in the tests and loaded only where it can run."""

from __future__ import annotations

from types import ModuleType

from torch import Tensor

from rationales.models.kernels import loaded


def grid_kernel(tensor: Tensor) -> ModuleType | None:
    """The kernels for the device of `tensor`; None: there are none, or Triton is not installed."""
    return loaded("rationales.masks.kernels.triton_grid") if tensor.is_cuda else None
