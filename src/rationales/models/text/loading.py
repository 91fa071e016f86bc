"""From an id, a folder or an object to a text model. Safe by default: no pickle, no foreign code."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rationales.errors import ModelError, OptionError
from rationales.models import catalogue
from rationales.models.pretrained import device_of, load_pretrained
from rationales.models.text.model import TextModel, text_model

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
    loaded = [_open(source, tokenizer, trust_remote_code, kind) for source in sources]
    modules = [module for module, _, _ in loaded]
    tokenizers = [text_tokenizer for _, text_tokenizer, _ in loaded]
    if any(text_tokenizer.get_vocab() != tokenizers[0].get_vocab() for text_tokenizer in tokenizers[1:]):
        raise ModelError("models explained together must share one tokenizer; these have different vocabularies")
    if device is not None:
        modules = [module.to(device_of(device)) for module in modules]
    name = " + ".join(title for _, _, title in loaded)
    return text_model(modules, tokenizers[0], name=name, unit=unit, baseline=baseline, limit=segment, overlap=overlap)


def _open(source: Source | None, tokenizer: Any, remote: bool, device: str) -> tuple[nn.Module, Any, str]:
    """The module, its tokenizer and a name for it."""
    if isinstance(source, nn.Module):
        if tokenizer is None:
            raise OptionError("a module needs its tokenizer: rationales.load(module, tokenizer)")
        return source, tokenizer, getattr(source, "name_or_path", "") or type(source).__name__
    if source is None or str(source) in catalogue.CATALOGUE:
        entry = catalogue.CATALOGUE[str(source) if source is not None else catalogue.EMBEDDED]
        module, loaded_tokenizer = entry.open(device)
        return module, tokenizer or loaded_tokenizer, entry.name
    return (*_pretrained(str(source), tokenizer, remote), str(source))


def _pretrained(where: str, tokenizer: Any, remote: bool) -> tuple[nn.Module, Any]:
    """The sequence classifier at a hub id or folder, and `tokenizer` or else the one saved with it."""
    folder = Path(where)
    if folder.exists() and not folder.is_dir():
        raise ModelError(f"{where} is a file; give the folder that holds config.json and the weights")
    if not folder.exists() and (where.startswith((".", "/", "~")) or where.count("/") > 1):
        raise ModelError(f"there is no folder {where}; check the path")
    module, loaded_tokenizer = load_pretrained("Sequence", "Tokenizer", where, tokenizer, remote)
    # transformers makes a tokenizer of special tokens alone from a folder without any
    if len(loaded_tokenizer.get_vocab()) <= len(loaded_tokenizer.all_special_tokens):
        raise ModelError(f"{where} brings no tokenizer; save it there with tokenizer.save_pretrained, or pass it along")
    return module, loaded_tokenizer
