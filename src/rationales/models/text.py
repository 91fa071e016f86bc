"""Hugging Face sequence classifiers: how a text becomes rows, and what the model's labels and limits are."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rationales.errors import InputError, ModelError, OptionError
from rationales.models import baselines
from rationales.models.batch import Piece, Rows
from rationales.models.heads import Head
from rationales.models.labels import label_number
from rationales.models.memory import available_bytes, stored_bytes, token_budget
from rationales.models.precision import in_half
from rationales.models.randomness import content_key
from rationales.models.shown import Shown, label_list
from rationales.models.state import attribute_set, frozen, no_collection
from rationales.models.text_batch import Network, TextBatch
from rationales.models.tokens import Encoded, TextInput, encode, tokenized
from rationales.models.units import UnitKind

SAMPLES = ("one", "A few more words, of which a batch has to fill up the first text.")  # to see whether a copy agrees
LIKELY = 8  # times the batch's tokens are in flight at once: where that fits an estimate by far, it is not measured
LONGEST_SEGMENT = 8192  # tokens; models that could take more are given overlapping segments of this length


@dataclass(eq=False, repr=False)
class TextModel(Shown):
    """A text classifier that can be explained; several networks with one tokenizer are explained together."""

    networks: Sequence[Network]
    tokenizer: Any
    head: Head
    labels: tuple[str, ...]
    name: str
    unit: UnitKind
    baseline: str
    limit: int  # tokens the model takes at once
    overlap: int = 100  # tokens that neighbouring segments share
    filler: int = field(default=0)  # the token that only fills up a batch
    kind: str = field(default="text", init=False)

    def facts(self) -> dict[str, str]:
        """What to show of it."""
        return {
            "reads": "texts",
            "labels": label_list(self.labels),
            "unit": self.unit,
            "baseline": self.baseline,
            "segments": f"{self.limit} tokens",
            "device": str(self.networks[0].baseline.device),
        }

    def read(self, given: Any, name: str | None) -> TextInput:
        """An input from a text or a tuple of two."""
        if isinstance(given, str):
            source = TextInput(given, None, name)
        elif isinstance(given, tuple) and len(given) == 2 and all(isinstance(part, str) for part in given):
            source = TextInput(given[0], given[1], name)
        else:
            raise InputError(
                f"an input is a text or a tuple of two texts, or a list of these, not {type(given).__name__}"
            )
        if source.pair is not None and not source.pair.strip():
            raise InputError(f"the second text of {name or 'the pair'} is empty; a model of pairs needs both")
        for text in (source.text, source.pair or ""):
            try:
                text.encode()
            except UnicodeEncodeError:
                raise InputError(f"{name or 'the text'} holds half a character (a lone surrogate)") from None
        return source

    def title(self, source: TextInput) -> str:
        """What to call a text in a message."""
        return source.title

    def describe(self, encoded: Encoded, scores: Tensor) -> dict[str, Any]:
        """What a result says of the text."""
        source = encoded.source
        return {
            "text": source.text,
            "pair": source.pair,
            "name": source.name,
            "units": encoded.units,
            "scores": scores.numpy(),
            "segments": len(encoded.rows),
        }

    def encode(self, inputs: Sequence[TextInput]) -> list[Encoded]:
        """Each input's units and rows."""
        with no_collection():
            told = tokenized(inputs, self.tokenizer)
            return [
                encode(source, self.tokenizer, self.unit, self.limit, self.overlap, own)
                for source, own in zip(inputs, told, strict=True)
            ]

    def batch(self, encoded: Sequence[Encoded], seed: int = 0) -> TextBatch:
        """The rows of all these inputs together."""
        device = self.networks[0].baseline.device
        token_rows = [(number, segment, row)
                      for number, one in enumerate(encoded) for segment, row in enumerate(one.rows)]  # fmt: skip
        views = len(self.networks)
        count = len(token_rows)
        width = max(len(row.units) for _, _, row in token_rows)
        longest = max(len(row.ids) for _, _, row in token_rows)
        dtype = torch.float64 if self.networks[0].baseline.dtype == torch.float64 else torch.float32

        def table(values: Sequence[Sequence[Any]], fill: Any, size: int, kind: torch.dtype) -> Tensor:
            made = np.full((count, size), fill)
            for index, line in enumerate(values):
                made[index, : len(line)] = line
            return torch.from_numpy(made).to(kind).repeat(views, 1).to(device)

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
        made = TextBatch(
            rows=rows,
            inputs=len(encoded),
            views=views,
            classes=len(self.labels),
            head=self.head,
            grid=None,
            budget=token_budget(self._config(), longest, device),
            networks=self.networks,
            ids=table([row.ids for row in lines], self.filler, longest, torch.long),
            attention=table([[1] * len(row.ids) for row in lines], 0, longest, torch.long),
            types=table(types, 0, longest, torch.long) if len(types) == count else None,
            owner=owner,
            lengths=[len(row.ids) for row in lines] * views,
            unit=self.unit,
        )
        if device.type == "cuda" and LIKELY * sum(made.lengths) > made.budget:
            made.budget = self.measured_budget(made)
        return made

    def measured_budget(self, batch: TextBatch) -> int:
        """Tokens that may be in flight, from what the longest row of this batch really stores for a backward pass."""
        row = max(range(len(batch.lengths)), key=lambda index: batch.lengths[index])
        where = torch.tensor([row], device=batch.device)
        piece = Piece(where, where, int(batch.rows.view[row]), batch.lengths[row], full=True)
        keep = batch.ones()[:1].requires_grad_()
        with self.borrowed():
            stored = stored_bytes([one.module for one in self.networks], lambda: batch.forward(piece, keep, None))
        return max(1, available_bytes(batch.device) * batch.lengths[row] // max(stored, 1))

    def coarse(self, dtype: torch.dtype = torch.float16) -> TextModel:
        """The same model through copies in half precision, on a card that is fast with it; else itself."""
        if self.networks[0].baseline.device.type != "cuda":
            return self
        with self.borrowed():
            half = in_half(self.batch(self.encode([TextInput(text) for text in SAMPLES])), dtype, slopes=False)
        return replace(self, networks=half.networks) if isinstance(half, TextBatch) else self

    def target(self, wanted: str | int | None) -> int | None:
        """The number of a class given by label or number."""
        return label_number(self.labels, wanted)

    @contextmanager
    def borrowed(self) -> Iterator[None]:
        """Frozen networks inside the block, each given back as it was."""
        with ExitStack() as stack:
            stack.enter_context(frozen(*(network.module for network in self.networks)))
            for network in self.networks:
                config = _text_config(network.module)
                if config is not None and getattr(config, "pad_token_id", self.filler) != self.filler:
                    # decoders refuse batches without a padding token, and find the last token by it
                    stack.enter_context(attribute_set(config, "pad_token_id", self.filler))
            yield

    def _config(self) -> Any:
        return _text_config(self.networks[0].module)


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
    """Make a text classifier and its tokenizer explainable; several modules are explained together."""
    if unit not in ("word", "token", "sentence"):
        raise OptionError(f"units are word, token or sentence, not {unit!r}")
    chosen = baseline if isinstance(baseline, Tensor) else baselines.choose(baseline, tokenizer)
    networks = [_network(module, tokenizer, chosen) for module in modules]
    heads = {_head(module) for module in modules}
    names = {_labels(module) for module in modules}
    if len(heads) > 1 or len(names) > 1:
        raise ModelError("models explained together must have the same labels in the same order")
    room = min(_limit(module, tokenizer) for module in modules)
    if limit is not None and not 8 <= limit <= room:
        raise OptionError(f"a segment must have 8 to {room} tokens, not {limit}")
    return TextModel(
        networks=networks,
        tokenizer=tokenizer,
        head=heads.pop(),
        labels=_labels(modules[0]),
        name=name,
        unit=unit,  # type: ignore[arg-type]  # checked above; a Literal cannot be narrowed from a str
        baseline=baselines.choose(baseline, tokenizer),
        limit=limit or room,
        overlap=overlap,
        filler=_filler(modules[0], tokenizer),
    )


def _network(module: nn.Module, tokenizer: Any, baseline: str | Tensor) -> Network:
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
    return Network(module, embedding, vector, arguments, "token_type_ids" in signature)


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


def _limit(module: nn.Module, tokenizer: Any) -> int:
    """Tokens that fit: what the tokenizer says, what the position table holds, and no more than is sensible."""
    config = _text_config(module)
    told = [getattr(tokenizer, "model_max_length", None), LONGEST_SEGMENT]
    positions = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None)
    if positions:
        # the RoBERTa family counts positions from padding_idx + 1
        used = [table.padding_idx + 1 for name, table in module.named_modules()
                if isinstance(table, nn.Embedding) and name.endswith("position_embeddings")
                and table.padding_idx is not None]  # fmt: skip
        told.append(positions - (used[0] if used else 0))
    return int(min(limit for limit in told if limit))


def _filler(module: nn.Module, tokenizer: Any) -> int:
    told = getattr(_text_config(module), "pad_token_id", None)
    if isinstance(told, int):
        return told
    # a token that no text ends with, since a decoder reads its answer before the fill-up; some tokenizers append eos
    last = tokenizer("a")["input_ids"][-1:]
    for name in ("pad_token_id", "bos_token_id", "eos_token_id", "unk_token_id"):
        token = getattr(tokenizer, name, None)
        if isinstance(token, int) and token not in last:
            return token
    return 0
