"""Results as pandas DataFrames. pandas is optional and imported here only, when a frame is requested."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rationales.errors import OptionError
from rationales.rationale import Frames, Grid, Rationale, TextAndImage

if TYPE_CHECKING:
    import pandas as pd


def import_pandas() -> Any:
    """The module pandas, or an OptionError that says how to install it."""
    try:
        import pandas as pd
    except ImportError:
        raise OptionError("to_frame needs pandas, which is not installed: pip install pandas") from None
    return pd


def units_frame(rationale: Rationale) -> pd.DataFrame:
    """A DataFrame with the columns of `unit_columns`, a row for each unit."""
    frame: pd.DataFrame = import_pandas().DataFrame(unit_columns(rationale))
    return frame


def unit_columns(rationale: Rationale) -> dict[str, Any]:
    """Column name -> (n,) values, one for each unit in order; the last two columns are `score` and `selected`.

    Before them a text has text, start and end in characters (and text_index, where it has a pair); an image or a
    spectrogram has row and column; a text and an image have all five, -1 where they do not apply; a sound has start and
    end in seconds.
    """
    return {**_positions(rationale), "score": rationale.scores, "selected": rationale.selected()}


def _positions(rationale: Rationale) -> dict[str, Any]:
    units = rationale.units
    if isinstance(units, TextAndImage):
        pixel_rows, pixel_columns = np.divmod(np.arange(len(units.grid)), units.grid.width)
        no_place, no_word = [-1] * len(units.words), [-1] * len(units.grid)
        return {
            "text": [unit.text for unit in units.words] + [""] * len(units.grid),
            "start": [unit.start for unit in units.words] + no_word,
            "end": [unit.end for unit in units.words] + no_word,
            "row": no_place + pixel_rows.tolist(),
            "column": no_place + pixel_columns.tolist(),
        }
    if isinstance(units, Grid):
        rows, columns = np.divmod(np.arange(len(units)), units.width)
        return {"row": rows, "column": columns}
    if isinstance(units, Frames):
        starts = np.arange(len(units)) * units.seconds
        return {"start": starts, "end": np.minimum(starts + units.seconds, units.duration)}
    names = ("text", "start", "end") if rationale.pair is None else ("text_index", "text", "start", "end")
    return {name: [getattr(unit, name) for unit in units] for name in names}
