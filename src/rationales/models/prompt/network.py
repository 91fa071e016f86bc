"""A causal language model as a classifier of rows: text and suffix behind a shared prefix, label words behind both.

Rows are padded on the right. A causal model never reads what follows a token, so padding needs no mask, and positions
are given explicitly: neither batching nor the tokenizer's padding side changes anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from rationales.errors import ModelError
from rationales.models.prompt.labels import LabelTree
from rationales.models.prompt.prefix_attention import UnsupportedAttentionError, shared_prefix
from rationales.models.prompt.prefix_cache import PrefixStates, Versions, prefix_states, weight_versions

_TREE = "tree_"  # prefix of the buffers that hold the label tree


class PromptConfig:
    """What the package asks of a classifier's configuration, answered for a language model."""

    problem_type = None

    def __init__(self, labels: Sequence[str], config: Any) -> None:
        self.id2label = dict(enumerate(labels))
        self.num_labels = len(labels)
        self._config = config

    def get_text_config(self) -> Any:
        """The configuration of the language model."""
        return self._config.get_text_config() if hasattr(self._config, "get_text_config") else self._config


@dataclass(frozen=True, eq=False)
class _Prepared:
    """What is computed once, until a weight changes."""

    versions: Versions
    prefix: PrefixStates
    calibration: Tensor | None  # (C,) scores of the empty text


class PromptNetwork(nn.Module):
    """Log-likelihoods of the labels for rows of tokens, (R, T) -> (R, C).

    `prefix_ids`: tokens before every row. `empty_ids`: the row of an empty text, for calibration; None: no calibration.
    `single`: there is one label, and the second class is everything else. `digest`: text that identifies the prompt,
    kept as a buffer so that fingerprints of the weights include it.
    """

    def __init__(
        self,
        language_model: nn.Module,
        labels: Sequence[str],
        label_ids: Sequence[Sequence[int]],
        prefix_ids: Sequence[int],
        *,
        length_normalised: bool = False,
        empty_ids: Sequence[int] | None = None,
        digest: str = "",
    ) -> None:
        super().__init__()
        self.language_model = language_model
        self.config = PromptConfig(labels, getattr(language_model, "config", None))
        self.length_normalised = length_normalised
        self.single = len(label_ids) == 1
        device = self.device
        self.register_buffer("prefix_ids", torch.tensor(list(prefix_ids), dtype=torch.long, device=device))
        empty = None if empty_ids is None else torch.tensor([list(empty_ids)], dtype=torch.long, device=device)
        self.register_buffer("empty_ids", empty)
        self.register_buffer("digest", torch.tensor(list(digest.encode()), dtype=torch.uint8, device=device))
        for name, value in vars(LabelTree.from_ids(label_ids)).items():
            self.register_buffer(_TREE + name, value.to(device))
        self.train(language_model.training)
        self._prepared: _Prepared | None = None
        self._shares_prefix = True  # until the model's attention turns out to be another

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_prepared": None}  # a copy computes its own prefix

    @property
    def device(self) -> torch.device:
        """Device of the word embeddings."""
        return next(self.get_input_embeddings().parameters()).device

    @property
    def prefix_length(self) -> int:
        """P, the number of tokens before every row."""
        return len(cast("Tensor", self.prefix_ids))

    @property
    def tree(self) -> LabelTree:
        """The label words."""
        buffers = {name.removeprefix(_TREE): value for name, value in self.named_buffers() if name.startswith(_TREE)}
        return LabelTree(**buffers)

    def get_input_embeddings(self) -> nn.Module:
        """The language model's word embeddings."""
        find = getattr(self.language_model, "get_input_embeddings", None)
        embedding = find() if find is not None else None
        if not isinstance(embedding, nn.Module):
            raise ModelError(f"{type(self.language_model).__name__} does not say where its word embeddings are")
        return embedding

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """(R, T) twice -> (R, C): the labels' scores; `attention_mask` is 0 for padding on the right."""
        return self.scores_of_embeddings(self.get_input_embeddings()(input_ids), attention_mask.sum(1))

    def scores_of_embeddings(self, words: Tensor, lengths: Tensor) -> Tensor:
        """(R, T, hidden) word embeddings of rows of these lengths (R,) -> (R, C) scores."""
        prepared = self.prepare()
        scores = self._scores(words, lengths.to(words.device), prepared.prefix)
        if prepared.calibration is not None:
            scores = scores - prepared.calibration.to(scores)
        return scores

    def prepare(self) -> _Prepared:
        """The states of the prefix and the scores of the empty text, computed anew if a weight has changed."""
        versions = weight_versions(self.language_model)
        if self._prepared is None or self._prepared.versions != versions:
            with torch.no_grad():
                prefix = prefix_states(self.language_model, self._embed(cast("Tensor", self.prefix_ids)[None]))
                calibration = None
                if self.empty_ids is not None:
                    empty = cast("Tensor", self.empty_ids)
                    lengths = torch.tensor([empty.shape[1]], device=empty.device)
                    calibration = self._scores(self._embed(empty), lengths, prefix)[0]
            self._prepared = _Prepared(versions, prefix, calibration)
        return self._prepared

    def _embed(self, ids: Tensor) -> Tensor:
        """The word embeddings of these tokens, past any hook that replaces those of a row."""
        return cast("Tensor", self.get_input_embeddings().forward(ids))

    def _scores(self, words: Tensor, lengths: Tensor, prefix: PrefixStates) -> Tensor:
        tree, (rows, size), device = self.tree, words.shape[:2], words.device
        first = self.prefix_length
        position = (first + torch.arange(size, device=device)).expand(rows, -1)
        readouts = (lengths - 1)[:, None]
        if tree.nodes:
            nodes = self._embed(tree.node_ids[None]).expand(rows, -1, -1)
            words = torch.cat([words, nodes.to(words)], 1)
            position = torch.cat([position, first + lengths[:, None] + tree.depth], 1)
            readouts = torch.cat([readouts, size + torch.arange(tree.nodes, device=device).expand(rows, -1)], 1)
        with _read_at(self.language_model, readouts):
            output = self._run(words, position, lengths, prefix)
        logits: Tensor = output.logits if hasattr(output, "logits") else output[0]
        if logits.shape[1] != readouts.shape[1]:  # the output layer could not be hooked
            logits = logits.gather(1, readouts.to(logits.device)[..., None].expand(-1, -1, logits.shape[-1]))
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        scores = tree.to(logits.device).log_likelihoods(logits)
        if self.length_normalised:
            scores = scores / tree.lengths.to(scores)
        if self.single:
            scores = torch.cat([scores, _log_complement(scores)], 1)
        return scores

    def _run(self, words: Tensor, position: Tensor, lengths: Tensor, prefix: PrefixStates) -> Any:
        """The language model's output for rows behind the prefix, which is shared, or copied where it has to be."""
        tree, config = self.tree, self.config.get_text_config()
        if prefix.keys and self._shares_prefix:
            try:
                with shared_prefix(config, prefix):
                    masks = self._masks(position, lengths, tree, words.dtype, of_prefix=False)
                    return self.language_model(
                        inputs_embeds=words, attention_mask=masks, position_ids=position, use_cache=False
                    )
            except UnsupportedAttentionError:
                self._shares_prefix = False
        masks = self._masks(position, lengths, tree, words.dtype, of_prefix=True)
        return self.language_model(
            inputs_embeds=words,
            attention_mask=masks,
            position_ids=position,
            past_key_values=prefix.cache(len(words)),
            use_cache=True,
        )

    def _masks(self, position: Tensor, lengths: Tensor, tree: LabelTree, dtype: torch.dtype, *, of_prefix: bool) -> Any:
        """What a token sees: a mask (1 or R, 1, T, P + T), or one for each type of layer.

        `of_prefix`: whether it covers the prefix also where all of the prefix is seen.
        """
        config, device = self.config.get_text_config(), position.device
        window, types = getattr(config, "sliding_window", None), getattr(config, "layer_types", None)
        if types is not None and "sliding_attention" not in types:
            window = None
        visible = _visible(position, lengths, tree, self.prefix_length if of_prefix or window is not None else 0)
        full = _additive(visible, dtype)
        if window is None:
            return full
        keys = torch.cat([torch.arange(self.prefix_length, device=device).expand(len(position), -1), position], 1)
        near = (position[:, :, None] - keys[:, None, :] < window)[:, None]
        sliding = _additive(visible & near, dtype)
        return sliding if types is None else {"full_attention": full, "sliding_attention": sliding}


def _visible(position: Tensor, lengths: Tensor, tree: LabelTree, prefix: int) -> Tensor:
    """(1 or R, 1, T, P + T) bool: the prefix, the text up to the token itself, and the ancestors of a label's node."""
    size, device = position.shape[1] - tree.nodes, position.device
    causal = torch.ones(size, size, dtype=torch.bool, device=device).tril()[None]
    visible = causal
    if tree.nodes:
        rows = len(position)
        to_nodes = torch.zeros(rows, size, tree.nodes, dtype=torch.bool, device=device)
        real = torch.arange(size, device=device) < lengths[:, None]
        below = torch.cat([real[:, None].expand(-1, tree.nodes, -1), tree.ancestors.expand(rows, -1, -1)], 2)
        visible = torch.cat([torch.cat([causal.expand(rows, -1, -1), to_nodes], 2), below], 1)
    return torch.cat([visible.new_ones(len(visible), visible.shape[1], prefix), visible], 2)[:, None]


def _additive(visible: Tensor, dtype: torch.dtype) -> Tensor:
    """0 where a token is seen, else the lowest number."""
    return torch.zeros(visible.shape, dtype=dtype, device=visible.device).masked_fill_(~visible, torch.finfo(dtype).min)


@contextmanager
def _read_at(module: nn.Module, readouts: Tensor) -> Iterator[None]:
    """Inside the block, the output layer is applied to the readouts (R, K) of each row only."""
    find = getattr(module, "get_output_embeddings", None)
    head = find() if find is not None else None
    if not isinstance(head, nn.Module):
        yield
        return

    def gather(_module: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        hidden = arguments[0]
        index = readouts.to(hidden.device)[..., None].expand(-1, -1, hidden.shape[-1])
        return (hidden.gather(1, index), *arguments[1:])

    handle = head.register_forward_pre_hook(gather)
    try:
        yield
    finally:
        handle.remove()


def _log_complement(log_probability: Tensor) -> Tensor:
    """log(1 - p) from log p, finite also for p = 1."""
    return torch.log(-torch.expm1(log_probability.clamp(max=-1e-7)))
