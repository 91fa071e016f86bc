"""Quickshift (Vedaldi and Soatto 2008) for several images at once, on any device.

The same segments as scikit-image's, which LIME for images uses; a GPU computes them for many images at once, where
scikit-image keeps one CPU core busy with each.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

TIE_NOISE = 1e-5  # standard deviation of the noise that is added to densities, so that no two are equal
# sRGB (IEC 61966-2-1) to XYZ, the white point D65 (CIE 1931, 2 degrees), and where CIELAB is linear
SRGB_TO_XYZ = ((0.412453, 0.357580, 0.180423), (0.212671, 0.715160, 0.072169), (0.019334, 0.119193, 0.950227))
WHITE = (0.95047, 1.0, 1.08883)
GAMMA_LIMIT, CUBE_ROOT_LIMIT = 0.04045, 0.008856


def quickshift(images: Tensor, kernel_size: float, max_distance: float, colour_ratio: float) -> Tensor:
    """(N, H, W) int64: the number of each pixel's segment, from 0 on in every image.

    images: (N, 3, H, W) sRGB in [0, 1]. A pixel is a point: its position, and its colour in CIELAB times
    `colour_ratio`. The density at a pixel is the sum of Gaussians of width `kernel_size` over the pixels of a window
    around it. Every pixel is linked to the nearest one of higher density in its window, unless that is farther than
    `max_distance`; pixels whose links lead to the same one are a segment.
    """
    window = _Window(colour_ratio * lab(images.double()), math.ceil(3 * kernel_size))
    densities = torch.zeros_like(window.points[:, 0])
    for down, across, squared_distances in window.neighbours():
        inside = window.shifted(torch.ones_like(densities), down, across, 0.0)
        densities += inside * torch.exp(squared_distances * (-0.5 / kernel_size**2))
    noise = np.random.default_rng(0).normal(scale=TIE_NOISE, size=tuple(densities.shape[1:]))
    densities += torch.from_numpy(noise).to(densities.device)
    links = _links(window, densities, max_distance).flatten(1)
    numbers = [torch.unique(_ends(image_links), return_inverse=True)[1] for image_links in links]
    return torch.stack(numbers).view(densities.shape)


class _Window:
    """The neighbours of all pixels up to `radius` rows and columns away; points: (N, channels, H, W)."""

    def __init__(self, points: Tensor, radius: int) -> None:
        self.points, self.radius = points, radius

    def neighbours(self) -> Iterator[tuple[int, int, Tensor]]:
        """Rows down, columns across, and the squared distances (N, H, W) of all pixels from that neighbour."""
        steps = range(-self.radius, self.radius + 1)
        surrounded = pad(self.points, (self.radius,) * 4)
        for down in steps:
            for across in steps:
                difference = self._cut(surrounded, down, across) - self.points
                yield down, across, difference.square().sum(1) + (down**2 + across**2)

    def shifted(self, values: Tensor, down: int, across: int, outside: float) -> Tensor:
        """(N, H, W): the values of the neighbours; `outside` where they are not in the image."""
        return self._cut(pad(values, (self.radius,) * 4, value=outside), down, across)

    def _cut(self, surrounded: Tensor, down: int, across: int) -> Tensor:
        height, width = self.points.shape[2:]
        top, left = self.radius + down, self.radius + across
        return surrounded[..., top : top + height, left : left + width]


def _links(window: _Window, densities: Tensor, max_distance: float) -> Tensor:
    """(N, H, W) int64: index of the nearest pixel of higher density, of equals the first; else the pixel's own."""
    height, width = densities.shape[1:]
    pixel_numbers = torch.arange(height * width, device=densities.device).view(height, width)
    nearest = torch.full_like(densities, math.inf)
    links = pixel_numbers.expand_as(densities)
    for down, across, squared_distances in window.neighbours():
        denser = window.shifted(densities, down, across, -math.inf) > densities
        closer = denser & (squared_distances < nearest)
        nearest = torch.where(closer, squared_distances, nearest)
        links = torch.where(closer, pixel_numbers + (down * width + across), links)
    return torch.where(nearest.sqrt() <= max_distance, links, pixel_numbers)


def _ends(links: Tensor) -> Tensor:
    """(pixels,): where the chain of links from each pixel ends."""
    ends = links[links]
    while not torch.equal(ends, links):
        links, ends = ends, ends[ends]
    return ends


def lab(images: Tensor) -> Tensor:
    """(N, 3, H, W) sRGB in [0, 1] -> CIELAB, the white point D65."""
    linear = torch.where(images > GAMMA_LIMIT, ((images + 0.055) / 1.055) ** 2.4, images / 12.92)
    matrix = images.new_tensor(SRGB_TO_XYZ) / images.new_tensor(WHITE)[:, None]
    xyz = torch.einsum("ij,njhw->nihw", matrix, linear)
    x, y, z = torch.where(xyz > CUBE_ROOT_LIMIT, xyz ** (1 / 3), 7.787 * xyz + 16 / 116).unbind(1)
    return torch.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], 1)
