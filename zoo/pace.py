"""How far a phase is, by steps or by the clock, whichever is further: a phase never outlives its minutes."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import torch

REPORT_SECONDS = 20


@dataclass
class Pace:
    """Progress, learning rate and progress lines of one training phase."""

    name: str
    steps: int
    minutes: float
    warm_up: float = 0.05  # share of the phase
    step: int = 0
    tokens: int = 0
    _begun: float = 0.0
    _reported: float = 0.0

    def begin(self) -> None:
        self._begun = self._reported = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._begun

    @property
    def progress(self) -> float:
        return max(self.step / self.steps, self.seconds / (60 * self.minutes))

    def rate(self) -> float:
        """Learning-rate factor: linear up, then half a cosine down to zero."""
        done = self.progress
        if done < self.warm_up:
            return (done + 1e-3) / self.warm_up
        return 0.5 * (1 + math.cos(math.pi * min(1.0, (done - self.warm_up) / (1 - self.warm_up))))

    def advance(self, tokens: int, **losses: torch.Tensor) -> None:
        self.step += 1
        self.tokens += tokens
        if time.monotonic() - self._reported > REPORT_SECONDS or self.progress >= 1:
            self._reported = time.monotonic()
            loss_text = " ".join(f"{name} {float(value):.4f}" for name, value in losses.items())
            speed = self.tokens / self.seconds / 1e6
            print(f"{self.name} step {self.step} {self.seconds:.0f}s {speed:.2f}M tokens/s {loss_text}", flush=True)
