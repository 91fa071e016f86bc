"""Hugging Face sequence classifiers: from texts to rows, and a model's labels, limits and special tokens."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rationales.errors import ModelError, OptionError
from rationales.models.batch import Piece, Rows
from rationales.models.batch.execution import (
    attribute_set,
    available_bytes,
    frozen,
    garbage_collection_paused,
    stored_bytes,
    token_budget,
)
from rationales.models.batch.rows import content_key
from rationales.models.classes import Head, label_index
from rationales.models.display import ModelDisplay, label_list
from rationales.models.fast.precision import forward_dtype, in_half_precision
from rationales.models.model import InputDescription
from rationales.models.text import baselines
from rationales.models.text.batch import TextBatch, TextClassifier
from rationales.models.text.chunks import ChunkTable, chunk_table
from rationales.models.text.text_sources import TextSources
from rationales.models.text.tokens import EncodedText, TextInput, encode, read_text_input, tokenize
from rationales.models.text.units import UnitKind

AGREEMENT_TEXTS = ("one", "A few more words, of which a batch has to fill up the first text.")  # for half precision
ASSUMED_VARIANTS = 8  # copies of a batch at once; memory is only measured if these may exceed the estimated budget
LONGEST_SEGMENT = 8192  # tokens; longer texts are divided into overlapping segments even if the model takes more


@dataclass(eq=False, repr=False)
class TextModel(ModelDisplay):
    """A text classifier that can be explained; several networks with one tokenizer are explained together."""

    networks: Sequence[TextClassifier]
    tokenizer: Any
    head: Head
    labels: tuple[str, ...]
    name: str
    unit: UnitKind
    baseline: str
    limit: int  # tokens of a segment
    overlap: int = 100  # tokens that neighbouring segments share
    filler: int = field(default=0)  # token id of padding
    kind: str = field(default="text", init=False)
    _chunk_table: ChunkTable | None = field(default=None, init=False)

    def facts(self) -> dict[str, str]:
        """The properties shown in a shell or notebook."""
        return {
            "reads": "texts",
            "labels": label_list(self.labels),
            "unit": self.unit,
            "baseline": self.baseline,
            "segments": f"{self.limit} tokens",
            "device": str(self.networks[0].baseline.device),
        }

    @property
    def suggested_baselines(self) -> str:
        """For a user whose baseline is informative."""
        tokens = [name for name in ("mask", "unk") if getattr(self.tokenizer, f"{name}_token_id", None) is not None]
        return ", ".join(name for name in (*tokens, "zero", "mean") if name != self.baseline)

    def read(self, raw_input: Any, name: str | None) -> TextInput:
        """A checked input made from a text or a tuple of two texts."""
        return read_text_input(raw_input, name)

    def title(self, source: TextInput) -> str:
        """The name of a text in messages."""
        return source.title

    def describe(self, encoded: EncodedText, scores: Tensor) -> InputDescription:
        """What a result says of the text."""
        source = encoded.source
        return InputDescription(
            source.text,
            encoded.units,
            scores.numpy(),
            pair=source.pair,
            name=source.name,
            segments=len(encoded.rows),
            tokens=sum(len(row.ids) for row in encoded.rows),
        )

    def encode(self, inputs: Sequence[TextInput]) -> list[EncodedText]:
        """The units and rows of each input."""
        with garbage_collection_paused():
            encoded = self._encode_chunks(inputs)
            remaining = [source for source, text in zip(inputs, encoded, strict=True) if text is None]
            tokenizations = tokenize(remaining, self.tokenizer)
            read_whole = (
                encode(source, self.tokenizer, self.unit, self.limit, self.overlap, tokenization)
                for source, tokenization in zip(remaining, tokenizations, strict=True)
            )
            return [next(read_whole) if text is None else text for text in encoded]

    def _encode_chunks(self, inputs: Sequence[TextInput]) -> list[EncodedText | None]:
        """Of several texts those that can be read chunk by chunk, which takes less time; None for the others."""
        if len(inputs) < 2 or self.unit != "word":
            return [None] * len(inputs)
        self._chunk_table = chunk_table(self.tokenizer, self._chunk_table)
        if self._chunk_table is None:
            return [None] * len(inputs)
        return self._chunk_table.encode(inputs, self.tokenizer, self.limit, self.overlap)

    def batch(self, encoded: Sequence[EncodedText], seed: int = 0) -> TextBatch:
        """One batch of the rows of these inputs, under every network."""
        device = self.networks[0].baseline.device
        token_rows = [(number, segment, row)
                      for number, text in enumerate(encoded) for segment, row in enumerate(text.rows)]  # fmt: skip
        views, count = len(self.networks), len(token_rows)
        width = max(len(row.units) for _, _, row in token_rows)
        longest = max(len(row.ids) for _, _, row in token_rows)
        dtype = torch.float64 if self.networks[0].baseline.dtype == torch.float64 else torch.float32

        def table(values: Sequence[Sequence[Any]], fill: Any, size: int, kind: torch.dtype) -> Tensor:
            padded = np.full((count, size), fill)
            for index, line in enumerate(values):
                padded[index, : len(line)] = line
            return torch.from_numpy(padded).to(kind).repeat(views, 1).to(device)

        lines = [row for _, _, row in token_rows]
        keys = [content_key(seed, encoded[number].source.text, encoded[number].source.pair, segment)
                for number, segment, _ in token_rows]  # fmt: skip
        rows = Rows(
            input=torch.tensor([number for number, _, _ in token_rows], device=device).repeat(views),
            mask=torch.arange(count, device=device).repeat(views),
            view=torch.arange(views, device=device).repeat_interleave(count),
            key=torch.tensor(keys, device=device).repeat(views),
            unit=table([row.units for row in lines], 0, width, torch.long),
            real=table([[True] * len(row.units) for row in lines], False, width, torch.bool),
            position=table([row.position for row in lines], 0.0, width, dtype),
            blend=table([row.weight for row in lines], 0.0, width, dtype) / views,
        )
        owner = table(
            [[unit if unit >= 0 else width for unit in row.owner] for row in lines], width, longest, torch.long
        )
        types = [row.types for row in lines if row.types is not None]
        batch = TextBatch(
            rows=rows,
            inputs=len(encoded),
            views=views,
            classes=len(self.labels),
            head=self.head,
            grid=None,
            budget=token_budget(_text_config(self.networks[0].module), longest, device),
            networks=self.networks,
            ids=table([row.ids for row in lines], self.filler, longest, torch.long),
            attention=table([[1] * len(row.ids) for row in lines], 0, longest, torch.long),
            types=table(types, 0, longest, torch.long) if len(types) == count else None,
            owner=owner,
            lengths=[len(row.ids) for row in lines] * views,
            unit=self.unit,
            sources=TextSources(encoded, self.tokenizer, self.limit, self.filler),
        )
        if device.type == "cuda" and ASSUMED_VARIANTS * sum(batch.lengths) > batch.budget:
            batch.budget = self.measured_budget(batch)
        return batch

    def measured_budget(self, batch: TextBatch) -> int:
        """Tokens that fit memory, from what the longest row of this batch stores for a backward pass."""
        row = max(range(len(batch.lengths)), key=lambda index: batch.lengths[index])
        where = torch.tensor([row], device=batch.device)
        piece = Piece(where, where, int(batch.rows.view[row]), batch.lengths[row], full=True)
        keep = batch.ones()[:1].requires_grad_()
        with self.frozen():
            stored = stored_bytes(batch.modules, lambda: batch.forward(piece, keep, None))
        return max(1, available_bytes(batch.device) * batch.lengths[row] // max(stored, 1))

    def coarse(self, dtype: torch.dtype | None = None) -> TextModel:
        """This model with half-precision copies of its networks; itself if they disagree or are no faster here.

        `dtype`: by default that of `forward_dtype`.
        """
        dtype = dtype or forward_dtype(self.networks[0].baseline.device)
        if dtype is None:
            return self
        with self.frozen():
            half = in_half_precision(
                self.batch(self.encode([TextInput(text) for text in AGREEMENT_TEXTS])), dtype, gradients=False
            )
        return replace(self, networks=half.networks) if isinstance(half, TextBatch) else self

    def target(self, label: str | int | None) -> int | None:
        """Index of a class given by its label or index; None for None."""
        return label_index(self.labels, label)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Context in which the networks are frozen; on exit all their flags are restored."""
        with ExitStack() as stack:
            stack.enter_context(frozen(*(network.module for network in self.networks)))
            for network in self.networks:
                config = _text_config(network.module)
                if config is not None and getattr(config, "pad_token_id", self.filler) != self.filler:
                    # decoders need a padding token for batches, and find the last token by it
                    stack.enter_context(attribute_set(config, "pad_token_id", self.filler))
            yield


def text_model(
    modules: Sequence[nn.Module],
    tokenizer: Any,
    *,
    name: str,
    unit: str = "word",
    baseline: str | Tensor | None = None,
    limit: int | None = None,
    overlap: int = 100,
) -> TextModel:
    """The TextModel of a classifier and its tokenizer; several modules are explained together."""
    if unit not in ("word", "token", "sentence"):
        raise OptionError(f"units are word, token or sentence, not {unit!r}")
    baseline_value = baseline if isinstance(baseline, Tensor) else baselines.choose(baseline, tokenizer)
    networks = [_network(module, tokenizer, baseline_value) for module in modules]
    heads = {_head(module) for module in modules}
    names = {_labels(module) for module in modules}
    if len(heads) > 1 or len(names) > 1:
        raise ModelError("models explained together must have the same labels in the same order")
    max_tokens = min(token_limit(module, tokenizer) for module in modules)
    if limit is not None and not 8 <= limit <= max_tokens:
        raise OptionError(f"a segment must have 8 to {max_tokens} tokens, not {limit}")
    return TextModel(
        networks=networks,
        tokenizer=tokenizer,
        head=heads.pop(),
        labels=_labels(modules[0]),
        name=name,
        unit=unit,  # type: ignore[arg-type]  # checked above; a Literal cannot be narrowed from a str
        baseline=baselines.choose(baseline, tokenizer),
        limit=limit or max_tokens,
        overlap=overlap,
        filler=padding_token(modules[0], tokenizer),
    )


def _network(module: nn.Module, tokenizer: Any, baseline: str | Tensor) -> TextClassifier:
    find = getattr(module, "get_input_embeddings", None)
    try:
        embedding = find() if find is not None else None
    except NotImplementedError:
        embedding = None
    if not isinstance(embedding, nn.Module):
        raise ModelError(
            f"{type(module).__name__} does not say where its word embeddings are; give it a get_input_embeddings()"
        )
    signature = inspect.signature(module.forward).parameters
    arguments = {"use_cache": False} if "use_cache" in signature else {}
    vector = baselines.vector(baseline, tokenizer, embedding)
    return TextClassifier(module, embedding, vector, arguments, "token_type_ids" in signature)


def _text_config(module: nn.Module) -> Any:
    config: Any = getattr(module, "config", None)
    return config.get_text_config() if hasattr(config, "get_text_config") else config


def _head(module: nn.Module) -> Head:
    config = getattr(module, "config", None)
    kind = getattr(config, "problem_type", None)
    if kind == "regression":
        raise ModelError("this is a regression model; only classifiers can be explained")
    if kind == "multi_label_classification":
        return Head.MULTI_LABEL
    return Head.SIGMOID if getattr(config, "num_labels", 2) == 1 else Head.SOFTMAX


def _labels(module: nn.Module) -> tuple[str, ...]:
    config = getattr(module, "config", None)
    names = getattr(config, "id2label", None)
    if not names:
        raise ModelError("the model has no config.id2label that names its classes")
    labels = tuple(str(names[index]) for index in sorted(names, key=int))
    return (f"not {labels[0]}", labels[0]) if len(labels) == 1 and _head(module) is Head.SIGMOID else labels


def token_limit(module: nn.Module, tokenizer: Any) -> int:
    """Tokens of a segment: the least of the tokenizer's limit, the number of positions and LONGEST_SEGMENT."""
    config = _text_config(module)
    limits = [getattr(tokenizer, "model_max_length", None), LONGEST_SEGMENT]
    positions = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None)
    if positions:
        # the RoBERTa family counts positions from padding_idx + 1
        used = [table.padding_idx + 1 for name, table in module.named_modules()
                if isinstance(table, nn.Embedding) and name.endswith("position_embeddings")
                and table.padding_idx is not None]  # fmt: skip
        limits.append(positions - (used[0] if used else 0))
    return int(min(limit for limit in limits if limit))


def padding_token(module: nn.Module, tokenizer: Any) -> int:
    """The token id that fills up rows: the model's padding token, or a token that no text ends with."""
    configured = getattr(_text_config(module), "pad_token_id", None)
    if isinstance(configured, int):
        return configured
    # not a token that texts end with: decoders read their logits at the last token before the padding
    last = tokenizer("a")["input_ids"][-1:]
    for name in ("pad_token_id", "bos_token_id", "eos_token_id", "unk_token_id"):
        token = getattr(tokenizer, name, None)
        if isinstance(token, int) and token not in last:
            return token
    return 0
