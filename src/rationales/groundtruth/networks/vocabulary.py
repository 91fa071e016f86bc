"""Words as tokens: a tokenizer made from training texts, and what a text model must say of itself to be explained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rationales.errors import DataError

PAD, UNKNOWN = "[PAD]", "[UNK]"
PADDING = 0  # the number of PAD
_WORDS = r"\w+(?:['’]\w+)*|[^\w\s]"  # a word with its apostrophes, or a single mark


@dataclass
class Configuration:
    """The fields that `rationales.load` reads of a text classifier's config."""

    id2label: dict[int, str]
    hidden_size: int
    num_hidden_layers: int = 1
    num_attention_heads: int = 1
    intermediate_size: int = 0
    max_position_embeddings: int | None = None
    pad_token_id: int = PADDING
    problem_type: str | None = None
    num_labels: int = field(init=False)

    def __post_init__(self) -> None:
        self.num_labels = len(self.id2label)


def configuration(labels: Sequence[str], width: int, **more: Any) -> Configuration:
    """The configuration of a model with these classes."""
    return Configuration(dict(enumerate(labels)), width, **more)


def word_tokenizer(texts: Iterable[str], most: int = 20_000, least: int = 1, limit: int = 2048) -> Any:
    """A Hugging Face tokenizer whose tokens are words and marks, as written.

    The `most` frequent words that occur `least` times or more have a token each, all others share one; `limit` is how
    many tokens a text may have. The same texts in any order give the same tokenizer.
    """
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    cut = pre_tokenizers.Split(Regex(_WORDS), behavior="removed", invert=True)
    counted = Counter(word for text in texts for word, _ in cut.pre_tokenize_str(text))
    if not counted:
        raise DataError("there is no word in the texts that a vocabulary should be made of")
    ranked = sorted((word for word, count in counted.items() if count >= least), key=lambda one: (-counted[one], one))
    vocabulary = {word: number for number, word in enumerate([PAD, UNKNOWN, *ranked[:most]])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, UNKNOWN))
    tokenizer.pre_tokenizer = cut
    made: Any = PreTrainedTokenizerFast  # comes without types
    return made(tokenizer_object=tokenizer, pad_token=PAD, unk_token=UNKNOWN, model_max_length=limit)
