"""Random views of pictures, made on the device: crop and scale, mirror, colour, erased rectangles, mixtures."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

MEAN, STD = 0.5, 0.5  # of pixels in [0, 1], as ViTs are trained
SMALLEST_CROP = 0.5  # share of a side
COLOUR = 0.3  # largest relative change of brightness and of each colour
ERASED_SHARE = 0.25  # of the pictures


def normalise(pictures: Tensor) -> Tensor:
    """(S, 3, H, W) bytes -> floats around 0."""
    return (pictures.float() / 255 - MEAN) / STD


def augment(pictures: Tensor, generator: torch.Generator) -> Tensor:
    """(S, 3, H, W) bytes -> a random normalised view of each."""
    count, device = len(pictures), pictures.device

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, device=device)

    scale = SMALLEST_CROP + (1 - SMALLEST_CROP) * uniform(count, 1)
    aspect = torch.exp(0.3 * (uniform(count, 1) - 0.5))
    scales = torch.cat([scale * aspect, scale / aspect], 1).clamp(max=1)
    shift = (2 * uniform(count, 2) - 1) * (1 - scales)
    mirror = torch.where(uniform(count) < 0.5, -1.0, 1.0)
    matrix = torch.zeros(count, 2, 3, device=device)
    matrix[:, 0, 0], matrix[:, 1, 1], matrix[:, :, 2] = scales[:, 0] * mirror, scales[:, 1], shift
    grid = affine_grid(matrix, list(pictures.shape), align_corners=False)
    views = grid_sample(pictures.float() / 255, grid, padding_mode="reflection", align_corners=False)
    views = (
        views * (1 + COLOUR * (2 * uniform(count, 1, 1, 1) - 1)) * (1 + COLOUR / 2 * (2 * uniform(count, 3, 1, 1) - 1))
    )
    views = (views.clamp(0, 1) - MEAN) / STD
    return _erased(views, uniform(count, 4), uniform(count) < ERASED_SHARE)


def _erased(views: Tensor, numbers: Tensor, selected: Tensor) -> Tensor:
    """Selected views with a grey rectangle of up to half of each side."""
    height, width = views.shape[-2:]
    rows = torch.arange(height, device=views.device)[None] / height
    columns = torch.arange(width, device=views.device)[None] / width
    down = (rows >= numbers[:, :1]) & (rows < numbers[:, :1] + numbers[:, 1:2] / 2)
    across = (columns >= numbers[:, 2:3]) & (columns < numbers[:, 2:3] + numbers[:, 3:] / 2)
    hidden = (down[:, :, None] & across[:, None, :] & selected[:, None, None])[:, None]
    return torch.where(hidden, torch.zeros_like(views), views)


def mixed(views: Tensor, targets: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Every view mixed with another one, and its target distribution (S, classes) accordingly (mixup)."""
    share = torch.sin(
        torch.pi / 2 * torch.rand((), generator=generator, device=views.device)
    ).square()  # Beta(1/2, 1/2)
    order = torch.randperm(len(views), generator=generator, device=views.device)
    return share * views + (1 - share) * views[order], share * targets + (1 - share) * targets[order]
