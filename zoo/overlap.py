"""Which training texts overlap with evaluation texts, and are therefore dropped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from zoo.text import Text, normalised_words

REVIEW_GRAM = 13  # words; chance agreement of this length is rare outside boilerplate
BOILERPLATE_REVIEWS = 3  # a 13-gram in this many evaluation reviews is a footer or a slogan, not a shared passage
PHRASE_WORDS = 8  # shorter phrases are common speech


def grams(words: Sequence[str], n: int) -> set[str]:
    return {" ".join(words[i : i + n]) for i in range(len(words) - n + 1)}


@dataclass(frozen=True)
class Protected:
    """Evaluation texts, indexed for look-up."""

    texts: frozenset[str]  # every text, normalised
    review_grams: frozenset[str]
    phrase_words: int
    sentences_by_start: dict[str, list[str]]  # sentences of >= phrase_words words by their first phrase_words
    phrase_grams: dict[str, list[str]]  # the same sentences by every gram of phrase_words words

    @classmethod
    def build(cls, reviews: Iterable[str], sentences: Iterable[str], phrase_words: int = PHRASE_WORDS) -> Protected:
        review_words = [normalised_words(text) for text in reviews]
        sentence_words = [normalised_words(text) for text in sentences]
        counts = Counter(gram for words in review_words for gram in grams(words, REVIEW_GRAM))
        starts: dict[str, list[str]] = {}
        inside: dict[str, list[str]] = {}
        for words in sentence_words:
            if len(words) >= phrase_words:
                sentence = " ".join(words)
                starts.setdefault(" ".join(words[:phrase_words]), []).append(sentence)
                for gram in grams(words, phrase_words):
                    inside.setdefault(gram, []).append(sentence)
        return cls(
            texts=frozenset(" ".join(words) for words in review_words + sentence_words),
            review_grams=frozenset(gram for gram, count in counts.items() if count < BOILERPLATE_REVIEWS),
            phrase_words=phrase_words,
            sentences_by_start=starts,
            phrase_grams=inside,
        )

    def reason(self, text: str) -> str | None:
        """Why `text` must not be trained on, or None."""
        words = normalised_words(text)
        joined = " ".join(words)
        if joined in self.texts:
            return "equal"
        if not grams(words, REVIEW_GRAM).isdisjoint(self.review_grams):
            return f"shares {REVIEW_GRAM} words with an evaluation review"
        if len(words) >= self.phrase_words:
            spaced = f" {joined} "
            candidates = self.phrase_grams.get(" ".join(words[: self.phrase_words]), [])
            if any(spaced in f" {sentence} " for sentence in candidates):
                return "inside an evaluation sentence"
            for gram in grams(words, self.phrase_words) & self.sentences_by_start.keys():
                if any(f" {sentence} " in spaced for sentence in self.sentences_by_start[gram]):
                    return "contains an evaluation sentence"
        return None


def without_overlap(texts: Sequence[Text], protected: Protected) -> tuple[list[Text], Counter[str]]:
    """Texts free of overlap and of repetition, and how many were dropped for each reason."""
    kept: list[Text] = []
    dropped: Counter[str] = Counter()
    kept_keys: set[str] = set()
    for text in texts:
        key = " ".join(normalised_words(text.text))
        reason = "repeated or empty" if not key or key in kept_keys else protected.reason(text.text)
        if reason is None:
            kept.append(text)
            kept_keys.add(key)
        else:
            dropped[reason] += 1
    return kept, dropped
