"""Writing what training changed: low-rank factors in 8 bits, small tensors in half precision, and a configuration."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from rationales.models.delta import BASE, CONFIG_FILE, DELTA_FILE, SCALE

STEPS = 127  # on either side of zero
SMALL = 4096  # elements; smaller tensors stay in half precision
LAYER_STACKS = (".encoder.", ".transformer.")  # the latter is DistilBERT's
TRANSIENT = ("_name_or_path", "transformers_version", "gradient_checkpointing", "architectures", BASE)


def state_of(model: nn.Module) -> dict[str, Tensor]:
    """A copy of the parameters, tied ones once."""
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


@torch.no_grad()
def restore(model: nn.Module, state: Mapping[str, Tensor]) -> None:
    for name, parameter in model.named_parameters():
        parameter.copy_(state[name])


def is_factored(name: str, parameter: Tensor) -> bool:
    """Whether a change of this parameter is stored as two factors: the matrices of the encoder's layers."""
    return any(stack in name for stack in LAYER_STACKS) and parameter.ndim == 2


def low_rank_change(before: Mapping[str, Tensor], after: Mapping[str, Tensor], rank: int) -> dict[str, Tensor]:
    """The change from `before` to `after`, that of the encoder's matrices cut to their `rank` largest components."""
    delta: dict[str, Tensor] = {}
    for name, new in after.items():
        if torch.equal(new, before[name]):
            continue
        if is_factored(name, new):
            u, size, vt = torch.linalg.svd((new - before[name]).float().cpu(), full_matrices=False)
            root = size[:rank].sqrt()
            delta[f"{name}.up"] = u[:, :rank] * root
            delta[f"{name}.down"] = root[:, None] * vt[:rank]
        else:
            delta[name] = new
    return delta


def cut(delta: Mapping[str, Tensor], rank: int) -> dict[str, Tensor]:
    """The same change with fewer components."""
    return {
        name: value[:, :rank] if name.endswith(".up") else value[:rank] if name.endswith(".down") else value
        for name, value in delta.items()
    }


def quantized(delta: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Matrices as 8-bit integers and the size of their steps: one for each component of a factor, each row else."""
    stored: dict[str, Tensor] = {}
    for name, value in delta.items():
        tensor = value.detach().float().cpu()
        if tensor.ndim < 2 or tensor.numel() <= SMALL:
            stored[name] = tensor.half().contiguous()
            continue
        scale = tensor.abs().amax(0 if name.endswith(".up") else 1, keepdim=True).clamp(min=1e-12) / STEPS
        stored[name] = (tensor / scale).round().to(torch.int8).contiguous()
        stored[name + SCALE] = scale.contiguous()
    return stored


def save_delta(folder: Path, delta: Mapping[str, Tensor], config: Any, base: str | None = None) -> int:
    """Write delta.safetensors and config.json; returns the bytes of the delta."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file(quantized(delta), folder / DELTA_FILE)
    settings = {name: value for name, value in config.to_dict().items() if name not in TRANSIENT}
    settings |= {"architectures": [config.architectures[0]], "dtype": "float32"}
    settings |= {} if base is None else {BASE: base}
    (folder / CONFIG_FILE).write_text(json.dumps(settings, indent=2, sort_keys=True) + "\n")
    return (folder / DELTA_FILE).stat().st_size
