"""The claims of section 5 of the paper, checked on the published figures and on the table of each model."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from rationales.evaluation.tables.statistics import Comparison, compare
from rationales.evaluation.tables.table import Cell, Table, short
from rationales.experiments.claims import ClaimVerdict, PaperClaim
from rationales.experiments.marc_table2.row_specs import (
    CONVOLUTIONAL,
    DEFAULT,
    GAUSSIAN,
    MARC,
    PAPER_ROWS,
    RANDOM,
    ROWS,
    TRANSFORMER,
    key_of,
)

HIGHER = {"sufficiency": False, "comprehensiveness": True}
COMPETITIVE = 0.02  # distance from the best comprehensiveness that still counts as competitive
INSIDE_METHODS = ("grad-cam", "exc-bp", "attention", "attribution", "rollout", "tam")  # made for an architecture
EXCEPTIONS = ("guided-bp", "integrated-gradients")  # the two others that the paper names


@dataclass(frozen=True)
class Reading:
    """The means that claims are judged by, on one model or in the paper."""

    name: str
    means: Mapping[str, Mapping[str, float]]  # row -> metric -> mean
    marc: str = MARC
    cells: Mapping[str, Mapping[str, Cell]] = field(default_factory=dict)

    @property
    def rivals(self) -> list[str]:
        """Rows of the paper's table beside MaRC that were measured here."""
        return [key for key in PAPER_ROWS if key in self.means and key != MARC]

    def advantage(self, row: str, rival: str, metric: str) -> float:
        """By how much `row` is better than `rival`: means over the pictures that both were measured on."""
        comparison = self._compare(row, rival, metric)
        means = self.means[row][metric] - self.means[rival][metric]
        difference = means if comparison is None else comparison.difference
        return difference if HIGHER[metric] else -difference

    def better(self, row: str, rival: str, metric: str) -> bool:
        """Whether the mean of `row` is better than that of `rival`."""
        return self.advantage(row, rival, metric) > 0

    def best_rival(self, metric: str) -> str:
        """The rival with the greatest advantage over MaRC, or the smallest disadvantage."""
        return max(self.rivals, key=lambda key: self.advantage(key, self.marc, metric))

    def p(self, row: str, rival: str, metric: str) -> float:
        """p value of the difference of two rows: paired sign flips; NaN where there are no values of inputs."""
        comparison = self._compare(row, rival, metric)
        return math.nan if comparison is None else comparison.p

    def _compare(self, row: str, rival: str, metric: str) -> Comparison | None:
        if row not in self.cells or rival not in self.cells:
            return None
        values, rival_values = (np.array(self.cells[key][metric].values) for key in (row, rival))
        return compare(values, rival_values)

    def largest_p(self, row: str, rivals: Sequence[str], metric: str) -> float:
        """p value of a claim that needs the difference to each of these rows."""
        p_values = [self.p(row, rival, metric) for rival in rivals]
        return math.nan if not p_values or any(map(math.isnan, p_values)) else max(p_values)

    def figure(self, row: str, metric: str) -> str:
        """'Grad-CAM .197'; 'RISE .213 (n = 50; .180 for MaRC)' where a row has fewer pictures than MaRC."""
        text = f"{ROWS[row].title} {short(self.means[row][metric])}"
        if row not in self.cells or self.marc not in self.cells:
            return text
        values, marc_values = (np.array(self.cells[key][metric].values) for key in (row, self.marc))
        shared = ~(np.isnan(values) | np.isnan(marc_values))
        if shared.sum() == (~np.isnan(marc_values)).sum():
            return text
        marc_mean = short(float(marc_values[shared].mean())) if shared.any() else "no value"
        return f"{text} (n = {int(shared.sum())}; {marc_mean} for MaRC)"


Judge = Callable[[Reading], tuple[bool, str, float]]  # whether it holds, figures, p value


def claims(tables: Mapping[str, Table]) -> list[PaperClaim]:
    """All claims, with a verdict for the paper's figures and for each model (name -> table)."""
    readings = [
        *(_published(family, name) for family, name in ((CONVOLUTIONAL, "ResNet-101"), (TRANSFORMER, "ViT-B/16"))),
        *(reading for name, table in tables.items() for reading in _readings(name, table)),
    ]
    with_controls = [reading for reading in readings if {RANDOM, GAUSSIAN} <= reading.means.keys()]
    return [
        *(PaperClaim("5", text, tuple(_verdict(reading, judge) for reading in readings)) for text, judge in _CLAIMS),
        *(
            PaperClaim("", text, tuple(_verdict(reading, judge) for reading in with_controls))
            for text, judge in _CONTROL_CLAIMS
        ),
    ]


def _published(family: str, name: str) -> Reading:
    means = {
        key: dict(zip(HIGHER, spec.published[family], strict=True))
        for key, spec in ROWS.items()
        if family in spec.published
    }
    return Reading(f"the paper's own figures, {name}", means)


def _readings(name: str, table: Table) -> list[Reading]:
    """One reading for the paper's settings of MaRC, one for its default settings, as far as they were measured."""
    rows = {key: row for row in table.rows if (key := key_of(row.title)) is not None}
    measured = {key: row for key, row in rows.items() if all(_has_values(row.cells.get(metric)) for metric in HIGHER)}
    means = {key: {m: row.cells[m].estimate.mean for m in HIGHER} for key, row in measured.items()}
    cells = {key: row.cells for key, row in measured.items()}
    titles = {MARC: name, DEFAULT: f"{name}, MaRC's default settings"}
    return [Reading(title, means, marc, cells) for marc, title in titles.items() if marc in means]


def _has_values(cell: Cell | None) -> bool:
    return cell is not None and cell.estimate.n > 0


def _verdict(reading: Reading, judge: Judge) -> ClaimVerdict:
    if reading.marc not in reading.means or not reading.rivals:
        return ClaimVerdict(None, "rows are missing", reading.name)
    holds, figures, p = judge(reading)
    return ClaimVerdict(holds, figures, reading.name, p)


def _best_sufficiency(reading: Reading) -> tuple[bool, str, float]:
    best = reading.best_rival("sufficiency")
    holds = reading.better(reading.marc, best, "sufficiency")
    figures = f"{reading.figure(reading.marc, 'sufficiency')}, best rival {reading.figure(best, 'sufficiency')}"
    return holds, figures, reading.largest_p(reading.marc, reading.rivals, "sufficiency")


def _competitive_comprehensiveness(reading: Reading) -> tuple[bool, str, float]:
    metric = "comprehensiveness"
    plain = [key for key in reading.rivals if key not in (*INSIDE_METHODS, *EXCEPTIONS)]
    ahead = [key for key in plain if reading.better(key, reading.marc, metric)]
    behind = [key for key in plain if key not in ahead]
    figures = reading.figure(reading.marc, metric)
    if ahead:
        figures += f"; ahead of it: {', '.join(reading.figure(key, metric) for key in ahead)}"
    return not ahead, figures, reading.largest_p(reading.marc, behind, metric) if plain else math.nan


def _near_the_best(reading: Reading) -> tuple[bool, str, float]:
    metric = "comprehensiveness"
    best = reading.best_rival(metric)
    distance = reading.advantage(best, reading.marc, metric)
    figures = f"{reading.figure(reading.marc, metric)}, best {reading.figure(best, metric)}, {short(distance)} apart"
    if reading.marc not in reading.cells or best not in reading.cells:
        return distance <= COMPETITIVE, figures, math.nan
    shifted = np.array(reading.cells[best][metric].values) - COMPETITIVE
    return distance <= COMPETITIVE, figures, compare(np.array(reading.cells[reading.marc][metric].values), shifted).p


def _exceptions_ahead(reading: Reading) -> tuple[bool, str, float]:
    metric = "comprehensiveness"
    measured = [key for key in EXCEPTIONS if key in reading.means]
    if not measured:
        return False, "neither was measured", math.nan
    figures = ", ".join(reading.figure(key, metric) for key in [*measured, reading.marc])
    holds = all(reading.better(key, reading.marc, metric) for key in measured)
    p_values = [reading.p(key, reading.marc, metric) for key in measured]
    return holds, figures, math.nan if any(map(math.isnan, p_values)) else max(p_values)


def _better_than(control: str) -> Judge:
    def judge(reading: Reading) -> tuple[bool, str, float]:
        holds = all(reading.better(reading.marc, control, metric) for metric in HIGHER)
        figures = "; ".join(
            f"{metric}: {short(reading.means[reading.marc][metric])} and {short(reading.means[control][metric])}"
            for metric in HIGHER
        )
        p_values = [reading.p(reading.marc, control, metric) for metric in HIGHER]
        return holds, figures, math.nan if any(map(math.isnan, p_values)) else max(p_values)

    return judge


_BEHIND_FEW = (
    "In comprehensiveness MaRC is behind guided backpropagation, integrated gradients and architecture-specific "
    "methods alone."
)
_CLAIMS: tuple[tuple[str, Judge], ...] = (
    ("MaRC is the best with respect to sufficiency.", _best_sufficiency),
    (
        _BEHIND_FEW,
        _competitive_comprehensiveness,
    ),
    (
        "Guided backpropagation and integrated gradients are ahead of MaRC in comprehensiveness.",
        _exceptions_ahead,
    ),
    (
        f"MaRC's comprehensiveness is competitive: within {COMPETITIVE:g} of the best.",
        _near_the_best,
    ),
)
_CONTROL_CLAIMS: tuple[tuple[str, Judge], ...] = (
    ("MaRC is better than random scores by both metrics.", _better_than(RANDOM)),
    ("MaRC is better than a Gaussian around the centre by both metrics.", _better_than(GAUSSIAN)),
)
