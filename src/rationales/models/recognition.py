"""Recognises what kind of classifier a Hugging Face id or folder holds, by its configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rationales.errors import ModelError
from rationales.models.multimodal.architectures import ARCHITECTURES
from rationales.models.multimodal.pair_network import is_pair_network
from rationales.models.pretrained import hub_reachable
from rationales.models.quiet import quiet_transformers

# XForTaskClassification, as transformers calls them; audio comes first: some of its classes are …ForSequence…
TASKS = {"audio": "Audio", "image": "Image", "text": "Sequence"}


def pretrained_kind(name: str, trust_remote_code: bool = False) -> str | None:
    """`text`, `image`, `audio` or `image-text` for a hub id or a folder; None where its configuration cannot be read.

    Raises a ModelError for a configuration that belongs to no classifier, such as that of a bare encoder.
    """
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
    if not architectures:
        return None
    raise ModelError(
        f"{name} is no trained classifier: its configuration names {', '.join(architectures)}; "
        "give a model that was fine-tuned to classify texts, images, sounds or images with texts"
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
