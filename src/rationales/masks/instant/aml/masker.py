"""A pretrained AML masker with its card, and the file that stores both: safetensors with JSON in the header."""

from __future__ import annotations

import functools
import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from rationales.errors import ModelError, OptionError
from rationales.files import write_bytes
from rationales.masks.instant.aml.attribution_network import AttributionNetwork, word_embeddings
from rationales.masks.instant.aml.backbone import (
    Backbone,
    config_settings,
    encoder_from_config,
    tokenizer_from_text,
    tokenizer_to_text,
)
from rationales.masks.instant.aml.masking import MapProblem
from rationales.masks.instant.aml.settings import AmlLosses
from rationales.masks.instant.aml.unit_alignment import BackboneRows, read_windows
from rationales.masks.instant.masker_file import digest_in_header
from rationales.models.text.batch import TextBatch
from rationales.models.weights_digest import weights_digest

FORMAT_VERSION = 1  # raised when files would be misread
HEADER = "aml_masker"
TRAIN_COMMAND = "rationales train-masker MODEL DATA --kind aml --out F"
PROBES = ("A plain sentence, with a comma.", "unbelievable 12.5 % über-naïve?!", "new\nline  two spaces")
_TOKENIZER_DIGESTS: WeakKeyDictionary[Any, str] = WeakKeyDictionary()


@dataclass(frozen=True)
class AmlCard:
    """What a masker was trained for and how."""

    model: str  # name of the explained model
    weights: str  # fingerprint of its weights
    tokenizer: str  # fingerprint of its tokenizer
    labels: tuple[str, ...]
    unit: str
    losses: AmlLosses
    backbone: str
    training: dict[str, Any]  # data, metric and figures of the training, for information only
    digest: str = ""  # of all that decided the training but its metric; older files have none


@dataclass(frozen=True, eq=False)
class AmlMasker:
    """An attribution network for one model."""

    network: AttributionNetwork
    backbone: Backbone
    card: AmlCard

    def attributions(self, batch: TextBatch, target: Tensor) -> Tensor:
        """(I, U): attribution maps for `target` (I,) in one pass; an error for a model it was not trained for."""
        self.check(batch)
        rows = self.windows(batch)
        with torch.no_grad():
            y, merge = self.problem(batch, target).y, self.card.losses.merge
            maps: Tensor = batch.fit(lambda: self.network(rows, y, merge))
        return maps

    def windows(self, batch: TextBatch) -> BackboneRows:
        """The texts of a batch as the backbone reads them."""
        sources = batch.text_sources()
        tokenizer = sources.tokenizer if self.backbone.shares_tokenizer else self.backbone.tokenizer
        return read_windows(sources.encoded, tokenizer, self.backbone.limit, batch.device)

    def problem(self, batch: TextBatch, target: Tensor) -> MapProblem:
        """What attribution maps of the batch are judged by."""
        return MapProblem.of(batch, batch.predict(), target, self.card.losses, self.network.mask_vector)

    def check(self, batch: TextBatch) -> None:
        """Raise an OptionError, with the reason, unless the batch belongs to the model that it was trained for.

        The embeddings that the masker shares with the model are taken from it.
        """
        card = self.card
        labels, source = module_labels(batch), batch.text_sources()
        advice = f"train one for this model: {TRAIN_COMMAND}"
        if card.unit != batch.unit:
            raise OptionError(
                f"the masker was trained for {card.unit}s, and here each {batch.unit} is a unit; {advice}"
            )
        if card.labels != labels:
            raise OptionError(
                f"the masker was trained for a model with the labels {_listed(card.labels)}, and this model's labels "
                f"are {_listed(labels)}; {advice}"
            )
        if card.tokenizer != tokenizer_fingerprint(source.tokenizer):
            raise OptionError(f"the masker was trained for {card.model} with another tokenizer than this one; {advice}")
        if card.weights != model_weights_fingerprint(batch):
            raise OptionError(
                f"the masker was trained for {card.model}, and this is another model, or has other weights; {advice}"
            )
        if self.backbone.shares_embeddings:
            share_embeddings(self.network, batch)

    def save(self, path: str | os.PathLike[str], half: bool = False) -> Path:
        """Write network, tokenizer and card into one file, atomically; `half` stores half precision.

        Word embeddings are left out if they are those of the explained model.
        """
        from safetensors.torch import save

        dtype, shared = torch.float16 if half else torch.float32, self._shared_name()
        tensors = {
            name: value.detach().cpu().to(dtype if value.is_floating_point() else value.dtype).contiguous()
            for name, value in self.network.state_dict().items()
            if name != shared
        }
        backbone = self.backbone
        metadata = {
            "format": FORMAT_VERSION,
            "card": asdict(self.card),
            "config": config_settings(backbone.encoder),
            "classes": len(self.network.class_embeddings),
            "mask_size": 0 if self.network.mask_vector is None else len(self.network.mask_vector),
            "shares_embeddings": backbone.shares_embeddings,
            "limit": backbone.limit,
            "tokenizer": None if backbone.shares_tokenizer else tokenizer_to_text(backbone.tokenizer),
        }
        return write_bytes(path, save(tensors, {HEADER: json.dumps(metadata, ensure_ascii=False)}))

    def _shared_name(self) -> str:
        return embedding_name(self.network) if self.backbone.shares_embeddings else ""


@dataclass(frozen=True)
class SharedTokenizer:
    """Stands for the explained model's tokenizer in a masker that was read from a file."""

    model_max_length: int


def load_aml_masker(path: str | os.PathLike[str], device: torch.device | str = "cpu") -> AmlMasker:
    """Read what `AmlMasker.save` wrote."""
    file = Path(path).expanduser()
    if file.is_dir() or not file.exists():
        raise OptionError(f"there is no masker {file}; train one: {TRAIN_COMMAND}")
    status = file.stat()
    return _load(file, status.st_mtime_ns, status.st_size, torch.device(device))


@functools.lru_cache(maxsize=4)
def _load(path: Path, _changed: int, _size: int, device: torch.device) -> AmlMasker:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            if "masker" in header:
                raise ModelError(f"{path} is a masker of marc-instant, not of AML; train one: {TRAIN_COMMAND}")
            metadata = json.loads(header[HEADER])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # no mapping
        if metadata["format"] != FORMAT_VERSION:
            raise ModelError(f"{path} was written by another version of rationales; train it again: {TRAIN_COMMAND}")
        values = {name: value.float() if value.is_floating_point() else value for name, value in tensors.items()}
        with torch.random.fork_rng(devices=[]):  # the weights are replaced
            network = AttributionNetwork(
                encoder_from_config(metadata["config"]), metadata["classes"], metadata["mask_size"]
            )
        shared = {embedding_name(network)} if metadata["shares_embeddings"] else set()
        missing, unexpected = network.load_state_dict(values, strict=False)
        if unexpected or set(missing) - shared:
            raise ModelError(f"{path} lacks weights, or has others than its card says; train it again: {TRAIN_COMMAND}")
        raw = metadata["card"]
        raw |= {"labels": tuple(raw["labels"]), "losses": AmlLosses(**raw["losses"])}
        card, stored = AmlCard(**raw), metadata["tokenizer"]
        tokenizer = SharedTokenizer(metadata["limit"] + 1) if stored is None else tokenizer_from_text(stored)
    except (SafetensorError, OSError, KeyError, ValueError, TypeError, RuntimeError, OptionError) as error:
        line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ModelError(f"{path} is no AML masker, or a damaged one ({line}); train one: {TRAIN_COMMAND}") from error
    network = network.requires_grad_(False).eval().to(device)
    backbone = Backbone(network.encoder, tokenizer, card.backbone, stored is None, bool(shared))
    return AmlMasker(network, backbone, card)


def stored_digest(path: str | os.PathLike[str]) -> str:
    """The digest in the card of a masker's file; empty if it has none, or cannot be read."""
    return digest_in_header(path, HEADER)


def share_embeddings(network: AttributionNetwork, batch: TextBatch) -> None:
    """Give the network the word embeddings of the explained model."""
    weight: Tensor = batch.networks[0].embedding.weight  # type: ignore[assignment]
    embedding = word_embeddings(network.encoder)
    if embedding.weight.data_ptr() != weight.data_ptr():
        embedding.weight = nn.Parameter(weight.detach().float(), requires_grad=False)


def embedding_name(network: AttributionNetwork) -> str:
    """The name of the word embeddings among the network's weights."""
    embedding = word_embeddings(network.encoder)
    return next(f"{name}.weight" for name, module in network.named_modules() if module is embedding)


def model_weights_fingerprint(batch: TextBatch) -> str:
    """Fingerprint of the explained networks' weights."""
    digest = hashlib.blake2b(digest_size=16)
    for network in batch.networks:
        digest.update(weights_digest(network.module))
    return digest.hexdigest()


def module_labels(batch: TextBatch) -> tuple[str, ...]:
    """The labels that the explained module names, else its number of classes."""
    named = getattr(getattr(batch.networks[0].module, "config", None), "id2label", None) or {}
    labels = tuple(str(named[number]) for number in sorted(named, key=int))
    return labels or (f"{batch.classes} classes",)


def tokenizer_fingerprint(tokenizer: Any) -> str:
    """Fingerprint of a tokenizer: its vocabulary, and what it makes of a few probes."""
    if tokenizer not in _TOKENIZER_DIGESTS:
        digest = hashlib.blake2b(digest_size=16)
        vocabulary = tokenizer.get_vocab() if hasattr(tokenizer, "get_vocab") else {}
        digest.update(repr(sorted(vocabulary.items())).encode())
        digest.update(repr([list(tokenizer(text, verbose=False)["input_ids"]) for text in PROBES]).encode())
        _TOKENIZER_DIGESTS[tokenizer] = digest.hexdigest()
    return _TOKENIZER_DIGESTS[tokenizer]


def _listed(labels: tuple[str, ...]) -> str:
    return ", ".join(labels[:6]) + (", ..." if len(labels) > 6 else "")
