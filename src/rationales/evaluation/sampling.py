"""Fewer examples than there are, chosen so that everybody chooses the same ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from rationales.data.reading import spread_positions

T = TypeVar("T")


def evenly(items: Sequence[T], limit: int | None) -> list[T]:
    """At most `limit` items, evenly spread over the list: data sets come sorted by class, and all classes should be in.

    Of n items the middles of `limit` equal parts are taken; there is no randomness in it.
    """
    return [items[position] for position in spread_positions(len(items), limit)]
