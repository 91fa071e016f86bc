"""Sounds and detectors whose cause is known: a burst of 1 kHz somewhere in two seconds of noise."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

import rationales

RATE = 8000
LENGTH = 0.25  # seconds of the burst
LABELS = ["other", "burst"]


def clip(start=0.8, seconds=2.0, seed=0):
    """Noise, a decoy of 250 Hz from 0.1 to 0.4 s, and the burst."""
    time = np.arange(int(seconds * RATE)) / RATE
    samples = np.random.default_rng(seed).normal(size=len(time)) * 0.02
    samples += 0.3 * np.sin(2 * np.pi * 250 * time) * ((time > 0.1) & (time < 0.4))
    samples += 0.5 * np.sin(2 * np.pi * 1000 * time) * ((time >= start) & (time < start + LENGTH))
    return samples.astype(np.float32)


class Detector(nn.Module):
    """(S, samples): `burst` by how much of the sound, on average, is like a tone of 1 kHz."""

    def __init__(self, single=False):
        super().__init__()
        turn = 2 * torch.pi * 1000 * torch.arange(256) / RATE
        tone = torch.stack([turn.cos(), turn.sin()]) * torch.hann_window(256)
        self.tone = nn.Parameter(tone[:, None] / 64)
        self.single = single

    def forward(self, samples: Tensor) -> Tensor:
        loudness = functional.conv1d(samples[:, None], self.tone, stride=64).square().sum(1).clamp(min=1e-12).sqrt()
        evidence = 90 * loudness.mean(1) - 4
        return evidence if self.single else torch.stack([-evidence, evidence], 1) / 2


def spectrum(samples):
    """(frames, 64): logarithms of magnitudes, 31.25 Hz apart; frames of 256 samples, 128 apart."""
    frames = samples.unfold(0, 256, 128) * torch.hann_window(256)
    return (torch.fft.rfft(frames).abs()[:, :64] + 1e-3).log()


class SpectrumDetector(nn.Module):
    """(S, frames, bins): `burst` by how loud the three bins around 1 kHz are, over all frames."""

    def __init__(self):
        super().__init__()
        self.offset = nn.Parameter(torch.tensor(-4.0))

    def forward(self, values: Tensor) -> Tensor:
        evidence = 16 * values[:, :, 31:34].relu().mean((1, 2)) + self.offset
        return torch.stack([-evidence, evidence], 1) / 2


def line(module=None, **options):
    return rationales.load(module or Detector(), sample_rate=RATE, labels=LABELS, **options)


def grid(module=None, **options):
    return rationales.load(module or SpectrumDetector(), spectrum, sample_rate=RATE, labels=LABELS, **options)
