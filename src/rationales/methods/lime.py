"""LIME: a linear model of what the classifier says of the input with parts replaced (Ribeiro, Singh, Guestrin 2016)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from rationales.errors import OptionError
from rationales.methods.method import Attribution, Method, Progress
from rationales.methods.regression import centred, chunks, least_squares
from rationales.models.batch import Batch
from rationales.models.players import Players, players
from rationales.models.probing import OF, answers
from rationales.models.randomness import fold, uniform
from rationales.options import option


@dataclass(frozen=True)
class Lime(Method):
    """A unit's score is its coefficient in a ridge regression on which units were kept (section 3.4).

    Each sample replaces a random number of units, and counts by exp(-d^2 / (2 kernel^2)), d the cosine distance between
    what it keeps and the whole input. The input itself is one of the samples. All pixels of a cell have its score.
    """

    name: ClassVar[str] = "lime"
    summary: ClassVar[str] = "coefficients of a linear model fitted to the input with random parts replaced"
    presets: ClassVar[Mapping[str, Mapping[str, Mapping[str, Any]]]] = {
        "text": {
            "default": {},
            "paper": {"samples": 50, "least": 0.05, "most": 0.13, "following": 3, "kernel": 0.0, "ridge": 0.0},
        },
        "image": {"default": {}},
    }

    samples: int = option(1000, "times the model is asked, the input as it is included")
    least: float = option(0.0, "smallest share of units that a sample picks to be replaced (at least one unit)")
    most: float = option(1.0, "largest share of units that a sample picks to be replaced")
    following: int = option(0, "units after each picked one that are replaced with it; for texts")
    kernel: float = option(0.25, "width of the kernel over cosine distances; 0: all samples count the same")
    ridge: float = option(1.0, "weight of the squared coefficients; 0: plain least squares, the smallest solution")
    every: int = option(0, "on a picture: side of the cells that play, in pixels; 0: 14 cells along the longer side")
    of: str = option("probability", "what of the target is explained", *OF)

    def __post_init__(self) -> None:
        if self.samples < 2:
            raise OptionError(f"lime needs at least 2 samples, not {self.samples}")
        if not 0 <= self.least <= self.most <= 1:
            raise OptionError("lime needs 0 <= least <= most <= 1, shares of the units")
        if self.following < 0 or self.kernel < 0 or self.ridge < 0:
            raise OptionError("lime needs following, kernel and ridge of at least 0")

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        if batch.grid is not None and self.following:
            raise OptionError("lime's option following is for texts: cells of a picture have no next one")
        team = players(batch, self.every)
        found = answers(
            batch,
            target,
            lambda row, variant: team.spread(self.kept(batch, team, row, variant)),
            self.samples,
            of=self.of,
            progress=progress,
        )
        every_sample = torch.arange(self.samples, device=batch.device)
        fitted = torch.zeros(team.real.shape, device=batch.device, dtype=found.dtype)
        for row in chunks(team.real, self.samples):
            kept = (self.kept(batch, team, row, every_sample) & team.real[row]).double().movedim(0, 1)  # (R, K, g)
            weights = self._weights(kept.sum(-1) / team.count[row][:, None])
            features, values = centred(kept, found[:, row].T.double(), weights)
            fitted[row] = least_squares(features * team.real[row][:, None], values, weights, self.ridge).to(
                fitted.dtype
            )
        return Attribution(team.spread(fitted))

    def kept(self, batch: Batch, team: Players, row: Tensor, variant: Tensor) -> Tensor:
        """(k, R, g) bool: which groups each sample keeps; sample 0 keeps all."""
        count = team.count[row]
        low = (self.least * count).round().long().clamp(min=1)
        high = torch.maximum((self.most * count).round().long(), low)
        number = variant[:, None].expand(-1, len(row))
        keys = fold(batch.rows.key[row].expand_as(number).flatten(), number.flatten(), 1)
        drawn = uniform(keys, 1).view(number.shape)
        picks = low + (drawn * (high - low + 1)).long()  # (k, R)
        hidden = (team.order(batch, row, number) < picks[..., None]) & (number > 0)[..., None]
        for _ in range(self.following):
            hidden = hidden | torch.nn.functional.pad(hidden[..., :-1], (1, 0))
        return ~hidden

    def _weights(self, share: Tensor) -> Tensor:
        """(R, K) shares of kept units -> weights; the cosine between a 0/1 vector and ones is the root of its mean."""
        if self.kernel == 0:
            return torch.ones_like(share)
        return torch.exp(-((1 - share.sqrt()) ** 2) / (2 * self.kernel**2))
