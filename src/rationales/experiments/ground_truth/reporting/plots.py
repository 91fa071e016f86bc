"""Figures: grids of small panels. Needs matplotlib, which is asked for only here."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rationales.errors import OptionError
from rationales.files import write_bytes

BLUE, ORANGE, GREEN, RED, GREY = "#2b6cb0", "#dd6b20", "#2f855a", "#c53030", "#4a5568"
PANEL = (1.75, 1.6)  # inches
LETTERS = 16  # of a caption, in an inch
APART = 0.035  # of a panel's height: names closer than this would be printed over each other

Draw = Callable[[Any, str, str], None]  # axes, row, column


def grid(
    path: Path,
    rows: Sequence[tuple[str, str]],
    columns: Sequence[tuple[str, str]],
    draw: Draw,
    *,
    x: str,
    y: str,
    xlim: tuple[float, float] = (0, 1),
    ylim: tuple[float, float] = (0, 1.03),
    caption: str = "",
    panel: tuple[float, float] = PANEL,
) -> Path:
    """One panel for each row and column (key and title); `draw` fills it. Nothing global of matplotlib is touched."""
    width = 1.1 + panel[0] * len(columns)
    figure = _figure((width, 0.9 + panel[1] * len(rows)))
    panels = figure.subplots(len(rows), len(columns), sharex=True, sharey=True, squeeze=False)
    for place, (row, title) in enumerate(rows):
        for number, (column, head) in enumerate(columns):
            own = panels[place][number]
            draw(own, row, column)
            own.set_xlim(*xlim)
            own.set_ylim(*ylim)
            own.tick_params(labelsize=7, length=2)
            own.grid(color="#e2e8f0", linewidth=0.6)
            own.set_axisbelow(True)
            for side in ("top", "right"):
                own.spines[side].set_visible(False)
            if not place:
                own.set_title(head, fontsize=9)
            if not number:
                own.set_ylabel(title, fontsize=8)
    figure.supxlabel("\n".join([x, *textwrap.wrap(caption, int(LETTERS * width))]), fontsize=8, color=GREY)
    figure.supylabel(y, fontsize=8, color=GREY)
    return _saved(figure, path)


def name_ends(axes: Any, ends: Sequence[tuple[str, tuple[float, float]]], height: float = 1.03) -> None:
    """Write the names of lines beside their last points, in the points' order and never over each other."""
    below = -height
    for name, (across, up) in sorted(ends, key=lambda one: one[1][1]):
        below = max(up, below + APART * height)
        axes.annotate(
            name, (across, below), fontsize=5, color=GREY, xytext=(4, 0), textcoords="offset points", va="center"
        )


def bars(
    path: Path, rows: Sequence[tuple[str, str]], columns: Sequence[tuple[str, str]], draw: Draw, *, x: str
) -> Path:
    """One panel for each column with a bar for each row; `draw(axes, row, column)` draws one bar at its own place."""
    figure = _figure((1.6 + 2.4 * len(columns), 0.9 + 0.3 * len(rows)))
    panels = figure.subplots(1, len(columns), sharey=True, squeeze=False)[0]
    for panel, (column, head) in zip(panels, columns, strict=True):
        for row, _ in rows:
            draw(panel, row, column)
        panel.set_title(head, fontsize=9)
        panel.set_xlim(0, 1)
        panel.tick_params(labelsize=8, length=0)
        for side in ("top", "right", "left"):
            panel.spines[side].set_visible(False)
    panels[0].set_yticks(range(len(rows)), [title for _, title in rows])
    panels[0].set_ylim(len(rows) - 0.4, -0.6)
    figure.supxlabel(x, fontsize=8, color=GREY)
    return _saved(figure, path)


def _figure(size: tuple[float, float]) -> Any:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise OptionError("a plot needs matplotlib, which is not installed: pip install matplotlib") from None
    made: Any = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(made)
    return made


def _saved(figure: Any, path: Path) -> Path:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=130)
    return write_bytes(path, buffer.getvalue())
