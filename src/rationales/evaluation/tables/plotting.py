"""A plot of a table: one panel for each metric, one dot with its interval for each row. Needs matplotlib."""

from __future__ import annotations

import io
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rationales.errors import OptionError
from rationales.files import write_bytes

if TYPE_CHECKING:
    from rationales.evaluation.tables.table import Table

FORMATS = ("png", "svg", "pdf")
FIRST_ROW_COLOUR, OTHER_ROWS_COLOUR = "#1a6b54", "#4a5568"


def plot(table: Table, path: str | os.PathLike[str]) -> Path:
    """Draw the table into a file; nothing global of matplotlib is touched."""
    kind = Path(path).suffix.lower().lstrip(".")
    if kind not in FORMATS:
        raise OptionError(f"a plot is a file that ends in {', '.join(FORMATS)}, not {Path(path).name}")
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise OptionError("a plot needs matplotlib, which is not installed: pip install matplotlib") from None

    from rationales.evaluation.metrics import direction

    count, rows = len(table.metrics), len(table.rows)
    figure: Any = Figure(figsize=(2.2 + 2.3 * count, 1.3 + 0.32 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, count, sharey=True, squeeze=False)[0]
    positions = list(range(rows))
    for name, panel in zip(table.metrics, panels, strict=True):
        for position, row in zip(positions, table.rows, strict=True):
            estimate = row.cells[name].estimate if name in row.cells else None
            if estimate is None or math.isnan(estimate.mean):
                continue
            colour = FIRST_ROW_COLOUR if position == 0 else OTHER_ROWS_COLOUR
            if not math.isnan(estimate.low):
                ends = [estimate.low, estimate.high]
                panel.plot(ends, [position] * 2, color=colour, linewidth=1.6, solid_capstyle="butt")
            panel.plot([estimate.mean], [position], "o", color=colour, markersize=5)
        chance = [row.cells[name].estimate.mean for row in table.rows if row.method == "random" and name in row.cells]
        if chance and not math.isnan(chance[0]):
            panel.axvline(chance[0], color=OTHER_ROWS_COLOUR, linewidth=0.8, linestyle=":")  # the chance level
        panel.set_title(name + direction(name), fontsize=9)
        panel.grid(axis="x", color="#e2e8f0", linewidth=0.8)
        panel.set_axisbelow(True)
        panel.tick_params(labelsize=8, length=0)
        for side in ("top", "right", "left"):
            panel.spines[side].set_visible(False)
    panels[0].set_yticks(positions, [row.title if row.cells else f"{row.title}: n/a" for row in table.rows])
    panels[0].set_ylim(rows - 0.5, -0.5)
    protocol_text = "" if table.protocol is None else f", protocol {table.protocol.name}"
    caption = f"{table.model}, {len(table.inputs)} {table.unit}{protocol_text}; means with 95 % intervals"
    figure.supxlabel(caption, fontsize=8, color="#4a5568")
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=150)
    return write_bytes(path, buffer.getvalue())
