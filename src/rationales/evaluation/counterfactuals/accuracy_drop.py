"""How much accuracy a classifier loses on the texts that methods perturb (Pham et al. 2022, Table 4).

Leave-one-out deletes one word, Input Marginalization replaces one, LIME deletes a random number of random words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rationales.errors import InputError, OptionError
from rationales.evaluation.counterfactuals.text_predictions import predicted_classes
from rationales.evaluation.preparation import check_names, whereabouts
from rationales.evaluation.tables.statistics import Estimate, estimate
from rationales.models.batch.rows import content_key
from rationales.models.load import as_model
from rationales.models.text.filling.filler import Filler
from rationales.models.text.filling.loading import load_filler
from rationales.models.text.model import TextModel
from rationales.models.text.text_sources import rewrite
from rationales.models.text.tokens import EncodedText, TextInput

DELETE_ONE, REPLACE_ONE, LIME = "delete-one", "replace-one", "lime"
OPERATIONS = (DELETE_ONE, REPLACE_ONE, LIME)
TEXTS_AT_ONCE = 64  # whose forms are made and classified together


@dataclass(frozen=True, eq=False)
class AccuracyDrop:
    """Accuracies of B texts as they are and perturbed; every text counts the same, whatever its length."""

    operation: str
    full: np.ndarray  # (B,) 1.0 where the text itself is classified correctly
    changed: np.ndarray  # (B,) share of its perturbed forms that are
    forms: int  # number of perturbed texts, repeated ones included

    @property
    def drop(self) -> Estimate:
        """Mean loss of accuracy with its 95 % bootstrap interval over texts."""
        return estimate(self.full - self.changed)


def accuracy_drop(
    model: Any,
    examples: Sequence[Any],
    operation: str = DELETE_ONE,
    *,
    samples: int = 100,
    filler: Any = None,
    seed: int = 0,
    progress: Callable[[float], None] | None = None,
) -> AccuracyDrop:
    """Accuracy on labelled texts, and on all forms of them that an operation makes.

    `delete-one`: each word in turn is deleted; `replace-one`: each becomes the filler's likeliest word, which may be
    the word itself; of a text with more words than `samples`, so many random ones. `lime`: `samples` forms, in each of
    which a random number of random words, uniform from 1 to all, is deleted. A text of one word has one form in the
    first two, and without the word it is empty.
    """
    text_model, inputs, labels = _labelled(model, examples)
    masked_lm = _checked(operation, samples, filler, text_model)
    full = predicted_classes(text_model, [item.source for item in inputs]) == labels
    changed, forms = np.zeros(len(inputs)), 0
    for begin in range(0, len(inputs), TEXTS_AT_ONCE):
        numbers = range(begin, min(begin + TEXTS_AT_ONCE, len(inputs)))
        texts_of_inputs = _forms([inputs[number] for number in numbers], operation, samples, masked_lm, seed)
        classes = predicted_classes(text_model, [text for texts in texts_of_inputs for text in texts])
        counts = [len(texts) for texts in texts_of_inputs]
        for number, predicted in zip(numbers, np.split(classes, np.cumsum(counts)[:-1]), strict=True):
            changed[number] = float((predicted == labels[number]).mean())
        forms += sum(counts)
        if progress is not None:
            progress(numbers.stop / len(inputs))
    return AccuracyDrop(operation, full.astype(np.float64), changed, forms)


def lime_keeps(units: int, samples: int, key: int) -> np.ndarray:
    """(samples, units) bool: what each form keeps; the number of deleted units is uniform from 1 to all."""
    random = np.random.default_rng(key & 0xFFFFFFFFFFFFFFFF)
    deleted = random.integers(1, units + 1, samples)
    order = random.permuted(np.tile(np.arange(units), (samples, 1)), axis=1)
    kept: np.ndarray = order >= deleted[:, None]
    return kept


def _forms(
    inputs: Sequence[EncodedText], operation: str, samples: int, filler: Filler | None, seed: int
) -> list[list[TextInput]]:
    """The perturbed forms of each text."""
    keeps_of_inputs = []
    for item in inputs:
        n, key = len(item.units), content_key(seed, item.source.text, item.source.pair)
        keeps = lime_keeps(n, samples, key) if operation == LIME else ~np.eye(n, dtype=bool)
        if len(keeps) > samples:
            random = np.random.default_rng(key & 0xFFFFFFFFFFFFFFFF)
            keeps = keeps[np.sort(random.choice(n, samples, replace=False))]
        keeps_of_inputs.append(keeps)
    if operation == REPLACE_ONE and filler is not None:
        repeated = [item for item, keeps in zip(inputs, keeps_of_inputs, strict=True) for _ in keeps]
        filled = iter(filler.fill(repeated, [kept for keeps in keeps_of_inputs for kept in keeps]))
        return [[next(filled) for _ in keeps] for keeps in keeps_of_inputs]
    return [[rewrite(item, kept) for kept in keeps] for item, keeps in zip(inputs, keeps_of_inputs, strict=True)]


def _labelled(model: Any, examples: Sequence[Any]) -> tuple[TextModel, list[EncodedText], np.ndarray]:
    text_model = as_model(model)
    if not isinstance(text_model, TextModel):
        raise OptionError(f"words are taken out of texts, and {text_model.name} reads none")
    check_names(examples, text_model)
    for example in examples:
        if example.label is None:
            raise InputError(f"{whereabouts(example)} has no label, and accuracy needs one for every example")
    inputs = text_model.encode([text_model.read(item.raw_input(), whereabouts(item)) for item in examples])
    return text_model, inputs, np.array([text_model.target(example.label) for example in examples])


def _checked(operation: str, samples: int, filler: Any, model: TextModel) -> Filler | None:
    if operation not in OPERATIONS:
        raise OptionError(f"texts are perturbed by {', '.join(OPERATIONS)}, not {operation!r}")
    if samples < 1:
        raise OptionError(f"{operation} needs at least one sample, not {samples}")
    if operation != REPLACE_ONE:
        return None
    masked_lm = load_filler(filler, model.networks[0].baseline.device)
    if masked_lm is None:
        raise OptionError("replace-one needs a masked language model: filler=..., a name, an id or a folder")
    return masked_lm
