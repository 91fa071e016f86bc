"""BERT as a sequence classifier (Devlin et al. 2019) and its tokenizer, for the embedded model alone.

Importing transformers takes longer than explaining a sentence with this model. Weights have the same names and order as
there, the tokenizer is read by the library `tokenizers` alone, and tests/models/text hold both to the same logits,
gradients and encodings.
"""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from rationales.models.empty_weights import empty_weights


class BertClassifier(nn.Module):
    """Token ids (R, T) -> logits (R, classes), read off the first token."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config
        self.bert = _Bert(config)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
    ) -> SimpleNamespace:
        """`logits` (R, classes); `attention_mask` (R, T) is 0 for padding; `inputs_embeds` (R, T, hidden) stands in for
        the word embeddings of `input_ids`."""
        if inputs_embeds is None:
            if input_ids is None:
                raise ValueError("give input_ids or inputs_embeds")
            inputs_embeds = self.get_input_embeddings()(input_ids)
        return SimpleNamespace(logits=self.classifier(self.bert(inputs_embeds, attention_mask, token_type_ids)))

    def get_input_embeddings(self) -> nn.Module:
        """The word embeddings."""
        return self.bert.embeddings.word_embeddings


def load_bert(folder: Path) -> BertClassifier:
    """The classifier saved in a folder, in single precision and evaluation mode."""
    from safetensors.torch import load_file

    settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    settings["id2label"] = {int(number): label for number, label in settings["id2label"].items()}
    config = SimpleNamespace(**settings, num_labels=len(settings["id2label"]))
    with empty_weights():
        module = BertClassifier(config)
    weights = {name: value.float() for name, value in load_file(folder / "model.safetensors").items()}
    module.load_state_dict(weights, assign=True)
    return module.eval()


class _Bert(nn.Module):
    def __init__(self, config: Any) -> None:
        super().__init__()
        self.embeddings = _Embeddings(config)
        self.encoder = nn.ModuleDict(
            {"layer": nn.ModuleList(_BertLayer(config) for _ in range(config.num_hidden_layers))}
        )
        self.pooler = nn.ModuleDict({"dense": nn.Linear(config.hidden_size, config.hidden_size)})

    def forward(self, words: Tensor, attention: Tensor | None, types: Tensor | None) -> Tensor:
        """(R, hidden): the pooled state of the first token, from word embeddings (R, T, hidden)."""
        states = self.embeddings(words, types)
        full = attention is None or bool(attention.all())
        mask = None if attention is None or full else attention[:, None, None, :].bool()
        for layer in self.encoder["layer"].children():
            states = layer(states, mask)
        pooled: Tensor = self.pooler["dense"](states[:, 0]).tanh()
        return pooled


class _Embeddings(nn.Module):
    def __init__(self, config: Any) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=config.pad_token_id)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, words: Tensor, types: Tensor | None) -> Tensor:
        positions = self.position_embeddings(torch.arange(words.shape[1], device=words.device)[None])
        if types is None:
            types = torch.zeros(words.shape[:2], dtype=torch.long, device=words.device)
        kinds = self.token_type_embeddings(types)
        states: Tensor = self.dropout(self.LayerNorm(words + kinds + positions))
        return states


class _BertLayer(nn.Module):
    def __init__(self, config: Any) -> None:
        super().__init__()
        size = config.hidden_size
        self.attention = _Attention(config)
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(size, config.intermediate_size), "activation": nn.GELU()})
        self.output = _Output(config, config.intermediate_size)

    def forward(self, states: Tensor, mask: Tensor | None) -> Tensor:
        states = self.attention(states, mask)
        inner = self.intermediate["activation"](self.intermediate["dense"](states))
        result: Tensor = self.output(inner, states)
        return result


class _Attention(nn.Module):
    def __init__(self, config: Any) -> None:
        super().__init__()
        size = config.hidden_size
        self.heads, self.rate = config.num_attention_heads, config.attention_probs_dropout_prob
        self.self = nn.ModuleDict({name: nn.Linear(size, size) for name in ("query", "key", "value")})
        self.output = _Output(config, size)

    def forward(self, states: Tensor, mask: Tensor | None) -> Tensor:
        rows, tokens, size = states.shape
        shape = (rows, tokens, self.heads, size // self.heads)
        query, key, value = (self.self[name](states).view(shape).transpose(1, 2) for name in ("query", "key", "value"))
        attended = scaled_dot_product_attention(
            query, key, value, attn_mask=mask, dropout_p=self.rate if self.training else 0.0
        )
        result: Tensor = self.output(attended.transpose(1, 2).reshape(rows, tokens, size), states)
        return result


class _Output(nn.Module):
    """Linear layer, residual connection and layer norm."""

    def __init__(self, config: Any, inner: int) -> None:
        super().__init__()
        self.dense = nn.Linear(inner, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, inner: Tensor, states: Tensor) -> Tensor:
        result: Tensor = self.LayerNorm(self.dropout(self.dense(inner)) + states)
        return result


_SPECIAL_TOKENS = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
_FIELDS = {  # option of a call -> name of the lists that it asks for, and their attribute of `tokenizers.Encoding`
    "return_token_type_ids": ("token_type_ids", "type_ids"),
    "return_attention_mask": ("attention_mask", "attention_mask"),
    "return_special_tokens_mask": ("special_tokens_mask", "special_tokens_mask"),
    "return_offsets_mapping": ("offset_mapping", "offsets"),
}
_DEFAULTS = {"return_attention_mask": True}
_OPTIONS = {*_FIELDS, "verbose"}  # of calls that need no transformers; there is nothing to be verbose about


class LightTokenizer:
    """The part of `transformers.PreTrainedTokenizerFast` that explanations use.

    Everything else (tensors, padding, saving, adding tokens) is passed on to the tokenizer of transformers, which is
    loaded when it is first needed. From then on it encodes all texts, since its settings may have been changed.
    """

    is_fast = True

    def __init__(self, folder: Path) -> None:
        from tokenizers import Tokenizer

        self._folder = folder
        self._backend: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))
        settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
        self.model_max_length = int(settings["model_max_length"])
        for name in _SPECIAL_TOKENS:
            setattr(self, name, settings[name])
            setattr(self, f"{name}_id", self._backend.token_to_id(settings[name]))

    @cached_property
    def _full(self) -> Any:
        """The tokenizer of transformers; its class is named, so that no models are imported."""
        from transformers import PreTrainedTokenizerFast

        tokenizer = PreTrainedTokenizerFast.from_pretrained(self._folder)
        self._backend = tokenizer.backend_tokenizer  # shared, so that tokens which are added are known here
        return tokenizer

    @property
    def backend_tokenizer(self) -> Any:
        """The tokenizer of the package tokenizers."""
        return self._backend

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # probed by copy, pickle and notebooks; not part of a tokenizer
            raise AttributeError(name)
        return getattr(self._full, name)

    def __call__(self, text: Any = None, text_pair: Any = None, add_special_tokens: bool = True, **options: Any) -> Any:
        """Encode a text or a pair of texts, or lists of these: lists by name, as transformers returns them."""
        light = "_full" not in vars(self) and _OPTIONS.issuperset(options) and None not in options.values()
        if not light or not _are_texts(text, text_pair):
            return self._full(text, text_pair, add_special_tokens=add_special_tokens, **options)
        if isinstance(text, str):
            inputs = [(text, text_pair)] if text_pair else [text]  # as there, an empty second text counts as none
        else:
            inputs = text if text_pair is None else list(zip(text, text_pair, strict=True))
        encodings = self._backend.encode_batch(inputs, add_special_tokens=add_special_tokens)
        requested = _DEFAULTS | options
        names = [("input_ids", "ids"), *(_FIELDS[option] for option in _FIELDS if requested.get(option))]
        fields = {name: [getattr(encoding, attribute) for encoding in encodings] for name, attribute in names}
        return TextEncoding({name: values[0] for name, values in fields.items()} if isinstance(text, str) else fields)

    def __len__(self) -> int:
        return int(self._backend.get_vocab_size())

    def get_vocab(self) -> dict[str, int]:
        """Tokens and their ids, special ones among them."""
        vocabulary: dict[str, int] = self._backend.get_vocab()
        return vocabulary

    def convert_ids_to_tokens(self, ids: Any, **options: Any) -> Any:
        """The tokens with these ids."""
        if options or not isinstance(ids, list):
            return self._full.convert_ids_to_tokens(ids, **options)
        return [self._backend.id_to_token(token_id) for token_id in ids]

    def decode(self, token_ids: Any, **options: Any) -> Any:
        """The text of these tokens, special ones among them."""
        if options != {"clean_up_tokenization_spaces": False} or not isinstance(token_ids, list):
            return self._full.decode(token_ids, **options)
        return self._backend.decode(token_ids, skip_special_tokens=False)


class TextEncoding(dict[str, Any]):
    """Lists by name; also as attributes, like the encodings of transformers."""

    def __getattr__(self, name: str) -> Any:
        if name not in self:
            raise AttributeError(f"the encoding has no {name}; it has: {', '.join(self)}")
        return self[name]


def _are_texts(text: Any, text_pair: Any) -> bool:
    """Whether these are a text, two texts, a list of texts or two such lists of equal length."""
    if isinstance(text, str):
        return text_pair is None or isinstance(text_pair, str)
    lists = [text] if text_pair is None else [text, text_pair]
    if not all(isinstance(texts, list) and texts and len(texts) == len(lists[0]) for texts in lists):
        return False
    return all(isinstance(item, str) for texts in lists for item in texts)
