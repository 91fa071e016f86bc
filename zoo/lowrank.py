"""A low-rank change of a frozen network: W + up @ down, saved apart from W."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

WHOLE_PARTS = ("LayerNorm", "bias", "pooler", "classifier")  # small enough to be trained and stored as they are


class LowRankLinear(nn.Module):
    """A linear layer whose weight is frozen up to a term of rank `rank`."""

    def __init__(self, base: nn.Linear, rank: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(base.weight.detach().clone(), requires_grad=False)
        self.bias = nn.Parameter(base.bias.detach().clone())
        self.down = nn.Parameter(torch.randn(rank, base.in_features) / base.in_features**0.5)
        self.up = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, inputs: Tensor) -> Tensor:
        return nn.functional.linear(inputs, self.weight + self.up @ self.down, self.bias)


def open_for_training(model: nn.Module, rank: int) -> None:
    """Freeze `model` but for low-rank terms in its encoder, and the parts named in WHOLE_PARTS."""
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(any(pattern in name for pattern in WHOLE_PARTS))
    linears = [(n, m) for n, m in model.named_modules() if isinstance(m, nn.Linear) and ".encoder." in n]
    for name, linear in linears:
        parent, _, child = name.rpartition(".")
        setattr(model.get_submodule(parent), child, LowRankLinear(linear, rank).to(linear.weight.device))


def delta_of(model: nn.Module) -> dict[str, Tensor]:
    """What training changed, under the parameter names of the original model."""
    delta = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            stem, _, last = name.rpartition(".")
            delta[f"{stem}.weight.{last}" if last in ("down", "up") else name] = parameter.detach().clone()
    return delta


@torch.no_grad()
def apply_delta(model: nn.Module, delta: Mapping[str, Tensor]) -> None:
    """Change an original `model` in place: W += up @ down for pairs, replacement for the rest."""
    parameters = dict(model.named_parameters())
    for name, value in delta.items():
        value = value.float()
        if name.endswith(".down"):
            changed = name.removesuffix(".down")
            parameters[changed].add_(delta[f"{changed}.up"].float() @ value)
        elif not name.endswith(".up"):
            parameters[name].copy_(value)
