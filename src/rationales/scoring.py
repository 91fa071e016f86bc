"""The one path from encoded inputs and a method to scores; `explain`, `evaluate` and the experiments all take it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from rationales.errors import OptionError
from rationales.methods import Attribution, Method, build
from rationales.models.batch import Batch
from rationales.models.model import Model
from rationales.models.probing import check_gradients


def resolve_method(method: str | Method, options: Mapping[str, Any] | None, kind: str) -> Method:
    """The method with this name and these options for inputs of this kind; a method object is taken as it is."""
    if isinstance(method, str):
        return build(method, dict(options or {}), kind)
    if not isinstance(method, Method):
        raise OptionError(f"a method is a name from 'rationales methods' or a rationales.Method, not {method!r}")
    if options:
        raise OptionError(f"{method.name} is an object with options of its own; set {', '.join(options)} on it instead")
    return method


@contextmanager
def open_batch(model: Model, encoded: Sequence[Any], seed: int) -> Iterator[Batch]:
    """The rows of these inputs; inside the block the model is frozen and the threads suit the size of the work."""
    with torch.inference_mode(False), model.borrowed():
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
