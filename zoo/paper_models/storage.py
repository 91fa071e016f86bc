"""Files that travel to the training machine: tokenized texts, and the encoder's weights in half precision."""

from __future__ import annotations

import lzma
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import numpy as numpy_file
from safetensors.torch import load_file, save_file
from torch import Tensor

Array = NDArray[Any]
ENCODER_FILES = ("config.json", "tokenizer.json", "tokenizer_config.json")
SUFFIX = ".safetensors.xz"
WORDS, WORD_FILE = "embeddings.word_embeddings.weight", "words.safetensors"


@dataclass(frozen=True)
class TokenRows:
    """Tokenized texts, special tokens included: row i holds ids[bounds[i] : bounds[i + 1]].

    ids: (N,) uint16; bounds: (rows + 1,); second: (rows,) where the second text of a pair begins, the row's length
    where there is none; label: (rows,) class numbers; group: (rows,) rows of one group stay in one split, and the
    segments of one review are one group.
    """

    ids: Array
    bounds: Array
    second: Array
    label: Array
    group: Array

    def __len__(self) -> int:
        return len(self.label)

    @property
    def lengths(self) -> Array:
        return np.diff(self.bounds)

    def row(self, index: int) -> Array:
        return self.ids[self.bounds[index] : self.bounds[index + 1]]

    def select(self, indices: Array) -> TokenRows:
        """The rows of these indices, in this order."""
        lengths = self.lengths[indices]
        ids = np.concatenate([self.row(i) for i in indices]) if len(indices) else self.ids[:0]
        bounds = np.concatenate([[0], np.cumsum(lengths)])
        return TokenRows(ids, bounds, self.second[indices], self.label[indices], self.group[indices])


def token_rows(
    rows: Sequence[Sequence[int]],
    second: Sequence[int] | None = None,
    label: Sequence[int] | None = None,
    group: Sequence[int] | None = None,
) -> TokenRows:
    lengths = [len(row) for row in rows]
    return TokenRows(
        ids=np.array([token for row in rows for token in row], np.uint16),
        bounds=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        second=np.array(lengths if second is None else second, np.int32),
        label=np.array([0] * len(rows) if label is None else label, np.int64),
        group=np.array(range(len(rows)) if group is None else group, np.int64),
    )


def join_rows(blocks: Sequence[TokenRows]) -> TokenRows:
    """All rows one after the other; every row becomes a group of its own."""
    bounds = np.concatenate([[0], np.cumsum(np.concatenate([rows.lengths for rows in blocks]))])
    count = len(bounds) - 1
    return TokenRows(
        np.concatenate([rows.ids for rows in blocks]),
        bounds,
        np.concatenate([rows.second for rows in blocks]),
        np.concatenate([rows.label for rows in blocks]),
        np.arange(count),
    )


def save_rows(rows: TokenRows, folder: Path, name: str, preset: int = 9) -> None:
    """Write the rows; `preset`: how hard they are compressed, 0 (fast) to 9 (small)."""
    arrays = {
        "ids": rows.ids,
        "lengths": rows.lengths.astype(np.uint16),
        "second": rows.second.astype(np.uint16),
        "label": rows.label.astype(np.uint8),
        "group": rows.group.astype(np.int32),
    }
    (folder / f"{name}{SUFFIX}").write_bytes(lzma.compress(numpy_file.save(arrays), preset=preset))


def load_rows(folder: Path, name: str, limit: int | None = None) -> TokenRows:
    """The rows that `save_rows` wrote; `limit` evenly spaced ones for a dry run."""
    arrays = numpy_file.load(lzma.decompress((folder / f"{name}{SUFFIX}").read_bytes()))
    bounds = np.concatenate([[0], np.cumsum(arrays["lengths"].astype(np.int64))])
    rows = TokenRows(
        arrays["ids"],
        bounds,
        arrays["second"].astype(np.int32),
        arrays["label"].astype(np.int64),
        arrays["group"].astype(np.int64),
    )
    return rows if limit is None else rows.select(np.unique(np.linspace(0, len(rows) - 1, limit).astype(int)))


@dataclass(frozen=True)
class DeviceRows:
    """Rows as rectangles on a device: ids, types, attended (rows, longest), label (rows,); lengths are on the host."""

    ids: Tensor
    types: Tensor
    attended: Tensor
    label: Tensor
    lengths: Array

    def batch(self, indices: Array) -> tuple[dict[str, Tensor], Tensor]:
        """The model's arguments and the labels of some rows, cut to the longest of them (a multiple of eight)."""
        width = min(self.ids.shape[1], -(-int(self.lengths[indices].max()) // 8) * 8)
        chosen = torch.from_numpy(indices).to(self.ids.device)
        arguments = {
            "input_ids": self.ids[chosen, :width],
            "token_type_ids": self.types[chosen, :width],
            "attention_mask": self.attended[chosen, None, None, :width],  # 4-d: transformers does not inspect it
        }
        return arguments, self.label[chosen]


def to_device(rows: TokenRows, device: torch.device, pad: int) -> DeviceRows:
    lengths = rows.lengths
    position = np.arange(int(lengths.max()))[None]
    attended = position < lengths[:, None]
    ids = np.full(attended.shape, pad, np.int64)
    ids[attended] = rows.ids
    types = attended & (position >= rows.second[:, None])
    return DeviceRows(
        torch.from_numpy(ids).to(device),
        torch.from_numpy(types).to(device, torch.long),
        torch.from_numpy(attended).to(device),
        torch.from_numpy(rows.label).to(device),
        lengths,
    )


def pack_encoder(source: Path, target: Path, dropped_bits: int = 0) -> None:
    """Copy the encoder with its weights in half precision; the bytes that repeat themselves are compressed.

    `dropped_bits`: this many last bits of each weight are rounded away, and the word embeddings stored in 8 bits.
    """
    target.mkdir(parents=True, exist_ok=True)
    stored = {k: v for k, v in load_file(source / "model.safetensors").items() if v.is_floating_point()}
    if dropped_bits:
        words = next(name for name in stored if name.endswith(WORDS))
        save_file(eight_bits(stored.pop(words)), target / WORD_FILE)
    bits = {name: rounded_bits(value.half().numpy(), dropped_bits) for name, value in stored.items()}
    high = {name: (value >> 8).astype(np.uint8) for name, value in bits.items()}  # sign, exponent
    low = {name: (value & 255).astype(np.uint8) for name, value in bits.items()}
    for file, planes in (("high.xz", high), ("low.xz", low)):
        (target / file).write_bytes(lzma.compress(numpy_file.save(planes), preset=6))
    for name in ENCODER_FILES:
        shutil.copy(source / name, target / name)


def rounded_bits(weights: Array, dropped: int) -> Array:
    """The 16 bits of each half-precision number, rounded to the nearest one whose last `dropped` bits are 0."""
    bits = np.ascontiguousarray(weights).view(np.uint16).astype(np.uint32)
    return (((bits + (1 << dropped >> 1)) >> dropped) << dropped).astype(np.uint16)


def eight_bits(weights: Tensor) -> dict[str, Tensor]:
    """A matrix as 8-bit integers and the size of the steps of each row."""
    steps = weights.abs().amax(1, keepdim=True).clamp(min=1e-12) / 127
    return {"steps": steps.contiguous(), "numbers": (weights / steps).round().to(torch.int8).contiguous()}


def unpack_encoder(source: Path, target: Path) -> Path:
    """Write the packed encoder as a folder that transformers loads; returns the folder."""
    target.mkdir(parents=True, exist_ok=True)
    low, high = (numpy_file.load(lzma.decompress((source / file).read_bytes())) for file in ("low.xz", "high.xz"))
    halves = {name: (high[name].astype(np.uint16) << 8 | low[name]).view(np.float16) for name in low}
    weights = {name: torch.from_numpy(half.copy()) for name, half in halves.items()}
    if (source / WORD_FILE).is_file():
        words = load_file(source / WORD_FILE)
        positions = next(name for name in weights if name.endswith("position_embeddings.weight"))
        prefix = positions.partition("embeddings.")[0]
        weights[prefix + WORDS] = (words["numbers"].float() * words["steps"]).half()
    save_file(weights, target / "model.safetensors")
    for name in ENCODER_FILES:
        shutil.copy(source / name, target / name)
    return target
