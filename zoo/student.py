"""The student's tokenizer and its starting weights, both drawn from the training text and from the teacher."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from torch import Tensor
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

from zoo.data import UNKNOWN_PIECE
from zoo.text import LABELS

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
VOCABULARY = 9000
LETTERS = 120  # single characters worth a piece of their own
EMBEDDING_SCALE = 0.05


def train_tokenizer(texts: Sequence[str], size: int) -> Tokenizer:
    """An uncased WordPiece tokenizer that splits words as BERT does."""
    tokenizer = Tokenizer(models.WordPiece(unk_token=UNKNOWN_PIECE))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=SPECIAL, limit_alphabet=LETTERS, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    ends = [(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends
    )
    return tokenizer


def save_tokenizer(tokenizer: Tokenizer, folder: Path) -> None:
    roles = {f"{piece.strip('[]').lower()}_token": piece for piece in SPECIAL}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=512, **roles).save_pretrained(folder)
    # the library writes a class name that only its newest versions know; this one is known to all
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text()) | {"tokenizer_class": "PreTrainedTokenizerFast"}
    config.pop("backend", None)
    path.write_text(json.dumps(config, indent=2) + "\n")


def student_config(vocabulary: int) -> BertConfig:
    names = dict(enumerate(LABELS))
    return BertConfig(
        vocab_size=vocabulary,
        hidden_size=192,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=768,
        max_position_embeddings=512,
        hidden_dropout_prob=0.05,
        attention_probs_dropout_prob=0.05,
        pad_token_id=0,
        id2label=names,
        label2id={name: i for i, name in names.items()},
    )


def teacher_vectors(student: Tokenizer, teacher: Tokenizer, rows: Tensor) -> Tensor:
    """(V, H): for every piece of the student, the mean of the teacher's embedding rows that spell it."""
    teacher.no_padding()
    teacher.no_truncation()
    pieces = sorted(student.get_vocab().items(), key=lambda item: item[1])
    vectors = []
    for piece, _ in pieces:
        known = teacher.token_to_id(piece)
        spelt = [known] if known is not None else teacher.encode(piece.removeprefix("##"), add_special_tokens=False).ids
        vectors.append(rows[torch.tensor(spelt)].mean(0))
    return torch.stack(vectors)


@torch.no_grad()
def fresh_student(student: Tokenizer, teacher: Tokenizer, teacher_model: Any) -> BertForSequenceClassification:
    """A random student whose embeddings are the principal components of the teacher's."""
    model = BertForSequenceClassification(student_config(student.get_vocab_size()))
    teacher_embeddings, embeddings = teacher_model.bert.embeddings, model.bert.embeddings
    vectors = teacher_vectors(student, teacher, teacher_embeddings.word_embeddings.weight.detach().float().cpu())
    centre = vectors.mean(0)
    basis = torch.linalg.svd(vectors - centre, full_matrices=False).Vh[: model.config.hidden_size].T
    projected = (vectors - centre) @ basis
    scale = EMBEDDING_SCALE / projected.std()
    embeddings.word_embeddings.weight.copy_(projected * scale)
    embeddings.word_embeddings.weight[0].zero_()  # [PAD]: the empty word
    positions = teacher_embeddings.position_embeddings.weight.detach().float().cpu()
    embeddings.position_embeddings.weight.copy_((positions - positions.mean(0)) @ basis * scale)
    return model


def save_student(model: BertForSequenceClassification, folder: Path) -> None:
    """Half-precision weights; the configuration asks for float32, in which a loaded model computes."""
    state = {name: value.detach().to(torch.float16).cpu() for name, value in model.state_dict().items()}
    half = BertForSequenceClassification(model.config).half()
    half.load_state_dict(state)
    half.save_pretrained(folder)
    config = model.config
    config.dtype = "float32"
    config.architectures = ["BertForSequenceClassification"]
    config.save_pretrained(folder)
