"""Divides the records of an input into shards: the same input always gives the same shards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rationales.corpus.reading.sources import CorpusInput
from rationales.corpus.records import BadRecord, Record, digest_of

SHARD_CHARACTERS = 8_000_000  # of all texts of a shard; then it ends, however few they are


@dataclass(frozen=True)
class Shard:
    """Records that are explained and stored together."""

    index: int
    records: tuple[Record, ...]
    bad_records: tuple[BadRecord, ...]
    skipped: int  # records before or between these that the selection leaves out
    first: int  # position of the first record, skipped ones included
    digest: str
    share: float  # of the input that is read with this shard

    @property
    def count(self) -> int:
        """Records, good, bad and skipped."""
        return len(self.records) + len(self.bad_records) + self.skipped


def shards(source: CorpusInput, shard_size: int) -> Iterator[Shard]:
    """All records of the input in shards of `shard_size`; records that are skipped at the end make a last one."""
    items: list[Record | BadRecord] = []
    index, first, skipped, characters, share = 0, 0, 0, 0, 0.0
    for item, share in source:  # the last share is used after the loop
        if item is None:
            skipped += 1
            continue
        items.append(item)
        characters += item.size if isinstance(item, Record) else 0
        if len(items) == shard_size or characters >= SHARD_CHARACTERS:
            shard = _shard(index, items, skipped, first, share)
            yield shard
            index, first = index + 1, first + shard.count
            items, skipped, characters = [], 0, 0
    if items or skipped:
        yield _shard(index, items, skipped, first, 1.0)


def _shard(index: int, items: list[Record | BadRecord], skipped: int, first: int, share: float) -> Shard:
    return Shard(
        index,
        tuple(item for item in items if isinstance(item, Record)),
        tuple(item for item in items if isinstance(item, BadRecord)),
        skipped,
        first,
        digest_of(items, skipped),
        share,
    )
