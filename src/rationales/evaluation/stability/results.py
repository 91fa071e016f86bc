"""The result of a stability check: agreement of runs, each baseline alone, and the inputs with the least agreement."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rationales.errors import OptionError
from rationales.evaluation.stability.agreement import RunAgreement
from rationales.evaluation.tables.statistics import Estimate, estimate
from rationales.files import write_text
from rationales.rationale import Rationale
from rationales.rendering import render

if TYPE_CHECKING:
    import pandas as pd

ALL, SEED_ONLY, RATE_ONLY, BOTH = "all pairs", "seed only", "learning rate only", "seed and learning rate"


@dataclass(frozen=True)
class Run:
    """One run of a method over all inputs."""

    seed: int
    learning_rate: float | None  # None: the method has none

    @property
    def title(self) -> str:
        """'seed 0 · rate 0.08'."""
        return f"seed {self.seed}" + ("" if self.learning_rate is None else f" · rate {self.learning_rate:g}")


@dataclass(frozen=True, eq=False)
class RunValues:
    """What was measured of one run, (B,) each: probabilities are those of the target."""

    full: np.ndarray
    rationale: np.ndarray  # the selected units alone
    complement: np.ndarray  # everything else
    baseline: np.ndarray  # nothing of the input
    selected: np.ndarray  # share of the units in the rationale
    unconverged: np.ndarray  # bool: the mask was still moving at its last step


@dataclass(frozen=True, eq=False)
class BaselineResult:
    """The run in which one baseline is the only one, compared with the reference run."""

    name: str
    is_reference: bool  # the reference run uses this baseline and no other
    values: RunValues
    rank: np.ndarray  # (B,) rank correlation of the scores with the reference run
    iou: np.ndarray  # (B,) overlap of the rationales with the reference run
    evidence: Mapping[str, float]  # label -> mean probability if nothing of the input is left

    def summary(self, members: np.ndarray) -> dict[str, Estimate]:
        """Means with intervals over the inputs in `members` (B,) bool."""
        columns = {
            "full": self.values.full,
            "rationale": self.values.rationale,
            "complement": self.values.complement,
            "baseline": self.values.baseline,
            "rank": self.rank,
            "iou": self.iou,
        }
        return {name: estimate(column[members]) for name, column in columns.items()}

    @property
    def favoured(self) -> tuple[str, float]:
        """The label with the highest mean probability on this baseline, and that probability."""
        label = max(self.evidence, key=lambda name: self.evidence[name])
        return label, self.evidence[label]

    @property
    def carries_evidence(self) -> bool:
        """Whether the model is more than half-way from chance to certainty with nothing but this baseline."""
        return self.favoured[1] > evidence_limit(len(self.evidence))


def evidence_limit(classes: int) -> float:
    """Half-way between chance, 1 / classes, and certainty: 0.75 of two classes, 0.5 of very many."""
    chance = 1 / max(classes, 2)
    return chance + (1 - chance) / 2


@dataclass(frozen=True, eq=False)
class Disagreement:
    """An input with the two runs whose rationales overlap least."""

    number: int  # of the input
    name: str
    mean_iou: float  # over all pairs of runs
    iou: float  # of these two runs
    rank: float
    runs: tuple[str, str]
    rationales: tuple[Rationale, Rationale]


@dataclass(frozen=True, eq=False)
class MethodStability:
    """The stability of one method."""

    title: str
    method: str
    options: Mapping[str, Any]
    runs: tuple[Run, ...]
    reference: int  # number of the run that baselines are compared with
    values: tuple[RunValues, ...]  # of each run
    agreement: RunAgreement
    baselines: tuple[BaselineResult, ...]
    disagreements: tuple[Disagreement, ...]  # the least agreement first
    remarks: tuple[str, ...] = ()

    @cached_property
    def groups(self) -> dict[str, list[tuple[int, int]]]:
        """Pairs of runs by what differs between them; without groups that have no pair."""
        groups: dict[str, list[tuple[int, int]]] = {ALL: self.agreement.pairs, SEED_ONLY: [], RATE_ONLY: [], BOTH: []}
        for first, second in self.agreement.pairs:
            seed_differs = self.runs[first].seed != self.runs[second].seed
            rate_differs = self.runs[first].learning_rate != self.runs[second].learning_rate
            groups[BOTH if seed_differs and rate_differs else SEED_ONLY if seed_differs else RATE_ONLY].append(
                (first, second)
            )
        return {name: pairs for name, pairs in groups.items() if pairs}

    @cached_property
    def summary(self) -> dict[str, dict[str, Estimate]]:
        """Group of pairs -> rank, iou and chance, means over inputs with their intervals."""
        values = self.agreement
        columns = {"rank": values.rank, "iou": values.iou, "chance": values.chance}
        return {
            group: {name: estimate(values.per_input(column, pairs)) for name, column in columns.items()}
            for group, pairs in self.groups.items()
        }

    def mean_matrix(self, name: str) -> np.ndarray:
        """(R, R): mean over inputs of 'rank' or 'iou' for every two runs; NaN if it is defined for no input."""
        values = {"rank": self.agreement.rank, "iou": self.agreement.iou}[name]
        defined = ~np.isnan(values)
        count = defined.sum(-1)
        total = np.where(defined, values, 0.0).sum(-1)
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)


@dataclass(frozen=True, eq=False)
class StabilityResult:
    """How far explanations depend on the seed, the learning rate and the baseline."""

    model: str
    kind: str  # text or image
    device: str
    labels: tuple[str, ...]
    inputs: tuple[str, ...]  # names
    targets: tuple[str, ...]  # the explained labels: what the model predicts
    methods: tuple[MethodStability, ...]
    seconds: float
    versions: Mapping[str, str]

    def members(self, label: str | None) -> np.ndarray:
        """(B,) bool: the inputs for which this label is predicted; all for None."""
        return np.array([label is None or target == label for target in self.targets])

    @property
    def predicted_labels(self) -> list[str]:
        """The labels that occur as predictions, the most frequent first."""
        return sorted(set(self.targets), key=lambda label: (-self.targets.count(label), label))

    def interpretation(self) -> dict[str, list[str]]:
        """Title of the method -> sentences on what is stable and what is not."""
        from rationales.evaluation.stability.interpretation import interpret

        return {method.title: interpret(self, method) for method in self.methods}

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, without the inputs themselves."""
        from rationales.evaluation.stability.plain_data import to_dict

        return to_dict(self)

    def to_json(self, indent: int | None = None) -> str:
        """`to_dict` as a JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=indent, allow_nan=False)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write `to_json` to a file."""
        return write_text(path, self.to_json(indent=1) + "\n")

    def to_frame(self, table: str = "pairs") -> pd.DataFrame:
        """A pandas DataFrame: 'pairs' has a row for each method, pair of runs and input; 'baselines' for each method,
        baseline and input."""
        from rationales.data_frames import import_pandas
        from rationales.evaluation.stability.plain_data import baseline_rows, pair_rows

        tables = {"pairs": pair_rows, "baselines": baseline_rows}
        if table not in tables:
            raise OptionError(f"there is no table {table!r}; there are: {', '.join(tables)}")
        frame: pd.DataFrame = import_pandas().DataFrame(tables[table](self))
        return frame

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str | Path:
        """A self-contained page; with a `path` it is written there."""
        page = str(render("stability-html", self))
        return page if path is None else write_text(path, page)

    def __str__(self) -> str:
        return str(render("stability-text", self))
