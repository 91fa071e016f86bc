"""Language models in GGUF files."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import torch
from torch import nn

from rationales.errors import ModelError
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
        with quiet_transformers():
            module = transformers.AutoModelForCausalLM.from_pretrained(path.parent, dtype=torch.float32, **options)
            tokenizer = transformers.AutoTokenizer.from_pretrained(path.parent, **options)
    except Exception as error:  # transformers raises many kinds; each means that there is no model to explain
        raise ModelError(f"cannot load {path}: {first_line(error)}") from error
    return module.eval(), tokenizer


def require(package: str, purpose: str) -> None:
    """Raise a ModelError unless the package is installed."""
    if importlib.util.find_spec(package) is None:
        raise ModelError(f"{purpose} need the package {package}: {EXTRA}")


def first_line(error: Exception) -> str:
    """The first line of an exception's message."""
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
