"""Answers of a study as JSON lines, one for each trial of a person: read, checked, and written one by one."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rationales.data.row_files import json_lines
from rationales.errors import DataError
from rationales.study.trials import ANSWERS

MAX_SECONDS = 24 * 3600.0
MAX_NAME = 100  # characters of a person's code


@dataclass(frozen=True)
class Answer:
    """What one person answered in one trial."""

    study: str
    person: str
    trial: str
    choice: str = ""  # of a comparison: A, B or same
    marked: tuple[int, ...] = ()  # of a marking: the numbers of the units
    seconds: float = math.nan  # that the trial was visible
    position: int = 0  # of the trial in the person's order, from 1

    def to_line(self, task: str) -> str:
        """The answer as a line of JSON."""
        value = {"choice": self.choice} if task == "compare" else {"marked": list(self.marked)}
        fields = {"study": self.study, "person": self.person, "trial": self.trial, **value}
        return json.dumps({**fields, "seconds": self.seconds, "position": self.position}, ensure_ascii=False)


def parse_answer(data: Mapping[str, Any], key: Mapping[str, Any], location: str) -> Answer:
    """A checked answer; a DataError that begins with `location` for anything else."""
    trials = {trial["trial"]: trial for trial in key["trials"]}
    if data.get("study") != key["study"]:
        raise DataError(f"{location} is an answer to the study {data.get('study')!r}, and the key is of {key['study']}")
    identity = data.get("trial")
    if not isinstance(identity, str) or identity not in trials:
        raise DataError(f"{location}: the study has no trial {identity!r}")
    trial = trials[identity]
    person, seconds, position = data.get("person"), data.get("seconds"), data.get("position", 0)
    if not isinstance(person, str) or not person.strip() or len(person) > MAX_NAME:
        raise DataError(f"{location}: the person is a code of at most {MAX_NAME} characters")
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds <= MAX_SECONDS:
        raise DataError(f"{location}: seconds is a number from 0 to {MAX_SECONDS:g}")
    if type(position) is not int:
        raise DataError(f"{location}: position is a whole number")
    choice, marked = data.get("choice", ""), data.get("marked", [])
    if key["task"] == "compare" and choice not in ANSWERS:
        raise DataError(f"{location}: the choice is one of {', '.join(ANSWERS)}")
    if key["task"] == "mark":
        count = len(trial["units"])
        valid = isinstance(marked, list) and all(type(unit) is int and 0 <= unit < count for unit in marked)
        if not valid or len(set(marked)) != len(marked):
            raise DataError(f"{location}: marked lists numbers of words, each once, from 0 to {count - 1}")
        choice = ""
    units = tuple(sorted(marked)) if key["task"] == "mark" else ()
    return Answer(key["study"], person.strip(), trial["trial"], choice, units, float(seconds), position)


def read_answers(paths: Sequence[str | Path], key: Mapping[str, Any]) -> list[Answer]:
    """The answers in these files; of several answers of a person to one trial the last counts."""
    latest: dict[tuple[str, str], Answer] = {}
    for path in paths:
        for location, data in json_lines(Path(path)):
            answer = parse_answer(data, key, location)
            latest[answer.person, answer.trial] = answer
    if not latest:
        raise DataError(f"there are no answers in {', '.join(map(str, paths))}")
    return list(latest.values())
