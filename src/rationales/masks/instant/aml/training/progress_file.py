"""The state of an unfinished pretraining in one file, so that an interrupted training goes on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rationales.errors import OptionError
from rationales.files import write_bytes

HEADER = "aml_training"
FINISHED = "finished"  # prefix of the weights of finished networks
SAVE_SECONDS = 60.0  # between two states of a training that is stored by the clock


@dataclass(eq=False)
class ProgressFile:
    """Reads and writes the state of a training; without a path nothing is stored."""

    path: Path | None
    description: str  # of model, texts and settings; another one is another training
    values: dict[str, Any] = field(default_factory=dict)  # plain data
    tensors: dict[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.path is None or not self.path.exists():
            return
        from safetensors import SafetensorError, safe_open

        advice = "delete it to begin anew"
        try:
            with safe_open(self.path, framework="pt") as file:
                stored = json.loads((file.metadata() or {})[HEADER])
                self.tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # no mapping
        except (SafetensorError, OSError, KeyError, ValueError) as error:
            raise OptionError(f"{self.path} is not the state of a training ({error}); {advice}") from error
        if stored["description"] != self.description:
            raise OptionError(
                f"{self.path} is the state of a training with another model, other texts or other settings; {advice}"
            )
        self.values = stored["values"]

    def write(self) -> None:
        """Store values and tensors, atomically."""
        if self.path is None:
            return
        from safetensors.torch import save

        header = json.dumps({"description": self.description, "values": self.values})
        tensors = {name: value.detach().cpu().contiguous() for name, value in self.tensors.items()}
        write_bytes(self.path, save(tensors, {HEADER: header}))

    def put_training(
        self,
        network: nn.Module,
        optimiser: torch.optim.Optimizer,
        best: Mapping[str, Tensor],
        values: dict[str, Any],
        further: Mapping[str, Tensor] | None = None,
    ) -> None:
        """Store a training in progress; `further`: what else it needs to go on."""
        self.values["training"] = values
        self._forget_training()
        self.tensors |= {f"further.{name}": value for name, value in (further or {}).items()}
        self.tensors |= {f"network.{name}": value for name, value in trained_state(network).items()}
        self.tensors |= {f"best.{name}": value for name, value in best.items()}
        for number, state in optimiser.state_dict()["state"].items():
            self.tensors |= {f"adam.{number}.{name}": value for name, value in state.items()}
        self.write()

    def take_training(
        self, network: nn.Module, optimiser: torch.optim.Optimizer
    ) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Values of the training in progress and its best weights, with network and optimiser as they were; or {}."""
        values: dict[str, Any] = self.values.get("training", {})
        if not values:
            return {}, {}
        weights = network.state_dict()
        with torch.no_grad():
            for name, value in self._group("network").items():
                weights[name].copy_(value)
        moments: dict[int, dict[str, Tensor]] = {}
        for name, value in self._group("adam").items():
            number, _, key = name.partition(".")
            moments.setdefault(int(number), {})[key] = value
        state = optimiser.state_dict()
        optimiser.load_state_dict({"state": moments, "param_groups": state["param_groups"]})
        device = next(network.parameters()).device
        return values, {name: value.to(device) for name, value in self._group("best").items()}

    def further(self) -> dict[str, Tensor]:
        """The further tensors of the training in progress, on the CPU."""
        return self._group("further")

    def finish_training(self) -> None:
        """Forget the training in progress; the next `write` stores what remains."""
        self.values.pop("training", None)
        self._forget_training()

    def keep(self, name: str, weights: Mapping[str, Tensor]) -> None:
        """Store the weights of a finished network."""
        self.tensors |= {f"{FINISHED}.{name}.{weight}": value for weight, value in weights.items()}
        self.write()

    def kept(self, name: str) -> dict[str, Tensor]:
        """The weights that `keep` stored."""
        return self._group(f"{FINISHED}.{name}")

    def delete(self) -> None:
        """Remove the file."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)

    def _forget_training(self) -> None:
        self.tensors = {name: value for name, value in self.tensors.items() if name.startswith(f"{FINISHED}.")}

    def _group(self, prefix: str) -> dict[str, Tensor]:
        start = f"{prefix}."
        return {name[len(start) :]: value for name, value in self.tensors.items() if name.startswith(start)}


def trained_state(network: nn.Module) -> dict[str, Tensor]:
    """The weights that are trained, by name."""
    return {name: value.detach() for name, value in network.named_parameters() if value.requires_grad}
