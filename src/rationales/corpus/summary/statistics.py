"""Statistics of a corpus run in one pass: distributions, the most and least certain records, words that matter.

Memory is bounded: histograms, a few extreme records, and at most `MAX_WORDS` words of a method; beyond that the rarest
are dropped.
"""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

BINS = 20
EXCERPT = 120  # characters
EXTREMES = 10  # records of each list
MAX_WORDS = 200_000
MIN_DOCUMENTS = 5  # a word in fewer has no rate worth a rank
N_WORDS = 20  # of each list
N_EXAMPLES = 3  # records that a listed word links to
Z = 1.96  # of the Wilson interval, 95 %
SPURIOUS_LIFT = 1.5  # lower bound of a word's rate, in units of the rate of all words
_WORD = re.compile(r"\w+(?:['’-]\w+)*")
_NUMBER = re.compile(r"[\d.,:/%$€£+-]*\d[\d.,:/%$€£+-]*")
_MARKUP = re.compile(r"<[^>]*>|&\w+;|https?:|www\.|\.(com|org|net)\b|[@#_/\\]")
_MARKUP_WORDS = frozenset(("amp", "br", "gt", "href", "http", "https", "lt", "nbsp", "quot", "www"))
# Tags, entities and addresses, which are several units of a text but one thing
_TAG = r"<(?P<tag>/?[A-Za-z]\w*)(?P<attributes>[^<>]{0,500})>"
_MARKUP_RUN = re.compile(_TAG + r"|(?P<entity>&#?\w{1,20};)|(?P<address>https?://|www\.)[^\s<>]+", re.ASCII)
# Words of English that carry little meaning of their own. Negations are left out: they often decide.
FUNCTION_WORDS = frozenset(
    """
    a about after all also an and any are as at be been before being but by can could did do does for from had has have
    he her here him his how i if in into is it its just me more my of on one or our out over she so some such than that
    the their them then there these they this those through to up us was we were what when where which while who will
    with would you your
    """.split()  # noqa: SIM905  # a list of a hundred lines reads worse
)


@dataclass
class WordCounts:
    """How often a word occurs and is part of a rationale, and in how many records."""

    occurrences: int = 0
    selected: int = 0
    documents: int = 0
    capitalised: int = 0  # occurrences inside a sentence that begin with a capital letter
    examples: tuple[int, ...] = ()  # positions of the first records in which it is part of the rationale

    def rate(self) -> float:
        """Share of the occurrences that are selected."""
        return self.selected / self.occurrences if self.occurrences else 0.0

    def lower_bound(self) -> float:
        """Lower end of the 95 % Wilson interval of the rate."""
        n, p = self.occurrences, self.rate()
        if not n:
            return 0.0
        centre, spread = p + Z * Z / (2 * n), Z * math.sqrt(p * (1 - p) / n + Z * Z / (4 * n * n))
        return max(0.0, (centre - spread) / (1 + Z * Z / n))


@dataclass
class Extremes:
    """The records with the largest keys."""

    heap: list[tuple[float, int, dict[str, Any]]] = field(default_factory=list)

    def add(self, key: float, record: dict[str, Any]) -> None:
        """Keep the record if it is among the largest; of equal keys the first."""
        heapq.heappush(self.heap, (key, -record["position"], record))
        if len(self.heap) > EXTREMES:
            heapq.heappop(self.heap)

    def listed(self) -> list[dict[str, Any]]:
        """The records, largest key first."""
        return [record for _, _, record in sorted(self.heap, key=lambda entry: (-entry[0], -entry[1]))]


@dataclass
class MethodStatistics:
    """Statistics of the rows of one method."""

    rows: int = 0
    targets: Counter[str] = field(default_factory=Counter)
    histograms: dict[str, list[int]] = field(
        default_factory=lambda: {name: [0] * BINS for name in ("certainty", "rationale", "complement", "share")}
    )
    sums: Counter[str] = field(default_factory=Counter)
    words: dict[str, dict[str, WordCounts]] = field(default_factory=dict)  # target -> word -> counts
    totals: dict[str, WordCounts] = field(default_factory=dict)  # target -> counts of all words
    most_certain: Extremes = field(default_factory=Extremes)
    least_certain: Extremes = field(default_factory=Extremes)
    least_sufficient: Extremes = field(default_factory=Extremes)
    notes: Counter[str] = field(default_factory=Counter)
    dropped_words: int = 0
    ends: tuple[str, str] | None = None  # where the first and the last record stand in the input

    def add(self, row: Mapping[str, Any]) -> None:
        """Count one row."""
        self.rows += 1
        self.ends = (self.ends[0] if self.ends else row["location"], row["location"])
        self.targets[row["target"]] += 1
        selected_share = row["selected"] / max(row["units"], 1)
        values = {
            "certainty": row["p_full"],
            "rationale": row["p_rationale"],
            "complement": row["p_complement"],
            "share": selected_share,
        }
        for name, value in values.items():
            self.histograms[name][min(int(value * BINS), BINS - 1)] += 1
            self.sums[name] += value
        for note in row["notes"]:
            self.notes[note["kind"]] += 1
        record = {key: row[key] for key in ("position", "id", "target", "p_full", "p_rationale", "p_complement")}
        record["excerpt"] = _excerpt(row["text"] or row["image"] or "")
        self.most_certain.add(row["p_full"], record)
        self.least_certain.add(-row["p_full"], record)
        self.least_sufficient.add(row["p_full"] - row["p_rationale"], record)
        if row["image"] is None:
            self._count_words(row)

    def _count_words(self, row: Mapping[str, Any]) -> None:
        by_word = self.words.setdefault(row["target"], {})
        total = self.totals.setdefault(row["target"], WordCounts())
        seen_words = set()
        for surface, text, start, is_selected in _words_of(row):
            word = surface.lower()
            counts = by_word.get(word)
            if counts is None:
                counts = by_word[word] = WordCounts()
            for entry in (counts, total):
                entry.occurrences += 1
                entry.selected += is_selected
            if is_selected and len(counts.examples) < N_EXAMPLES and row["position"] not in counts.examples:
                counts.examples += (row["position"],)
            if surface[:1].isupper() and text[:start].rstrip()[-1:] not in ("", ".", "!", "?", '"', ":", "\n"):
                counts.capitalised += 1
            if word not in seen_words:
                seen_words.add(word)
                counts.documents += 1
        if sum(map(len, self.words.values())) > MAX_WORDS:
            self._drop_rare_words()

    def _drop_rare_words(self) -> None:
        """Drop the rarest words until half the room is free."""
        counts = sorted(entry.documents for by_word in self.words.values() for entry in by_word.values())
        limit = counts[len(counts) // 2]
        for target, by_word in self.words.items():
            common = {word: entry for word, entry in by_word.items() if entry.documents > limit}
            self.dropped_words += len(by_word) - len(common)
            self.words[target] = common

    def all_words(self) -> dict[str, WordCounts]:
        """Word -> counts over all targets."""
        joined: dict[str, WordCounts] = {}
        for by_word in self.words.values():
            for word, counts in by_word.items():
                entry = joined.setdefault(word, WordCounts())
                for name in ("occurrences", "selected", "documents", "capitalised", "examples"):
                    setattr(entry, name, getattr(entry, name) + getattr(counts, name))
        for entry in joined.values():
            entry.examples = tuple(sorted(entry.examples)[:N_EXAMPLES])
        return joined

    def base_rate(self, target: str) -> float:
        """Share of all words that are selected, for this target."""
        return self.totals[target].rate() if target in self.totals else 0.0


def statistics_of(rows: Iterable[Mapping[str, Any]]) -> dict[str, MethodStatistics]:
    """Method -> statistics of its rows."""
    by_method: dict[str, MethodStatistics] = {}
    for row in rows:
        by_method.setdefault(row["method"], MethodStatistics()).add(row)
    return by_method


def _words_of(row: Mapping[str, Any]) -> Iterator[tuple[str, str, int, bool]]:
    """(word, text, start, selected) of each word of a row; a tag, an entity or an address is one word."""
    selected = {unit for span in row["spans"] for unit in range(span["first"], span["last"] + 1)}
    middle = row["text_units"]
    for text, first, last in ((row["text"], 0, middle), (row["pair"], middle, len(row["starts"]))):
        runs = list(_MARKUP_RUN.finditer(text or ""))
        is_selected: dict[int, bool] = {}  # of the runs
        index = 0
        for number in range(first, last):
            start = row["starts"][number]
            while index < len(runs) and runs[index].end() <= start:
                index += 1
            if index < len(runs) and runs[index].start() <= start:
                is_selected[index] = is_selected.get(index, False) or number in selected
            else:
                yield text[start : start + row["lengths"][number]], text, start, number in selected
        for run, value in is_selected.items():
            yield _markup_word(runs[run]), text, runs[run].start(), value


def _markup_word(run: re.Match[str]) -> str:
    """A tag without its attributes, an entity, or the beginning of an address."""
    if run["tag"] is None:
        return run["entity"] or f"{run['address']}…"
    attributes = run["attributes"].strip()
    return f"<{run['tag']}>" if not attributes else f"<{run['tag']} {attributes if attributes == '/' else '…'}>"


def top_words(words: Mapping[str, WordCounts]) -> list[tuple[str, WordCounts]]:
    """The words that are selected most reliably: by the lower bound of their rate, where it is above that of all words.

    Punctuation is left out.
    """
    occurrences = sum(counts.occurrences for counts in words.values())
    base = sum(counts.selected for counts in words.values()) / max(occurrences, 1)
    eligible = [
        (word, counts)
        for word, counts in words.items()
        if counts.documents >= MIN_DOCUMENTS and _WORD.search(word) and counts.lower_bound() > base
    ]
    eligible.sort(key=lambda entry: (-entry[1].lower_bound(), entry[0]))
    return eligible[:N_WORDS]


def spurious_words(statistics: MethodStatistics) -> list[tuple[str, str, WordCounts, str]]:
    """(target, word, counts, why): words selected far more often than others, although they should carry no evidence.

    These are function words of English, numbers, names, mark-up and single characters whose rate is, even at the lower
    end of its interval, more than `SPURIOUS_LIFT` times that of all words of the target.
    """
    suspects = []
    for target, by_word in statistics.words.items():
        base = statistics.base_rate(target)
        for word, counts in by_word.items():
            reason = _suspicion(word, counts)
            if reason and counts.documents >= MIN_DOCUMENTS and counts.lower_bound() > SPURIOUS_LIFT * base > 0:
                suspects.append((target, word, counts, reason))
    suspects.sort(key=lambda entry: (-entry[2].lower_bound(), entry[0], entry[1]))
    return suspects[:N_WORDS]


def _excerpt(text: str) -> str:
    """The beginning of a text on one line, cut between words where there are any."""
    line = " ".join(text[: 8 * EXCERPT].split())
    if len(line) <= EXCERPT:
        return line
    return f"{line[:EXCERPT].rpartition(' ')[0] or line[:EXCERPT]} …"


def _suspicion(word: str, counts: WordCounts) -> str | None:
    """Why a word should carry no evidence; None where it may."""
    if word in FUNCTION_WORDS:
        return "function word"
    if _NUMBER.fullmatch(word):
        return "number"
    if _MARKUP.search(word) or word in _MARKUP_WORDS:
        return "mark-up or address"
    if not _WORD.search(word):
        return "punctuation"
    if len(word) == 1 and word.isascii():
        return "single letter"
    if counts.capitalised > counts.occurrences / 2:
        return "name"
    return None
