"""What a filler would write in the place of each word, how likely it finds that, and what the model then says.

Figure 1 of Pham et al. 2022: a word that the filler is sure of keeps its score near 0 in Input Marginalization,
whatever the model thinks of it. Figures A17 and A18: what the model predicts when the word is deleted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from rationales.errors import OptionError
from rationales.methods.perturbation.filler_method import FillerMethod
from rationales.models.load import as_model
from rationales.models.text.filling.loading import required_filler
from rationales.models.text.model import TextModel
from rationales.models.text.text_sources import rewrite
from rationales.models.text.tokens import EncodedText
from rationales.options import whole_number
from rationales.rationale_parts import Unit

PURPOSE = "a list of candidates"  # in error messages
WORDS_AT_ONCE = 256  # deleted in one call


@dataclass(frozen=True)
class Candidate:
    """A proposal for the place of a word."""

    word: str
    likelihood: float  # the filler's, not normalised over the proposals
    probability: float  # of the explained class, with this word in the text
    is_original: bool


@dataclass(frozen=True)
class Prediction:
    """The likeliest class."""

    label: str
    probability: float


@dataclass(frozen=True)
class WordCandidates:
    """The proposals for one word, by falling likelihood; none if the filler cannot mask it."""

    unit: Unit
    candidates: tuple[Candidate, ...]
    without: Prediction  # for the text with the word deleted


@dataclass(frozen=True)
class CandidateList:
    """The proposals for all words of a text."""

    words: tuple[WordCandidates, ...]
    target: str
    probability: float  # of the target for the text as it is
    filler: str
    predicted: Prediction  # for the text as it is


def word_candidates(
    model: Any, raw_input: Any, filler: Any = "", *, target: str | int | None = None, count: int = 3
) -> CandidateList:
    """The `count` likeliest words for each word of one text, each evaluated by the model in its place.

    `filler`: as the option of input-marginalization, or such a method; "": the first of ours. `target`: by default the
    predicted class.
    """
    text_model = as_model(model)
    if not isinstance(text_model, TextModel) or text_model.unit != "word":
        raise OptionError(f"{PURPOSE} needs a text model with words as units")
    if whole_number("the number of candidates", count) < 1:
        raise OptionError(f"the number of candidates is a whole number from 1, not {count!r}")
    source = filler.filler if isinstance(filler, FillerMethod) else filler
    masked_lm = required_filler(source, PURPOSE, text_model.networks[0].baseline.device)
    (item,) = text_model.encode([text_model.read(raw_input, None)])
    units = torch.arange(len(item.units), device=masked_lm.device)
    rows = masked_lm.read([item])
    proposals = masked_lm.candidates(rows, torch.zeros_like(units), units[:, None], count=count)
    maskable = (rows.home[0, : len(item.units)] >= 0).tolist()
    ids, likelihoods = proposals.ids[:, :, 0].tolist(), proposals.likelihood.double().tolist()
    candidates = [
        (number, token, likelihood)
        for number in range(len(item.units))
        for token, likelihood in zip(ids[number], likelihoods[number], strict=True)
        if maskable[number] and likelihood > 0
    ]
    spelled = [
        item.units[number].text.strip() if token < 0 else masked_lm.vocabulary.words[token]
        for number, token, _ in candidates
    ]
    changed = [
        item.source
        if token < 0
        else rewrite(item, np.arange(len(item.units)) != number, {number: masked_lm.vocabulary.words[token]})
        for number, token, _ in candidates
    ]
    with text_model.frozen():
        probabilities = text_model.batch(text_model.encode([item.source, *changed])).predict().double().cpu().numpy()
    index = text_model.target(target)
    explained = int(probabilities[0].argmax()) if index is None else index
    by_word: list[list[Candidate]] = [[] for _ in item.units]
    values = probabilities[1:, explained].tolist()
    for (number, token, likelihood), word, probability in zip(candidates, spelled, values, strict=True):
        by_word[number].append(Candidate(word, likelihood, probability, token < 0))
    words = tuple(
        WordCandidates(unit, tuple(listed), without)
        for unit, listed, without in zip(item.units, by_word, _deletions(text_model, item), strict=True)
    )
    label = str(text_model.labels[explained])
    target_probability = float(probabilities[0, explained])
    predicted = _prediction(text_model, probabilities[0])
    return CandidateList(words, label, target_probability, masked_lm.name, predicted)


def _deletions(model: TextModel, item: EncodedText) -> list[Prediction]:
    """What the model predicts without each word; a text of one word becomes its special tokens alone."""
    predictions: list[Prediction] = []
    with model.frozen(), torch.no_grad():
        batch = model.batch([item])
        for words in torch.split(torch.arange(len(item.units), device=batch.device), WORDS_AT_ONCE):
            keep = (batch.rows.unit != words[:, None, None]) | ~batch.rows.real  # (K, S, n)
            logits = batch.logits_deleted(keep.to(batch.dtype))
            probabilities = batch.pool(batch.probabilities(logits)).mean(-2)[:, 0]  # over segments, then views
            predictions += [_prediction(model, row) for row in probabilities.double().cpu().numpy()]
    return predictions


def _prediction(model: TextModel, probabilities: np.ndarray) -> Prediction:
    best = int(probabilities.argmax())
    return Prediction(str(model.labels[best]), float(probabilities[best]))
