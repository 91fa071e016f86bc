"""Edit and see: the model's probabilities when a visitor takes words, regions or moments out of an input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rationales.app.model_choices import ServedModel
from rationales.errors import OptionError
from rationales.models.image.reading import Fit
from rationales.pipeline.scoring import encode_inputs, open_batch
from rationales.rationale import Frames, Grid, Spectrogram, by_label

LONG_SIDE = 24  # cells of the longer side of an image
MAX_CELLS = 96  # of a sound


@dataclass(frozen=True, eq=False)
class EditableInput:
    """An input of which parts can be removed: the units of a text, or the cells of a grid over an image or a sound."""

    served: ServedModel
    encoded: Any  # of `model.encode`
    parts: int  # how many can be removed
    cells: tuple[int, int] | None = None  # rows and columns; None for a text
    units: Any = ()  # of the rationale: units of a text, Grid, Frames or Spectrogram


def editable_input(served: ServedModel, raw_input: Any, name: str | None) -> EditableInput:
    """The input with the parts that can be removed; `raw_input` as `explain` takes it."""
    model = served.model
    with served.lock.quick():
        encoded = encode_inputs(model, [model.read(raw_input, name)], plain_baseline=True)[0]
        with open_batch(model, [encoded], seed=0) as batch:
            no_scores = batch.gather(batch.zeros())[0].float().cpu()
        units = model.describe(encoded, no_scores).units
    if isinstance(units, Grid):
        cells = cell_shape(units.height, units.width)
    elif isinstance(units, Frames):
        cells = (1, min(len(units), MAX_CELLS))
    else:
        return EditableInput(served, encoded, len(units), None, units)
    return EditableInput(served, encoded, cells[0] * cells[1], cells, units)


def cell_shape(height: int, width: int) -> tuple[int, int]:
    """Rows and columns of nearly square cells, at most one for each pixel."""
    scale = LONG_SIDE / max(height, width)
    return max(1, min(height, round(height * scale))), max(1, min(width, round(width * scale)))


def edited_probabilities(editable: EditableInput, removed: Sequence[int]) -> dict[str, float]:
    """Label -> probability when the parts `removed` are replaced by the baseline."""
    model = editable.served.model
    kept_parts = np.ones(editable.parts, dtype=np.float32)
    kept_parts[checked_parts(removed, editable.parts)] = 0.0
    with editable.served.lock.quick(), open_batch(model, [editable.encoded], seed=0) as batch:
        keep = batch.spread([unit_keep(editable, kept_parts)])
        predicted = batch.predict(keep)[0]
    return by_label(model.labels, predicted.cpu().tolist())


def checked_parts(removed: Sequence[int], parts: int) -> list[int]:
    """The numbers of the removed parts, without repetitions; an OptionError for any other."""
    try:
        numbers = sorted({int(number) for number in removed})
    except (TypeError, ValueError):
        raise OptionError("removed is a list of whole numbers") from None
    if numbers and not 0 <= numbers[0] <= numbers[-1] < parts:
        raise OptionError(f"removed holds numbers from 0 to {parts - 1}, not {numbers[0]} or {numbers[-1]}")
    return numbers


def unit_keep(editable: EditableInput, kept_parts: np.ndarray) -> Tensor:
    """(units,) keep of the batch's units, from the kept parts (parts,)."""
    if editable.cells is None:
        return torch.from_numpy(kept_parts)
    cells = torch.from_numpy(kept_parts).view(*editable.cells)
    units = editable.units
    if isinstance(units, Frames):
        return cells[0][torch.arange(len(units)) * cells.shape[1] // len(units)]
    if isinstance(units, Spectrogram):  # the batch counts frame by frame, from the lowest frequency
        rows, columns = cell_index(units.height, cells.shape[0]), cell_index(units.width, cells.shape[1])
        return cells[rows][:, columns].flip(0).T.reshape(-1)
    return image_keep(cells, editable.served.model.fit, (units.height, units.width))  # type: ignore[attr-defined]


def image_keep(cells: Tensor, fit: Fit, size: tuple[int, int]) -> Tensor:
    """(H * W,) keep of a model's input, from cells over an image of this height and width."""
    rows, columns, top, left = fit.layout(*size)
    down = ((torch.arange(fit.height) - top + 0.5) / rows * cells.shape[0]).floor().long().clamp(0, cells.shape[0] - 1)
    across = (
        ((torch.arange(fit.width) - left + 0.5) / columns * cells.shape[1]).floor().long().clamp(0, cells.shape[1] - 1)
    )
    return cells[down][:, across].reshape(-1)


def cell_index(size: int, cells: int) -> Tensor:
    """(size,): the cell that each of `size` units lies in."""
    return torch.arange(size) * cells // size
