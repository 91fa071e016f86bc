"""Fewer examples than there are, chosen so that everybody chooses the same ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from rationales.errors import OptionError

T = TypeVar("T")


def evenly(items: Sequence[T], limit: int | None) -> list[T]:
    """At most `limit` items, evenly spread over the list: data sets come sorted by class, and all classes should be in.

    Of n items the middles of `limit` equal parts are taken; there is no randomness in it.
    """
    if limit is None:
        return list(items)
    if limit < 1:
        raise OptionError(f"limit must be at least 1, not {limit}")
    n = len(items)
    return list(items) if limit >= n else [items[(2 * part + 1) * n // (2 * limit)] for part in range(limit)]
