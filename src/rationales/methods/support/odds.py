"""Log-odds to base 2, in which Double Trouble (Pham et al. 2022) measures how far a prediction changes (Eq. 4)."""

from __future__ import annotations

import torch
from torch import Tensor

MIN_PROBABILITY = 1e-6  # probabilities are clipped to [1e-6, 1 - 1e-6], so that certain predictions have finite odds
ODDS_OUTPUTS = ("log2-odds", "probability")


def on_scale(probability: Tensor, output: str) -> Tensor:
    """log2(p / (1 - p)) of clipped probabilities, or the probabilities themselves; in double precision if possible."""
    p = probability if probability.device.type == "mps" else probability.double()
    if output == "probability":
        return p
    p = p.clamp(MIN_PROBABILITY, 1 - MIN_PROBABILITY)
    return torch.log2(p / (1 - p))
