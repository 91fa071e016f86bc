"""Texts without their highest-scored words: deleted, or filled in anew by a masked language model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rationales.errors import OptionError
from rationales.evaluation.faithfulness.levels import check_scores, select_levels
from rationales.evaluation.protocols import DELETE, FILL, Protocol
from rationales.models.batch.rows import content_key
from rationales.models.text.filling.filler import Filler
from rationales.models.text.text_sources import rewrite
from rationales.models.text.tokens import EncodedText, TextInput

TEXTS_AT_ONCE = 512  # filled in together


def reduced_texts(
    encoded: Sequence[EncodedText],
    scores: Sequence[np.ndarray | None],
    level: float,
    removal: str,
    filler: Filler | None = None,
    seed: int = 0,
) -> list[TextInput]:
    """The texts without their best floor(level x words) words, at least one, of equal scores the left ones.

    Deleted words leave nothing behind: a text of one word becomes empty. `fill`: all removed words of a text are masked
    together and become the likeliest ones. A text without scores (None) stays as it is.
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
    inputs = [encoded[number] for number in scored]
    if filler is None or removal == DELETE:
        changed = [rewrite(item, marks) for item, marks in zip(inputs, kept, strict=True)]
    else:
        changed = []
        for begin in range(0, len(inputs), TEXTS_AT_ONCE):
            chunk = slice(begin, begin + TEXTS_AT_ONCE)
            changed += filler.fill(inputs[chunk], kept[chunk])
    for number, source in zip(scored, changed, strict=True):
        texts[number] = source
    return texts
