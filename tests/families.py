"""Tiny random classifiers of every supported family, with tokenizers of the family's kind trained on our own text."""

from __future__ import annotations

import copy
import functools
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

CORPUS = [
    "The river was calm and the boat drifted slowly towards the old stone bridge.",
    "I did not like the soup, but the bread wasn't bad at all!",
    "She said nothing; he laughed, and nobody else in the room understood why.",
    "A dull, endless lecture about taxes... then, suddenly, a brilliant joke.",
    "Don't open the third door unless you can't find your way home (3.14 times).",
    "Every morning the baker carried twelve loaves up the hill; every evening he walked down alone.",
    "Not good, not terrible: the engine started on the second try, which surprised us.",
    "Children ran through the market, shouting, trading stickers and stealing plums.",
] * 4

MARKS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def merges(words: Counter[tuple[str, ...]], number: int) -> list[tuple[str, str]]:
    """Byte pair encoding with ties broken by spelling; the library's own trainer breaks them at random."""
    learned: list[tuple[str, str]] = []
    for _ in range(number):
        pairs: Counter[tuple[str, str]] = Counter()
        for word, count in words.items():
            for pair in pairwise(word):
                pairs[pair] += count
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        learned.append(best)
        words = Counter({_merged(word, best): count for word, count in words.items()})
    return learned


def _merged(word: tuple[str, ...], pair: tuple[str, str]) -> tuple[str, ...]:
    joined: list[str] = []
    for letter in word:
        if joined and (joined[-1], letter) == pair:
            joined[-1] += letter
        else:
            joined.append(letter)
    return tuple(joined)


def _pieces(number: int) -> list[str]:
    """Frequent letter groups of the corpus."""
    words = Counter(tuple(word) for word in re.findall(r"[a-z]+", " ".join(CORPUS).lower()))
    return list(dict.fromkeys(left + right for left, right in merges(words, number)))


def wordpiece() -> PreTrainedTokenizerFast:
    """Lower-cased WordPiece with [CLS] and [SEP], as BERT, DistilBERT, ELECTRA and MPNet read."""
    letters = sorted(set("".join(CORPUS).lower()) - {" "})
    groups = _pieces(120)
    listed = [*MARKS, *letters, *(f"##{letter}" for letter in letters), *groups, *(f"##{group}" for group in groups)]
    core = Tokenizer(models.WordPiece({piece: number for number, piece in enumerate(listed)}, unk_token="[UNK]"))
    core.add_special_tokens(MARKS)
    core.normalizer = normalizers.BertNormalizer()
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    core.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    core.decoder = decoders.WordPiece()
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )


def byte_level(*, begin: bool, pad: bool, encoder: bool) -> PreTrainedTokenizerFast:
    """Byte-level BPE: RoBERTa and ModernBERT (`encoder`), GPT-2, Llama 3 and Qwen2."""
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    splitter = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words = Counter(tuple(word) for text in CORPUS for word, _ in splitter.pre_tokenize_str(text))
    learned = merges(words, 120)
    listed = [*special, *sorted(pre_tokenizers.ByteLevel.alphabet()), *(left + right for left, right in learned)]
    core = Tokenizer(models.BPE({piece: number for number, piece in enumerate(dict.fromkeys(listed))}, learned))
    core.add_special_tokens(special)
    core.pre_tokenizer = splitter
    core.decoder = decoders.ByteLevel()
    if encoder:
        core.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True)
    elif begin:
        core.post_processor = processors.TemplateProcessing(
            single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 0)]
        )
    else:
        core.post_processor = processors.ByteLevel(trim_offsets=False)
    named = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    if pad:
        named |= {"pad_token": "<pad>"}
    if encoder:
        named |= {"cls_token": "<s>", "sep_token": "</s>", "mask_token": "<mask>"}
    return PreTrainedTokenizerFast(tokenizer_object=core, model_input_names=["input_ids", "attention_mask"], **named)


def sentencepiece(*, types: bool) -> PreTrainedTokenizerFast:
    """A unigram model over pieces with a mark for spaces: ALBERT, DeBERTa-v2, XLM-R and Mistral."""
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    groups = _pieces(120)
    letters = sorted(set("".join(CORPUS)) - {" "})
    listed = dict.fromkeys([*(f"▁{group}" for group in groups), *groups, *letters, "▁"])
    scored = [(mark, 0.0) for mark in special] + [(piece, -4.0 - 2.0 / len(piece)) for piece in listed]
    core = Tokenizer(models.Unigram(scored, unk_id=special.index("<unk>")))
    core.add_special_tokens(special)
    core.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace("  ", " ")])
    core.pre_tokenizer = pre_tokenizers.Metaspace()
    core.decoder = decoders.Metaspace()
    core.post_processor = processors.TemplateProcessing(
        single="<s>:0 $A:0 </s>:0",
        pair="<s>:0 $A:0 </s>:0 $B:1 </s>:1" if types else "<s>:0 $A:0 </s>:0 </s>:0 $B:0 </s>:0",
        special_tokens=[("<s>", 0), ("</s>", 2)],
    )
    names = ["input_ids", "token_type_ids", "attention_mask"] if types else ["input_ids", "attention_mask"]
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
        cls_token="<s>",
        sep_token="</s>",
        mask_token="<mask>",
        model_input_names=names,
    )


@dataclass(frozen=True)
class Family:
    """How to make a tiny model of one architecture."""

    config: str
    model: str
    tokenizer: Callable[[], PreTrainedTokenizerFast]
    settings: dict[str, Any]


_COMMON = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
_ENCODER = _COMMON | {"max_position_embeddings": 64, "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
_DECODER = _COMMON | {"num_key_value_heads": 2, "max_position_embeddings": 64}


def _decoder(pad: bool, begin: bool) -> Callable[[], PreTrainedTokenizerFast]:
    return functools.partial(byte_level, begin=begin, pad=pad, encoder=False)


FAMILIES: dict[str, Family] = {
    "bert": Family("BertConfig", "BertForSequenceClassification", wordpiece, _ENCODER | {"pad_token_id": 0}),
    "roberta": Family(
        "RobertaConfig",
        "RobertaForSequenceClassification",
        functools.partial(byte_level, begin=True, pad=True, encoder=True),
        _ENCODER | {"pad_token_id": 1, "max_position_embeddings": 66, "type_vocab_size": 1},
    ),
    "distilbert": Family(
        "DistilBertConfig",
        "DistilBertForSequenceClassification",
        wordpiece,
        {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, "max_position_embeddings": 64, "pad_token_id": 0},
    ),
    "albert": Family(
        "AlbertConfig",
        "AlbertForSequenceClassification",
        functools.partial(sentencepiece, types=True),
        _ENCODER | {"embedding_size": 16, "pad_token_id": 1},
    ),
    "electra": Family(
        "ElectraConfig",
        "ElectraForSequenceClassification",
        wordpiece,
        _ENCODER | {"embedding_size": 16, "pad_token_id": 0},
    ),
    "deberta-v2": Family(
        "DebertaV2Config",
        "DebertaV2ForSequenceClassification",
        functools.partial(sentencepiece, types=True),
        _ENCODER
        | {
            "pad_token_id": 1,
            "relative_attention": True,
            "position_buckets": 16,
            "pos_att_type": ["p2c", "c2p"],
            "share_att_key": True,
            "norm_rel_ebd": "layer_norm",
            "position_biased_input": False,
            "type_vocab_size": 0,
        },
    ),
    "mpnet": Family(
        "MPNetConfig",
        "MPNetForSequenceClassification",
        wordpiece,
        _ENCODER | {"pad_token_id": 1, "max_position_embeddings": 66},
    ),
    "modernbert": Family(
        "ModernBertConfig",
        "ModernBertForSequenceClassification",
        functools.partial(byte_level, begin=True, pad=True, encoder=True),
        _COMMON
        | {
            "max_position_embeddings": 64,
            "local_attention": 16,
            "global_attn_every_n_layers": 2,
            "pad_token_id": 1,
            "cls_token_id": 0,
            "sep_token_id": 2,
            "bos_token_id": 0,
            "eos_token_id": 2,
        },
    ),
    "xlm-roberta": Family(
        "XLMRobertaConfig",
        "XLMRobertaForSequenceClassification",
        functools.partial(sentencepiece, types=False),
        _ENCODER | {"pad_token_id": 1, "max_position_embeddings": 66, "type_vocab_size": 1},
    ),
    "gpt2": Family(
        "GPT2Config",
        "GPT2ForSequenceClassification",
        _decoder(pad=False, begin=False),
        {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_inner": 64, "n_positions": 64, "eos_token_id": 2},
    ),
    "llama": Family("LlamaConfig", "LlamaForSequenceClassification", _decoder(pad=False, begin=True), _DECODER),
    "qwen2": Family(
        "Qwen2Config", "Qwen2ForSequenceClassification", _decoder(pad=True, begin=False), _DECODER | {"pad_token_id": 1}
    ),
    "mistral": Family(
        "MistralConfig",
        "MistralForSequenceClassification",
        functools.partial(sentencepiece, types=False),
        _DECODER | {"pad_token_id": 1, "sliding_window": 32},
    ),
}


def tokenizer_of(family: str) -> PreTrainedTokenizerFast:
    """The family's tokenizer, trained once; a copy, so that what is done to it in one test stays there."""
    return copy.deepcopy(_trained(family))


@functools.cache
def _trained(family: str) -> PreTrainedTokenizerFast:
    return FAMILIES[family].tokenizer()


def tiny(family: str, *, labels: int = 3, seed: int = 0, **overrides: Any) -> tuple[torch.nn.Module, Any]:
    """A new random model of the family and its tokenizer; `overrides` replace settings of the family's configuration.

    The weights are large enough that words matter.
    """
    recipe, tokenizer = FAMILIES[family], tokenizer_of(family)
    config = getattr(transformers, recipe.config)(
        **(recipe.settings | {"vocab_size": len(tokenizer), "num_labels": labels} | overrides)
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = getattr(transformers, recipe.model)(config)
        with torch.no_grad():
            for weight in model.parameters():
                if weight.dim() > 1:
                    weight.normal_(0, 0.2)
    return model.eval(), tokenizer
