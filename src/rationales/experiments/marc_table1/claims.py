"""What the paper says about its table (section 4.3), asked of any table: does it hold, and by which figures?

A claim is judged by means; where two rows decide, the p value of their paired comparison (sign flips, Holm) is told.
The same judgement passes over the paper's own figures, over rivals as the paper had them, and over smoothed rivals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from rationales.evaluation.metrics import METRICS
from rationales.evaluation.tables.table import Table, short
from rationales.experiments.marc_table1.rows import (
    ABLATIONS,
    DEFAULT,
    MARC,
    PUBLISHED_COLUMNS,
    RANDOM,
    RIVALS,
    ROWS,
    SHAPLEY,
    SMOOTHED,
    key_of,
)

NEAR = 0.05  # a sufficiency up to this is close to the best possible one, 0
MARGIN = 1.2  # a large margin: a fifth more than the best rival; the paper's own is 1.30
ALMOST = 0.9  # almost uniformly: nine of ten comparisons; the paper's own are 19 of 20
AGREEMENT = ("token-f1", "average-precision", "iou-f1")
NAMES = {
    "token-f1": "token F1",
    "average-precision": "mAP",
    "iou-f1": "IoU F1",
    "sufficiency": "sufficiency",
    "comprehensiveness": "comprehensiveness",
}


@dataclass(frozen=True)
class Verdict:
    """Whether a claim holds under one reading of the table; None: rows are missing."""

    reading: str
    holds: bool | None
    figures: str

    @property
    def word(self) -> str:
        """The verdict."""
        return "not judged" if self.holds is None else "holds" if self.holds else "does not hold"


@dataclass(frozen=True)
class Claim:
    """One claim and its verdicts."""

    text: str
    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True)
class Reading:
    """The figures that a claim is judged by: one set of rows, which of them is MaRC, which are the rivals."""

    name: str
    means: Mapping[str, Mapping[str, float]]  # row -> metric -> mean
    own: str = MARC
    rivals: Sequence[str] = RIVALS
    p: Callable[[str, str], float] = lambda _row, _metric: math.nan  # of a row's difference to MaRC

    def missing(self, rows: Sequence[str]) -> list[str]:
        """Rows that are not there."""
        return [key for key in rows if key not in self.means]

    def better(self, row: str, other: str, metric: str) -> bool:
        """Whether the row's mean is better."""
        one, two = self.means[row][metric], self.means[other][metric]
        return one > two if METRICS[metric].higher else one < two

    def best(self, metric: str) -> str:
        """The best rival."""
        pick = max if METRICS[metric].higher else min
        return pick(self.rivals, key=lambda key: self.means[key][metric])

    def figure(self, row: str, metric: str) -> str:
        """'Occlusion .432'."""
        return f"{ROWS[row].title} {short(self.means[row][metric])}"

    def chance(self, row: str, metric: str) -> str:
        """', p = .012', where it is known."""
        p = self.p(row, metric)
        return "" if math.isnan(p) else ", p < .001" if p < 0.001 else f", p = {short(p)}"


Judge = Callable[[Reading], tuple[bool, str]]


def claims(table: Table) -> list[Claim]:
    """All claims, under every reading that this table allows."""
    readings = _readings(table)
    found = [Claim(text, tuple(_verdict(one, judge, of_rivals=True) for one in readings)) for text, judge in _ON_RIVALS]
    own = [one for one in readings if one.own == MARC and one.rivals is RIVALS]
    found += [Claim(text, tuple(_verdict(one, judge, of_rivals=False) for one in own)) for text, judge in _ON_PARTS]
    control = [one for one in readings if RANDOM in one.means and one.rivals is RIVALS]
    return [*found, Claim(_CONTROL, tuple(_against_chance(one) for one in control))]


def _readings(table: Table) -> list[Reading]:
    keys = {key: row for row in table.rows if (key := key_of(row.title)) is not None}
    means = {
        key: {name: cell.estimate.mean for name, cell in row.cells.items() if name in NAMES}
        for key, row in keys.items()
    }
    published = {key: one.figures() for key, one in ROWS.items() if one.published}
    smoothed = tuple(key + SMOOTHED for key in RIVALS)
    found = [Reading("the paper's own figures", published)]
    for own, said in ((MARC, "here"), (DEFAULT, "here, default settings")):
        if own not in keys:
            found += [Reading(said, means, own)] if own == MARC else []
            continue
        against = replace(table, metrics=tuple(NAMES)).against(keys[own].title)

        def p(row: str, metric: str, by: Mapping[str, Mapping[str, object]] = against) -> float:
            one = by.get(metric, {}).get(keys[row].title)
            return float(getattr(one, "adjusted", math.nan))

        found.append(Reading(said, means, own, RIVALS, p))
        found.append(Reading(f"{said}, rivals smoothed", means, own, smoothed, p))
    return found


def _verdict(reading: Reading, judge: Judge, *, of_rivals: bool) -> Verdict:
    needed = [reading.own, *(reading.rivals if of_rivals else ABLATIONS)]
    if missing := reading.missing(needed):
        shown = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
        return Verdict(reading.name, None, f"no row {shown}")
    holds, figures = judge(reading)
    return Verdict(reading.name, holds, figures)


def _best_agreement(metric: str) -> Judge:
    def judge(reading: Reading) -> tuple[bool, str]:
        rival = reading.best(metric)
        figures = f"{reading.figure(reading.own, metric)}, best rival {reading.figure(rival, metric)}"
        return reading.better(reading.own, rival, metric), figures + reading.chance(rival, metric)

    return judge


def _margin(reading: Reading) -> tuple[bool, str]:
    rival = reading.best("iou-f1")
    one, two = reading.means[reading.own]["iou-f1"], reading.means[rival]["iou-f1"]
    ratio = one / two if two > 0 else math.inf
    figures = f"{ratio:.2f} times the IoU F1 of {ROWS[rival].title}" + reading.chance(rival, "iou-f1")
    return ratio >= MARGIN, figures


def _only_shapley(reading: Reading) -> tuple[bool, str]:
    measures = ("sufficiency", "comprehensiveness")
    both = [key for key in reading.rivals if all(reading.better(key, reading.own, name) for name in measures)]
    numbers = " and ".join(f"{name} {short(reading.means[reading.own][name])}" for name in measures)
    told = [f"{ROWS[key].title} ({' and '.join(short(reading.means[key][name]) for name in measures)})" for key in both]
    own = ROWS[reading.own].title
    return [ROWS[key].plain for key in both] == [
        SHAPLEY
    ], f"{own} {numbers}; better in both: {', '.join(told) or 'none'}"


def _near_zero(reading: Reading) -> tuple[bool, str]:
    near = [key for key in (reading.own, *reading.rivals) if reading.means[key]["sufficiency"] <= NEAR]
    told = ", ".join(reading.figure(key, "sufficiency") for key in near)
    return reading.own in near and len(near) >= 3, f"up to {short(NEAR)}: {told or 'none'}"


def _full_objective(reading: Reading) -> tuple[bool, str]:
    lost = {
        key: [name for name in PUBLISHED_COLUMNS if not reading.better(reading.own, key, name)] for key in ABLATIONS
    }
    told = [
        f"; not than {ROWS[key].title} in {', '.join(NAMES[name] for name in names)}"
        for key, names in lost.items()
        if names
    ]
    total = len(ABLATIONS) * len(PUBLISHED_COLUMNS)
    won = total - sum(map(len, lost.values()))
    return won >= ALMOST * total, f"better in {won} of {total} comparisons{''.join(told)}"


def _essential(ablation: str) -> Judge:
    def judge(reading: Reading) -> tuple[bool, str]:
        won = [name for name in PUBLISHED_COLUMNS if reading.better(reading.own, ablation, name)]
        sure = [name for name in won if reading.p(ablation, name) < 0.05]
        figures = f"with it better in {len(won)} of {len(PUBLISHED_COLUMNS)} columns"
        known = not math.isnan(reading.p(ablation, PUBLISHED_COLUMNS[0]))
        figures += f", significantly in {len(sure)}" if known else ""
        return len(won) > len(PUBLISHED_COLUMNS) / 2, f"{figures} ({', '.join(NAMES[name] for name in won) or 'none'})"

    return judge


def _against_chance(reading: Reading) -> Verdict:
    if reading.missing([reading.own]):
        return Verdict(reading.name, None, f"no row {reading.own}")
    won = [name for name in AGREEMENT if reading.better(reading.own, RANDOM, name)]
    figures = "; ".join(
        f"{NAMES[name]} {short(reading.means[reading.own][name])}, random {short(reading.means[RANDOM][name])}"
        f"{reading.chance(RANDOM, name)}"
        for name in AGREEMENT
    )
    return Verdict(reading.name, len(won) == len(AGREEMENT), figures)


_ON_RIVALS: tuple[tuple[str, Judge], ...] = (
    *((f"MaRC has the best {NAMES[name]} of all methods", _best_agreement(name)) for name in AGREEMENT),
    (f"MaRC leads in IoU F1 by a large margin (here: {MARGIN:g} times the best rival)", _margin),
    ("Only Shapley sampling is better in both sufficiency and comprehensiveness", _only_shapley),
    (f"Several methods, MaRC among them, reach a sufficiency close to 0 (here: three, up to {NEAR:g})", _near_zero),
)
_ON_PARTS: tuple[tuple[str, Judge], ...] = (
    (
        f"The full objective is almost uniformly the best variant (here: {100 * ALMOST:g} % of comparisons)",
        _full_objective,
    ),
    *(
        (f"Essential: {what} (here: most columns are worse without)", _essential(key))
        for key, what in zip(
            ABLATIONS, ("the noise", "Ω_λ, sparsity", "Ω_σ, width", "L(x̃ᶜ, c), the complement"), strict=True
        )
    ),
)
_CONTROL = "Not in the paper: MaRC agrees better with people than random scores do"
