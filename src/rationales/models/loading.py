"""From an id, a folder or an object to a text model. Safe by default: no pickle, no foreign code."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlparse
from urllib.request import getproxies

import torch
from torch import Tensor, nn

from rationales.errors import ModelError, OptionError
from rationales.models import catalogue
from rationales.models.quiet import quiet_transformers
from rationales.models.text import TextModel, text_model

WEIGHTS = {"use_safetensors": True, "output_loading_info": True, "ignore_mismatched_sizes": True}  # see check_report
Source = str | os.PathLike[str] | nn.Module


def load_text(
    source: Source | Sequence[Source] | None = None,
    tokenizer: Any = None,
    *,
    device: str | torch.device | None = None,
    unit: str = "word",
    baseline: str | Tensor | None = None,
    segment: int | None = None,
    overlap: int = 100,
    trust_remote_code: bool = False,
) -> TextModel:
    """Make a text classifier explainable; the options are those of `rationales.load`."""
    sources = list(source) if isinstance(source, Sequence) and not isinstance(source, str) else [source]
    if not sources:
        raise OptionError("no model given; give at least one, or none at all for the embedded one")
    for option, value in (("segment", segment), ("overlap", overlap)):
        if value is not None and (type(value) is not int or value < 0):
            raise OptionError(f"{option} is a number of tokens, a whole number and not negative; not {value!r}")
    if tokenizer is not None and not (callable(tokenizer) and hasattr(tokenizer, "get_vocab")):
        raise OptionError(f"the tokenizer must be a Hugging Face tokenizer, not {type(tokenizer).__name__}")
    kind = "cpu" if device is None else device_of(device).type
    opened = [_open(one, tokenizer, trust_remote_code, kind) for one in sources]
    modules = [module for module, _, _ in opened]
    tokenizers = [own for _, own, _ in opened]
    if any(own.get_vocab() != tokenizers[0].get_vocab() for own in tokenizers[1:]):
        raise ModelError("models explained together must share one tokenizer; these have different vocabularies")
    if device is not None:
        modules = [module.to(device_of(device)) for module in modules]
    name = " + ".join(title for _, _, title in opened)
    return text_model(modules, tokenizers[0], name=name, unit=unit, baseline=baseline, limit=segment, overlap=overlap)


def _open(source: Source | None, tokenizer: Any, remote: bool, device: str) -> tuple[nn.Module, Any, str]:
    """The module, its tokenizer and a name for it."""
    if isinstance(source, nn.Module):
        if tokenizer is None:
            raise OptionError("a module needs its tokenizer: rationales.load(module, tokenizer)")
        return source, tokenizer, getattr(source, "name_or_path", "") or type(source).__name__
    if source is None or str(source) in catalogue.CATALOGUE:
        entry = catalogue.CATALOGUE[str(source) if source is not None else catalogue.EMBEDDED]
        module, own = entry.open(device)
        return module, tokenizer or own, entry.name
    return (*_pretrained(str(source), tokenizer, remote), str(source))


def _pretrained(where: str, tokenizer: Any, remote: bool) -> tuple[nn.Module, Any]:
    import transformers

    folder = Path(where)
    if folder.is_dir():
        check_folder(folder)
    elif folder.exists():
        raise ModelError(f"{where} is a file; give the folder that holds config.json and the weights")
    elif where.startswith((".", "/", "~")) or where.count("/") > 1:
        raise ModelError(f"there is no folder {where}; check the path")
    loader = transformers.AutoModelForSequenceClassification
    options = {"trust_remote_code": remote, "local_files_only": folder.is_dir() or not hub_reachable()}
    try:
        with quiet_transformers():
            module, report = loader.from_pretrained(where, **WEIGHTS, **options)
            own = tokenizer or transformers.AutoTokenizer.from_pretrained(where, **options)
    except Exception as error:  # transformers raises many kinds; each means that there is no model to explain
        raise ModelError(load_error(where, error, remote)) from error
    check_report(where, report, module.config.num_labels)
    if len(own.get_vocab()) <= len(own.all_special_tokens):  # what transformers makes of a folder without any
        raise ModelError(f"{where} brings no tokenizer; save it there with tokenizer.save_pretrained, or pass it along")
    return module, own


def hub_reachable() -> bool:
    """Whether the hub's name can be looked up at all; without this the hub's library tries for half a minute."""
    from huggingface_hub import constants

    if getproxies():
        return True  # a proxy looks names up itself
    try:
        socket.getaddrinfo(urlparse(constants.ENDPOINT).hostname, 443)
    except OSError:
        return False
    return True


def check_report(where: str, report: Mapping[str, Any], labels: int) -> None:
    """Raise a ModelError where weights are missing or of another shape: transformers puts random numbers there."""
    mismatched = sorted(report["mismatched_keys"])
    stored_labels = {stored[0] if expected[0] == labels else None for _, stored, expected in mismatched}
    if len(stored_labels) == 1 and None not in stored_labels:  # of the last layer alone, which gives the logits
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
    first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if "trust_remote_code" in str(error) and not remote:
        return f"{where} brings its own code; pass trust_remote_code=True (--trust-remote-code) if you trust its author"
    if type(error).__name__ == "SafetensorError":
        return f"the weights of {where} are damaged ({first}); copy or download them again"
    if Path(where).is_dir():
        return f"cannot load {where}: {first}"
    if "safetensors" in str(error) and "connect" not in str(error).lower():
        return f"{where} has no safetensors weights; pickled weights are refused because they can run code when loaded"
    known = ", ".join(catalogue.CATALOGUE)
    return f"there is no model {where!r}: not a folder, not one of ours ({known}), and not to be had from the hub here"


def device_of(wanted: str | torch.device) -> torch.device:
    try:
        device = torch.device(wanted)
        torch.zeros(1, device=device).tolist()  # the meta device has no numbers
    except (RuntimeError, AssertionError, TypeError):
        found = [kind for kind in ("cuda", "xpu", "mps") if getattr(torch, kind).is_available()]
        raise OptionError(f"there is no device {str(wanted)!r} here; there is: {', '.join(['cpu', *found])}") from None
    return device
