"""Triton kernels for copies of encoders, tested against plain PyTorch and loaded only where they can run."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

import torch
from torch import Tensor

HEAD_SIZES = (16, 32, 64, 128)  # sizes of an attention head that the kernels support
MAX_ROWS = 65535  # CUDA's limit of the third grid dimension


def attention_kernel(tensor: Tensor, rows: int = 1) -> ModuleType | None:
    """The attention kernels for packed rows (N, heads, size) in half precision; None if not available."""
    half = tensor.is_cuda and tensor.dtype in (torch.bfloat16, torch.float16)
    fits = tensor.shape[-1] in HEAD_SIZES and rows <= MAX_ROWS
    return load_kernels("rationales.models.fast.kernels.triton_attention") if half and fits else None


def norm_kernel(tensor: Tensor) -> ModuleType | None:
    """The kernels of a sum and its layer norm for the device of `tensor`; None if not available."""
    return load_kernels("rationales.models.fast.kernels.triton_norm") if tensor.is_cuda else None


@lru_cache
def load_kernels(name: str) -> ModuleType | None:
    """The module of kernels of this name; None if Triton is not installed."""
    return import_module(name) if find_spec("triton") is not None else None
