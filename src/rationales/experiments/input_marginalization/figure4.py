"""Figure 4: accuracy after retraining over the share of removed words, a panel for each way of removal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rationales.evaluation.tables.table import Table
from rationales.experiments.ground_truth.reporting.plots import BLUE, GREEN, GREY, ORANGE, RED, grid

COLOURS = (BLUE, ORANGE, GREEN, RED, GREY, "#6b46c1")


def draw_figure4(titled: Sequence[tuple[str, Table]], folder: Path) -> list[Path]:
    """Write figure4.png; lines are means over seeds, bars their 95 % intervals."""
    tables = dict(titled)
    lowest = min(cell.estimate.mean for table in tables.values() for row in table.rows for cell in row.cells.values())

    def draw(axes: Any, _row: str, column: str) -> None:
        table = tables[column]
        shares = [float(metric.partition("@")[2].rstrip("%")) for metric in table.metrics]
        for number, row in enumerate(table.rows):
            estimates = [row.cells[metric].estimate for metric in table.metrics]
            spread = [[e.mean - e.low for e in estimates], [e.high - e.mean for e in estimates]]
            colour = COLOURS[number % len(COLOURS)]
            axes.errorbar(shares, [e.mean for e in estimates], yerr=spread, color=colour, label=row.title, linewidth=1)
        axes.legend(fontsize=5, frameon=False)

    path = grid(
        folder / "figure4.png",
        {"": ""},
        list(tables),
        draw,
        x="words removed, %",
        y="accuracy after retraining",
        xlim=(0, 32),
        ylim=(max(0.0, lowest - 0.05), 1.0),
        panel=(2.6, 2.6),
    )
    return [path]
