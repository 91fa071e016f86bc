"""Weighted least squares for many rows at once, for LIME and KernelSHAP."""

from __future__ import annotations

import torch
from torch import Tensor

MAX_ENTRIES = 2**23  # of the design matrices in memory at once


def row_chunks(real: Tensor, samples: int) -> tuple[Tensor, ...]:
    """(S, g) -> the numbers of all rows, in chunks that fit into memory with so many samples."""
    rows, features = real.shape
    return torch.split(torch.arange(rows, device=real.device), max(1, MAX_ENTRIES // max(1, features * samples)))


def least_squares(features: Tensor, values: Tensor, weights: Tensor, ridge: float) -> Tensor:
    """(R, K, g), (R, K), (R, K) -> (R, g): minimises sum_k weights (values - features @ c)^2 + ridge |c|^2.

    Where this is not unique (ridge 0, fewer samples than features), the c of smallest norm; in double precision.
    Features that are 0 in all samples, as those of padding, get 0.
    """
    root = weights.double().sqrt()
    x, y = features.double() * root[..., None], values.double() * root
    wide = x.shape[1] < x.shape[2]
    gram = x @ x.mT if wide else x.mT @ x
    if ridge > 0:
        gram.diagonal(dim1=-2, dim2=-1).add_(ridge)
        inverse = torch.linalg.inv(gram)
    else:
        inverse = torch.linalg.pinv(gram, rtol=1e-10, hermitian=True)
    coefficients: Tensor = x.mT @ (inverse @ y[..., None]) if wide else inverse @ (x.mT @ y[..., None])
    return coefficients.squeeze(-1).to(values.dtype)


def centre(features: Tensor, values: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Features and values minus their weighted means over K, for a fit with an intercept."""
    share = (weights / weights.sum(1, keepdim=True)).to(values.dtype)
    mean = torch.einsum("rk,rkg->rg", share.to(features.dtype), features)
    return features - mean[:, None], values - (share * values).sum(1, keepdim=True)
