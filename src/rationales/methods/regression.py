"""Weighted least squares for many rows at once, as LIME and KernelSHAP fit it."""

from __future__ import annotations

import torch
from torch import Tensor

LARGEST = 2**23  # numbers of a design matrix that are held at once


def chunks(real: Tensor, samples: int) -> tuple[Tensor, ...]:
    """(S, g) -> the numbers of all rows, in parts that can be fitted together with so many samples."""
    rows, features = real.shape
    return torch.split(torch.arange(rows, device=real.device), max(1, LARGEST // max(1, features * samples)))


def least_squares(features: Tensor, values: Tensor, weights: Tensor, ridge: float) -> Tensor:
    """(R, K, g), (R, K), (R, K) -> (R, g): minimises sum_k weights (values - features @ c)^2 + ridge |c|^2.

    Where that leaves a choice (ridge 0, fewer samples than features), the smallest c; in double precision. Features
    that are 0 throughout, as those of padding are, get 0.
    """
    root = weights.double().sqrt()
    x, y = features.double() * root[..., None], values.double() * root
    wide = x.shape[1] < x.shape[2]
    gram = x @ x.mT if wide else x.mT @ x
    if ridge > 0:
        gram.diagonal(dim1=-2, dim2=-1).add_(ridge)
        solve = torch.linalg.inv(gram)
    else:
        solve = torch.linalg.pinv(gram, rtol=1e-10, hermitian=True)
    found: Tensor = x.mT @ (solve @ y[..., None]) if wide else solve @ (x.mT @ y[..., None])
    return found.squeeze(-1).to(values.dtype)


def centred(features: Tensor, values: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """The same with their weighted means over K taken off: what is left for a fit with an intercept of its own."""
    share = (weights / weights.sum(1, keepdim=True)).to(values.dtype)
    mean = torch.einsum("rk,rkg->rg", share.to(features.dtype), features)
    return features - mean[:, None], values - (share * values).sum(1, keepdim=True)
