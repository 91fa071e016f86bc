"""A trained masker with its card, and the file that stores both: safetensors with JSON in the header."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rationales.errors import ModelError, OptionError
from rationales.files import write_bytes
from rationales.masks.instant.network import (
    BlockReading,
    MaskerNetwork,
    MaskerShape,
    predict_parameters,
    read_blocks,
)
from rationales.masks.settings import MaskSettings
from rationales.models.empty_weights import empty_weights
from rationales.models.text.batch import TextBatch
from rationales.models.text.fingerprint import digests, fingerprint

MAX_KEPT_BYTES = {"cpu": 2**26, "cuda": 2**29}  # of what is read in the pass of the full inputs, by device
FORMAT_VERSION = 2  # raised when files would be misread
HEADER = "masker"
SHIPPED_MASKER = Path(__file__).resolve().parents[2] / "models" / "embedded" / "masker.safetensors"
TRAIN_COMMAND = "rationales train-masker MODEL DATA --out F"


@dataclass(frozen=True)
class MaskerCard:
    """The model and objective that a masker was trained for, and figures of the training."""

    fingerprint: str  # of the model
    model: str
    baseline: str
    unit: str
    labels: tuple[str, ...]
    objective: MaskSettings
    training: dict[str, Any]  # figures, for information only
    digests: dict[str, str] = field(default_factory=dict)  # of labels, tokenizer, ...; older files have none
    digest: str = ""  # of all that decided the training; older files have none


@dataclass(frozen=True, eq=False)
class MaskerReading:
    """What a masker has read of a batch, block by block."""

    network: MaskerNetwork
    blocks: Sequence[BlockReading]


@dataclass(frozen=True, eq=False)
class Masker:
    """A network that predicts MaRC's parameters for one model."""

    network: MaskerNetwork
    card: MaskerCard

    def __call__(self, batch: TextBatch, target: Tensor) -> tuple[Tensor, Tensor]:
        """w and sigma, (M, n) each, for `target` (inputs,); raises an error for a model that it was not trained for."""
        self.check(batch)
        reading, batch.first_pass = batch.first_pass, None  # its memory is needed for what follows
        readings = reading.blocks if isinstance(reading, MaskerReading) and reading.network is self.network else None
        with torch.no_grad():
            return batch.fit(lambda: predict_parameters(self.network, batch, target, self.card.objective, readings))

    def full_logits(self, batch: TextBatch) -> Tensor:
        """(S, classes): as `Batch.full_logits`; what the masker reads in this pass is kept for the next call.

        A batch for which that would be too much, or that has several networks, is read again.
        """
        features = sum(batch.lengths) * self.network.shape.width * self.network.final_norm.weight.itemsize
        if batch.views > 1 or features > MAX_KEPT_BYTES.get(batch.device.type, 0):
            return batch.full_logits()
        self.check(batch)
        with torch.no_grad(), batch.threads():
            blocks = batch.fit(lambda: list(read_blocks(self.network, batch)))
        batch.first_pass = MaskerReading(self.network, blocks)
        order = torch.argsort(torch.cat([reading.block.row for reading in blocks]))
        return torch.cat([reading.logits for reading in blocks])[order]

    def check(self, batch: TextBatch) -> None:
        """Raise an OptionError, with the reason, unless the batch belongs to the model that it was trained for."""
        card = self.card
        if card.unit != batch.unit:
            raise OptionError(
                f"the masker was trained for {card.unit}s, and here each {batch.unit} is a unit; "
                f"use {card.unit}s, or train another: {TRAIN_COMMAND}"
            )
        actual = digests(batch)
        different = [name for name, digest in card.digests.items() if actual.get(name, digest) != digest]
        if different or fingerprint(batch) != card.fingerprint:
            raise OptionError(
                f"the masker was trained for {self._reason(different)}; train one for it: {TRAIN_COMMAND}"
            )

    def _reason(self, different: Sequence[str]) -> str:
        """What the masker was trained for and what the batch has instead; `different`: names of digests."""
        card = self.card
        labels = ", ".join(card.labels[:6]) + (", ..." if len(card.labels) > 6 else "")
        reasons = {
            "labels": f"a model with the labels {labels}, and this model has others",
            "tokenizer": f"{card.model} with another tokenizer than this one",
            "weights": f"{card.model}, and this is another model, or has other weights",
            "baseline": f"words replaced by the baseline {card.baseline}, and here they become something else",
        }
        if different:
            return next(reason for name, reason in reasons.items() if name in different)
        return (
            f"{card.model} with the baseline {card.baseline} and the labels {labels}, and this is another model, "
            "another version of its weights or another baseline"
        )

    def save(self, path: str | os.PathLike[str], half: bool = False) -> Path:
        """Write network and card into one file, atomically; `half` stores half precision."""
        from safetensors.torch import save

        dtype = torch.float16 if half else torch.float32
        tensors = {name: value.detach().cpu().to(dtype) for name, value in self.network.state_dict().items()}
        metadata = {"format": FORMAT_VERSION, "shape": asdict(self.network.shape), "card": asdict(self.card)}
        return write_bytes(path, save(tensors, {HEADER: json.dumps(metadata, ensure_ascii=False)}))


def digest_in_header(path: str | os.PathLike[str], header: str) -> str:
    """The digest of the training in the card under this header of a safetensors file; empty if there is none."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            return str(json.loads((file.metadata() or {})[header])["card"].get("digest", ""))
    except (SafetensorError, OSError, KeyError, ValueError):
        return ""


def load_masker(path: str | os.PathLike[str], device: torch.device | str = "cpu") -> Masker:
    """Read what `Masker.save` wrote."""
    file = Path(path).expanduser()
    if file.is_dir() or not file.exists():
        raise OptionError(f"there is no masker {file}; train one: {TRAIN_COMMAND}")
    status = file.stat()
    return _load(file, status.st_mtime_ns, status.st_size, torch.device(device))


def stored_digest(path: str | os.PathLike[str]) -> str:
    """The digest of the training in the card of a masker's file; empty if it has none, or cannot be read."""
    return digest_in_header(path, HEADER)


@functools.lru_cache(maxsize=4)
def _load(path: Path, _changed: int, _size: int, device: torch.device) -> Masker:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            if "aml_masker" in header:
                raise ModelError(
                    f"{path} is an AML masker, for aml-pretrained and aml-finetuned; train another: {TRAIN_COMMAND}"
                )
            if "picture_masker" in header:
                raise ModelError(f"{path} is a masker for pictures; train one for texts: {TRAIN_COMMAND}")
            metadata = json.loads(header[HEADER])
            tensors = {name: file.get_tensor(name).float() for name in file.keys()}  # noqa: SIM118  # no mapping
        if metadata["format"] != FORMAT_VERSION:
            raise ModelError(f"{path} was written by another version of rationales; train it again: {TRAIN_COMMAND}")
        with empty_weights():
            network = MaskerNetwork(MaskerShape(**metadata["shape"]))
        network.load_state_dict(tensors, assign=True)
        card = metadata["card"]
        card |= {"labels": tuple(card["labels"]), "objective": MaskSettings(**card["objective"])}
        masker_card = MaskerCard(**card)
    except (SafetensorError, OSError, KeyError, ValueError, TypeError, RuntimeError, OptionError) as error:
        raise ModelError(
            f"{path} is no masker, or a damaged one ({_first_line(error)}); train one: {TRAIN_COMMAND}"
        ) from error
    return Masker(network.requires_grad_(False).eval().to(device), masker_card)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
