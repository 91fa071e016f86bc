"""Chooses the baselines of an image: those that tell the model least, by its own predictions.

Every candidate is shown to the model alone, in patches on the mean colour, and in patches on the image. Patches matter
because a mask creates edges that the image does not have: a model that looks for texture or contrast takes the edges
of a black baseline for its cause. A baseline may also be a cause itself: for a model that looks for blur every uniform
colour is blurred, and only noise removes the blur.

A plain colour alone, or in patches on the mean colour, is the same for every image: the model is asked about these once
(`PlainPredictions`). A method that uses no baselines needs one only to check its rationale; for it the best plain
colour is chosen, which asks the model nothing about the image beyond its prediction (`choose_plain`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

PLAIN_COLOURS = ("black", "white", "mean")
CANDIDATES = (*PLAIN_COLOURS, "blur-10", "blur-20", "noise")
BASELINE_COUNT = 3  # baselines chosen for an image
PATCH_BACKGROUND = "mean"  # candidate that patches are pasted on
PATCH = 8  # pixels a side
MAX_LOG_ODDS_GAP = 2.0  # candidates whose remaining decision exceeds the least of all by more do not fit
NEGLIGIBLE_SHARE = 0.05  # of the decision without the image; below it every candidate fits
DIGITS = 3  # beyond them, informativeness counts as equal and the remaining decision breaks the tie
# Rows that go through the model for the choice of one image, beside the image: three candidates alone and in patches on
# the mean colour, all six in patches on the image and around patches of the image.
ROWS_PER_IMAGE = 18


@dataclass(frozen=True)
class BaselineChoice:
    """How much every candidate tells the model about an image, and which candidates fit."""

    informativeness: tuple[tuple[str, float], ...]  # (name, 0 (nothing) to 1 (everything)), the least first
    fitting: tuple[str, ...]  # candidates that leave little of the decision, in the same order
    count: int = BASELINE_COUNT  # baselines that are used

    @property
    def names(self) -> tuple[str, ...]:
        """The `count` chosen baselines; where fewer fit, they are repeated in order."""
        return tuple(self.fitting[i % len(self.fitting)] for i in range(self.count))

    @property
    def message(self) -> str:
        """What was chosen and why, for people."""
        informativeness = dict(self.informativeness)

        def listed(names: Sequence[str]) -> str:
            return ", ".join(f"{name} {informativeness[name]:.2f}" for name in names)

        if self.count == 1:
            return (
                f"the method uses no baseline; to check its rationale, replaced pixels become {listed(self.names)}, "
                f"the plain colour that tells the model least about this image (0: nothing, 1: all; left out: "
                f"{listed([name for name in informativeness if name not in self.names])}); "
                "name baselines to decide yourself"
            )
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


@dataclass(frozen=True, eq=False)
class PlainPredictions:
    """Probabilities (plain colours, classes) that do not depend on the image: `PLAIN_COLOURS` alone and in patches."""

    alone: Tensor
    patched: Tensor  # on the mean colour

    @classmethod
    def ask(cls, colours: Tensor, predict: Callable[[Tensor], Tensor]) -> PlainPredictions:
        """The model's predictions; `colours` (plain colours, channels, H, W) is as the model reads them."""
        background = colours[PLAIN_COLOURS.index(PATCH_BACKGROUND)]
        hidden = patch_mask(*colours.shape[-2:]).to(colours.device)
        alone, patched = predict(torch.cat([colours, torch.where(hidden, colours, background)])).chunk(2)
        return cls(alone, patched)


def choose_baselines(
    images: Tensor,
    candidate: Callable[[str], Tensor],
    predict: Callable[[Tensor], Tensor],
    plain: PlainPredictions,
) -> list[BaselineChoice]:
    """The choice for every preprocessed image (P, channels, H, W).

    `candidate(name)` returns (P, channels, H, W), a baseline of every image; `predict` the probabilities of
    (R, channels, H, W).
    """
    baselines = torch.stack([candidate(name) for name in CANDIDATES], 1)  # (P, B, channels, H, W)
    background, image = baselines[:, CANDIDATES.index(PATCH_BACKGROUND), None], images[:, None].to(baselines)
    hidden = patch_mask(*images.shape[-2:]).to(images.device)
    image_dependent = baselines[:, len(PLAIN_COLOURS) :]
    variants = [
        image_dependent,
        torch.where(hidden, image_dependent, background),
        torch.where(hidden, baselines, image),
        torch.where(hidden, image, baselines),
    ]
    full = predict(images)
    predictions = predict(torch.cat(variants, 1).flatten(0, 1)).view(len(images), ROWS_PER_IMAGE, -1)
    alone, patched, over, around = torch.split(predictions, [variant.shape[1] for variant in variants], 1)
    alone, patched = (
        torch.cat([colours.expand(len(images), -1, -1), dependent], 1)
        for colours, dependent in ((plain.alone, alone), (plain.patched, patched))
    )
    return choices_of(full, alone, patched, over, around)


def choices_of(full: Tensor, alone: Tensor, patched: Tensor, over: Tensor, around: Tensor) -> list[BaselineChoice]:
    """The choices for P images from (P, classes), four times (P, B, classes) probabilities.

    `full`: of the images; `alone`, `patched`: of the candidates, and of patches of them on the mean colour; `over`,
    `around`: of patches of the candidates on the image, and of patches of the image on the candidates.
    """
    information = informativeness(full, alone, patched)
    remaining = (remaining_decision(full, (alone, patched)) * 2 + remaining_decision(full, (over, around))) / 3
    # where the model gives NaN all fit, and `explain` reports the model
    fits = ~(remaining > remaining.amin(1, keepdim=True) + MAX_LOG_ODDS_GAP)
    fits |= decision_without_image(full, alone, patched) < NEGLIGIBLE_SHARE
    table = zip(information.tolist(), remaining.tolist(), fits.tolist(), strict=True)
    return [_choice(*values) for values in table]


def choose_plain(full: Tensor, plain: PlainPredictions) -> list[BaselineChoice]:
    """The plain colour that tells the model least about each image, from `full` (P, classes) probabilities."""
    alone, patched = (values.expand(len(full), -1, -1) for values in (plain.alone, plain.patched))
    information, remaining = informativeness(full, alone, patched), remaining_decision(full, (alone, patched))
    choices = []
    for by_colour, left_over in zip(information.tolist(), remaining.tolist(), strict=True):
        choice = _choice(by_colour, left_over, [True] * len(PLAIN_COLOURS))
        choices.append(BaselineChoice(choice.informativeness, choice.fitting[:1], count=1))
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
