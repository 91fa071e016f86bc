"""How much can be run at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

CPU_BYTES = 2 * 2**30  # of activations; more is not faster there
GPU_SHARE = 0.6  # of what is free; the rest is for what lives between two layers


def token_budget(config: Any, length: int, device: torch.device, itemsize: int = 4) -> int:
    """Tokens that may be in flight, from the size of a transformer's stored activations per token."""
    layers = _read(config, 12, "num_hidden_layers", "n_layer", "num_layers", "n_layers")
    hidden = _read(config, 768, "hidden_size", "n_embd", "d_model", "dim")
    heads = _read(config, 12, "num_attention_heads", "n_head", "n_heads")
    inner = _read(config, 4 * hidden, "intermediate_size", "n_inner", "hidden_dim", "d_ff")
    per_token = itemsize * layers * (10 * hidden + 3 * inner + 2 * heads * length)
    return max(int(available_bytes(device) // per_token), 1)


def stored_bytes(modules: Sequence[nn.Module], work: Callable[[], object]) -> int:
    """What `work` keeps for a backward pass: every stored tensor once, the modules' own weights left out."""
    own = {weight.untyped_storage().data_ptr() for module in modules for weight in module.parameters()}
    own |= {buffer.untyped_storage().data_ptr() for module in modules for buffer in module.buffers()}
    stored: dict[int, int] = {}

    def note(value: Tensor) -> Tensor:
        memory = value.untyped_storage()
        if memory.data_ptr() not in own:
            stored[memory.data_ptr()] = memory.nbytes()
        return value

    kept = []
    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(note, lambda value: value):
        kept.append(work())  # alive until all is counted, or memory would be given out twice
    return sum(stored.values())


def available_bytes(device: torch.device) -> int:
    """What activations may take on this device."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        idle = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)  # torch's, but not in use
        return int((free + idle) * GPU_SHARE)
    try:
        physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    except (ValueError, OSError, AttributeError):  # not every system tells
        return CPU_BYTES
    return min(CPU_BYTES, physical // 4)


def _read(config: Any, default: int, *names: str) -> int:
    for name in names:
        value = getattr(config, name, None)
        if isinstance(value, int) and value > 0:
            return value
    return default
