"""Language models in GGUF files."""

from __future__ import annotations

import contextlib
import copy
import functools
import hashlib
import importlib.util
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

from rationales.data.archives import cache_folder
from rationales.errors import ModelError
from rationales.models.batch.execution import attribute_set
from rationales.models.quiet import quiet_transformers
from rationales.version import installed_version

EXTRA = "pip install 'rationales[llm]'"
MAX_STORED_BYTES = 2**30  # of converted weights; larger models are converted each time


def open_gguf(path: Path) -> tuple[nn.Module, Any]:
    """The language model and tokenizer in a GGUF file; its weights become single precision, with gradients.

    The conversion takes far longer than reading its result, so that the result of a small model is kept in the cache.
    """
    if not path.is_file():
        raise ModelError(f"there is no file {path}; check the path")
    require("gguf", "GGUF files")
    require("accelerate", "GGUF files")
    stored = converted_folder(path)
    if stored.is_dir():
        with contextlib.suppress(Exception):  # a file of the cache that cannot be read: converted again below
            return _from_pretrained(stored)
    try:
        with _read_once():
            module, tokenizer = _from_pretrained(path.parent, gguf_file=path.name)
    except Exception as error:  # transformers raises many kinds; each means that there is no model to explain
        raise ModelError(f"cannot load {path}: {first_line(error)}") from error
    if sum(weight.numel() * weight.element_size() for weight in module.parameters()) <= MAX_STORED_BYTES:
        _store(module, tokenizer, stored)
    return module, tokenizer


def converted_folder(path: Path) -> Path:
    """Where the converted model of a GGUF file lies; another one for a changed file or version of transformers."""
    status = path.stat()
    key = f"{path.resolve()} {status.st_size} {status.st_mtime_ns} {installed_version('transformers')}"
    digest = hashlib.blake2b(key.encode(), digest_size=8).hexdigest()
    return cache_folder().parent / "converted" / f"{path.stem}-{digest}"


def _from_pretrained(folder: Path, **options: Any) -> tuple[nn.Module, Any]:
    import transformers

    options["local_files_only"] = True
    with quiet_transformers():
        module: Any = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **options)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **options)
    return module.eval(), tokenizer


def _store(module: Any, tokenizer: Any, folder: Path) -> None:
    """Write the converted model into the cache, complete or not at all; where nothing can be written, nothing is."""
    with contextlib.suppress(OSError):
        folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".part-"))
        config = copy.deepcopy(module.config)
        vars(config).pop("quantization_config", None)  # the weights are plain numbers by now
        state = module.state_dict()
        untied_names = {weight.data_ptr(): name for name, weight in reversed(state.items())}.values()
        weights = {name: state[name].contiguous() for name in untied_names}
        try:
            with quiet_transformers():
                config.save_pretrained(unfinished)
                tokenizer.save_pretrained(unfinished)
                save_file(weights, unfinished / "model.safetensors", {"format": "pt"})
            if folder.is_dir():
                shutil.rmtree(folder)  # it could not be read
            unfinished.rename(folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)


@contextmanager
def _read_once() -> Iterator[None]:
    """Inside the block, transformers reads a GGUF file's header once, quickly and without a progress bar.

    It asks for the reader three times, for the configuration, the weights and the tokenizer, and each time the header's
    hundred thousand strings are cut out of a memory map; a plain array is several times faster. The names of tensors
    are looked up for every sub-module.
    """
    import gguf
    from transformers import modeling_gguf_pytorch_utils as conversion

    class ArrayReader(gguf.GGUFReader):
        @property  # type: ignore[override]  # a plain array in place of a memory map
        def data(self) -> np.ndarray:
            return self._data

        @data.setter
        def data(self, mapped: np.ndarray) -> None:
            self._data: np.ndarray = np.asarray(mapped)

    reader, names = functools.cache(ArrayReader), functools.cache(gguf.get_tensor_name_map)
    with ExitStack() as stack:
        stack.enter_context(attribute_set(gguf, "GGUFReader", lambda path, *_: reader(str(path))))
        stack.enter_context(attribute_set(gguf, "get_tensor_name_map", names))
        stack.enter_context(attribute_set(conversion, "tqdm", lambda tensors, **_: tensors))
        yield


def require(package: str, purpose: str) -> None:
    """Raise a ModelError unless the package is installed."""
    if importlib.util.find_spec(package) is None:
        raise ModelError(f"{purpose} need the package {package}: {EXTRA}")


def first_line(error: Exception) -> str:
    """The first line of an exception's message."""
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
