"""A word-level tokenizer built from training texts, and the configuration of a text network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from rationales.errors import DataError

PAD, UNKNOWN = "[PAD]", "[UNK]"
PADDING_ID = 0  # token id of PAD
_WORD_PATTERN = r"\w+(?:['’]\w+)*|[^\w\s]"  # a word with its apostrophes, or a single punctuation mark


@dataclass
class TextConfiguration:
    """The fields of a text classifier's `config` that `rationales.load` reads."""

    id2label: dict[int, str]
    hidden_size: int
    num_hidden_layers: int = 1
    num_attention_heads: int = 1
    intermediate_size: int = 0
    max_position_embeddings: int | None = None
    pad_token_id: int = PADDING_ID
    problem_type: str | None = None
    num_labels: int = field(init=False)

    def __post_init__(self) -> None:
        self.num_labels = len(self.id2label)


def word_tokenizer(texts: Iterable[str], max_words: int = 20_000, min_count: int = 1, max_length: int = 2048) -> Any:
    """Build a Hugging Face tokenizer whose tokens are the cased words and punctuation marks of the texts.

    The vocabulary holds the `max_words` most frequent words that occur at least `min_count` times; all others are
    unknown words. `max_length` is the maximum number of tokens of a text. The result does not depend on the order of
    the texts.
    """
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    splitter = pre_tokenizers.Split(Regex(_WORD_PATTERN), behavior="removed", invert=True)
    counts = Counter(word for text in texts for word, _ in splitter.pre_tokenize_str(text))
    if not counts:
        raise DataError("there is no word in the texts to build a vocabulary from")
    frequent = [word for word, count in counts.items() if count >= min_count]
    ranked = sorted(frequent, key=lambda word: (-counts[word], word))
    vocabulary = {word: index for index, word in enumerate([PAD, UNKNOWN, *ranked[:max_words]])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, UNKNOWN))
    tokenizer.pre_tokenizer = splitter
    untyped: Any = PreTrainedTokenizerFast
    return untyped(tokenizer_object=tokenizer, pad_token=PAD, unk_token=UNKNOWN, model_max_length=max_length)
