"""Fast kernels of the fields; the tests compare each with the torch version."""

from __future__ import annotations

from types import ModuleType

from torch import Tensor

from rationales.models.kernels import loaded


def grid_kernel(tensor: Tensor) -> ModuleType | None:
    """Kernels for the device of `tensor`; None where there are none or Triton is not installed."""
    return loaded("rationales.masks.kernels.triton_grid") if tensor.is_cuda else None
