"""Scores at the size of an image, resized to what the model reads."""

from __future__ import annotations

import numpy as np
import torch

from rationales.errors import OptionError
from rationales.models.image.model import ImageModel
from rationales.models.model import Model


def to_model_grid(scores: np.ndarray, model: Model) -> np.ndarray:
    """(h, w) at an image's own size -> (H, W) as the model reads it; 0 where the model sees padding.

    Bilinear between the centres of pixels, averaged where the image is larger: the inverse of `pictures.back`.
    """
    if not isinstance(model, ImageModel):
        raise OptionError(f"{model.name} reads no images")
    fit = model.fit
    rows, columns, top, left = fit.layout(*scores.shape)
    down = _resize_weights(scores.shape[0], rows, top, fit.height)
    across = _resize_weights(scores.shape[1], columns, left, fit.width)
    resized: np.ndarray = (down @ torch.from_numpy(np.asarray(scores, dtype=np.float64)) @ across.T).numpy()
    return resized


def _resize_weights(size: int, resized: int, begin: int, model_size: int) -> torch.Tensor:
    """(model_size, size): weight of each pixel of the image in each pixel that the model reads, along one side."""
    pixel = torch.arange(model_size, dtype=torch.float64)[:, None] - begin + 0.5  # position on the resized image
    centre = (torch.arange(size, dtype=torch.float64) + 0.5) * resized / size
    share = (1 - (centre - pixel).abs() / max(1.0, resized / size)).clamp(min=0)
    inside = (pixel > 0) & (pixel < resized)
    return share / share.sum(1, keepdim=True).clamp(min=1e-12) * inside
