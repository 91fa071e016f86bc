"""The loudness of a sound over time, for the waveforms of all reports."""

from __future__ import annotations

import numpy as np

from rationales.rationale import Rationale


def envelope(rationale: Rationale, columns: int) -> np.ndarray:
    """(columns,) in [0, 1]: peak amplitude in each column, the loudest is 1; constant where the sound was not saved."""
    if rationale.sound is None or not len(rationale.sound):
        return np.full(max(1, min(columns, len(rationale.units))), 0.5)
    columns = min(columns, len(rationale.sound))
    edges = np.linspace(0, len(rationale.sound), columns + 1).astype(int)[:-1]
    loudness = np.maximum.reduceat(np.abs(rationale.sound.astype(np.float64)), edges)
    return loudness / (loudness.max() or 1.0)
