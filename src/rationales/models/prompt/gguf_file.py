"""Language models in GGUF files."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from rationales.errors import ModelError
from rationales.models.batch.execution import attribute_set
from rationales.models.quiet import quiet_transformers

EXTRA = "pip install 'rationales[llm]'"


def open_gguf(path: Path) -> tuple[nn.Module, Any]:
    """The language model and tokenizer in a GGUF file; its weights become single precision, with gradients."""
    import transformers

    if not path.is_file():
        raise ModelError(f"there is no file {path}; check the path")
    require("gguf", "GGUF files")
    require("accelerate", "GGUF files")
    options = {"gguf_file": path.name, "local_files_only": True}
    try:
        with quiet_transformers(), _read_once():
            module: Any = transformers.AutoModelForCausalLM.from_pretrained(path.parent, dtype=torch.float32, **options)
            tokenizer = transformers.AutoTokenizer.from_pretrained(path.parent, **options)
    except Exception as error:  # transformers raises many kinds; each means that there is no model to explain
        raise ModelError(f"cannot load {path}: {first_line(error)}") from error
    return module.eval(), tokenizer


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
