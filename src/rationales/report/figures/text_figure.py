"""The rationale of a text as SVG or PDF: words coloured by their scores, the rationale underlined.

matplotlib (`pip install 'rationales[figures]'`) is imported when the first figure is drawn.
"""

from __future__ import annotations

import io
import os
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rationales.errors import ModelError, OptionError
from rationales.files import write_bytes
from rationales.rationale import Rationale
from rationales.report.bidirectional import visible
from rationales.report.figures.text_layout import PlacedPiece, lay_out, text_pieces
from rationales.report.wording import prediction_sentence
from rationales.version import __version__

FORMATS = (".svg", ".pdf")
WIDTH = 5.5  # inches: the text width of most papers
FONT_SIZE = 10.0
LINE_HEIGHT = 1.75  # of the font size
MARGIN = 4.0  # points
FOR, AGAINST = (245, 158, 11), (59, 130, 246)  # the hues of the page: orange and blue, which nobody confuses
STRONGEST = 0.6  # opacity of the strongest colour
INK, SOFT, EDGE = "#1d2126", "#646a73", "#8a5206"
POINTS_PER_INCH = 72


def text_figure(
    rationale: Rationale,
    path: str | os.PathLike[str],
    *,
    width: float = WIDTH,
    font_size: float = FONT_SIZE,
    font: str = "DejaVu Serif",
    caption: bool = True,
) -> Path:
    """Write the rationale of a text to a file that ends in .svg or .pdf; returns the path.

    `width` in inches, `font_size` in points; `font`: a family that matplotlib finds, for scripts that DejaVu lacks.
    `caption`: a first line with the prediction, the method and the model.
    """
    target = Path(path)
    kind = target.suffix.lower()
    if kind not in FORMATS:
        raise OptionError(f"a figure of a text is an .svg or .pdf file, not {target.name}")
    if not 1 <= width <= 50 or not 4 <= font_size <= 72:
        raise OptionError("a figure is 1 to 50 inches wide, and its font has 4 to 72 points")
    rationale.words  # noqa: B018  # reports an image or a sound
    settings = {"svg.fonttype": "path", "svg.hashsalt": "rationales", "pdf.fonttype": 42, "text.usetex": False}
    with matplotlib().rc_context(settings), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        figure = _figure_of(rationale, width * POINTS_PER_INCH, font_size, font, caption)
        buffer = io.BytesIO()
        program = f"rationales {__version__}"
        dated = {"Date": None} if kind == ".svg" else {"CreationDate": None}
        metadata = {"Creator": program, "Title": f"Why {rationale.question}?", **dated}
        figure.savefig(buffer, format=kind[1:], metadata=metadata)
    missing = {str(entry.message) for entry in caught if "missing from" in str(entry.message)}
    if missing:
        names = sorted(name for message in missing for name in re.findall(r"N{([^}]*)}", message))
        raise OptionError(
            f"the font {font} has no {', '.join(names[:3])}{' and more' if len(names) > 3 else ''}; give the name of "
            "an installed font that has them: font='Noto Sans CJK JP'"
        )
    return write_bytes(target, buffer.getvalue())


def _figure_of(rationale: Rationale, width: float, font_size: float, font: str, caption: bool) -> Any:
    """A matplotlib figure whose units are points, from the top left."""
    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextToPath

    properties: Any = FontProperties(family=[font, "DejaVu Sans"], size=font_size)
    small: Any = FontProperties(family="DejaVu Sans", size=0.8 * font_size)
    measure: Any = TextToPath()

    def text_width(text: str) -> float:
        return float(measure.get_text_width_height_descent(text, properties, ismath=False)[0])

    line_height, inner = LINE_HEIGHT * font_size, width - 2 * MARGIN
    headings = [f"{prediction_sentence(rationale)} · {rationale.method} · {rationale.model}"] if caption else []
    blocks = [
        lay_out(text_pieces(rationale, index), text_width, inner) for index in range(1 + (rationale.pair is not None))
    ]
    heights = [line_height * (1 + max((piece.line for piece in block), default=0)) for block in blocks]
    height = 2 * MARGIN + line_height * len(headings) + sum(heights) + 0.6 * line_height * (len(blocks) - 1)
    figure: Any = Figure(figsize=(width / POINTS_PER_INCH, height / POINTS_PER_INCH))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    axes.axis("off")
    top = MARGIN
    for heading in headings:
        baseline = top + 0.7 * line_height
        axes.text(MARGIN, baseline, visible(heading), fontproperties=small, color=SOFT, parse_math=False, wrap=False)
        top += line_height
    for block, block_height in zip(blocks, heights, strict=True):
        for piece in block:
            _draw_piece(axes, piece, top, line_height, font_size, properties)
        for line, first, last in _underlines(block):
            y = top + line * line_height + 0.88 * line_height
            axes.plot([MARGIN + first, MARGIN + last], [y, y], color=EDGE, linewidth=1.3, solid_capstyle="butt")
        top += block_height + 0.6 * line_height
    return figure


def _draw_piece(
    axes: Any, placed: PlacedPiece, top: float, line_height: float, font_size: float, properties: Any
) -> None:
    from matplotlib.patches import Rectangle

    x, line_top = MARGIN + placed.x, top + placed.line * line_height
    colour = tint(placed.piece.strength)
    if colour is not None:
        box = (x, line_top + 0.14 * line_height)
        axes.add_patch(Rectangle(box, placed.width, 0.7 * line_height, facecolor=colour, edgecolor="none"))
    if not placed.piece.is_space:
        baseline = line_top + 0.5 * line_height + 0.36 * font_size
        text = visible(placed.piece.text)
        axes.text(x, baseline, text, fontproperties=properties, color=INK, parse_math=False)


def tint(strength: float) -> str | None:
    """The colour behind a word, already blended with white; None for next to no strength."""
    share = STRONGEST * abs(strength) ** 1.4
    if share < 0.01:
        return None
    hue = FOR if strength > 0 else AGAINST
    return "#" + "".join(f"{round(255 * (1 - share) + channel * share):02x}" for channel in hue)


def _underlines(block: list[PlacedPiece]) -> Iterator[tuple[int, float, float]]:
    """(line, left, right) of every run of selected pieces on one line."""
    run: list[PlacedPiece] = []
    for placed in [*block, None]:
        joined = placed is not None and placed.piece.selected and not placed.piece.opens
        if run and (placed is None or not joined or placed.line != run[-1].line):
            while run and run[-1].piece.is_space:
                run.pop()
            if run:
                yield run[0].line, min(p.x for p in run), max(p.x + p.width for p in run)
            run = []
        if placed is not None and placed.piece.selected and (run or not placed.piece.is_space):
            run.append(placed)


def matplotlib() -> Any:
    """The module matplotlib, or a ModelError that says how to install it."""
    try:
        import matplotlib as mpl
    except ImportError:
        raise ModelError("figures need matplotlib, which is not installed: pip install 'rationales[figures]'") from None
    return mpl
