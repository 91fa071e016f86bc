"""From a name, an id, a folder or an object to a filler. Safe by default: safetensors only, no foreign code."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from rationales.errors import ModelError, OptionError
from rationales.models.pretrained import check_folder, hub_reachable, load_error
from rationales.models.quiet import quiet_transformers
from rationales.models.text.filling.filler import Filler

CATALOGUE_MODULE = "rationales.models.text.filler_files"  # FILLERS names them, load_filler(name) opens one
FillerSource = str | os.PathLike[str] | Filler | tuple[nn.Module, Any]
KINDS = "a name, an id, a folder or (module, tokenizer) of a fill-mask model"


def load_filler(source: FillerSource | None, device: torch.device | None = None) -> Filler | None:
    """A filler from a name of ours, a hub id, a folder or a pair (module, tokenizer); None for None.

    `device`: for fillers that are loaded here; a module that is passed stays where it is.
    """
    if source is None or isinstance(source, Filler):
        return source
    if isinstance(source, tuple):
        pair: tuple[Any, ...] = source
        if len(pair) != 2 or not isinstance(pair[0], nn.Module):
            raise OptionError(f"a masked language model is {KINDS}, not {pair!r}")
        return Filler(pair[0], pair[1], type(pair[0]).__name__)
    if not isinstance(source, (str, os.PathLike)):
        raise OptionError(f"a masked language model is {KINDS}, not {source!r}")
    folder = Path(source).expanduser()
    files = sorted((file.name, file.stat().st_mtime_ns) for file in folder.iterdir()) if folder.is_dir() else []
    where = str(folder) if folder.is_dir() else str(source)
    return _opened(where, tuple(files), str(device or torch.device("cpu")))


def filler_names() -> tuple[str, ...]:
    """Our own fillers whose files are here, the default first."""
    module = _catalogue()
    return () if module is None else tuple(name for name in module.FILLERS if module.filler_location(name))


def required_filler(source: FillerSource, method: str, device: torch.device) -> Filler:
    """The filler of a method's option; by default ("") the first of ours."""
    names = filler_names()
    filler = load_filler(source or (names[0] if names else None), device)
    if filler is None:
        raise OptionError(f"{method} needs a masked language model: set the option filler (--set filler=F) to {KINDS}")
    return filler


@functools.lru_cache(maxsize=4)
def _opened(where: str, _files: Sequence[tuple[str, int]], device: str) -> Filler:
    """The filler of this name or at this place; `_files` changes when a file of the folder does."""
    module = _catalogue()
    if module is not None and where in module.FILLERS:
        loaded = module.load_filler(where)
        network, tokenizer = (loaded.module, loaded.tokenizer) if isinstance(loaded, Filler) else loaded
    else:
        network, tokenizer = _pretrained(where)
    return Filler(network.eval().to(device), tokenizer, where)


def _catalogue() -> Any:
    return importlib.import_module(CATALOGUE_MODULE) if importlib.util.find_spec(CATALOGUE_MODULE) else None


def _pretrained(where: str) -> tuple[nn.Module, Any]:
    """The masked language model and tokenizer at a hub id or in a folder."""
    import transformers

    folder = Path(where)
    if folder.is_dir():
        check_folder(folder)
    options = {"local_files_only": folder.is_dir() or not hub_reachable()}
    try:
        with quiet_transformers():
            module, report = transformers.AutoModelForMaskedLM.from_pretrained(
                where, use_safetensors=True, output_loading_info=True, **options
            )
            tokenizer = transformers.AutoTokenizer.from_pretrained(where, **options)
    except Exception as error:  # transformers raises many kinds; each means that there is nothing to fill words in with
        message = load_error(where, error, remote=False)
        if message.startswith("there is no model"):
            known = ", ".join(filler_names()) or "there is none"
            message = f"there is no filler {where!r}: not a folder, not one of ours ({known}), nor on the hub from here"
        raise ModelError(message) from error
    if missing := sorted(report["missing_keys"]):
        raise ModelError(f"{where} is no masked language model: it lacks the weights {missing[0]}")
    return module, tokenizer
