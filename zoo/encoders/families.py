"""The two small families: their configurations, their tokenizers, and first weights made from MiniLM's embeddings."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from torch import Tensor, nn
from transformers import PreTrainedTokenizerFast

from zoo.paper_models.delta_files import save_delta
from zoo.student import EMBEDDING_SCALE, train_tokenizer

ROBERTA_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")  # the ids 0 to 4; <pad> is 1 as in RoBERTa
ROBERTA_ROLES = {
    "bos_token": "<s>", "cls_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "sep_token": "</s>",
    "unk_token": "<unk>", "mask_token": "<mask>",
}  # fmt: skip
BERT_ROLES = {
    "pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]",
}  # fmt: skip


def roberta_tokenizer(texts: Sequence[str], size: int) -> Tokenizer:
    """Byte-level pairs as RoBERTa's, but uncased: a small vocabulary has no room for two spellings of a word."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(ROBERTA_SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", tokenizer.token_to_id("</s>")), ("<s>", tokenizer.token_to_id("<s>")), trim_offsets=True
    )
    return tokenizer


def roberta_config(vocabulary: int, **labels: Any) -> transformers.RobertaConfig:
    return transformers.RobertaConfig(
        vocab_size=vocabulary,
        hidden_size=192,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=768,
        max_position_embeddings=514,  # the first two stand for padding
        type_vocab_size=1,
        layer_norm_eps=1e-5,
        pad_token_id=1,
        bos_token_id=0,
        eos_token_id=2,
        **labels,
    )


def distilbert_config(vocabulary: int, **labels: Any) -> transformers.DistilBertConfig:
    return transformers.DistilBertConfig(
        vocab_size=vocabulary,
        dim=224,
        n_layers=3,
        n_heads=7,
        hidden_dim=896,
        max_position_embeddings=512,
        pad_token_id=0,
        seq_classif_dropout=0.1,
        **labels,
    )


def bert_spelling(piece: str) -> str:
    return piece.removeprefix("##")


def byte_spelling(piece: str) -> str:
    return str(decoders.ByteLevel().decode([piece])).strip()


@dataclass(frozen=True)
class Family:
    """How to make a small model of one family; `spelling`: the characters that a piece of its tokenizer stands for."""

    name: str
    model_class: type[nn.Module]
    config: Callable[..., Any]
    tokenizer: Callable[[Sequence[str], int], Tokenizer]
    roles: dict[str, str]
    spelling: Callable[[str], str]
    vocabulary: int


FAMILIES = (
    Family("small-roberta", transformers.RobertaForSequenceClassification, roberta_config, roberta_tokenizer,
           ROBERTA_ROLES, byte_spelling, 8500),
    Family("small-distilbert", transformers.DistilBertForSequenceClassification, distilbert_config, train_tokenizer,
           BERT_ROLES, bert_spelling, 8000),
)  # fmt: skip


def label_names(labels: Sequence[str]) -> dict[str, Any]:
    names = dict(enumerate(labels))
    return {"id2label": names, "label2id": {name: number for number, name in names.items()}}


def save_family_tokenizer(family: Family, tokenizer: Tokenizer, folder: Path) -> PreTrainedTokenizerFast:
    """Write tokenizer.json and tokenizer_config.json; returns the tokenizer of transformers."""
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=512, **family.roles)
    fast.save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    settings = json.loads(path.read_text()) | {"tokenizer_class": "PreTrainedTokenizerFast"}
    settings.pop("backend", None)  # a name that only the newest versions know
    path.write_text(json.dumps(settings, indent=2) + "\n")
    return fast


def teacher_rows(family: Family, tokenizer: Tokenizer, teacher: Tokenizer, embeddings: Tensor) -> Tensor:
    """(V, H): for every piece of the family's tokenizer, the mean of MiniLM's embeddings of what it spells."""
    teacher.no_padding()
    teacher.no_truncation()
    unknown = teacher.token_to_id("[UNK]")
    rows = []
    for piece, _ in sorted(tokenizer.get_vocab().items(), key=lambda item: item[1]):
        spelling = family.spelling(piece)
        known = teacher.token_to_id(piece)
        pieces = [known] if known is not None else teacher.encode(spelling, add_special_tokens=False).ids
        rows.append(embeddings[torch.tensor(pieces or [unknown])].mean(0))
    return torch.stack(rows)


@torch.no_grad()
def first_model(family: Family, tokenizer: Tokenizer, encoder: Path, labels: Sequence[str]) -> nn.Module:
    """A random model whose embeddings of words and positions are the principal components of MiniLM's."""
    model = family.model_class(family.config(tokenizer.get_vocab_size(), **label_names(labels)))
    source = transformers.AutoModel.from_pretrained(encoder, dtype=torch.float32).embeddings
    target = model.base_model.embeddings
    vectors = teacher_rows(
        family, tokenizer, Tokenizer.from_file(str(encoder / "tokenizer.json")), source.word_embeddings.weight
    )
    centre = vectors.mean(0)
    width = target.word_embeddings.embedding_dim
    basis = torch.linalg.svd(vectors - centre, full_matrices=False).Vh[:width].T
    projected = (vectors - centre) @ basis
    scale = EMBEDDING_SCALE / projected.std()
    target.word_embeddings.weight.copy_(projected * scale)
    target.word_embeddings.weight[model.config.pad_token_id].zero_()
    positions = source.position_embeddings.weight
    first = target.position_embeddings.num_embeddings - len(positions)  # RoBERTa's first two are not used
    target.position_embeddings.weight[first:].copy_((positions - positions.mean(0)) @ basis * scale)
    return model


def save_encoder(model: nn.Module, folder: Path) -> int:
    """Write all weights of the encoder, without any head, in 8 bits, and its configuration; returns the bytes."""
    prefix = f"{model.base_model_prefix}."
    weights = {name: value for name, value in model.named_parameters() if name.startswith(prefix)}
    config = type(model.config).from_dict(model.config.to_dict())
    config.architectures = [type(model).__name__]
    return save_delta(folder, weights, config)
