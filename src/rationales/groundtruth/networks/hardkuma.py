"""The HardKuma distribution (Bastings, Aziz and Titov 2019): variables in [0, 1] with mass at 0 and 1.

A Kumaraswamy variable on (0, 1) is stretched to (LOW, HIGH) and clipped to [0, 1], so that 0 and 1 have positive
probability while samples stay differentiable in the parameters.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

LOW, HIGH = -0.1, 1.1
MIN_PARAMETER, MAX_PARAMETER = 1e-3, 100.0
EPSILON = 1e-6  # uniform numbers are clamped to [EPSILON, 1 - EPSILON]


@dataclass(frozen=True, eq=False)
class HardKuma:
    """Independent variables with parameters a, b > 0 of the same shape."""

    a: Tensor
    b: Tensor

    def sample(self, uniform: Tensor) -> Tensor:
        """Samples in [0, 1], differentiable in a and b, from uniform numbers in (0, 1)."""
        u = uniform.clamp(EPSILON, 1 - EPSILON)
        inner = -torch.expm1(torch.log1p(-u) / self.b)  # 1 - (1 - u)^(1 / b)
        return _stretch_and_clip(inner.clamp(min=EPSILON) ** (1 / self.a))

    def probability_zero(self) -> Tensor:
        """P(z = 0)."""
        return self._cdf(-LOW / (HIGH - LOW))

    def probability_one(self) -> Tensor:
        """P(z = 1)."""
        return 1 - self._cdf((1 - LOW) / (HIGH - LOW))

    def likeliest(self) -> Tensor:
        """0 or 1 where it is more likely than the open interval; else the mean of the stretched variable, clipped."""
        p_zero, p_one = self.probability_zero(), self.probability_one()
        p_between = 1 - p_zero - p_one
        # The mean of a Kumaraswamy variable is b B(1 + 1 / a, b)
        inverse = 1 / self.a
        mean = (
            self.b.log() + torch.lgamma(1 + inverse) + torch.lgamma(self.b) - torch.lgamma(1 + inverse + self.b)
        ).exp()
        endpoint = torch.where(p_one > p_zero, torch.ones_like(p_one), torch.zeros_like(p_one))
        return torch.where(torch.maximum(p_zero, p_one) >= p_between, endpoint, _stretch_and_clip(mean))

    def _cdf(self, x: float) -> Tensor:
        """The distribution function 1 - (1 - x^a)^b of the Kumaraswamy variable."""
        power = torch.as_tensor(x, dtype=self.a.dtype, device=self.a.device) ** self.a
        return -torch.expm1(self.b * torch.log1p(-power.clamp(max=1 - EPSILON)))


def hardkuma_from_raw(raw: Tensor) -> HardKuma:
    """(..., 2) unconstrained numbers -> variables with positive a and b."""
    a, b = torch.nn.functional.softplus(raw).clamp(MIN_PARAMETER, MAX_PARAMETER).unbind(-1)
    return HardKuma(a, b)


def _stretch_and_clip(value: Tensor) -> Tensor:
    return (LOW + (HIGH - LOW) * value).clamp(0, 1)
