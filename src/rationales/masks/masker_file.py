"""A trained masker, what it was trained for, and the one file that holds both: safetensors with JSON in its header."""

from __future__ import annotations

import functools
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rationales.errors import ModelError, OptionError
from rationales.files import write_bytes
from rationales.masks.masker import Network, Shape, predict
from rationales.masks.settings import MaskSettings
from rationales.models.fingerprint import fingerprint
from rationales.models.text_batch import TextBatch

FORMAT = 1  # raised when files would be misread
SHIPPED = Path(__file__).resolve().parents[1] / "models" / "embedded" / "masker.safetensors"
TRAIN = "rationales train-masker MODEL DATA --out F"


@dataclass(frozen=True)
class Card:
    """What a masker was trained for, and how."""

    fingerprint: str  # of the model
    model: str
    baseline: str
    unit: str
    labels: tuple[str, ...]
    objective: MaskSettings
    training: dict[str, Any]  # figures, for people


@dataclass(frozen=True, eq=False)
class Masker:
    """A network that predicts MaRC's parameters for one model."""

    network: Network
    card: Card

    def __call__(self, batch: TextBatch, target: Tensor) -> tuple[Tensor, Tensor]:
        """w and sigma, (M, n) each, for `target` (inputs,); refuses a model that it was not trained for."""
        self.check(batch)
        with torch.no_grad():
            return batch.fit(lambda: predict(self.network, batch, target, self.card.objective))

    def check(self, batch: TextBatch) -> None:
        """An error unless the batch is of the model that the masker was trained for."""
        card = self.card
        if card.unit != batch.unit:
            raise OptionError(
                f"the masker was trained for {card.unit}s, and here each {batch.unit} is a unit; "
                f"use {card.unit}s, or train another: {TRAIN}"
            )
        if fingerprint(batch) != card.fingerprint:
            raise OptionError(
                f"the masker was trained for {card.model} with the baseline {card.baseline} and the labels "
                f"{', '.join(card.labels[:6])}, and this is another model, another version of its weights or another "
                f"baseline; train one for it: {TRAIN}"
            )

    def save(self, path: str | os.PathLike[str], half: bool = False) -> Path:
        """Write everything into one file, whole or not at all; `half` stores half precision, which is half as large."""
        from safetensors.torch import save

        kind = torch.float16 if half else torch.float32
        tensors = {name: value.detach().cpu().to(kind) for name, value in self.network.state_dict().items()}
        told = {"format": FORMAT, "shape": asdict(self.network.shape), "card": asdict(self.card)}
        return write_bytes(path, save(tensors, {"masker": json.dumps(told, ensure_ascii=False)}))


def load_masker(path: str | os.PathLike[str], device: torch.device | str = "cpu") -> Masker:
    """Read what `Masker.save` wrote."""
    where = Path(path).expanduser()
    if where.is_dir() or not where.exists():
        raise OptionError(f"there is no masker {where}; train one: {TRAIN}")
    told = where.stat()
    return _load(where, told.st_mtime_ns, told.st_size, torch.device(device))


@functools.lru_cache(maxsize=4)
def _load(where: Path, _changed: int, _size: int, device: torch.device) -> Masker:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(where, framework="pt") as file:
            told = json.loads((file.metadata() or {})["masker"])
            tensors = {name: file.get_tensor(name).float() for name in file.keys()}  # noqa: SIM118  # no mapping
        if told["format"] != FORMAT:
            raise ModelError(f"{where} was written by another version of rationales; train it again: {TRAIN}")
        with torch.device("meta"):
            network = Network(Shape(**told["shape"]))
        network.load_state_dict(tensors, assign=True)
        card = told["card"]
        card |= {"labels": tuple(card["labels"]), "objective": MaskSettings(**card["objective"])}
        made = Card(**card)
    except (SafetensorError, OSError, KeyError, ValueError, TypeError, RuntimeError, OptionError) as error:
        raise ModelError(f"{where} is no masker, or a damaged one ({_first(error)}); train one: {TRAIN}") from error
    return Masker(network.requires_grad_(False).eval().to(device), made)


def _first(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
