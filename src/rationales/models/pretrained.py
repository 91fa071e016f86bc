"""Hugging Face checkpoints: safetensors only, checked before and after they are loaded, with errors that help."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlparse
from urllib.request import getproxies

import torch
from torch import nn

from rationales.errors import ModelError, OptionError
from rationales.models import catalogue
from rationales.models.quiet import quiet_transformers
from rationales.options import suggestion

WEIGHTS = {"use_safetensors": True, "output_loading_info": True, "ignore_mismatched_sizes": True}  # see check_report


def load_pretrained(task: str, reader: str, where: str, preprocessor: Any, remote: bool) -> tuple[nn.Module, Any]:
    """The classifier at a hub id or in a folder, and `preprocessor` or else the one saved with it.

    `task` and `reader` are names of transformers: Sequence and Tokenizer, Image and ImageProcessor, Audio and
    FeatureExtractor.
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
            loaded = preprocessor or getattr(transformers, f"Auto{reader}").from_pretrained(where, **options)
    except Exception as error:  # transformers raises many kinds; each means that there is no model to explain
        raise ModelError(load_error(where, error, remote)) from error
    check_report(where, report, module.config.num_labels)
    return module, loaded


def load_architecture(where: str, preprocessor: Any, remote: bool) -> tuple[nn.Module, Any]:
    """The image-text model at a hub id or in a folder, by the class that its configuration names.

    With `preprocessor`, or else the tokenizer and the image processor saved with it.
    """
    import transformers

    folder = Path(where)
    if folder.is_dir():
        check_folder(folder)
    options = {"trust_remote_code": remote, "local_files_only": folder.is_dir() or not hub_reachable()}
    try:
        with quiet_transformers():
            names = transformers.AutoConfig.from_pretrained(where, **options).architectures or [""]
            module, report = getattr(transformers, names[0]).from_pretrained(where, **WEIGHTS, **options)
            readers = preprocessor or (
                transformers.AutoTokenizer.from_pretrained(where, **options),
                transformers.AutoImageProcessor.from_pretrained(where, **options),  # type: ignore[no-untyped-call]
            )
    except Exception as error:  # transformers raises many kinds; each means that there is no model to explain
        raise ModelError(load_error(where, error, remote)) from error
    check_report(where, report, getattr(module.config, "num_labels", 2))
    return module, readers


def hub_reachable() -> bool:
    """Whether the hub's host name resolves; without this check huggingface_hub retries for half a minute."""
    from huggingface_hub import constants

    if getproxies():
        return True  # a proxy resolves names itself
    try:
        socket.getaddrinfo(urlparse(constants.ENDPOINT).hostname, 443)
    except OSError:
        return False
    return True


def check_report(where: str, report: Mapping[str, Any], labels: int) -> None:
    """Raise a ModelError if weights are missing or have another shape: transformers initialises those at random."""
    mismatched = sorted(report["mismatched_keys"])
    stored_labels = {stored[0] if expected[0] == labels else None for _, stored, expected in mismatched}
    if len(stored_labels) == 1 and None not in stored_labels:  # only the classification layer differs
        raise ModelError(
            f"{where}: config.json names {labels} labels, but the weights ({mismatched[0][0]}) are for "
            f"{stored_labels.pop()}; give config.json the labels (id2label) that the model was trained with"
        )
    for name, stored, expected in mismatched:
        raise ModelError(
            f"{where}: config.json does not fit the weights: {name} is {tuple(stored)} in the file and "
            f"{tuple(expected)} by config.json; use the config.json that the weights were saved with"
        )
    if missing := sorted(report["missing_keys"]):
        raise ModelError(f"{where} is no trained classifier: it lacks the weights {missing[0]}; fine-tune it first")


def check_folder(folder: Path) -> None:
    """Raise a ModelError unless the folder holds config.json and safetensors weights."""
    if not (folder / "config.json").is_file():
        raise ModelError(f"{folder} holds no config.json; give the folder of a saved Hugging Face model")
    if any(folder.glob("*.safetensors")):
        return
    pickled = sorted(path.name for pattern in ("*.bin", "*.pt", "*.pth", "*.ckpt") for path in folder.glob(pattern))
    if pickled:
        raise ModelError(
            f"{folder} holds only pickled weights ({pickled[0]}), which can run code when loaded; "
            "convert them with model.save_pretrained(folder), which writes safetensors"
        )
    raise ModelError(f"{folder} holds no *.safetensors weights; write them with model.save_pretrained(folder)")


def load_error(where: str, error: Exception, remote: bool) -> str:
    """The message for an exception of transformers while loading `where`."""
    first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if "trust_remote_code" in str(error) and not remote:
        return f"{where} brings its own code; pass trust_remote_code=True (--trust-remote-code) if you trust its author"
    if type(error).__name__ == "SafetensorError":
        return f"the weights of {where} are damaged ({first}); copy or download them again"
    if Path(where).is_dir():
        return f"cannot load {where}: {first}"
    if "safetensors" in str(error) and "connect" not in str(error).lower():
        return f"{where} has no safetensors weights; pickled weights are refused because they can run code when loaded"
    hint = suggestion(where, catalogue.model_names())
    offline = os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on")
    hub = "HF_HUB_OFFLINE is set, so the Hugging Face hub was not asked" if offline else f"the hub answered: {first}"
    return f"there is no model {where!r}{hint}: no such folder, no such name ('rationales models' lists them); {hub}"


def device_of(name: str | torch.device) -> torch.device:
    """The device of this name; an OptionError if it is not available."""
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).tolist()  # fails on the meta device, which holds no values
    except (RuntimeError, AssertionError, TypeError):
        available = [kind for kind in ("cuda", "xpu", "mps") if getattr(torch, kind).is_available()]
        raise OptionError(
            f"there is no device {str(name)!r} here; there is: {', '.join(['cpu', *available])}"
        ) from None
    return device
