"""Engines: where the shards of a corpus run are explained."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

from rationales.corpus.engines.engine import Engine, WorkerError, WorkerOptions, WorkerTask
from rationales.corpus.engines.local import InProcess, WorkerPool
from rationales.corpus.explaining import ExplainRequest, ModelSource, check_kind
from rationales.errors import OptionError
from rationales.models.model import Model

ENGINES = ("local", "ray")

__all__ = ["ENGINES", "Engine", "WorkerError", "WorkerOptions", "open_engine"]


def open_engine(
    name: str,
    model: Model | str | os.PathLike[str] | None,
    source: ModelSource,
    request: ExplainRequest,
    folder: Path,
    options: WorkerOptions,
    stack: ExitStack,
) -> Engine:
    """The engine of this name; what it starts ends with `stack`."""
    is_name = model is None or isinstance(model, (str, os.PathLike))
    if name == "local" and options.workers == 1:
        loaded: Model = source.load() if is_name else model  # type: ignore[assignment]  # a model, where no name
        check_kind(loaded, source.kind)
        return InProcess(loaded, request, folder, options.threads)
    if not is_name:
        raise OptionError("several workers load the model themselves: give its name or folder, not the model")
    task = WorkerTask(source, request)
    if name == "local":
        return stack.enter_context(WorkerPool(task, folder, options))
    from rationales.corpus.engines.ray_actors import RayActors

    return stack.enter_context(RayActors(task, folder, options))
