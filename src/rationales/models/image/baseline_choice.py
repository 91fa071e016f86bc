"""Chooses the baselines of an image: those that tell the model least, by its own predictions.

Every candidate is shown to the model alone, in patches on the mean colour, and in patches on the image. Patches matter
because a mask creates edges that the image does not have: a model that looks for texture or contrast takes the edges
of a black baseline for its cause. A baseline may also be a cause itself: for a model that looks for blur every uniform
colour is blurred, and only noise removes the blur.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

CANDIDATES = ("black", "white", "mean", "blur-10", "blur-20", "noise")
BASELINE_COUNT = 3  # baselines chosen for an image
PATCH_BACKGROUND = "mean"  # candidate that patches are pasted on
PATCH = 8  # pixels a side
MAX_LOG_ODDS_GAP = 2.0  # candidates whose remaining decision exceeds the least of all by more do not fit
NEGLIGIBLE_SHARE = 0.05  # of the decision without the image; below it every candidate fits
DIGITS = 3  # beyond them, informativeness counts as equal and the remaining decision breaks the tie
IMAGES_AT_ONCE = 4  # images whose candidates go through the model together


@dataclass(frozen=True)
class BaselineChoice:
    """How much every candidate tells the model about an image, and which candidates fit."""

    informativeness: tuple[tuple[str, float], ...]  # (name, 0 (nothing) to 1 (everything)), the least first
    fitting: tuple[str, ...]  # candidates that leave little of the decision, in the same order

    @property
    def names(self) -> tuple[str, ...]:
        """The `BASELINE_COUNT` chosen baselines; where fewer fit, they are repeated in order."""
        return tuple(self.fitting[i % len(self.fitting)] for i in range(BASELINE_COUNT))

    @property
    def message(self) -> str:
        """What was chosen and why, for people."""
        informativeness = dict(self.informativeness)

        def listed(names: Sequence[str]) -> str:
            return ", ".join(f"{name} {informativeness[name]:.2f}" for name in names)

        groups = {
            "they tell it more: ": self.fitting[BASELINE_COUNT:],
            "with them more of the decision is left: ": [name for name in informativeness if name not in self.fitting],
        }
        reasons = "; ".join(f"{reason}{listed(names)}" for reason, names in groups.items() if names)
        rejected = f"; left out: {reasons}" if reasons else ""
        return (
            f"replaced pixels become {listed(self.fitting[:BASELINE_COUNT])}, the baselines that tell the model least "
            f"about this image, whole or in patches (0: nothing, 1: all{rejected}); name baselines to decide yourself"
        )


def shared_decision(full: Tensor, baseline: Tensor) -> Tensor:
    """(P, classes), (P, B, classes) probabilities -> (P, B): share of the decision on the full image that is there.

    sum_c min(p_c, b_c) / sum_c p_c.
    """
    return torch.minimum(full[:, None], baseline).sum(-1) / full.sum(-1)[:, None].clamp(min=1e-12)


def informativeness(full: Tensor, alone: Tensor, patched: Tensor) -> Tensor:
    """(P, classes), twice (P, B, classes) probabilities -> (P, B) in [0, 1]: how much each baseline tells the model.

    The mean of the share of the decision without the image and the model's confidence in any class, max_c b_c.
    """
    return (decision_without_image(full, alone, patched) + alone.amax(-1)) / 2


def decision_without_image(full: Tensor, alone: Tensor, patched: Tensor) -> Tensor:
    """(P, classes), twice (P, B, classes) -> (P, B): share of the decision, alone or in patches, the larger."""
    return torch.maximum(shared_decision(full, alone), shared_decision(full, patched))


def remaining_decision(full: Tensor, views: Sequence[Tensor]) -> Tensor:
    """(P, classes), several (P, B, classes) -> (P, B): log-odds of the share of the decision, averaged over views."""
    return torch.stack([torch.logit(shared_decision(full, view), eps=1e-6) for view in views]).mean(0)


def choose_baselines(
    images: Sequence[Tensor], candidate: Callable[[int, str], Tensor], predict: Callable[[Tensor], Tensor]
) -> list[BaselineChoice]:
    """The choice for every preprocessed image (channels, H, W).

    `candidate(i, name)` returns a baseline of image `i`; `predict` the probabilities of (R, channels, H, W).
    """
    choices = []
    for begin in range(0, len(images), IMAGES_AT_ONCE):
        numbers = range(begin, min(begin + IMAGES_AT_ONCE, len(images)))
        full = predict(torch.stack([images[i] for i in numbers]))
        variants = []
        for i in numbers:
            baselines = torch.stack([candidate(i, name) for name in CANDIDATES])
            background, image = baselines[CANDIDATES.index(PATCH_BACKGROUND)], images[i].to(baselines)
            hidden = patch_mask(*image.shape[-2:]).to(image.device)
            on_background, on_image = (torch.where(hidden, baselines, below) for below in (background, image))
            variants.append(torch.stack([baselines, on_background, on_image, torch.where(hidden, image, baselines)]))
        predictions = predict(torch.cat(variants).flatten(0, 1)).view(len(numbers), 4, len(CANDIDATES), -1)
        alone, patched, over, around = predictions.unbind(1)
        information = informativeness(full, alone, patched)
        remaining = (remaining_decision(full, (alone, patched)) * 2 + remaining_decision(full, (over, around))) / 3
        # where the model gives NaN all fit, and `explain` reports the model
        fits = ~(remaining > remaining.amin(1, keepdim=True) + MAX_LOG_ODDS_GAP)
        fits |= decision_without_image(full, alone, patched) < NEGLIGIBLE_SHARE
        per_image = zip(information.tolist(), remaining.tolist(), fits.tolist(), strict=True)
        choices += [_choice(*values) for values in per_image]
    return choices


def _choice(information: Sequence[float], remaining: Sequence[float], fits: Sequence[bool]) -> BaselineChoice:
    """The least informative first; among equals, the one that leaves least of the decision."""
    order = sorted(range(len(information)), key=lambda i: (round(information[i], DIGITS), round(remaining[i], DIGITS)))
    return BaselineChoice(
        tuple((CANDIDATES[i], information[i]) for i in order), tuple(CANDIDATES[i] for i in order if fits[i])
    )


@functools.lru_cache(16)
def patch_mask(height: int, width: int) -> Tensor:
    """(height, width) bool: a random half of the patches of `PATCH` pixels a side, the same at every call."""
    numbers = torch.rand((-(-height // PATCH), -(-width // PATCH)), generator=torch.Generator().manual_seed(0))
    pixels = (numbers < 0.5).repeat_interleave(PATCH, 0).repeat_interleave(PATCH, 1)
    return pixels[:height, :width]
