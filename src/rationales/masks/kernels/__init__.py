"""Fast kernels of the fields; the tests compare each with the torch version."""

from __future__ import annotations

from types import ModuleType

from torch import Tensor

from rationales.models.fast.kernels import load_kernels


def grid_kernel(tensor: Tensor) -> ModuleType | None:
    """Kernels for the device of `tensor`; None where there are none or Triton is not installed."""
    return load_kernels("rationales.masks.kernels.triton_grid") if tensor.is_cuda else None
