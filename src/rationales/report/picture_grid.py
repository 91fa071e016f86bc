"""Images × methods as one figure, as in Figures 2 and 3 of the MaRC paper: a page or a PNG."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from rationales.errors import OptionError
from rationales.evaluation.method_comparison import MethodComparison
from rationales.files import write_text
from rationales.rationale import Grid
from rationales.report.html.picture_grid import picture_grid_page
from rationales.report.png.picture_grid import picture_grid_png


def picture_grid(
    comparisons: Sequence[MethodComparison] | MethodComparison,
    path: str | os.PathLike[str],
    *,
    cutouts: bool | None = None,
) -> Path:
    """Write a row for each image and a column for each method to `path`, a page (.html) or an image (.png).

    `comparisons`: of `rationales.compare` with a list of images. `cutouts`: whether a PNG also shows each rationale cut
    out of its image, by default for a single image; a page always does.
    """
    listed = [comparisons] if isinstance(comparisons, MethodComparison) else list(comparisons)
    if not listed:
        raise OptionError("there is no comparison to draw")
    titles, gaps = listed[0].titles, listed[0].not_applicable
    if any(comparison.titles != titles for comparison in listed):
        raise OptionError("a grid has the same methods for every image; compare them together: compare(model, [a, b])")
    if not all(isinstance(rationale.units, Grid) for comparison in listed for rationale in comparison.rationales):
        raise OptionError("a grid of images shows images; texts are compared by to_html of each comparison")
    rows, end = [comparison.rationales for comparison in listed], Path(path).suffix.lower()
    if end == ".png":
        shows_cutouts = len(rows) == 1 if cutouts is None else cutouts
        return picture_grid_png(rows, titles, path, cutouts=shows_cutouts, gaps=tuple(gaps))
    if end in (".html", ".htm"):
        return write_text(path, picture_grid_page(rows, titles, gaps))
    raise OptionError(f"a grid is written as .html or .png, not {Path(path).name}")
