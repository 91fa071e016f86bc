"""Hugging Face classifiers of anything but text, with what prepares their input; safetensors only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from rationales.errors import ModelError
from rationales.models.loading import WEIGHTS, check_folder, check_report, hub_reachable, load_error
from rationales.models.quiet import quiet_transformers


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
        with quiet_transformers():
            module, report = loader.from_pretrained(where, **WEIGHTS, **options)
            own = given or getattr(transformers, f"Auto{reader}").from_pretrained(where, **options)
    except Exception as error:  # transformers raises many kinds; each means that there is no model to explain
        raise ModelError(load_error(where, error, remote)) from error
    check_report(where, report, module.config.num_labels)
    return module, own
