"""Folders of images: with a table of classes and boxes (`index.csv`), or with one folder for each class."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rationales.data.archives import folders
from rationales.data.example import Box, Example
from rationales.data.row_files import table
from rationales.errors import DataError

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff")
SPLITS = {"train": ("train", "training"), "val": ("val", "valid", "validation", "dev"), "test": ("test", "testing")}


def read_images(root: Path, split: str | None) -> Iterator[Example]:
    """The images of a folder; `split`: only those in its folder of this name."""
    home = root if split is None else _split_folder(root, split)
    listing = next((folder / "index.csv" for folder in folders(home) if (folder / "index.csv").is_file()), None)
    yield from _from_table(listing) if listing is not None else _from_folders(home)


def has_images(root: Path) -> bool:
    """Whether the folder contains images or a table of them."""
    return any((folder / "index.csv").is_file() or _images_in(folder) for folder in folders(root))


def _split_folder(root: Path, split: str) -> Path:
    names = SPLITS.get(split, (split,))
    path = next((folder / name for folder in folders(root) for name in names if (folder / name).is_dir()), None)
    if path is None:
        raise DataError(f"there is no folder {' or '.join(names)} in {root}")
    return path


def _from_table(listing: Path) -> Iterator[Example]:
    """Columns: file; label or class_index; boxes as `left top right bottom;…`. Further columns go to `meta`."""
    home = listing.parent
    for location, row in table(listing, ("file",)):
        label = row.get("label") or row.get("class_index")
        if label is None:
            raise DataError(f"{listing} has neither a column label nor a column class_index")
        path = next((path for path in (home / "images" / row["file"], home / row["file"]) if path.is_file()), None)
        if path is None:
            raise DataError(f"{location}: there is no image {row['file']} in {home} or {home / 'images'}")
        if not path.resolve().is_relative_to(home.resolve()):
            raise DataError(f"{location}: {row['file']} lies outside of {home}")
        yield Example(
            name=row["file"],
            label=label,
            image=path,
            boxes=_boxes(location, row.get("boxes", "")),
            meta={key: value for key, value in row.items() if key not in ("file", "boxes", "label")},
        )


def _from_folders(home: Path) -> Iterator[Example]:
    """The name of an image's folder is its label; images come in the order of their paths."""
    empty = True
    for folder in folders(home):
        for path in _images_in(folder):
            empty = False
            yield Example(name=path.relative_to(home).as_posix(), label=folder.name, image=path)
    if empty:
        raise DataError(f"there are no images in {home} ({', '.join(SUFFIXES)})")


def _images_in(folder: Path) -> list[Path]:
    visible = (path for path in folder.iterdir() if not path.name.startswith("."))
    return sorted(path for path in visible if path.suffix.lower() in SUFFIXES)


def _boxes(location: str, cell: str) -> tuple[Box, ...]:
    boxes: list[Box] = []
    for numbers in filter(str.strip, cell.split(";")):
        try:
            left, top, right, bottom = map(int, numbers.split())
        except ValueError:
            raise DataError(f"{location}: {numbers!r} is no box; four whole numbers: left top right bottom") from None
        if not (0 <= left < right and 0 <= top < bottom):
            raise DataError(f"{location}: {numbers!r} is no box; left must be below right, and top below bottom")
        boxes.append((left, top, right, bottom))
    return tuple(boxes)
