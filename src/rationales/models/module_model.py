"""What models of one module share, whose replaced units become one or several named baselines."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn

from rationales.models.batch.execution import frozen
from rationales.models.classes import label_index
from rationales.models.display import ModelDisplay


class ModuleModel(ModelDisplay):
    """Base class of image and audio models."""

    module: nn.Module
    labels: tuple[str, ...]
    baselines: tuple[str, ...]

    @property
    def baseline(self) -> str:
        """The names of the baselines."""
        return ", ".join(self.baselines)

    @property
    def device_and_dtype(self) -> tuple[torch.device, torch.dtype]:
        """Those of the first weight; CPU and float32 for a module without weights."""
        weight = next(self.module.parameters(), None)
        return (torch.device("cpu"), torch.float32) if weight is None else (weight.device, weight.dtype)

    def title(self, source: Any) -> str:
        """The name of an input in messages."""
        return str(source.name)

    def target(self, requested: str | int | None) -> int | None:
        """The number of a class given by label or number."""
        return label_index(self.labels, requested)

    def frozen(self) -> AbstractContextManager[None]:
        """Freeze the module inside the block and restore it afterwards."""
        return frozen(self.module)
