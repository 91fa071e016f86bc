"""Where a span of words would cut a phrase: before a particle, after a negation, inside a hyphenated word.

There is no parser, only closed lists of English function words, and marks between letters without a space, in any
language. These are proposals; the model decides whether a span is moved (masks/snapping.py). In texts of other
languages few of the words occur, and little is proposed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rationales.rationale_parts import Unit


def _words(*lines: str) -> frozenset[str]:
    return frozenset(" ".join(lines).split())


JOINTS = frozenset("-‐‑/'’&_@")  # between letters, without a space: parts of one word
DETERMINERS = _words("a an the this these those my your his its our their every each some any no another such")
PREPOSITIONS = _words(
    "of in on at by for with from into onto to than as about without within between against during per through toward",
    "towards upon among",
)
CONJUNCTIONS = _words("and or but nor because although though while if when that which who whose where")
AUXILIARIES = _words(
    "is are was were be been being am has have had do does did will would can could should may might must shall"
)
NEGATIONS = _words("not never hardly barely scarcely cannot")
DEGREES = _words("very too so quite rather really extremely utterly almost nearly far")
PARTICLES = _words("apart together away back aside ahead forth enough")
PARTICLES_AT_AN_END = _words("up down out off over on in around along through by")  # elsewhere prepositions
PAIRS = frozenset(
    {("any", "more"), ("any", "longer"), ("no", "more"), ("no", "longer"), ("at", "all"), ("at", "least")}
    | {("at", "best"), ("of", "course"), ("a", "lot"), ("a", "bit"), ("kind", "of"), ("sort", "of"), ("lot", "of")}
    | {("bit", "of"), ("each", "other"), ("one", "another"), ("as", "well"), ("even", "though"), ("let", "alone")}
)
_OPENING = DETERMINERS | PREPOSITIONS | CONJUNCTIONS | AUXILIARIES | NEGATIONS | DEGREES


@dataclass(frozen=True, eq=False)
class Cuts:
    """For every unit of a text, whether a span that begins or ends there cuts a phrase."""

    begins: np.ndarray  # (n,) bool: a span that begins here leaves its phrase's beginning outside
    ends: np.ndarray  # (n,) bool: a span that ends here leaves its phrase's end outside
    joints: np.ndarray  # (n,) bool: a hyphen or another mark inside a word
    clause: np.ndarray  # (n,) which clause a unit stands in; punctuation between clauses is -1


def cuts(units: Sequence[Unit]) -> Cuts:
    """Where spans of these words (of both texts of a pair) would cut a phrase."""
    words = [unit.text.casefold().replace("’", "'") for unit in units]
    joints = np.array([_joint(units, index) for index in range(len(units))], dtype=bool)
    marks = np.array([not any(map(str.isalnum, word)) for word in words], dtype=bool) & ~joints
    begins, ends = np.zeros(len(units), dtype=bool), np.zeros(len(units), dtype=bool)
    new = [
        index > 0 and (bool(marks[index]) or unit.text_index != units[index - 1].text_index)
        for index, unit in enumerate(units)
    ]
    clause = np.where(marks, -1, np.cumsum(new))
    for index in range(1, len(units)):
        before, word = words[index - 1], words[index]
        if clause[index] < 0 or clause[index] != clause[index - 1]:
            continue
        following = words[index + 1] if index + 1 < len(units) and clause[index + 1] == clause[index] else None
        if joints[index] or joints[index - 1] or (before, word) in PAIRS or _is_particle(word, following):
            ends[index - 1] = begins[index] = True
        else:
            negated = before in NEGATIONS or before.endswith("n't")
            ends[index - 1] = negated or before in _OPENING
            begins[index] = negated or before in DEGREES
    return Cuts(begins, ends, joints, clause)


def _joint(units: Sequence[Unit], index: int) -> bool:
    """Whether a unit is a mark inside a word, without a space on either side."""
    if units[index].text not in JOINTS or not 0 < index < len(units) - 1:
        return False
    before, unit, after = units[index - 1 : index + 2]
    alike = before.text_index == unit.text_index == after.text_index
    return alike and before.end == unit.start and unit.end == after.start and before.text[-1].isalnum()


def _is_particle(word: str, following: str | None) -> bool:
    """Whether a word belongs to the verb or adjective before it; `following` is the next word of its clause."""
    if word in PARTICLES:
        return True
    return word in PARTICLES_AT_AN_END and (following is None or following in CONJUNCTIONS | PREPOSITIONS)
