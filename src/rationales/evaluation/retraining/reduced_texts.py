"""Texts without their highest-scored words: deleted, or filled in anew by a masked language model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rationales.errors import OptionError
from rationales.evaluation.faithfulness.levels import check_scores, select_levels
from rationales.evaluation.protocols import DELETE, FILL, Protocol
from rationales.models.batch.rows import content_key
from rationales.models.text.filling.filler import FillableTexts, Filler
from rationales.models.text.text_sources import rewrite
from rationales.models.text.tokens import EncodedText, TextInput

TEXTS_AT_ONCE = 512  # filled in together


def fillable_texts(encoded: Sequence[EncodedText], filler: Filler) -> list[FillableTexts]:
    """The texts as a filler reads them, for `reduced_texts`: read once for all levels and methods."""
    return [filler.fillable(encoded[begin : begin + TEXTS_AT_ONCE]) for begin in range(0, len(encoded), TEXTS_AT_ONCE)]


def reduced_texts(
    encoded: Sequence[EncodedText],
    scores: Sequence[np.ndarray | None],
    level: float,
    removal: str,
    filler: Filler | None = None,
    seed: int = 0,
    fillable: Sequence[FillableTexts] | None = None,
) -> list[TextInput]:
    """The texts without their best floor(level x words) words, at least one, of equal scores the left ones.

    Deleted words leave nothing behind: a text of one word becomes empty. `fill`: all removed words of a text are masked
    together and become the likeliest ones. A text without scores (None) stays as it is. `fillable`: what
    `fillable_texts` returns for the same texts.
    """
    if removal not in (DELETE, FILL):
        raise OptionError(f"words are removed by {DELETE} or {FILL}, not {removal!r}")
    if removal == FILL and filler is None:
        raise OptionError("roar-bert needs a masked language model: filler=..., on the command line --filler")
    scored = [number for number, values in enumerate(scores) if values is not None]
    texts = [item.source for item in encoded]
    if not scored:
        return texts
    known = [np.asarray(scores[number]) for number in scored]
    check_scores(known, [texts[number].title for number in scored])
    protocol = Protocol(removal=removal, levels=(level,), count="floor", min_units=1)
    keys = [content_key(seed, texts[number].text, texts[number].pair) for number in scored]
    selections = select_levels(known, protocol, keys)
    kept = [~selections.selected(position)[0].numpy() for position in range(len(scored))]
    if filler is None or removal == DELETE:
        for number, kept_units in zip(scored, kept, strict=True):
            texts[number] = rewrite(encoded[number], kept_units)
        return texts
    fillable = fillable_texts(encoded, filler) if fillable is None else fillable
    chunk_numbers = np.array(scored) // TEXTS_AT_ONCE
    for chunk_number in np.unique(chunk_numbers):
        positions = np.flatnonzero(chunk_numbers == chunk_number).tolist()
        inputs = [encoded[scored[position]] for position in positions]
        filled = filler.fill(inputs, [kept[position] for position in positions], fillable[chunk_number])
        for position, text in zip(positions, filled, strict=True):
            texts[scored[position]] = text
    return texts
