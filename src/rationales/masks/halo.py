"""Scores of a mask in which nearness to what is kept counts."""

from __future__ import annotations

from torch import Tensor

from rationales.masks.field import smooth
from rationales.masks.objective import short
from rationales.masks.settings import MaskSettings
from rationales.models.batch import Batch


def haloed(keep: Tensor, batch: Batch, settings: MaskSettings) -> Tensor:
    """(S, n): keep and its mean over the neighbourhood, mixed; short inputs stay as they are.

    People mark whole clauses where the model needs two of their words. Up to a halo of 0.5 what is kept altogether
    stays above what is not kept at all, so the rationale is the same; the halo orders the rest.
    """
    if settings.halo == 0:
        return keep
    share = (settings.halo * (1 - short(batch)))[batch.rows.input][:, None]
    return (1 - share) * keep + share * smooth(keep, batch, settings.halo_sigma)
