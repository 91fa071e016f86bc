"""Fast paths inside copies of encoders, each equal to the plain one in the tests and loaded only where it can run."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

import torch
from torch import Tensor

HEADS = (16, 32, 64, 128)  # sizes of a head that blocks are made for
ROWS = 65535  # that a card takes in the third place of a grid


def attention_kernel(tensor: Tensor, rows: int = 1) -> ModuleType | None:
    """The kernels of attention inside rows for (N, heads, size) in half precision; None as below."""
    half = tensor.is_cuda and tensor.dtype in (torch.bfloat16, torch.float16)
    fits = tensor.shape[-1] in HEADS and rows <= ROWS
    return loaded("rationales.models.kernels.triton_attention") if half and fits else None


def norm_kernel(tensor: Tensor) -> ModuleType | None:
    """The kernels of a normalised sum for the device of `tensor`; None: there are none, or Triton is not installed."""
    return loaded("rationales.models.kernels.triton_norm") if tensor.is_cuda else None


@lru_cache
def loaded(name: str) -> ModuleType | None:
    """A module of kernels; None where Triton is not installed."""
    return import_module(name) if find_spec("triton") is not None else None
