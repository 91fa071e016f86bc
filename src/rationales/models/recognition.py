"""Recognises what a Hugging Face id or folder holds, by its configuration: a classifier or a language model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torch import nn

from rationales.errors import ModelError
from rationales.models.multimodal.architectures import ARCHITECTURES
from rationales.models.multimodal.pair_network import is_pair_network
from rationales.models.pretrained import hub_reachable
from rationales.models.quiet import quiet_transformers

# XForTaskClassification, as transformers calls them; audio comes first: some of its classes are …ForSequence…
ADAPTER_FILE, GGUF = "adapter_config.json", ".gguf"  # of a peft adapter; the end of a file's name
LANGUAGE_MODEL = "prompt"  # kind of a causal language model, which classifies by a prompt
TASKS = {"audio": "Audio", "image": "Image", "text": "Sequence"}


def pretrained_kind(name: str, trust_remote_code: bool = False) -> str | None:
    """`text`, `image`, `audio`, `image-text` or `prompt` for a hub id, a folder or a file; None if it cannot be read.

    `prompt` is a causal language model, also as a GGUF file or an adapter. Raises a ModelError for a configuration that
    belongs to neither a classifier nor a language model, such as that of a bare encoder.
    """
    if (Path(name) / ADAPTER_FILE).is_file():
        _check_adapter(Path(name) / ADAPTER_FILE)
        return LANGUAGE_MODEL
    if name.endswith(GGUF):
        return LANGUAGE_MODEL
    if is_pair_network(Path(name)):
        return "image-text"
    config = _configuration(name, trust_remote_code)
    if config is None:
        return None
    architectures = [str(architecture) for architecture in getattr(config, "architectures", None) or ()]
    if any(architecture in ARCHITECTURES for architecture in architectures):
        return "image-text"
    kinds = [kind for kind in TASKS if _is_classifier(config, architectures, kind)]
    if kinds:
        return kinds[0]
    if any(map(is_causal_class, architectures)):
        return LANGUAGE_MODEL
    if not architectures:
        return None
    raise ModelError(
        f"{name} is no trained classifier: its configuration names {', '.join(architectures)}; "
        "give a model that was fine-tuned to classify texts, images, sounds or images with texts"
    )


def _check_adapter(path: Path) -> None:
    """Raise a ModelError for an adapter that changes another model than a language model."""
    try:
        task = json.loads(path.read_text(encoding="utf-8")).get("task_type")
    except (ValueError, AttributeError):
        return  # what is wrong with it is reported when it is opened
    if task not in (None, "CAUSAL_LM"):
        raise ModelError(
            f"{path.parent} is the adapter of another model than a language model (task_type {task}); load it with "
            "peft, and give rationales.load the module with its tokenizer, or a folder of model.merge_and_unload()"
        )


def _configuration(name: str, trust_remote_code: bool) -> Any:
    """The configuration of transformers, or None: the text loader then reports what is wrong."""
    from transformers import AutoConfig

    local = Path(name).is_dir()
    try:
        with quiet_transformers():
            return AutoConfig.from_pretrained(
                name, trust_remote_code=trust_remote_code, local_files_only=local or not hub_reachable()
            )
    except Exception:  # noqa: BLE001  # transformers raises many kinds; the loader runs into the same one
        return None


def _is_classifier(config: Any, architectures: list[str], kind: str) -> bool:
    """By the architectures that the configuration names, or else by its model type."""
    from transformers.models.auto import modeling_auto

    task = TASKS[kind]
    if f"AutoModelFor{task}Classification" in (getattr(config, "auto_map", None) or {}):
        return True
    names: dict[str, Any] = getattr(modeling_auto, f"MODEL_FOR_{task.upper()}_CLASSIFICATION_MAPPING_NAMES")
    if not architectures:
        return config.model_type in names
    known = {name for value in names.values() for name in ([value] if isinstance(value, str) else value)}
    return any(name in known or name.endswith(f"For{task}Classification") for name in architectures)


def is_language_model(module: nn.Module) -> bool:
    """Whether a module is a causal language model, also inside an adapter of peft."""
    unwrap: Any = getattr(module, "get_base_model", None)
    base = module if unwrap is None else unwrap()
    return is_causal_class(type(base).__name__)


def is_causal_class(name: str) -> bool:
    """Whether a class of this name is a causal language model of transformers."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    return name in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values() or name.endswith(("ForCausalLM", "LMHeadModel"))
