"""Figures of small panels. matplotlib is imported only when a figure is drawn."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rationales.errors import OptionError
from rationales.files import write_bytes

BLUE, ORANGE, GREEN, RED, GREY = "#2b6cb0", "#dd6b20", "#2f855a", "#c53030", "#4a5568"
PANEL = (1.75, 1.6)  # inches
CAPTION_LETTERS = 16  # letters of a caption per inch
ROW_TITLE_LETTERS = 14  # letters of a row's title per inch
LABEL_DISTANCE = 0.035  # smallest distance of two labels, as a share of the panel's height

DrawPanel = Callable[[Any, str, str], None]  # axes, row, column


def grid(
    path: Path,
    rows: Mapping[str, str],
    columns: Sequence[str],
    draw: DrawPanel,
    *,
    x: str,
    y: str,
    xlim: tuple[float, float] = (0, 1),
    ylim: tuple[float, float] = (0, 1.03),
    caption: str = "",
    panel: tuple[float, float] = PANEL,
) -> Path:
    """Write a grid with one panel per row (key -> title) and column, filled by `draw`; return the path.

    The global state of matplotlib is not changed.
    """
    width = 1.1 + panel[0] * len(columns)
    figure = _figure((width, 0.9 + panel[1] * len(rows)))
    panels = figure.subplots(len(rows), len(columns), sharex=True, sharey=True, squeeze=False)
    for row_number, (row, title) in enumerate(rows.items()):
        for column_number, column in enumerate(columns):
            axes = panels[row_number][column_number]
            draw(axes, row, column)
            axes.set_xlim(*xlim)
            axes.set_ylim(*ylim)
            axes.tick_params(labelsize=7, length=2)
            axes.grid(color="#e2e8f0", linewidth=0.6)
            axes.set_axisbelow(True)
            for side in ("top", "right"):
                axes.spines[side].set_visible(False)
            if not row_number:
                axes.set_title(column, fontsize=9)
            if not column_number:
                axes.set_ylabel(textwrap.fill(title, int(ROW_TITLE_LETTERS * panel[1])), fontsize=8)
    figure.supxlabel("\n".join([x, *textwrap.wrap(caption, int(CAPTION_LETTERS * width))]), fontsize=8, color=GREY)
    figure.supylabel(y, fontsize=8, color=GREY)
    return _save(figure, path)


def label_line_ends(axes: Any, ends: Sequence[tuple[str, tuple[float, float]]], height: float = 1.03) -> None:
    """Write the names of lines beside their last points, in the order of the points and without overlap."""
    y_text = -height
    for name, (x, y) in sorted(ends, key=lambda end: end[1][1]):
        y_text = max(y, y_text + LABEL_DISTANCE * height)
        axes.annotate(name, (x, y_text), fontsize=5, color=GREY, xytext=(4, 0), textcoords="offset points", va="center")


def bars(path: Path, rows: Mapping[str, str], columns: Sequence[str], draw: DrawPanel, *, x: str) -> Path:
    """Write one panel per column with a bar per row; `draw(axes, row, column)` draws one bar. Return the path."""
    figure = _figure((1.6 + 2.4 * len(columns), 0.9 + 0.3 * len(rows)))
    panels = figure.subplots(1, len(columns), sharey=True, squeeze=False)[0]
    for panel, column in zip(panels, columns, strict=True):
        for row in rows:
            draw(panel, row, column)
        panel.set_title(column, fontsize=9)
        panel.set_xlim(0, 1)
        panel.tick_params(labelsize=8, length=0)
        for side in ("top", "right", "left"):
            panel.spines[side].set_visible(False)
    panels[0].set_yticks(range(len(rows)), list(rows.values()))
    panels[0].set_ylim(len(rows) - 0.4, -0.6)
    figure.supxlabel(x, fontsize=8, color=GREY)
    return _save(figure, path)


def word_bars(path: Path, panels: Sequence[tuple[str, Sequence[str], Any, Sequence[str]]]) -> Path:
    """Write one panel of bars for each text: its title, words, scores and the colour of each word; return the path."""
    widest = max(len(words) for _, words, _, _ in panels)
    figure = _figure((min(24.0, 1.5 + 0.14 * widest), 0.6 + 1.7 * len(panels)))
    axes_list = figure.subplots(len(panels), 1, squeeze=False)[:, 0]
    for axes, (title, words, scores, colours) in zip(axes_list, panels, strict=True):
        axes.bar(range(len(words)), scores, color=list(colours), width=0.8)
        axes.set_xticks(range(len(words)), list(words), rotation=90, fontsize=5)
        axes.set_xlim(-1, len(words))
        axes.set_title(title, fontsize=8, loc="left")
        axes.tick_params(axis="y", labelsize=6)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    figure.supxlabel("orange: articles that tell the class, blue: articles that do not, green: other words", fontsize=8)
    return _save(figure, path)


def matrix(path: Path, shares: Any, titles: Sequence[str]) -> Path:
    """Write a square matrix of shares as colours with their values; return the path."""
    side = 1.6 + 0.55 * len(titles)
    figure = _figure((side, side))
    axes = figure.subplots()
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    axes.set_xticks(range(len(titles)), titles, rotation=90, fontsize=7)
    axes.set_yticks(range(len(titles)), titles, fontsize=7)
    for row, values in enumerate(shares):
        for column, value in enumerate(values):
            axes.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=6, color=GREY)
    axes.set_xlabel("prediction", fontsize=8)
    axes.set_ylabel("species", fontsize=8)
    return _save(figure, path)


def _figure(size: tuple[float, float]) -> Any:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise OptionError("a plot needs matplotlib, which is not installed: pip install matplotlib") from None
    figure: Any = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _save(figure: Any, path: Path) -> Path:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=130)
    return write_bytes(path, buffer.getvalue())
