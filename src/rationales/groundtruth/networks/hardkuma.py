"""The HardKuma distribution (Bastings, Aziz and Titov 2019): numbers in [0, 1], exactly 0 or 1 with some probability.

A Kumaraswamy variable on (0, 1) is stretched to (LOW, HIGH) and cut to [0, 1], so that 0 and 1 have mass of their own
while samples stay differentiable in the parameters.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

LOW, HIGH = -0.1, 1.1
SMALLEST, LARGEST = 1e-3, 100.0  # of the parameters
EDGE = 1e-6  # uniform numbers stay this far from 0 and 1


@dataclass(frozen=True, eq=False)
class HardKuma:
    """One variable for each pair of parameters a, b > 0, all of the same shape."""

    a: Tensor
    b: Tensor

    def sample(self, uniform: Tensor) -> Tensor:
        """Samples in [0, 1] from numbers drawn uniformly from (0, 1), differentiable in a and b."""
        u = uniform.clamp(EDGE, 1 - EDGE)
        inner = -torch.expm1(torch.log1p(-u) / self.b)  # 1 - (1 - u)^(1 / b)
        return _hard(inner.clamp(min=EDGE) ** (1 / self.a))

    def zero(self) -> Tensor:
        """P(z = 0)."""
        return self._below(-LOW / (HIGH - LOW))

    def one(self) -> Tensor:
        """P(z = 1)."""
        return 1 - self._below((1 - LOW) / (HIGH - LOW))

    def likeliest(self) -> Tensor:
        """0 or 1 where that is the likeliest of 0, 1 and anything between; else the mean of the stretched variable."""
        zero, one = self.zero(), self.one()
        between = 1 - zero - one
        # the mean of a Kumaraswamy variable is b B(1 + 1 / a, b)
        inverse = 1 / self.a
        mean = (
            self.b.log() + torch.lgamma(1 + inverse) + torch.lgamma(self.b) - torch.lgamma(1 + inverse + self.b)
        ).exp()
        sure = torch.where(one > zero, torch.ones_like(one), torch.zeros_like(one))
        return torch.where(torch.maximum(zero, one) >= between, sure, _hard(mean))

    def _below(self, place: float) -> Tensor:
        """The distribution function 1 - (1 - x^a)^b."""
        power = torch.as_tensor(place, dtype=self.a.dtype, device=self.a.device) ** self.a
        return -torch.expm1(self.b * torch.log1p(-power.clamp(max=1 - EDGE)))


def from_raw(raw: Tensor) -> HardKuma:
    """(..., 2) any numbers -> the variables with a and b above 0."""
    a, b = torch.nn.functional.softplus(raw).clamp(SMALLEST, LARGEST).unbind(-1)
    return HardKuma(a, b)


def _hard(value: Tensor) -> Tensor:
    return (LOW + (HIGH - LOW) * value).clamp(0, 1)
