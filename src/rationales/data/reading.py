"""`read_data`: the examples of a data set, by its name or by the path of a user's own data."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from rationales.data.archives import cache_folder, is_archive, unpacked
from rationales.data.datasets import DATASETS, Dataset
from rationales.data.download import Progress, fetch
from rationales.data.example import Example
from rationales.data.image_folders import has_images, read_images
from rationales.data.user_texts import LABEL, SUFFIXES, TEXT, Columns, is_text_file, read_texts
from rationales.errors import DataError, OptionError

SPLIT_ALIASES = (("val", "dev", "valid", "validation"), ("test", "testing"), ("train", "training"))


def read_data(
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
    """The examples of a data set.

    `name_or_path`: a name from `DATASETS`; or a file of texts (CSV, TSV, JSON lines, optionally .gz); or a folder or
    an archive of images. `split`: train, val (or dev), test; default: the split for evaluation of a named data set,
    all examples of a path. `folder`: the folder or the archive of a named data set, or a folder that contains either.
    Without it the data set is read from the cache (`$XDG_CACHE_HOME/rationales/data`), and downloaded to it from its
    official address if necessary, checksum verified; `progress` is then called with the bytes received and the total.
    `limit`: read only this many examples, the first ones, or with `spread` evenly spaced ones. `text_column` and
    `label_column`: the names of these columns in a file of texts.
    """
    if limit is not None and limit < 1:
        raise OptionError(f"limit must be at least 1, not {limit}")
    columns = Columns(text_column or TEXT, label_column or LABEL)

    def stream() -> Iterator[Example]:
        return _examples(name_or_path, split, folder, progress, columns)

    if spread and limit is not None:
        selected = set(spread_positions(sum(1 for _ in stream()), limit))  # two passes keep only what is selected
        examples = [example for number, example in enumerate(stream()) if number in selected]
    else:
        examples = list(islice(stream(), limit))
    if not examples:
        raise DataError(f"{name_or_path} holds no examples")
    return examples


def spread_positions(count: int, limit: int | None) -> list[int]:
    """At most `limit` of the numbers below `count`: the middles of `limit` equal intervals."""
    if limit is None or limit >= count:
        return list(range(count))
    if limit < 1:
        raise OptionError(f"limit must be at least 1, not {limit}")
    return [(2 * interval + 1) * count // (2 * limit) for interval in range(limit)]


def _examples(
    name_or_path: str | os.PathLike[str],
    split: str | None,
    folder: str | os.PathLike[str] | None,
    progress: Progress | None,
    columns: Columns,
) -> Iterator[Example]:
    dataset = DATASETS.get(name_or_path) if isinstance(name_or_path, str) else None
    if dataset is not None:
        _check_columns_allowed(columns, dataset.name)
        split_name = _split_name(dataset, split)
        yield from dataset.reader(_root(dataset, split_name, folder, progress), split_name)
        return
    path = Path(name_or_path).expanduser()
    if not path.exists():
        names = ", ".join(DATASETS)
        raise DataError(f"there is no data set and no file {str(name_or_path)!r}; data sets by name are: {names}")
    if folder is not None:
        raise OptionError(f"{path} is a path of its own; folder goes with the name of a data set")
    yield from _user_data(path, split, columns)


def _check_columns_allowed(columns: Columns, data: str) -> None:
    if columns != Columns():
        raise OptionError(f"{data} is no file of texts (CSV, TSV, JSON lines), so it takes no names of columns")


def _user_data(path: Path, split: str | None, columns: Columns) -> Iterator[Example]:
    """The examples of a user's own file, folder or archive."""
    if path.is_file() and is_text_file(path):
        if split is not None:
            raise OptionError(f"{path} is one file without splits; leave the split {split!r} out")
        return read_texts(path, columns)
    _check_columns_allowed(columns, str(path))
    root = unpacked(path)
    if root.is_dir() and has_images(root):
        return read_images(root, None if split is None else _canonical(split))
    reason = "it is neither a file of texts (" + ", ".join(SUFFIXES) + ") nor a folder or an archive of images"
    raise DataError(f"cannot tell what {path} holds: {reason}; for a known data set give its name, and this as folder")


def _split_name(dataset: Dataset, requested: str | None) -> str:
    if requested is None:
        return dataset.default
    names = {_canonical(split): split for split in dataset.splits}
    if _canonical(requested) not in names:
        raise OptionError(f"{dataset.name} has no split {requested!r}; its splits are: {', '.join(dataset.splits)}")
    return names[_canonical(requested)]


def _canonical(split: str) -> str:
    return next((names[0] for names in SPLIT_ALIASES if split in names), split)


def _root(dataset: Dataset, split: str, folder: str | os.PathLike[str] | None, progress: Progress | None) -> Path:
    """The folder with the unpacked files of a data set."""
    if folder is not None:
        return _data_folder(dataset, Path(folder).expanduser())
    home = cache_folder() / dataset.name
    if not dataset.sources:
        if home.is_dir():
            return _data_folder(dataset, home)
        page = f" (see {dataset.home})" if dataset.home else ""
        raise DataError(
            f"{dataset.name} is not on this machine, and there is no address to download it from{page}; give the "
            f"folder it lies in, or put {' or '.join(dataset.files[:2])} into {home}"
        )
    sources = dataset.sources_for(split)
    try:
        for source in sources:
            unpacked(fetch(source, home, progress), into=home)
    except DataError as error:
        raise DataError(
            f"{dataset.name} is not on this machine and could not be downloaded: {error}. Give the folder it lies in, "
            f"or get {', '.join(source.address for source in sources)} elsewhere and put it into {home}"
        ) from None
    return home


def _data_folder(dataset: Dataset, path: Path) -> Path:
    """The data folder behind a path: an archive, the folder itself, or a folder that contains either."""
    if not path.exists():
        raise DataError(f"there is no folder or archive {path}")
    if path.is_file():
        return unpacked(path) if is_archive(path) else path.parent
    for file in dataset.files:
        if (path / file).exists():
            return path if not is_archive(path / file) and (path / file).is_file() else unpacked(path / file)
    return path
