"""Leave-one-out by the token of unknown words (Pham et al. 2022, LOO_unk)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rationales.methods.perturbation.loo_pad import LooPad


@dataclass(frozen=True)
class LooUnk(LooPad):
    """Every token of the word becomes the token of unknown words."""

    name: ClassVar[str] = "loo-unk"
    summary: ClassVar[str] = "change of the log-odds when a word is replaced by the token of unknown words"
    removes_by: ClassVar[str] = "unk"
    baseline: ClassVar[str] = "unk"
