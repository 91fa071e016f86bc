"""A small image-text classifier of our own: does any place of the picture fit the text?

Convolutions give features of places in the picture, the words a vector. Each place is compared with the text by two
linear layers, and the best place for every feature decides. It learns quickly on one CPU core, and is stored as a
folder that `rationales.load` reads: config.json, model.safetensors and a tokenizer.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rationales.errors import ModelError
from rationales.files import read_text, write_bytes, write_text

ARCHITECTURE = "PairNetwork"  # in config.json


@dataclass
class PairConfiguration:
    """The shape of a network and its labels."""

    vocab_size: int
    id2label: dict[int, str]
    image_size: int = 32
    width: int = 48
    pad_token_id: int = 0
    max_position_embeddings: int = 64  # most tokens of a text


class PairNetwork(nn.Module):
    """Logits (R, classes) from pixels (R, 3, H, W) in [-1, 1] and tokens (R, T); the order of words does not count."""

    def __init__(self, config: PairConfiguration) -> None:
        super().__init__()
        self.config, width = config, config.width
        self.places = nn.Sequential(
            nn.Conv2d(3, width, 5, stride=2, padding=2),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, stride=2, padding=1),
            nn.ReLU(),
        )
        self.words = nn.Embedding(config.vocab_size, width, padding_idx=config.pad_token_id)
        self.text = nn.Sequential(nn.Linear(width, width), nn.ReLU())
        self.compare = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.classifier = nn.Linear(2 * width, len(config.id2label))

    def get_input_embeddings(self) -> nn.Module:
        """The word embeddings."""
        return self.words

    def forward(self, pixel_values: Tensor, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """(R, classes)."""
        features = self.places(pixel_values).flatten(2).mT  # (R, P, width)
        words = self.words(input_ids) * attention_mask[..., None].to(features.dtype)
        text = self.text(words.sum(1))  # (R, width)
        both = torch.cat([features, text[:, None].expand_as(features)], -1)
        fit: Tensor = self.compare(both).amax(1)
        return self.classifier(torch.cat([fit, text], -1))  # type: ignore[no-any-return]  # torch has no types for it

    def save(self, folder: Path, tokenizer: Any) -> None:
        """Write the folder."""
        from safetensors.torch import save

        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / "config.json", json.dumps({"architectures": [ARCHITECTURE], **asdict(self.config)}) + "\n")
        write_bytes(
            folder / "model.safetensors", save({name: value.half() for name, value in self.state_dict().items()})
        )
        tokenizer.save_pretrained(folder)


def is_pair_network(folder: Path) -> bool:
    """Whether a folder holds such a network, by its configuration."""
    path = folder / "config.json"
    try:
        return path.is_file() and json.loads(read_text(path)).get("architectures") == [ARCHITECTURE]
    except (json.JSONDecodeError, AttributeError):
        return False


def load_pair_network(folder: Path) -> tuple[PairNetwork, Any]:
    """The network of a folder, and its tokenizer."""
    from safetensors import SafetensorError
    from safetensors.torch import load
    from transformers import AutoTokenizer

    try:
        values = json.loads(read_text(folder / "config.json"))
        values["id2label"] = {int(number): label for number, label in values["id2label"].items()}
        del values["architectures"]
        module = PairNetwork(PairConfiguration(**values))
        weights = load((folder / "model.safetensors").read_bytes())
        module.load_state_dict({name: value.float() for name, value in weights.items()})
        tokenizer: Any = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    except (OSError, KeyError, TypeError, ValueError, RuntimeError, SafetensorError) as error:
        first = str(error).strip().splitlines()[0]
        raise ModelError(
            f"{folder} holds no complete {ARCHITECTURE}: {first}; make it again with zoo/shapes.py"
        ) from error
    return module.eval(), tokenizer


def picture_reader(side: int) -> Any:
    """A function from a PIL image to what the network reads: (3, side, side) in [-1, 1]."""

    def preprocess(image: Any) -> Tensor:
        return picture_tensor([np.asarray(image.convert("RGB").resize((side, side)))])[0]

    return preprocess


def picture_tensor(pictures: Sequence[np.ndarray]) -> Tensor:
    """(N, 3, H, W) in [-1, 1] from pictures (H, W, 3) uint8."""
    return torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2).float() / 127.5 - 1
