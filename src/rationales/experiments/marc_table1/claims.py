"""The claims of the paper about its table (section 4.3), checked on any table.

A claim is judged by means and tested by the paired comparisons that it rests on (sign flips, Holm over the rows).
Every claim is checked on the published figures, on rivals with the paper's settings, and on the same rivals smoothed,
and shaped by clauses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from rationales.evaluation.metrics import METRICS
from rationales.evaluation.tables.statistics import compare
from rationales.evaluation.tables.table import Cell, Table, short
from rationales.experiments.claims import ClaimVerdict, PaperClaim, p_at_least
from rationales.experiments.marc_table1 import row_specs
from rationales.experiments.marc_table1.row_specs import ABLATIONS, MARC, PUBLISHED_COLUMNS, RANDOM, RIVALS, ROWS

NEAR_ZERO = 0.05  # a sufficiency up to this is close to the best possible one, 0
LARGE_MARGIN = 1.2  # ratio to the best rival; 1.30 in the paper
ALMOST_UNIFORMLY = 0.9  # share of comparisons; 19 of 20 in the paper
AGREEMENT = ("token-f1", "average-precision", "iou-f1")
NAMES = {
    "token-f1": "token F1",
    "average-precision": "mAP",
    "iou-f1": "IoU F1",
    "sufficiency": "sufficiency",
    "comprehensiveness": "comprehensiveness",
}


@dataclass(frozen=True)
class RowComparison:
    """The means that claims are judged by: which row is MaRC, and which rows are its rivals."""

    name: str
    means: Mapping[str, Mapping[str, float]]  # row -> metric -> mean
    marc: str = MARC
    rivals: Sequence[str] = RIVALS
    reduced: Collection[str] = ()  # rows with fewer passes than the paper's settings
    p: Callable[[str, str], float] = lambda _row, _metric: math.nan  # value of a row's difference to MaRC
    cells: Mapping[str, Mapping[str, Cell]] = field(default_factory=dict)  # row -> metric -> values of inputs

    def better(self, row: str, rival: str, metric: str) -> bool:
        """Whether the mean of `row` is better than that of `rival`."""
        mean, rival_mean = self.means[row][metric], self.means[rival][metric]
        return mean > rival_mean if METRICS[metric].higher else mean < rival_mean

    def best(self, metric: str) -> str:
        """The best rival."""
        pick = max if METRICS[metric].higher else min
        return pick(self.rivals, key=lambda key: self.means[key][metric])

    def figure(self, row: str, metric: str) -> str:
        """'Occlusion .432'."""
        return f"{ROWS[row].title} {short(self.means[row][metric])}"

    def p_of_all(self, rows: Sequence[str], metrics: Sequence[str]) -> float:
        """p value of a claim that needs the difference to MaRC in each of these: the largest of their p values."""
        p_values = [self.p(row, metric) for row in rows for metric in metrics]
        return math.nan if any(map(math.isnan, p_values)) else max(p_values, default=math.nan)

    def p_beyond(self, row: str, metric: str, reference: str | float, factor: float = 1.0) -> float:
        """p value of a row's difference to `factor` times another row, or to a number; without a correction."""
        if row not in self.cells or (isinstance(reference, str) and reference not in self.cells):
            return math.nan
        cell = self.cells[row][metric]
        other_cell = self.cells[reference][metric] if isinstance(reference, str) else None
        reference_values = np.full(len(cell.values), reference) if other_cell is None else np.array(other_cell.values)
        weights = None
        if cell.weights is not None:
            reference_weights = cell.weights if other_cell is None else other_cell.weights
            weights = (np.array(cell.weights), np.array(reference_weights))
        return compare(np.array(cell.values), factor * reference_values, weights).p


Judge = Callable[[RowComparison], tuple[bool, str, float]]  # whether it holds, figures, p value


def claims(table: Table) -> list[PaperClaim]:
    """All claims, each with a verdict for every comparison that this table allows."""
    comparisons = _comparisons(table)
    with_ablations = [rows for rows in comparisons if rows.marc == MARC and rows.rivals is RIVALS]
    with_random = [rows for rows in comparisons if RANDOM in rows.means and rows.rivals is RIVALS]
    return [
        *(_judged(text, judge, comparisons, lambda rows: rows.rivals) for text, judge in _CLAIMS_ON_RIVALS),
        *(_judged(text, judge, with_ablations, lambda _: ABLATIONS) for text, judge in _CLAIMS_ON_ABLATIONS),
        _judged(_CONTROL_CLAIM, _better_than_random, with_random, lambda _: [RANDOM]),
    ]


def _judged(
    text: str,
    judge: Judge,
    comparisons: Sequence[RowComparison],
    needed: Callable[[RowComparison], Sequence[str]],  # the rows that decide, beside MaRC
) -> PaperClaim:
    return PaperClaim(None, text, tuple(_verdict(rows, judge, [rows.marc, *needed(rows)]) for rows in comparisons))


def _comparisons(table: Table) -> list[RowComparison]:
    keys = {key: row for row in table.rows if (key := row_specs.key_of(row.title)) is not None}
    means = {
        key: {name: cell.estimate.mean for name, cell in row.cells.items() if name in NAMES}
        for key, row in keys.items()
    }
    cells = {key: row.cells for key, row in keys.items()}
    reduced = {key for key, row in keys.items() if row_specs.is_reduced(row.title)}
    published = {key: spec.figures() for key, spec in ROWS.items() if spec.published}
    controls = {
        name: tuple(key + ending for key in RIVALS)
        for name, ending in (("smoothed", row_specs.SMOOTHED), ("shaped", row_specs.SHAPED))
    }
    comparisons = [RowComparison("the paper's own figures", published)]
    for marc, name in ((MARC, "here"), (row_specs.DEFAULT, "here, default settings")):
        if marc not in keys:
            comparisons += [RowComparison(name, means, marc)] if marc == MARC else []
            continue
        against = replace(table, metrics=tuple(NAMES)).against(keys[marc].title)

        def p(row: str, metric: str, by_metric: Mapping[str, Mapping[str, object]] = against) -> float:
            test = by_metric.get(metric, {}).get(keys[row].title)
            return float(getattr(test, "adjusted", math.nan))

        comparisons.append(RowComparison(name, means, marc, RIVALS, reduced, p, cells))
        comparisons += [
            RowComparison(f"{name}, rivals {control}", means, marc, rivals, reduced, p, cells)
            for control, rivals in controls.items()
        ]
    return comparisons


def _verdict(rows: RowComparison, judge: Judge, needed: Sequence[str]) -> ClaimVerdict:
    if missing := [key for key in needed if key not in rows.means]:
        return ClaimVerdict(None, f"no row {_first_names(missing)}", rows.name)
    if reduced := [key for key in needed if key in rows.reduced]:
        return ClaimVerdict(None, f"reduced settings: {_first_names(reduced)}", rows.name)
    holds, figures, p = judge(rows)
    return ClaimVerdict(holds, figures, rows.name, p)


def _first_names(keys: Sequence[str]) -> str:
    return ", ".join(keys[:3]) + (f" and {len(keys) - 3} more" if len(keys) > 3 else "")


def _best_agreement(metric: str) -> Judge:
    def judge(rows: RowComparison) -> tuple[bool, str, float]:
        rival = rows.best(metric)
        figures = f"{rows.figure(rows.marc, metric)}, best rival {rows.figure(rival, metric)}"
        return rows.better(rows.marc, rival, metric), figures, rows.p_of_all(rows.rivals, [metric])

    return judge


def _margin(rows: RowComparison) -> tuple[bool, str, float]:
    rival = rows.best("iou-f1")
    mean, rival_mean = rows.means[rows.marc]["iou-f1"], rows.means[rival]["iou-f1"]
    ratio = mean / rival_mean if rival_mean > 0 else math.inf
    p = max((rows.p_beyond(rows.marc, "iou-f1", key, LARGE_MARGIN) for key in rows.rivals), default=math.nan)
    return ratio >= LARGE_MARGIN, f"{ratio:.2f} times the IoU F1 of {ROWS[rival].title}", p


def _only_shapley(rows: RowComparison) -> tuple[bool, str, float]:
    measures = ("sufficiency", "comprehensiveness")
    both = [key for key in rows.rivals if all(rows.better(key, rows.marc, name) for name in measures)]
    numbers = " and ".join(f"{name} {short(rows.means[rows.marc][name])}" for name in measures)
    better = [f"{ROWS[key].title} ({' and '.join(short(rows.means[key][name]) for name in measures)})" for key in both]
    figures = f"{ROWS[rows.marc].title} {numbers}; better in both: {', '.join(better) or 'none'}"
    holds = [ROWS[key].plain_key for key in both] == [row_specs.SHAPLEY]
    return holds, figures, rows.p_of_all(both, measures)  # that no other is better cannot be tested


def _near_zero(rows: RowComparison) -> tuple[bool, str, float]:
    near = [key for key in (rows.marc, *rows.rivals) if rows.means[key]["sufficiency"] <= NEAR_ZERO]
    figures = ", ".join(rows.figure(key, "sufficiency") for key in near)
    p_values = {key: rows.p_beyond(key, "sufficiency", NEAR_ZERO) for key in near}
    p = p_at_least([p_values[key] for key in near if key != rows.marc], 2, len(rows.rivals))
    p = max(p, p_values.get(rows.marc, math.nan))  # MaRC itself, and two of its rivals
    return rows.marc in near and len(near) >= 3, f"up to {short(NEAR_ZERO)}: {figures or 'none'}", p


def _full_objective(rows: RowComparison) -> tuple[bool, str, float]:
    lost = {key: [name for name in PUBLISHED_COLUMNS if not rows.better(rows.marc, key, name)] for key in ABLATIONS}
    exceptions = [
        f"; not than {ROWS[key].title} in {', '.join(NAMES[name] for name in names)}"
        for key, names in lost.items()
        if names
    ]
    total = len(ABLATIONS) * len(PUBLISHED_COLUMNS)
    p_values = [rows.p(key, name) for key in ABLATIONS for name in PUBLISHED_COLUMNS if name not in lost[key]]
    won, needed = len(p_values), math.ceil(ALMOST_UNIFORMLY * total)
    figures = f"better in {won} of {total} comparisons{''.join(exceptions)}"
    return won >= needed, figures, p_at_least(p_values, needed, total)


def _essential(ablation: str) -> Judge:
    def judge(rows: RowComparison) -> tuple[bool, str, float]:
        won = [name for name in PUBLISHED_COLUMNS if rows.better(rows.marc, ablation, name)]
        sure = [name for name in won if rows.p(ablation, name) < 0.05]
        figures = f"with it better in {len(won)} of {len(PUBLISHED_COLUMNS)} columns"
        known = not math.isnan(rows.p(ablation, PUBLISHED_COLUMNS[0]))
        figures += f", significantly in {len(sure)}" if known else ""
        needed = len(PUBLISHED_COLUMNS) // 2 + 1
        p = p_at_least([rows.p(ablation, name) for name in won], needed, len(PUBLISHED_COLUMNS))
        return len(won) >= needed, f"{figures} ({', '.join(NAMES[name] for name in won) or 'none'})", p

    return judge


def _better_than_random(rows: RowComparison) -> tuple[bool, str, float]:
    won = [name for name in AGREEMENT if rows.better(rows.marc, RANDOM, name)]
    figures = "; ".join(
        f"{NAMES[name]} {short(rows.means[rows.marc][name])}, random {short(rows.means[RANDOM][name])}"
        for name in AGREEMENT
    )
    return len(won) == len(AGREEMENT), figures, rows.p_of_all([RANDOM], AGREEMENT)


_CLAIMS_ON_RIVALS: tuple[tuple[str, Judge], ...] = (
    *((f"MaRC has the best {NAMES[name]} of all methods", _best_agreement(name)) for name in AGREEMENT),
    (f"MaRC leads in IoU F1 by a large margin (here: {LARGE_MARGIN:g} times the best rival)", _margin),
    ("Only Shapley sampling is better in both sufficiency and comprehensiveness", _only_shapley),
    (
        f"Several methods, MaRC among them, reach a sufficiency close to 0 (here: three, up to {NEAR_ZERO:g})",
        _near_zero,
    ),
)
_CLAIMS_ON_ABLATIONS: tuple[tuple[str, Judge], ...] = (
    (
        f"The full objective is almost uniformly the best variant (here: {100 * ALMOST_UNIFORMLY:g} % of comparisons)",
        _full_objective,
    ),
    *(
        (f"Essential: {component} (here: most columns are worse without)", _essential(key))
        for key, component in zip(
            ABLATIONS, ("the noise", "Ω_λ, sparsity", "Ω_σ, width", "L(x̃ᶜ, c), the complement"), strict=True
        )
    ),
)
_CONTROL_CLAIM = "Not in the paper: MaRC agrees better with people than random scores do"
