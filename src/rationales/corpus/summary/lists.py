"""What the page of a corpus run lists: words that matter, words that look spurious, and records to look at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rationales.corpus.summary.statistics import MethodStatistics, WordCounts, spurious_words, top_words

MAX_LABELS = 8  # classes with a list of words of their own, the most frequent ones
RECORD_LISTS = (
    ("most_certain", "Most certain", "The highest probabilities of the target."),
    ("least_certain", "Least certain", "The lowest probabilities of the target: close decisions."),
    (
        "least_sufficient",
        "Rationales that do not suffice",
        "The probability falls most when the model is given the rationale alone: do not trust these.",
    ),
)


@dataclass(frozen=True)
class MethodLists:
    """What the page lists of a method."""

    statistics: MethodStatistics
    words: list[tuple[str, list[tuple[str, WordCounts]]]]  # (label, words that matter)
    suspects: list[tuple[str, str, WordCounts, str]]  # (label, word, counts, why)

    @classmethod
    def of(cls, statistics: MethodStatistics) -> MethodLists:
        """The lists of all words and of the words of the most frequent labels."""
        words = [("All records", top_words(statistics.all_words()))]
        for label, _ in statistics.targets.most_common(MAX_LABELS):
            words.append((label, top_words(statistics.words.get(label, {}))))
        return cls(statistics, words, spurious_words(statistics))

    def records(self) -> list[dict[str, Any]]:
        """The records of all lists of records."""
        return [record for name, _, _ in RECORD_LISTS for record in getattr(self.statistics, name).listed()]

    def positions(self) -> set[int]:
        """The positions of all records that the page links to."""
        counts = [counts for _, words in self.words for _, counts in words]
        counts += [counts for _, _, counts, _ in self.suspects]
        examples = {position for entry in counts for position in entry.examples}
        return examples | {record["position"] for record in self.records()}
