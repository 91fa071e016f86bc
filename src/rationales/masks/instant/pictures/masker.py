"""A trained masker for pictures with its card, and the file that stores both: safetensors with JSON in the header."""

from __future__ import annotations

import functools
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from rationales.errors import ModelError, OptionError
from rationales.files import write_bytes
from rationales.masks.instant.masker_file import SHIPPED_MASKER, MaskerCard
from rationales.masks.instant.pictures.feature_layers import FeatureLayer
from rationales.masks.instant.pictures.network import PictureMaskerNetwork, PictureMaskerShape, predict_parameters
from rationales.masks.settings import MaskSettings
from rationales.models.empty_weights import empty_weights
from rationales.models.image.batch import ImageBatch
from rationales.models.image.fingerprint import image_fingerprint

FORMAT_VERSION = 1  # raised when files would be misread
HEADER = "picture_masker"
SHIPPED_PICTURE_MASKER = SHIPPED_MASKER.with_name("efficientnet-lite0-masker.safetensors")
TRAIN_COMMAND = "rationales train-masker --images FOLDER --model MODEL --out F"


@dataclass(frozen=True, eq=False)
class PictureMasker:
    """A network that predicts MaRC's parameters for one image classifier."""

    network: PictureMaskerNetwork
    card: MaskerCard

    def __call__(self, batch: ImageBatch, target: Tensor) -> tuple[Tensor, Tensor]:
        """w and sigma, (M, s) each, for `target` (inputs,); raises an error for a model that it was not trained for."""
        self.check(batch)
        settings = self.card.objective.on(batch.grid)
        with torch.no_grad():
            return batch.fit(lambda: predict_parameters(self.network, batch, target, settings))

    def check(self, batch: ImageBatch) -> None:
        """Raise an OptionError unless the batch belongs to the model that the masker was trained for."""
        if image_fingerprint(batch) != self.card.fingerprint:
            raise OptionError(
                f"the masker was trained for {self.card.model} with the labels {', '.join(self.card.labels[:6])}, and "
                f"this is another model or another version of its weights; train one for it: {TRAIN_COMMAND}"
            )

    def save(self, path: str | os.PathLike[str], half: bool = False) -> Path:
        """Write network and card into one file, atomically; `half` stores half precision."""
        from safetensors.torch import save

        dtype = torch.float16 if half else torch.float32
        tensors = {
            name: value.detach().cpu().to(dtype).contiguous() for name, value in self.network.state_dict().items()
        }
        metadata = {"format": FORMAT_VERSION, "shape": asdict(self.network.shape), "card": asdict(self.card)}
        return write_bytes(path, save(tensors, {HEADER: json.dumps(metadata, ensure_ascii=False)}))


def load_picture_masker(path: str | os.PathLike[str], device: torch.device | str = "cpu") -> PictureMasker:
    """Read what `PictureMasker.save` wrote."""
    file = Path(path).expanduser()
    if file.is_dir() or not file.exists():
        raise OptionError(f"there is no masker {file}; train one: {TRAIN_COMMAND}")
    status = file.stat()
    return _load(file, status.st_mtime_ns, status.st_size, torch.device(device))


@functools.lru_cache(maxsize=4)
def _load(path: Path, _changed: int, _size: int, device: torch.device) -> PictureMasker:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            if HEADER not in header and ("masker" in header or "aml_masker" in header):
                raise ModelError(f"{path} is a masker for texts; train one for pictures: {TRAIN_COMMAND}")
            metadata = json.loads(header[HEADER])
            tensors = {name: file.get_tensor(name).float() for name in file.keys()}  # noqa: SIM118  # no mapping
        if metadata["format"] != FORMAT_VERSION:
            raise ModelError(f"{path} was written by another version of rationales; train it again: {TRAIN_COMMAND}")
        shape = metadata["shape"]
        shape["layers"] = tuple(FeatureLayer(**layer) for layer in shape["layers"])
        with empty_weights():
            network = PictureMaskerNetwork(PictureMaskerShape(**shape))
        network.load_state_dict(tensors, assign=True)
        card = metadata["card"]
        card |= {"labels": tuple(card["labels"]), "objective": MaskSettings(**card["objective"])}
        masker_card = MaskerCard(**card)
    except (SafetensorError, OSError, KeyError, ValueError, TypeError, RuntimeError, OptionError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ModelError(f"{path} is no masker, or a damaged one ({reason}); train one: {TRAIN_COMMAND}") from error
    return PictureMasker(network.requires_grad_(False).eval().to(device), masker_card)
