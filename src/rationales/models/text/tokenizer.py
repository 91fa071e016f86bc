"""The tokenizer of a folder, read by the library `tokenizers` alone; for the embedded model.

Importing transformers takes longer than explaining a sentence, and the embedded model needs nothing else of it on a
CPU. tests/models/text/test_tokenizer.py holds both to the same encodings.
"""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import Any

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
