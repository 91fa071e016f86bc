"""Training texts in buckets of similar length; a bucket is encoded and put on the device at its first use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rationales.errors import InputError
from rationales.models.batch.rows import pack
from rationales.models.text.batch import TextBatch
from rationales.models.text.model import TextModel
from rationales.models.text.tokens import EncodedText, TextInput

BUCKET_SIZE = 256  # texts
MIXED_BUCKETS = 8  # buckets whose groups are shuffled together


def without_repetitions(texts: Sequence[str | tuple[str, str]]) -> list[str | tuple[str, str]]:
    """The texts that are not empty, each once."""
    return list(dict.fromkeys(text for text in texts if not isinstance(text, str) or text.strip()))


@dataclass(frozen=True, eq=False)
class LengthBucket:
    """Texts of similar length as one batch, with the model's predictions."""

    batch: TextBatch
    predicted_labels: Tensor  # (inputs,)
    token_counts: list[int]  # per input, over all of its segments
    number: int = 0  # among the buckets of the same texts

    def groups(self, inputs: int, tokens: int, order: Sequence[int] | None = None) -> Iterator[list[int]]:
        """Groups of input numbers: at most `inputs` inputs and `tokens` tokens with padding each."""
        order = range(self.batch.inputs) if order is None else order
        min_tokens = -(-tokens // inputs)  # lower bound of a text's cost, so that a group has at most `inputs` texts
        for group in pack([max(self.token_counts[number], min_tokens) for number in order], tokens):
            yield sorted(order[member] for member in group)


class LengthBuckets:
    """All buckets of the given texts; a text for which the tokenizer returns no tokens is left out."""

    def __init__(self, model: TextModel, sources: Sequence[TextInput], seed: int) -> None:
        self.model, self.seed = model, seed
        ordered = sorted(sources, key=lambda source: len(source.text) + len(source.pair or ""))
        self.texts = [ordered[begin : begin + BUCKET_SIZE] for begin in range(0, len(ordered), BUCKET_SIZE)]
        self.buckets: dict[int, LengthBucket | None] = {}

    def __iter__(self) -> Iterator[LengthBucket]:
        """Every bucket that is not empty."""
        return (bucket for number in range(len(self.texts)) if (bucket := self.bucket(number)) is not None)

    def bucket(self, number: int) -> LengthBucket | None:
        """Bucket of this number; None if it is empty."""
        if number not in self.buckets:
            self.buckets[number] = self._make_bucket(number)
        return self.buckets[number]

    def random_groups(
        self, inputs: int, tokens: int, generator: torch.Generator
    ) -> Iterator[tuple[LengthBucket, list[int]]]:
        """Every text once, in groups of similar length; buckets, texts and groups in random order."""
        order = torch.randperm(len(self.texts), generator=generator).tolist()
        for begin in range(0, len(order), MIXED_BUCKETS):
            mixed = order[begin : begin + MIXED_BUCKETS]
            groups = []
            for bucket in [bucket for number in mixed if (bucket := self.bucket(number)) is not None]:
                text_order = torch.randperm(bucket.batch.inputs, generator=generator).tolist()
                groups += [(bucket, group) for group in bucket.groups(inputs, tokens, text_order)]
            for index in torch.randperm(len(groups), generator=generator).tolist():
                yield groups[index]

    def _make_bucket(self, number: int) -> LengthBucket | None:
        sources = self.texts[number]
        encoded = [encoded_text for source in sources if (encoded_text := self._encode_or_none(source)) is not None]
        if not encoded:
            return None
        batch = self.model.batch(encoded, self.seed)
        probabilities = batch.predict()
        non_finite = torch.nonzero(~torch.isfinite(probabilities).all(-1)).flatten().tolist()
        if non_finite:
            title = encoded[non_finite[0]].source.title
            raise InputError(f"the model gives NaN or infinite logits for {title}; check its weights")
        token_counts = [0] * batch.inputs
        for input_number, cost in zip(batch.rows.input.tolist(), batch.cost(), strict=True):
            token_counts[input_number] += cost
        return LengthBucket(batch, probabilities.argmax(-1), token_counts, number)

    def _encode_or_none(self, source: TextInput) -> EncodedText | None:
        try:
            return self.model.encode([source])[0]
        except InputError:
            return None
