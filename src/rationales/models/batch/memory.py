"""How much fits into memory at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

CPU_BYTES = 2 * 2**30  # of activations; a larger budget is not faster on a CPU
GPU_SHARE = 0.6  # of free memory; the remainder is for temporary tensors between layers


def token_budget(config: Any, length: int, device: torch.device, itemsize: int = 4) -> int:
    """Number of tokens that fit, from the size of a transformer's stored activations per token."""
    layers = _read(config, 12, "num_hidden_layers", "n_layer", "num_layers", "n_layers")
    hidden = _read(config, 768, "hidden_size", "n_embd", "d_model", "dim")
    heads = _read(config, 12, "num_attention_heads", "n_head", "n_heads")
    inner = _read(config, 4 * hidden, "intermediate_size", "n_inner", "hidden_dim", "d_ff")
    per_token = itemsize * layers * (10 * hidden + 3 * inner + 2 * heads * length)
    return max(int(available_bytes(device) // per_token), 1)


def stored_bytes(modules: Sequence[nn.Module], compute: Callable[[], object]) -> int:
    """Bytes that `compute` stores for a backward pass, each tensor once and without the modules' weights."""
    weight_pointers = {weight.untyped_storage().data_ptr() for module in modules for weight in module.parameters()}
    weight_pointers |= {buffer.untyped_storage().data_ptr() for module in modules for buffer in module.buffers()}
    stored: dict[int, int] = {}

    def note(value: Tensor) -> Tensor:
        memory = value.untyped_storage()
        if memory.data_ptr() not in weight_pointers:
            stored[memory.data_ptr()] = memory.nbytes()
        return value

    results = []
    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(note, lambda value: value):
        results.append(compute())  # kept alive, or freed memory would be reused and counted once
    return sum(stored.values())


def available_bytes(device: torch.device) -> int:
    """Bytes that activations may take on this device."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        idle = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)  # reserved by torch but unused
        return int((free + idle) * GPU_SHARE)
    try:
        physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    except (ValueError, OSError, AttributeError):  # not available on every system
        return CPU_BYTES
    return min(CPU_BYTES, physical // 4)


def _read(config: Any, default: int, *names: str) -> int:
    for name in names:
        value = getattr(config, name, None)
        if isinstance(value, int) and value > 0:
            return value
    return default
