"""What the perturbation methods of Fong and others share: their games, and the settings of the engine for them."""

from __future__ import annotations

from dataclasses import replace

from rationales.errors import OptionError
from rationales.masks.settings import ONE_MASK, MaskSettings
from rationales.models.batch import Batch

GAMES = ("deletion", "preservation", "hybrid")
# The mask itself, scored by the probability of the target; nothing of MaRC's field, noise or rules.
_PLAIN = replace(
    ONE_MASK,
    stop="steps",
    mask_form="linear",
    sparsity=0.0,
    sigma_weight=0.0,
    noise=0.0,
    flip_share=0.0,
    complement_floor=0.0,
    weight_decay=0.0,
    initial_sigma=1.0,
    precision="auto",
)


def game_settings(game: str, field: str) -> MaskSettings:
    """Settings of a game: `preservation` keeps the target with few units, `deletion` removes it, `hybrid` does both.

    In all of them keep is 1 where a unit belongs to the explanation; deletion shows the model the complement.
    """
    return replace(
        _PLAIN, field=field, sufficiency=float(game != "deletion"), complement=float(game != "preservation"), cell=0
    )


def check_single_part(name: str, batch: Batch) -> None:
    """Raise an OptionError for inputs of several parts: cells lie on one grid or one line."""
    if len(batch.parts) > 1:
        raise OptionError(f"{name} has no mask for words beside pixels; use marc")
