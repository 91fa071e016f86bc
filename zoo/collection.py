"""The training texts as one corpus, with named groups and a part held out to calibrate on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from zoo.data import Array, Corpus, build_corpus, read_packed
from zoo.overlap import Protected
from zoo.text import Text, as_written

HELD_REVIEWS = {"imdb": 1000, "eraser": 100}
HELD_SENTENCES = 400
HELD_PHRASE_WORDS = 3  # treebank phrases are pieces of its sentences: a held-out sentence takes its phrases along


@dataclass(frozen=True)
class Collection:
    """texts: what `corpus` was built from; groups: text indices by source; held_out: held-out texts by kind."""

    texts: list[Text]
    corpus: Corpus
    groups: dict[str, Array]
    held_out: dict[str, list[Text]]


def split_reviews(texts: list[Text], count: int, rng: np.random.Generator) -> tuple[list[Text], list[Text]]:
    order = rng.permutation(len(texts))
    return [texts[i] for i in order[count:]], [texts[i] for i in order[:count]]


def split_phrases(texts: list[Text], count: int, rng: np.random.Generator) -> tuple[list[Text], list[Text]]:
    sentences = [i for i, text in enumerate(texts) if text.text.endswith(".") and len(text.text.split()) >= 8]
    held_out = [texts[i] for i in rng.choice(sentences, min(count, len(sentences) // 4), replace=False)]
    protected = Protected.build([], [text.text for text in held_out], HELD_PHRASE_WORDS)
    return [text for text in texts if protected.reason(text.text) is None], held_out


def load_collection(folder: Path, seed: int, tiny: bool) -> Collection:
    """Read what `zoo.prepare` wrote; `tiny` keeps a few hundred texts for a dry run."""
    rng = np.random.default_rng(seed)
    limit = 300 if tiny else None
    sources: dict[str, list[Text]] = {}
    held_out: dict[str, list[Text]] = {"reviews": [], "sentences": []}
    for name, count in HELD_REVIEWS.items():
        sources[name], kept_back = split_reviews(
            read_packed(folder / f"{name}.tsv.xz", limit), 20 if tiny else count, rng
        )
        held_out["reviews"] += kept_back
    phrases = read_packed(folder / "sst2.tsv.xz", limit and 10 * limit)
    sources["sst2"], held_out["sentences"] = split_phrases(phrases, HELD_SENTENCES, rng)
    rewritten = (Text(as_written(text.text), text.label) for text in sources["sst2"] if " n't" in text.text)
    sources["sst2"] = sources["sst2"] + list(rewritten)
    sources["synthetic"] = read_packed(folder / "synthetic.tsv.xz", limit)

    texts = [text for group in sources.values() for text in group]
    groups, first = {}, 0
    for name, group in sources.items():
        groups[name] = np.arange(first, first + len(group))
        first += len(group)
    return Collection(texts, build_corpus(texts), groups, held_out)
