"""The one path from encoded inputs and a method to scores; `explain`, `evaluate` and the experiments all take it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor

from rationales.methods.method import Attribution, Method
from rationales.models.batch import Batch
from rationales.models.batch.queries import check_gradients
from rationales.models.model import Model


def encode_inputs(model: Model, sources: Sequence[Any], plain_baseline: bool) -> Sequence[Any]:
    """The inputs divided into units and rows; with `plain_baseline`, images get the least informative plain colour."""
    if plain_baseline and model.kind == "image":
        encoded: Sequence[Any] = cast("Any", model).encode(sources, plain_baseline=True)
        return encoded
    return model.encode(sources)


@contextmanager
def open_batch(model: Model, encoded: Sequence[Any], seed: int) -> Iterator[Batch]:
    """The rows of these inputs; inside the block the model is frozen and the threads suit the size of the work."""
    with torch.inference_mode(False), model.frozen():
        batch = model.batch(encoded, seed)
        with batch.threads():
            yield batch


def run_method(
    batch: Batch, method: Method, target: Tensor, progress: Callable[[float], None] | None = None
) -> Attribution:
    """The method's scores (S, n) for `target` (inputs,), detached; a model without gradients is reported first."""
    if "gradients" in method.needs:
        check_gradients(batch)
    return method.scores(batch, target, progress).detached()


def first_nonfinite(values: Tensor) -> int | None:
    """The first index along the first axis at which `values` holds NaN or infinity; None where all are finite."""
    finite = torch.isfinite(values).flatten(1).all(1) if values.dim() > 1 else torch.isfinite(values)
    return None if bool(finite.all()) else int(torch.nonzero(~finite)[0])
