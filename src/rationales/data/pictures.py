"""Folders of pictures: with a table of classes and boxes (`index.csv`), or with one folder for each class."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rationales.data.archives import folders
from rationales.data.example import Box, Example
from rationales.data.tables import table
from rationales.errors import DataError

ENDS = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff")
SPLITS = {"train": ("train", "training"), "val": ("val", "valid", "validation", "dev"), "test": ("test", "testing")}


def pictures(root: Path, split: str | None) -> Iterator[Example]:
    """The pictures of a folder; `split` is a folder below it, and None takes them all."""
    home = root if split is None else _part(root, split)
    listing = next((folder / "index.csv" for folder in folders(home) if (folder / "index.csv").is_file()), None)
    yield from _listed(listing) if listing is not None else _by_folder(home)


def listed(root: Path, _split: str) -> Iterator[Example]:
    """The pictures of a set without splits."""
    return pictures(root, None)


def holds_pictures(root: Path) -> bool:
    """Whether a folder looks like one of pictures."""
    return any((folder / "index.csv").is_file() or _in(folder) for folder in folders(root))


def _part(root: Path, split: str) -> Path:
    names = SPLITS.get(split, (split,))
    for folder in folders(root):
        for name in names:
            if (folder / name).is_dir():
                return folder / name
    raise DataError(f"there is no folder {' or '.join(names)} in {root}")


def _listed(listing: Path) -> Iterator[Example]:
    """Columns: file; label or class_index; boxes as `left top right bottom;…`. What else there is goes to `meta`."""
    home = listing.parent
    for place, row in table(listing, ("file",)):
        label = row.get("label") or row.get("class_index")
        if label is None:
            raise DataError(f"{listing} has neither a column label nor a column class_index")
        path = next((path for path in (home / "images" / row["file"], home / row["file"]) if path.is_file()), None)
        if path is None:
            raise DataError(f"{place}: there is no picture {row['file']} in {home} or {home / 'images'}")
        if not path.resolve().is_relative_to(home.resolve()):
            raise DataError(f"{place}: {row['file']} lies outside of {home}")
        yield Example(
            name=row["file"],
            label=label,
            picture=path,
            boxes=_boxes(place, row.get("boxes", "")),
            meta={key: value for key, value in row.items() if key not in ("file", "boxes", "label")},
        )


def _by_folder(home: Path) -> Iterator[Example]:
    """The name of a picture's folder is its class; pictures come in the order of their paths."""
    found = False
    for folder in folders(home):
        for path in _in(folder):
            found = True
            yield Example(name=path.relative_to(home).as_posix(), label=folder.name, picture=path)
    if not found:
        raise DataError(f"there are no pictures in {home} ({', '.join(ENDS)})")


def _in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in ENDS and not path.name.startswith("."))


def _boxes(place: str, told: str) -> tuple[Box, ...]:
    boxes: list[Box] = []
    for one in filter(str.strip, told.split(";")):
        try:
            left, top, right, bottom = map(int, one.split())
        except ValueError:
            raise DataError(f"{place}: {one!r} is no box; four whole numbers: left top right bottom") from None
        if not (0 <= left < right and 0 <= top < bottom):
            raise DataError(f"{place}: {one!r} is no box; left must be below right, and top below bottom")
        boxes.append((left, top, right, bottom))
    return tuple(boxes)
