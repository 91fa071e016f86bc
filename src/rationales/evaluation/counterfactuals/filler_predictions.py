"""How often a filler predicts the very word that was masked, and how sure it is (Pham et al. 2022, Table A3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from rationales.errors import OptionError
from rationales.evaluation.agreement.unit_marks import gold_units, unit_extents
from rationales.evaluation.preparation import check_names, whereabouts
from rationales.models.load import as_model
from rationales.models.text.filling.filler import Filler
from rationales.models.text.filling.loading import load_filler
from rationales.models.text.model import TextModel
from rationales.models.text.tokens import EncodedText

TEXTS_AT_ONCE = 256


@dataclass(frozen=True, eq=False)
class FillerPredictions:
    """One entry for every word of all texts that the filler can mask, text by text."""

    text: np.ndarray  # (W,) number of the text
    matches: np.ndarray  # (W,) bool: the likeliest word is the masked one, whatever its case
    likelihood: np.ndarray  # (W,) of the likeliest word
    marked: np.ndarray  # (W,) bool: people marked the word
    has_marks: bool  # whether people marked anything
    left_out: int  # words that the filler's tokenizer drops

    @property
    def match_rate(self) -> float:
        """Share of the words that are predicted exactly (A3a)."""
        return float(self.matches.mean()) if len(self.matches) else math.nan

    @property
    def marked_match_rate(self) -> float:
        """The same among the words that people marked (A3b); NaN if there are none."""
        return float(self.matches[self.marked].mean()) if self.marked.any() else math.nan

    @property
    def match_likelihood(self) -> float:
        """Mean likelihood of the likeliest words that are the masked ones (A3c); NaN if there are none."""
        return float(self.likelihood[self.matches].mean()) if self.matches.any() else math.nan


def filler_predictions(model: Any, examples: Sequence[Any], filler: Any) -> FillerPredictions:
    """Mask every word of every text by itself; `model` decides what a word is. Labels and marks are not needed.

    A word of several tokens of the filler cannot be proposed for itself, so it never matches.
    """
    text_model = as_model(model)
    if not isinstance(text_model, TextModel) or text_model.unit != "word":
        raise OptionError("fillers predict the words of texts: give a text model with unit='word'")
    masked_lm = load_filler(filler, text_model.networks[0].baseline.device)
    if masked_lm is None:
        raise OptionError("give a masked language model: filler=..., a name, an id or a folder")
    check_names(examples, text_model)
    encoded = text_model.encode([text_model.read(item.raw_input(), whereabouts(item)) for item in examples])
    parts = [
        _of_texts(masked_lm, encoded[begin : begin + TEXTS_AT_ONCE], begin)
        for begin in range(0, len(encoded), TEXTS_AT_ONCE)
    ]
    text, unit, matches, likelihood, maskable = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    marks = [
        gold_units(example, unit_extents(example, item.units)) for example, item in zip(examples, encoded, strict=True)
    ]
    word_numbers = zip(text.tolist(), unit.tolist(), strict=True)
    marked = np.array(
        [gold is not None and bool(gold[word]) for number, word in word_numbers for gold in (marks[number],)]
    )
    return FillerPredictions(
        text[maskable],
        matches[maskable],
        likelihood[maskable],
        marked[maskable],
        bool(marked.any()),
        int((~maskable).sum()),
    )


def _of_texts(filler: Filler, encoded: Sequence[EncodedText], first: int) -> tuple[np.ndarray, ...]:
    """Text, unit, match, likelihood and whether it can be masked, of every word."""
    rows = filler.read(encoded)
    pairs = [(number, unit) for number, item in enumerate(encoded) for unit in range(len(item.units))]
    numbers = torch.tensor([number for number, _ in pairs], device=filler.device)
    units = torch.tensor([unit for _, unit in pairs], device=filler.device)
    candidates = filler.candidates(rows, numbers, units[:, None], count=1)
    tokens = candidates.ids[:, 0, 0].tolist()
    spelled = filler.vocabulary.words
    matches = [
        token < 0 or spelled[token].lower() == encoded[number].units[unit].text.strip().lower()
        for token, (number, unit) in zip(tokens, pairs, strict=True)
    ]
    return (
        (numbers + first).cpu().numpy(),
        units.cpu().numpy(),
        np.array(matches, dtype=bool),
        candidates.likelihood[:, 0].double().cpu().numpy(),
        (rows.home[numbers, units] >= 0).cpu().numpy(),
    )
