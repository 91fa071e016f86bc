"""Slow, literal versions of words deleted from and written into a row of tokens: one row, lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def edited_tokens(
    ids: Sequence[int],
    types: Sequence[int],
    owner: Sequence[int],
    kept: Sequence[bool],
    replacements: Mapping[int, Sequence[int]],
    limit: int,
    padding: int,
) -> tuple[list[int], list[int]]:
    """Token ids and types of a row without the units that are not kept, with `replacements` in their place.

    owner: the unit of each token, -1 for special tokens. The last units are left out until the row fits the limit, a
    token of a kept unit or all tokens of a replaced one at a time.
    """
    pieces: list[tuple[list[int], int, bool]] = []  # tokens, their type, whether they are special
    replaced: set[int] = set()
    for token, kind, unit in zip(ids, types, owner, strict=True):
        if unit < 0 or kept[unit]:
            pieces.append(([token], kind, unit < 0))
        if unit >= 0 and unit in replacements and unit not in replaced:
            replaced.add(unit)
            pieces.append((list(replacements[unit]), kind, False))
    while sum(len(tokens) for tokens, _, _ in pieces) > limit:
        last = max(number for number, (_, _, special) in enumerate(pieces) if not special)
        del pieces[last]
    edited_ids = [token for tokens, _, _ in pieces for token in tokens]
    edited_types = [kind for tokens, kind, _ in pieces for _ in tokens]
    return (edited_ids, edited_types) if edited_ids else ([padding], [0])
