"""Where spans cut phrases, and windows of long inputs, one unit at a time (docs/marc.md, models/text/units.py)."""

from __future__ import annotations

from collections.abc import Sequence

from rationales.models.text import units as lists
from rationales.rationale import Unit


def cuts(units: Sequence[Unit]) -> dict[str, list[bool] | list[int]]:
    """`begins`, `ends`, `joints` and `clause` of each unit, by the rules of the phrase lists."""
    words = [unit.text.casefold().replace("’", "'") for unit in units]
    joints = [is_joint(units, index) for index in range(len(units))]
    marks = [not any(map(str.isalnum, word)) and not joints[index] for index, word in enumerate(words)]
    clause, number = [], 0
    for index, unit in enumerate(units):
        if index and (marks[index] or unit.text_index != units[index - 1].text_index):
            number += 1
        clause.append(-1 if marks[index] else number)
    begins, ends = [False] * len(units), [False] * len(units)
    for index in range(1, len(units)):
        before, word = words[index - 1], words[index]
        if clause[index] < 0 or clause[index] != clause[index - 1]:
            continue
        following = words[index + 1] if index + 1 < len(units) and clause[index + 1] == clause[index] else None
        if joints[index] or joints[index - 1] or (before, word) in lists.PAIRS or is_particle(word, following):
            ends[index - 1] = begins[index] = True
            continue
        negated = before in lists.NEGATIONS or before.endswith("n't")
        opening = lists.DETERMINERS | lists.PREPOSITIONS | lists.CONJUNCTIONS | lists.AUXILIARIES
        ends[index - 1] = negated or before in opening | lists.NEGATIONS | lists.DEGREES
        begins[index] = negated or before in lists.DEGREES
    return {"begins": begins, "ends": ends, "joints": joints, "clause": clause}


def is_joint(units: Sequence[Unit], index: int) -> bool:
    """Whether a unit is a mark inside a word, without a space on either side."""
    if units[index].text not in lists.JOINTS or not 0 < index < len(units) - 1:
        return False
    before, unit, after = units[index - 1 : index + 2]
    if not before.text_index == unit.text_index == after.text_index:
        return False
    return before.end == unit.start and unit.end == after.start and before.text[-1].isalnum()


def is_particle(word: str, following: str | None) -> bool:
    """Whether a word belongs to the verb or adjective before it; `following` is the next word of its clause."""
    if word in lists.PARTICLES:
        return True
    before_a_link = following is None or following in lists.CONJUNCTIONS or following in lists.PREPOSITIONS
    return word in lists.PARTICLES_AT_AN_END and before_a_link


def window_bounds(lengths: Sequence[int], capacity: int, overlap: int) -> list[tuple[int, int]]:
    """(first, last + 1) of each window: units are added, then shared, one after the other."""
    remaining = sum(lengths)
    if remaining <= capacity:
        return [(0, len(lengths))]
    overlap = min(overlap, capacity // 4)
    bounds: list[tuple[int, int]] = []
    first = 0
    while True:
        number = max(-(-(remaining - overlap) // (capacity - overlap)), 1)
        even = -(-(remaining + (number - 1) * overlap) // number)
        last, size = first, 0
        while last < len(lengths) and size < even and size + lengths[last] <= capacity:
            size += lengths[last]
            last += 1
        bounds.append((first, last))
        if last == len(lengths):
            return bounds
        first, shared = last, 0
        max_shared = min(overlap, capacity - lengths[last])
        while first - 1 > bounds[-1][0] and shared + lengths[first - 1] <= max_shared:
            first -= 1
            shared += lengths[first]
        remaining -= size - shared
