"""ERASER (DeYoung and others 2020): documents with the spans that people gave as evidence for the label.

A folder holds `docs/`, one file per document, and one file of JSON lines per split. Evidence is given in tokens, and
tokens are what `str.split` makes of a document.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rationales.data.archives import find
from rationales.data.example import IN_TOKENS, Example, Extent, of_words, words_of
from rationales.data.tables import field, json_lines, text_of
from rationales.errors import DataError

POLARITY = {"NEG": "negative", "POS": "positive"}
FURTHER = ("majority", "union")  # what `Example.others` holds for movies: the sets of the further annotators


def movies(root: Path, split: str) -> Iterator[Example]:
    """Movie reviews; `others` holds the majority and the union of further annotators where there are any (test)."""
    home, rows = _open(root, split)
    further = [_further(home, f"movies_{name}_human_perf.jsonl") for name in FURTHER]
    for place, row in rows:
        name = str(field(place, row, "annotation_id"))
        text = _document(home, name, place)
        words = words_of(text)
        others = [
            of_words(words, _tokens(f"further annotators of {name}", found[name], len(words)))
            for found in further
            if name in found
        ]
        label = str(field(place, row, "classification"))
        yield Example(
            name=name,
            text=text,
            label=POLARITY.get(label, label),
            spans=of_words(words, _evidence(place, row, text, words)),
            others=tuple(others),
            meta={"annotated": "exhaustively" if split == "test" else "partly"},
            marked_in=IN_TOKENS,
        )


def multirc(root: Path, split: str) -> Iterator[Example]:
    """Passages with a question and an answer (the pair, "question || answer"); evidence is whole sentences."""
    home, rows = _open(root, split)
    documents: dict[str, tuple[str, list[Extent]]] = {}
    for place, row in rows:
        name = str(field(place, row, "annotation_id"))
        passage = name.rsplit(":", 2)[0]
        if passage not in documents:
            text = _document(home, passage, place)
            documents[passage] = (text, words_of(text))
        text, words = documents[passage]
        yield Example(
            name=name,
            text=text,
            label=str(field(place, row, "classification")).lower(),
            spans=of_words(words, _evidence(place, row, text, words)),
            pair=str(field(place, row, "query")),
            marked_in=IN_TOKENS,
        )


def _open(root: Path, split: str) -> tuple[Path, Iterator[tuple[str, dict[str, Any]]]]:
    listing = find(root, f"{split}.jsonl")
    if listing is None:
        raise DataError(f"there is no {split}.jsonl in {root}; ERASER's folders hold train, val and test.jsonl, docs/")
    return listing.parent, json_lines(listing)


def _document(home: Path, name: str, place: str) -> str:
    path = home / "docs" / name
    if not path.resolve().is_relative_to((home / "docs").resolve()):
        raise DataError(f"{place}: the document {name!r} lies outside of {home / 'docs'}")
    if not path.is_file():
        raise DataError(f"{place}: there is no document {path}")
    return text_of(path)


def _evidence(place: str, row: Mapping[str, Any], text: str, words: list[Extent]) -> set[int]:
    """The numbers of the words that any piece of evidence covers; each piece must say what stands there."""
    pieces = [piece for group in field(place, dict(row), "evidences") for piece in group]
    for piece in pieces:
        start, end, said = piece.get("start_token"), piece.get("end_token"), piece.get("text")
        _tokens(place, [piece], len(words))
        found = " ".join(text[left:right] for left, right in words[start:end])
        if said is not None and said.split() != found.split():
            raise DataError(
                f"{place}: tokens {start}..{end} read {found[:60]!r}, but the evidence says {said[:60]!r}; "
                "the documents and the annotations do not belong together"
            )
    return _tokens(place, pieces, len(words))


def _further(home: Path, file: str) -> dict[str, list[dict[str, Any]]]:
    """What further annotators marked, by document; nothing where the file is not there."""
    if not (home / file).is_file():
        return {}
    return {
        str(field(place, row, "annotation_id")): [
            piece for one in field(place, row, "rationales") for piece in one["hard_rationale_predictions"]
        ]
        for place, row in json_lines(home / file)
    }


def _tokens(place: str, pieces: list[dict[str, Any]], count: int) -> set[int]:
    """Token numbers from start_token to end_token, the end not included."""
    marked: set[int] = set()
    for piece in pieces:
        start, end = piece.get("start_token"), piece.get("end_token")
        if not (
            isinstance(start, int) and isinstance(end, int) and 0 <= start <= end <= count
        ):  # the real file has empty ones
            raise DataError(f"{place}: tokens {start}..{end} lie outside of the document, which has {count}")
        marked.update(range(start, end))
    return marked
