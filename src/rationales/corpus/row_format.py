"""Rows of a shard: rationales as columns of Parquet, compact, and back.

Scores keep 11 significant bits (a relative error below 0.05 %), probabilities 17: the remaining bits are zero and,
split into planes of bytes, compress to next to nothing. The scores of an image are means over a grid of at most
`GRID_SIDE` cells. What does not change from row to row (model, options, versions) stands once in the file's metadata.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from operator import itemgetter, sub
from typing import Any

import numpy as np

from rationales.corpus.reading.arrow_files import import_arrow
from rationales.corpus.reading.input_files import printable
from rationales.corpus.records import Record
from rationales.rationale import Grid, Note, Rationale, Rule, Span, Unit

METADATA_KEY = b"rationales"
GRID_SIDE = 64  # cells of the longer side of an image's scores
MAX_CLASSES = 20  # of more classes, the likeliest are stored, and the target
N_LIKELIEST_CLASSES = 5
SCORE_BITS, PROBABILITY_BITS = 11, 17  # significant bits that are kept of the 24 of a float32
_PROBABILITIES = ("full", "rationale", "complement", "baseline")


def schema() -> Any:
    """The columns of a shard."""
    arrow = import_arrow()
    span = arrow.struct(
        [(name, arrow.int32()) for name in ("first", "last", "start", "end")] + [("score", arrow.float32())]
    )
    region = arrow.struct(
        [(name, arrow.int32()) for name in ("top", "left", "bottom", "right", "area")] + [("score", arrow.float32())]
    )
    classes = arrow.struct([("label", arrow.string())] + [(name, arrow.float32()) for name in _PROBABILITIES])
    note = arrow.struct([("kind", arrow.string()), ("message", arrow.string())])
    return arrow.schema(
        [
            ("position", arrow.int64()),
            ("id", arrow.string()),
            ("location", arrow.string()),
            ("method", arrow.string()),
            ("target", arrow.string()),
            ("predicted", arrow.string()),
            *((f"p_{name}", arrow.float32()) for name in _PROBABILITIES),  # of the target
            ("selected", arrow.int32()),
            ("units", arrow.int32()),
            ("text", arrow.string()),
            ("pair", arrow.string()),
            ("scores", arrow.list_(arrow.float32())),
            ("starts", arrow.list_(arrow.int32())),
            ("lengths", arrow.list_(arrow.int32())),
            ("text_units", arrow.int32()),  # the units of the text; those of the pair follow
            ("spans", arrow.list_(span)),
            ("height", arrow.int32()),
            ("width", arrow.int32()),
            ("image_height", arrow.int32()),
            ("image_width", arrow.int32()),
            ("image", arrow.string()),
            ("regions", arrow.list_(region)),
            ("other_labels", arrow.list_(classes)),  # all but the target; of many, the likeliest
            ("rule", arrow.string()),
            ("baseline", arrow.string()),
            ("steps", arrow.int32()),
            ("stop", arrow.string()),
            ("segments", arrow.int32()),
            ("notes", arrow.list_(note)),
        ]
    )


def serialized(rows: Sequence[Mapping[str, Any]], provenance: Mapping[str, Any]) -> bytes:
    """The rows as the bytes of a Parquet file; the same rows give the same bytes."""
    arrow = import_arrow()
    import pyarrow.parquet as untyped

    parquet: Any = untyped
    table = arrow.Table.from_pylist(list(rows), schema=schema())
    sink = arrow.BufferOutputStream()
    # Starts rise within a text, so their differences are small; scores are split into planes of bytes.
    encodings = {
        "starts.list.element": "DELTA_BINARY_PACKED",
        "scores.list.element": "BYTE_STREAM_SPLIT",
        "spans.list.element.score": "BYTE_STREAM_SPLIT",
        **{f"p_{name}": "BYTE_STREAM_SPLIT" for name in _PROBABILITIES},
        **{f"other_labels.list.element.{name}": "BYTE_STREAM_SPLIT" for name in _PROBABILITIES},
        "position": "DELTA_BINARY_PACKED",
        **{f"spans.list.element.{name}": "DELTA_BINARY_PACKED" for name in ("first", "last", "start", "end")},
    }
    with_dictionary = [
        *("method", "target", "predicted", "rule", "baseline", "stop", "lengths.list.element"),
        *("notes.list.element.kind", "notes.list.element.message", "other_labels.list.element.label"),
    ]
    settings = {
        "compression": "zstd",
        "compression_level": 9,
        "use_dictionary": with_dictionary,
        "column_encoding": encodings,
        "write_statistics": ["position", "id"],
        "store_schema": False,  # repeats what Parquet's own schema says, in 3 KB
    }
    with parquet.ParquetWriter(sink, table.schema, **settings) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({METADATA_KEY: json.dumps(provenance, sort_keys=True).encode()})
    return bytes(sink.getvalue())


def row_of(record: Record, title: str, rationale: Rationale) -> dict[str, Any]:
    """A rationale as a row; `title` is what the method is called."""
    full = rationale.probabilities["full"]
    target, *further_labels = _stored_probabilities(rationale)
    row = {
        "position": record.position,
        "id": record.id,
        "location": record.location,
        "method": title,
        "target": rationale.target,
        "predicted": max(full, key=full.__getitem__),
        **{f"p_{name}": target[name] for name in _PROBABILITIES},
        "selected": int(np.count_nonzero(rationale.selected())),
        "units": len(rationale.units),
        "other_labels": further_labels,
        "rule": _rule_text(rationale.rule),
        "baseline": rationale.baseline,
        "steps": rationale.steps,
        "stop": rationale.stop,
        "segments": rationale.segments,
        "tokens": rationale.tokens,  # counted for the shard, and no column
        "notes": [{"kind": note.kind, "message": note.message} for note in rationale.notes],
    }
    return row | (_image_columns(record, rationale) if isinstance(rationale.units, Grid) else _text_columns(rationale))


@lru_cache
def _rule_text(rule: Rule) -> str:
    return json.dumps({name: value for name, value in vars(rule).items() if value is not None})


def _text_columns(rationale: Rationale) -> dict[str, Any]:
    starts, ends, text_indices = (list(map(itemgetter(field), rationale.words)) for field in (1, 2, 3))
    spans = rationale.spans()
    span_scores = shortened(np.array([span.score for span in spans])).tolist()
    return {
        "text": rationale.text,
        "pair": rationale.pair,
        "scores": shortened(rationale.scores),
        "starts": starts,
        "lengths": list(map(sub, ends, starts)),
        "text_units": text_indices.count(0),
        "spans": [
            {"first": span.first, "last": span.last, "start": span.start, "end": span.end, "score": score}
            for span, score in zip(spans, span_scores, strict=True)
        ],
    }


def _image_columns(record: Record, rationale: Rationale) -> dict[str, Any]:
    units: Any = rationale.units
    cells = cell_means(rationale.scores.reshape(units.height, units.width))
    names = ("top", "left", "bottom", "right", "area", "score")
    return {
        "image": None if record.image is None else printable(record.image),
        "image_height": units.height,
        "image_width": units.width,
        "height": cells.shape[0],
        "width": cells.shape[1],
        "scores": shortened(cells.reshape(-1)),
        "regions": [{name: getattr(region, name) for name in names} for region in rationale.regions()],
    }


def _stored_probabilities(rationale: Rationale) -> list[dict[str, Any]]:
    """The probabilities of the target, then of all other labels, or of the likeliest where they are many."""
    full, labels = rationale.probabilities["full"], list(rationale.labels)
    if len(labels) > MAX_CLASSES:
        likeliest = sorted(labels, key=lambda label: -full[label])[:N_LIKELIEST_CLASSES]
        labels = [label for label in labels if label in likeliest]
    stored_labels = [rationale.target, *(label for label in labels if label != rationale.target)]
    by_name = [rationale.probabilities[name] for name in _PROBABILITIES]
    table = np.array([[by_label[label] for by_label in by_name] for label in stored_labels])
    return [
        {"label": label, **dict(zip(_PROBABILITIES, values, strict=True))}
        for label, values in zip(stored_labels, shortened(table, PROBABILITY_BITS).tolist(), strict=True)
    ]


def shortened(values: np.ndarray, bits: int = SCORE_BITS) -> np.ndarray:
    """Values as float32 rounded to so many significant bits."""
    exact, dropped = np.ascontiguousarray(values, dtype=np.float32), 24 - bits
    raised = exact.view(np.uint32) + np.uint32(1 << (dropped - 1))
    rounded = (raised >> np.uint32(dropped) << np.uint32(dropped)).view(np.float32)
    return np.where(np.isfinite(rounded), rounded, exact)


def cell_means(scores: np.ndarray) -> np.ndarray:
    """Means over a grid of at most `GRID_SIDE` cells a side; a smaller image keeps its pixels."""
    height, width = scores.shape
    factor = max(1, -(-max(height, width) // GRID_SIDE))
    rows, columns = np.arange(0, height, factor), np.arange(0, width, factor)
    sums = np.add.reduceat(np.add.reduceat(scores.astype(np.float64), rows, 0), columns, 1)
    counts = np.outer(np.diff([*rows, height]), np.diff([*columns, width]))
    means: np.ndarray = (sums / counts).astype(np.float32)
    return means


def rationale_of(row: Mapping[str, Any], provenance: Mapping[str, Any]) -> Rationale:
    """The rationale of a row; of an image, in the cells of its stored scores."""
    method = next(entry for entry in provenance["methods"] if entry["title"] == row["method"])
    by_label = {entry["label"]: entry for entry in row["other_labels"]}
    by_label[row["target"]] = {name: row[f"p_{name}"] for name in _PROBABILITIES}
    labels = tuple(label for label in provenance["model"]["labels"] if label in by_label)
    is_image = row["image"] is not None
    scores = np.asarray(row["scores"], dtype=np.float32)
    units: Any = Grid(row["height"], row["width"]) if is_image else _units(row)
    selection = None
    if not is_image:
        selection = np.zeros(len(scores), dtype=bool)
        for span in row["spans"]:
            selection[span["first"] : span["last"] + 1] = True
    return Rationale(
        text=row["text"] or "",
        pair=row["pair"],
        units=units,
        scores=scores,
        target=row["target"],
        labels=labels,
        probabilities={name: {label: by_label[label][name] for label in labels} for name in _PROBABILITIES},
        method=method["name"],
        model=provenance["model"]["name"],
        name=row["id"],
        rule=Rule(**json.loads(row["rule"])),
        baseline=row["baseline"],
        unit=provenance["model"]["unit"],
        options=method["options"],
        seed=provenance["seed"],
        steps=row["steps"],
        stop=row["stop"],
        segments=row["segments"],
        notes=tuple(Note(**note) for note in row["notes"]),
        versions=provenance["versions"],
        selection=selection,
        prompt=provenance["model"].get("prompt"),
    )


def _units(row: Mapping[str, Any]) -> tuple[Unit, ...]:
    units = []
    for number, (start, length) in enumerate(zip(row["starts"], row["lengths"], strict=True)):
        text_index = int(number >= row["text_units"])
        text = row["pair"] if text_index else row["text"]
        units.append(Unit(text[start : start + length], start, start + length, text_index))
    return tuple(units)


def spans_of(row: Mapping[str, Any]) -> list[Span]:
    """The spans of a row with their text."""
    spans = []
    for span in row["spans"] or ():
        text_index = int(span["first"] >= row["text_units"])
        text = (row["pair"] if text_index else row["text"])[span["start"] : span["end"]]
        spans.append(Span(span["start"], span["end"], text, span["score"], span["first"], span["last"], text_index))
    return spans
