"""The network of a masker for pictures: predicts w of every cell from feature maps and their gradients.

sigma is that of the settings: the few steps of MaRC hardly change it, while a masker that minimises the mean loss
would raise it, and with it the size of the smallest region, as far as it may.

The classes enter through the gradients alone, so that a network trained on pictures of a few classes can mask those of
others. Shapes: R pictures, K layers, cells of h x w.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d, gelu, interpolate

from rationales.masks.field import sources
from rationales.masks.instant.pictures.feature_layers import FeatureLayer, PictureFeatures, picture_features
from rationales.masks.objective import mask_rows
from rationales.masks.optimizer import bounded_sigma
from rationales.masks.settings import MaskSettings
from rationales.models.image.batch import ImageBatch

GRADIENT_MAPS = 4  # maps of a layer with gradients: both products, and both sizes
INITIAL_OFFSET = -0.8  # of the field, in standard deviations of a class activation map: about a fifth is kept
PICTURES_AT_ONCE = 64


@dataclass(frozen=True)
class PictureMaskerShape:
    """Sizes of a masker's network and the layers that it reads."""

    layers: tuple[FeatureLayer, ...]
    width: int = 64
    blocks: int = 2
    projection: int = 12  # channels that the maps of a layer, and their products with the gradients, are reduced to


class PictureMaskerNetwork(nn.Module):
    """Features -> (R, h, w): the field's w, in standard deviations of a class activation map."""

    def __init__(self, shape: PictureMaskerShape) -> None:
        super().__init__()
        self.shape = shape
        size = shape.projection
        self.map_projections = nn.ModuleList(nn.Conv2d(layer.channels, size, 1) for layer in shape.layers)
        self.product_projections = nn.ModuleList(
            nn.Conv2d(layer.channels, size, 1) for layer in shape.layers if layer.gradient
        )
        with_gradient = sum(layer.gradient for layer in shape.layers)
        inputs = len(shape.layers) * size + with_gradient * (size + GRADIENT_MAPS)
        self.entry = nn.Conv2d(inputs, shape.width, 1)
        self.convolutions = nn.ModuleList(
            nn.Conv2d(shape.width, shape.width, 3, padding=1) for _ in range(shape.blocks)
        )
        self.contexts = nn.ModuleList(nn.Linear(shape.width, shape.width) for _ in range(shape.blocks))
        self.exit = nn.Conv2d(shape.width, 1, 1)
        # at first w is the mean of the class activation maps, and the network adds nothing to it
        self.activation_weights = nn.Parameter(torch.full((with_gradient,), 1 / max(1, with_gradient)))
        self.offset = nn.Parameter(torch.tensor(INITIAL_OFFSET))
        for weight in self.exit.parameters():
            nn.init.zeros_(weight)

    def forward(self, features: PictureFeatures, cells: tuple[int, int]) -> Tensor:
        """(R, h, w) for cells of h x w."""
        dtype = self.entry.weight.dtype
        channels: list[Tensor] = []
        activation_maps: list[Tensor] = []
        products = iter(self.product_projections)
        for maps, gradient, project in zip(features.maps, features.gradients, self.map_projections, strict=True):
            scaled_maps = _by_root_mean_square(maps.to(dtype))
            channels.append(_at_cells(project(scaled_maps), cells))
            if gradient is None:
                continue
            scaled_gradient = _by_root_mean_square(gradient.to(dtype))
            product = scaled_maps * scaled_gradient
            summary = torch.stack(
                [
                    product.sum(1),
                    (scaled_gradient.mean((2, 3), keepdim=True) * scaled_maps).sum(1),  # Grad-CAM before its ReLU
                    scaled_gradient.square().mean(1).sqrt(),
                    scaled_maps.square().mean(1).sqrt(),
                ],
                1,
            )
            summary = _standardized(_at_cells(summary, cells))
            activation_maps.append(summary[:, 1])
            channels += [summary, _at_cells(next(products)(product), cells)]
        x = gelu(self.entry(torch.cat(channels, 1)))
        for convolution, context in zip(self.convolutions, self.contexts, strict=True):
            x = x + gelu(convolution(x) + context(x.mean((2, 3)))[:, :, None, None])
        outputs: Tensor = self.exit(x)
        start = torch.einsum("k,krhw->rhw", self.activation_weights, torch.stack(activation_maps)) + self.offset
        return outputs[:, 0] + start


def predict_parameters(
    network: PictureMaskerNetwork,
    batch: ImageBatch,
    target: Tensor | Callable[[Tensor], Tensor],
    settings: MaskSettings,
) -> tuple[Tensor, Tensor]:
    """w and sigma, (M, s) each, of all pictures of a batch; differentiable in the network's weights.

    `target`: (inputs,), or a function from the logits (R, classes) of some pictures to their classes. `settings`:
    resolved for the batch's grid.
    """
    if batch.grid is None:
        raise ValueError("a masker for pictures needs a batch of pictures")
    cells = (-(-batch.grid[0] // settings.cell), -(-batch.grid[1] // settings.cell))
    mask_input = mask_rows(batch.rows.input, batch)
    outputs = []
    for masks in torch.split(torch.arange(batch.masks, device=batch.device), min(batch.budget, PICTURES_AT_ONCE)):
        explained = target if not isinstance(target, Tensor) else _constant(target[mask_input[masks]])
        features = picture_features(batch, network.shape.layers, masks, explained)
        outputs.append(network(features, cells).to(batch.dtype))
    w = torch.cat(outputs).flatten(1)
    power = 1 if settings.kernel == "sigma" else 2
    mass = max(1.0, math.pi * settings.initial_sigma**power / settings.cell**2)  # sum of the kernel over all cells
    sigma = bounded_sigma(batch, settings, torch.full_like(w, settings.initial_sigma))
    return torch.where(sources(batch, settings.cell), w / mass, 0.0), sigma


def _constant(target: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda _logits: target


def _by_root_mean_square(maps: Tensor) -> Tensor:
    """(R, C, h, w) divided by the root mean square over each picture."""
    return maps / maps.square().mean((1, 2, 3), keepdim=True).sqrt().clamp(min=1e-8)


def _standardized(maps: Tensor) -> Tensor:
    """(R, C, h, w) with mean 0 and standard deviation 1 over each map."""
    centred = maps - maps.mean((2, 3), keepdim=True)
    return centred / centred.square().mean((2, 3), keepdim=True).sqrt().clamp(min=1e-6)


def _at_cells(maps: Tensor, cells: tuple[int, int]) -> Tensor:
    """(R, C, h', w') -> (R, C, h, w): averaged where the map is finer, else interpolated."""
    if maps.shape[2] >= cells[0] and maps.shape[3] >= cells[1]:
        return adaptive_avg_pool2d(maps, cells)
    return interpolate(maps, cells, mode="bilinear", align_corners=False)
