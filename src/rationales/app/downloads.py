"""Results as files: page, picture and data, made in memory when a visitor asks for them."""

from __future__ import annotations

import csv
import io
import json
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rationales.app.views.result_page import result_page, table_page
from rationales.errors import OptionError
from rationales.evaluation.method_comparison import MethodComparison
from rationales.rationale import Frames, Grid, Rationale
from rationales.report.wording import predicted_label

MEDIA_TYPES = {
    ".html": "text/html",
    ".json": "application/json",
    ".jsonl": "application/jsonl",
    ".csv": "text/csv",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".zip": "application/zip",
}
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")  # cells that a spreadsheet would compute


@dataclass(frozen=True)
class Download:
    """A file for the visitor."""

    name: str
    content: bytes

    @property
    def media_type(self) -> str:
        """By the ending of the name."""
        return MEDIA_TYPES[Path(self.name).suffix]


def result_file(rationales: Sequence[Rationale], kind: str) -> Download:
    """The rationales of one input as `html`, `json` or `picture` (PNG of an image or a sound, SVG of a text)."""
    makers: Mapping[str, Callable[[Sequence[Rationale]], Download]] = {
        "html": _page_file,
        "json": _data_file,
        "picture": _picture_file,
    }
    if kind not in makers:
        raise OptionError(f"there is no download {kind!r}; there is: {', '.join(makers)}")
    if not rationales:
        raise OptionError("there is nothing to download yet; explain something first")
    return makers[kind](rationales)


def table_file(rationales: Sequence[Rationale], kind: str) -> Download:
    """The rationales of a table as `html`, `csv` or `jsonl`."""
    if not rationales:
        raise OptionError("there is nothing to download yet; explain a table first")
    if kind == "html":
        return Download("rationales.html", table_page(rationales).encode())
    if kind == "csv":
        return Download("rationales.csv", table_csv(rationales).encode())
    if kind == "jsonl":
        return Download("rationales.jsonl", "".join(f"{item.to_json()}\n" for item in rationales).encode())
    raise OptionError(f"there is no download {kind!r}; there is: html, csv, jsonl")


def table_csv(rationales: Sequence[Rationale]) -> str:
    """A row for each rationale; cells that a spreadsheet would take for formulas begin with an apostrophe."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(("row", "predicted", "probability", "explained", "alone", "without", "rationale", "text"))
    for number, rationale in enumerate(rationales, 1):
        full, label = rationale.probabilities["full"], predicted_label(rationale) or rationale.target
        alone, without = (rationale.probabilities[key][rationale.target] for key in ("rationale", "complement"))
        spans = " … ".join(span.text for span in rationale.spans())
        cells = (rationale.name or str(number), label, full[label], rationale.target, alone, without, spans)
        writer.writerow([_plain_cell(cell) for cell in (*cells, rationale.text)])
    return buffer.getvalue()


def _plain_cell(cell: str | float) -> str | float:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA_STARTS) else cell


def _page_file(rationales: Sequence[Rationale]) -> Download:
    return Download("rationale.html", result_page(rationales).encode())


def _data_file(rationales: Sequence[Rationale]) -> Download:
    if len(rationales) == 1:
        return Download("rationale.json", rationales[0].to_json(indent=1).encode())
    comparison = MethodComparison(tuple(item.method for item in rationales), tuple(rationales))
    content = json.dumps(comparison.to_dict(), ensure_ascii=False, allow_nan=False, indent=1)
    return Download("rationales.json", content.encode())


def _picture_file(rationales: Sequence[Rationale]) -> Download:
    """One picture; of several methods one picture if it is an image, else a ZIP file with a picture for each."""
    first = rationales[0]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rationale.png"
        if isinstance(first.units, Grid) and len(rationales) > 1:
            MethodComparison(tuple(item.method for item in rationales), tuple(rationales)).to_png(path)
            return Download("rationales.png", path.read_bytes())
        files = []
        for rationale in rationales:
            if isinstance(rationale.units, (Grid, Frames)):
                written = rationale.to_png(path)
            else:
                written = rationale.to_svg(path.with_suffix(".svg"))
            files.append(Download(f"{rationale.method}{written.suffix}", written.read_bytes()))
    return files[0] if len(files) == 1 else Download("rationales.zip", _zipped(files))


def _zipped(files: Sequence[Download]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            archive.writestr(file.name, file.content)
    return buffer.getvalue()
