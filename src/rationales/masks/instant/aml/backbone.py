"""The encoder that an attribution network is built on: the explained model's own, another one, or a new small one."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from rationales.errors import ModelError, OptionError
from rationales.masks.instant.aml.attribution_network import word_embeddings
from rationales.models.pretrained import check_folder, hub_reachable, load_error
from rationales.models.quiet import quiet_transformers
from rationales.models.text.model import TextModel, token_limit

OWN, SMALL = "own", "small"
SMALL_WIDTH, SMALL_LAYERS = 128, 2
POSITIONS = 512  # of a new small encoder
SPECIAL_TOKENS = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token", "bos_token", "eos_token")
BackboneSource = str | os.PathLike[str] | tuple[nn.Module, Any]


@dataclass(frozen=True, eq=False)
class Backbone:
    """An encoder with its tokenizer."""

    encoder: nn.Module  # a Hugging Face encoder: inputs_embeds, attention_mask -> last_hidden_state
    tokenizer: Any
    name: str
    shares_tokenizer: bool  # with the explained model
    shares_embeddings: bool  # its word embeddings are those of the explained model
    train_embeddings: bool = False

    @property
    def limit(self) -> int:
        """Tokens of a window, with a place left for the prediction token."""
        return token_limit(self.encoder, self.tokenizer) - 1


def make_backbone(source: BackboneSource, model: TextModel, layers: int = 0) -> Backbone:
    """A backbone for the maskers of `model`, on its device.

    source: "own": a copy of the explained model's encoder; "small": a new BERT of two layers with the model's
    tokenizer; a hub id, a folder or (module, tokenizer) of any Hugging Face encoder. `layers`: the first layers only.
    """
    device = model.networks[0].baseline.device
    if isinstance(source, str) and source == SMALL:
        encoder, tokenizer, name = _small_encoder(model), model.tokenizer, SMALL
    elif isinstance(source, str) and source == OWN:
        encoder, tokenizer, name = _own_encoder(model.networks[0].module), model.tokenizer, OWN
    elif isinstance(source, tuple):
        module, tokenizer = source
        encoder, name = _own_encoder(module), type(module).__name__
    else:
        encoder, tokenizer = _pretrained(os.fspath(source))
        name = os.path.basename(os.fspath(source).rstrip("/"))  # noqa: PTH119  # a hub id is no path
    if layers:
        encoder = _first_layers(encoder, layers)
    encoder = _without_pooler(encoder).float().to(device)
    check_bidirectional(encoder, name)
    shares_embeddings = source == OWN
    return Backbone(encoder, tokenizer, name, tokenizer is model.tokenizer, shares_embeddings, source == SMALL)


def check_bidirectional(encoder: nn.Module, name: str) -> None:
    """Raise a ModelError where a token's state does not depend on later tokens, such as the prediction token."""
    width = word_embeddings(encoder).weight.shape[1]
    device = next(encoder.parameters()).device
    generator = torch.Generator().manual_seed(0)
    words = torch.randn(1, 4, width, generator=generator).to(device)
    changed = words.clone()
    changed[:, -1] = -words[:, -1]  # no constant shift, which the layer norm after the embeddings would remove
    attention = torch.ones(1, 4, dtype=torch.long, device=device)
    training = encoder.training
    try:
        with torch.no_grad():
            encoder.eval()
            states = [encoder(inputs_embeds=values, attention_mask=attention)[0] for values in (words, changed)]
    finally:
        encoder.train(training)
    if torch.equal(states[0][:, 0], states[1][:, 0]):
        raise ModelError(
            f"the tokens of {name} do not read later ones (a decoder), so it cannot be the backbone of a masker; "
            f"use an encoder, or backbone={SMALL!r}"
        )


def encoder_from_config(settings: Mapping[str, Any]) -> nn.Module:
    """A new encoder of a Hugging Face configuration in single precision, without its pooler.

    Its weights depend on torch's generator.
    """
    from transformers import AutoConfig, AutoModel

    values = {name: value for name, value in settings.items() if name not in ("model_type", "transformers_version")}
    config = AutoConfig.for_model(settings["model_type"], **values)
    with quiet_transformers():
        auto: Any = AutoModel  # untyped
        return _without_pooler(auto.from_config(config)).float()  # a configuration can ask for half precision


def config_settings(encoder: nn.Module) -> dict[str, Any]:
    """The configuration of an encoder as plain data."""
    settings: dict[str, Any] = json.loads(encoder.config.to_json_string(use_diff=False))  # type: ignore[union-attr,operator]
    return {name: value for name, value in settings.items() if value is not None and not name.startswith("_")}


def tokenizer_to_text(tokenizer: Any) -> str:
    """A fast tokenizer as JSON."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise ModelError("the backbone's tokenizer is not a fast one, so a masker cannot be stored with it")
    tokens = {name: str(token) for name in SPECIAL_TOKENS if (token := getattr(tokenizer, name, None)) is not None}
    settings = {"model_max_length": min(int(getattr(tokenizer, "model_max_length", POSITIONS)), 2**31)}
    names = list(getattr(tokenizer, "model_input_names", ["input_ids", "attention_mask"]))
    return json.dumps({"tokenizer": backend.to_str(), "settings": settings | tokens | {"model_input_names": names}})


def tokenizer_from_text(text: str) -> Any:
    """The inverse of `tokenizer_to_text`."""
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    stored = json.loads(text)
    fast: Any = PreTrainedTokenizerFast  # untyped
    return fast(tokenizer_object=Tokenizer.from_str(stored["tokenizer"]), **stored["settings"])


def _own_encoder(module: nn.Module) -> nn.Module:
    """A copy of the encoder inside a Hugging Face classifier, or of the embedded model's."""
    config = getattr(module, "config", None)
    if isinstance(config, SimpleNamespace) and isinstance(getattr(module, "bert", None), nn.Module):
        encoder = encoder_from_config(vars(config))  # the embedded model: weights have the same names
        encoder.load_state_dict(module.bert.state_dict(), strict=False)  # type: ignore[union-attr]
        return encoder
    base = getattr(module, "base_model", None)
    if not isinstance(base, nn.Module) or not hasattr(config, "to_json_string"):
        raise OptionError(
            f"{type(module).__name__} is no Hugging Face classifier with an encoder of its own; give another backbone: "
            f"the id or folder of an encoder, or {SMALL!r} for a new one"
        )
    return copy.deepcopy(base)


def _small_encoder(model: TextModel) -> nn.Module:
    vocabulary = next(w.shape[0] for w in model.networks[0].embedding.parameters() if w.dim() == 2)
    settings = {
        "model_type": "bert",
        "vocab_size": vocabulary,
        "hidden_size": SMALL_WIDTH,
        "num_hidden_layers": SMALL_LAYERS,
        "num_attention_heads": 4,
        "intermediate_size": 2 * SMALL_WIDTH,
        "max_position_embeddings": POSITIONS,
        "pad_token_id": model.filler,
    }
    return encoder_from_config(settings)


def _pretrained(where: str) -> tuple[nn.Module, Any]:
    """The encoder and tokenizer at a hub id or in a folder; safetensors only, no foreign code."""
    from transformers import AutoModel, AutoTokenizer

    folder = Path(where).expanduser()
    if folder.is_dir():
        check_folder(folder)
    local = folder.is_dir() or not hub_reachable()
    try:
        with quiet_transformers():
            encoder = AutoModel.from_pretrained(where, use_safetensors=True, local_files_only=local)
            tokenizer = AutoTokenizer.from_pretrained(where, local_files_only=local)
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise ModelError(load_error(where, error, False)) from error
    return encoder, tokenizer


def _first_layers(encoder: nn.Module, layers: int) -> nn.Module:
    """The encoder with its first layers alone."""
    available = int(encoder.config.num_hidden_layers)  # type: ignore[union-attr,arg-type]
    if layers > available:
        raise OptionError(f"the backbone has {available} layers, not {layers}")
    smaller = encoder_from_config(config_settings(encoder) | {"num_hidden_layers": layers, "n_layers": layers})
    missing = smaller.load_state_dict(encoder.state_dict(), strict=False).missing_keys
    if missing:
        raise ModelError(f"the first layers of {type(encoder).__name__} cannot be used alone; set layers=0")
    return smaller


def _without_pooler(encoder: nn.Module) -> nn.Module:
    if isinstance(getattr(encoder, "pooler", None), nn.Module):
        encoder.pooler = None  # type: ignore[assignment]  # as transformers has it without a pooling layer
    return encoder
