"""ERASER (DeYoung and others 2020): documents with the spans that annotators marked as evidence for the label.

A folder contains `docs/`, one file per document, and one file of JSON lines per split. Evidence is given in tokens,
which are the result of `str.split` on a document.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rationales.data.archives import find_required
from rationales.data.example import IN_TOKENS, Example, Extent, spans_of_words, words_of
from rationales.data.row_files import field, json_lines, text_of
from rationales.errors import DataError

POLARITY = {"NEG": "negative", "POS": "positive"}
ANNOTATOR_SETS = ("majority", "union")  # what `Example.annotator_spans` holds for movies


def movies(root: Path, split: str) -> Iterator[Example]:
    """Movie reviews; `annotator_spans`: majority and union of further annotators, where there are any (test)."""
    home, rows = _open(root, split)
    annotator_sets = [_annotator_set(home, f"movies_{name}_human_perf.jsonl") for name in ANNOTATOR_SETS]
    for location, row in rows:
        name = str(field(location, row, "annotation_id"))
        text = _document(home, name, location)
        words = words_of(text)
        annotator_spans = [
            spans_of_words(words, _tokens(f"further annotators of {name}", evidence[name], len(words)))
            for evidence in annotator_sets
            if name in evidence
        ]
        label = str(field(location, row, "classification"))
        yield Example(
            name=name,
            text=text,
            label=POLARITY.get(label, label),
            spans=spans_of_words(words, _evidence(location, row, text, words)),
            annotator_spans=tuple(annotator_spans),
            meta={"annotated": "exhaustively" if split == "test" else "partly"},
            marked_in=IN_TOKENS,
        )


def multirc(root: Path, split: str) -> Iterator[Example]:
    """Passages with a question and an answer (the pair, "question || answer"); evidence is full sentences."""
    home, rows = _open(root, split)
    documents: dict[str, tuple[str, list[Extent]]] = {}
    for location, row in rows:
        name = str(field(location, row, "annotation_id"))
        passage = name.rsplit(":", 2)[0]
        if passage not in documents:
            text = _document(home, passage, location)
            documents[passage] = (text, words_of(text))
        text, words = documents[passage]
        yield Example(
            name=name,
            text=text,
            label=str(field(location, row, "classification")).lower(),
            spans=spans_of_words(words, _evidence(location, row, text, words)),
            pair=str(field(location, row, "query")),
            marked_in=IN_TOKENS,
        )


def _open(root: Path, split: str) -> tuple[Path, Iterator[tuple[str, dict[str, Any]]]]:
    listing = find_required(root, f"{split}.jsonl", "ERASER's folders hold train, val and test.jsonl, docs/")
    return listing.parent, json_lines(listing)


def _document(home: Path, name: str, location: str) -> str:
    path = home / "docs" / name
    if not path.resolve().is_relative_to((home / "docs").resolve()):
        raise DataError(f"{location}: the document {name!r} lies outside of {home / 'docs'}")
    if not path.is_file():
        raise DataError(f"{location}: there is no document {path}")
    return text_of(path)


def _evidence(location: str, row: Mapping[str, Any], text: str, words: list[Extent]) -> set[int]:
    """The indices of the words that the evidence covers; the text of each piece must match the document."""
    pieces = [piece for group in field(location, dict(row), "evidences") for piece in group]
    for piece in pieces:
        start, end, evidence = piece.get("start_token"), piece.get("end_token"), piece.get("text")
        _tokens(location, [piece], len(words))
        document = " ".join(text[left:right] for left, right in words[start:end])
        if evidence is not None and evidence.split() != document.split():
            raise DataError(
                f"{location}: tokens {start}..{end} read {document[:60]!r}, but the evidence says {evidence[:60]!r}; "
                "the documents and the annotations do not belong together"
            )
    return _tokens(location, pieces, len(words))


def _annotator_set(home: Path, file: str) -> dict[str, list[dict[str, Any]]]:
    """Document -> the pieces that further annotators marked; empty where there is no such file."""
    if not (home / file).is_file():
        return {}
    return {
        str(field(location, row, "annotation_id")): [
            piece for marks in field(location, row, "rationales") for piece in marks["hard_rationale_predictions"]
        ]
        for location, row in json_lines(home / file)
    }


def _tokens(location: str, pieces: list[dict[str, Any]], count: int) -> set[int]:
    """Token numbers from start_token to end_token, the end not included."""
    marked: set[int] = set()
    for piece in pieces:
        start, end = piece.get("start_token"), piece.get("end_token")
        # start may equal end: the published files contain empty pieces
        if not (isinstance(start, int) and isinstance(end, int) and 0 <= start <= end <= count):
            raise DataError(f"{location}: tokens {start}..{end} lie outside of the document, which has {count}")
        marked.update(range(start, end))
    return marked
