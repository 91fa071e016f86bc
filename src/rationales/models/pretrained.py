"""Hugging Face classifiers of anything but text, with what prepares their input; safetensors only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from rationales.errors import ModelError
from rationales.models.loading import check_folder, hub_reachable, load_error


def load_pretrained(task: str, reader: str, where: str, given: Any, remote: bool) -> tuple[nn.Module, Any]:
    """The classifier at an id or folder, and `given` or else its own reader.

    `task` and `reader` are transformers' names: Image and ImageProcessor, Audio and FeatureExtractor.
    """
    import transformers

    folder = Path(where)
    if folder.is_dir():
        check_folder(folder)
    options = {"trust_remote_code": remote, "local_files_only": folder.is_dir() or not hub_reachable()}
    loader: Any = getattr(transformers, f"AutoModelFor{task}Classification")
    try:
        module, report = loader.from_pretrained(where, use_safetensors=True, output_loading_info=True, **options)
        own = given or getattr(transformers, f"Auto{reader}").from_pretrained(where, **options)
    except Exception as error:  # transformers raises many kinds; each means that there is no model to explain
        raise ModelError(load_error(where, error, remote)) from error
    if missing := sorted(report["missing_keys"]):
        raise ModelError(f"{where} is no trained classifier: it lacks the weights {missing[0]}; fine-tune it first")
    return module, own
