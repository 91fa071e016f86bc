"""Class activation maps for one picture, place by place, as their papers write them."""

from __future__ import annotations

import math

import torch
from torch.nn.functional import interpolate


def upsampled(cells, size):
    """(h, w) -> (H, W), bilinear."""
    return interpolate(cells[None, None], size=size, mode="bilinear", align_corners=False)[0, 0]


def grad_cam_plus_plus(maps, gradients, output, size):
    """Chattopadhyay et al. 2018, Eq. 19 and 10, with Y = exp(S): dY = e g, d2Y = e g^2, d3Y = e g^3, e = exp(S).

    maps and gradients of S: (C, h, w); the result is divided by e.
    """
    exponential = math.exp(output)
    channels, height, width = maps.shape
    combined = torch.zeros(height, width, dtype=maps.dtype)
    for k in range(channels):
        total = sum(float(maps[k, a, b]) for a in range(height) for b in range(width))
        weight = 0.0
        for i in range(height):
            for j in range(width):
                gradient = float(gradients[k, i, j])
                first, second, third = (exponential * gradient**power for power in (1, 2, 3))
                denominator = 2 * second + total * third
                alpha = second / denominator if denominator != 0 else 0.0
                weight += alpha * max(first, 0.0)
        combined += weight * maps[k]
    return upsampled(combined.clamp(min=0), size) / exponential


def score_cam(maps, explain_output, picture, baseline, size):
    """Wang et al. 2020, Algorithm 1. maps (C, h, w); explain_output: picture (channels, H, W) -> number."""
    increases = []
    for cells in maps:
        large = upsampled(cells, size)
        span = float(large.max() - large.min())
        normed = (large - large.min()) / span if span > 0 else torch.zeros_like(large)
        kept = explain_output(normed * picture + (1 - normed) * baseline)
        increases.append(kept - explain_output(baseline))
    largest = max(increases)
    exponentials = [math.exp(increase - largest) for increase in increases]
    combined = sum(e / sum(exponentials) * cells for e, cells in zip(exponentials, maps, strict=True))
    return upsampled(combined.clamp(min=0), size)
