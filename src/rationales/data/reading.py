"""One door to all data: a name from the list or a path, and examples come out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from rationales.data.archives import cache_folder, is_archive, opened
from rationales.data.download import Progress, fetch
from rationales.data.example import Example
from rationales.data.pictures import holds_pictures, pictures
from rationales.data.registry import DATASETS, Dataset
from rationales.data.texts import ENDS, LABEL, TEXT, Columns, is_texts, texts
from rationales.errors import DataError, OptionError

ALIASES = (("val", "dev", "valid", "validation"), ("test", "testing"), ("train", "training"))


def read(
    name_or_path: str | os.PathLike[str],
    split: str | None = None,
    folder: str | os.PathLike[str] | None = None,
    limit: int | None = None,
    progress: Progress | None = None,
    *,
    spread: bool = False,
    text_column: str | None = None,
    label_column: str | None = None,
) -> list[Example]:
    """Examples of a data set.

    `name_or_path`: a name from `DATASETS`; or a file of texts (CSV, TSV, JSON lines, packed or not); or a folder or an
    archive of pictures. `split`: train, val (or dev), test; by default the set's own for evaluation, all of a path.
    `folder`: where a named set lies: its folder, its archive, or a folder that holds either. Without it the set is
    looked for in the cache (`$XDG_CACHE_HOME/rationales/data`) and otherwise downloaded to it from its official
    address, checksum verified; `progress` is then told bytes so far and bytes in all. `limit`: the first so many, and
    nothing after them is read; with `spread`, so many that are evenly spread over the data. `text_column` and
    `label_column`: what a file of texts calls its columns `text` and `label`.
    """
    if limit is not None and limit < 1:
        raise OptionError(f"limit must be at least 1, not {limit}")
    columns = Columns(text_column or TEXT, label_column or LABEL)

    def stream() -> Iterator[Example]:
        return _examples(name_or_path, split, folder, progress, columns)

    if spread and limit is not None:
        selected = iter(spread_positions(sum(1 for _ in stream()), limit))  # two passes: only what is selected is kept
        position = next(selected, -1)
        examples = []
        for number, example in enumerate(stream()):
            if number == position:
                examples.append(example)
                position = next(selected, -1)
    else:
        examples = list(islice(stream(), limit))
    if not examples:
        raise DataError(f"{name_or_path} holds no examples")
    return examples


def spread_positions(count: int, limit: int | None) -> list[int]:
    """At most `limit` of the numbers below `count`: the middles of `limit` equal parts, the same for everybody."""
    if limit is None or limit >= count:
        return list(range(count))
    if limit < 1:
        raise OptionError(f"limit must be at least 1, not {limit}")
    return [(2 * part + 1) * count // (2 * limit) for part in range(limit)]


def _examples(
    name_or_path: str | os.PathLike[str],
    split: str | None,
    folder: str | os.PathLike[str] | None,
    progress: Progress | None,
    columns: Columns,
) -> Iterator[Example]:
    found = DATASETS.get(name_or_path) if isinstance(name_or_path, str) else None
    if found is not None:
        _check_columns_allowed(columns, found.name)
        part = _split(found, split)
        yield from found.reader(_root(found, part, folder, progress), part)
        return
    path = Path(name_or_path).expanduser()
    if not path.exists():
        raise DataError(
            f"there is no data set and no file {str(name_or_path)!r}; data sets by name are: {', '.join(DATASETS)}"
        )
    if folder is not None:
        raise OptionError(f"{path} is a path of its own; folder goes with the name of a data set")
    yield from _own(path, split, columns)


def _check_columns_allowed(columns: Columns, data: str) -> None:
    if columns != Columns():
        raise OptionError(f"{data} is no file of texts (CSV, TSV, JSON lines), so it takes no names of columns")


def _own(path: Path, split: str | None, columns: Columns) -> Iterator[Example]:
    """A user's own data."""
    if path.is_file() and is_texts(path):
        if split is not None:
            raise OptionError(f"{path} is one file without splits; leave the split {split!r} out")
        return texts(path, columns)
    _check_columns_allowed(columns, str(path))
    root = opened(path)
    if root.is_dir() and holds_pictures(root):
        return pictures(root, None if split is None else _canonical(split))
    told = "it is neither a file of texts (" + ", ".join(ENDS) + ") nor a folder or an archive of pictures"
    raise DataError(f"cannot tell what {path} holds: {told}; for a known data set give its name, and this as folder")


def _split(found: Dataset, wanted: str | None) -> str:
    if wanted is None:
        return found.default
    for split in found.splits:
        if _canonical(split) == _canonical(wanted):
            return split
    raise OptionError(f"{found.name} has no split {wanted!r}; its splits are: {', '.join(found.splits)}")


def _canonical(split: str) -> str:
    return next((names[0] for names in ALIASES if split in names), split)


def _root(found: Dataset, split: str, folder: str | os.PathLike[str] | None, progress: Progress | None) -> Path:
    """The folder in which a data set lies open."""
    if folder is not None:
        return _given(found, Path(folder).expanduser())
    home = cache_folder() / found.name
    if not found.sources:
        if home.is_dir():
            return _given(found, home)
        page = f" (see {found.home})" if found.home else ""
        raise DataError(
            f"{found.name} is not on this machine, and there is no address to download it from{page}; give the folder "
            f"it lies in, or put {' or '.join(found.files[:2])} into {home}"
        )
    try:
        for source in found.wanted(split):
            opened(fetch(source, home, progress), into=home)
    except DataError as error:
        raise DataError(
            f"{found.name} is not on this machine and could not be downloaded: {error}. Give the folder it lies in, "
            f"or get {', '.join(one.address for one in found.wanted(split))} elsewhere and put it into {home}"
        ) from None
    return home


def _given(found: Dataset, place: Path) -> Path:
    """What the user pointed to: the archive, the folder itself, or a folder that holds one of its files."""
    if not place.exists():
        raise DataError(f"there is no folder or archive {place}")
    if place.is_file():
        return opened(place) if is_archive(place) else place.parent
    for file in found.files:
        if (place / file).exists():
            return place if not is_archive(place / file) and (place / file).is_file() else opened(place / file)
    return place
