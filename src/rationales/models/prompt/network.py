"""A causal language model as a classifier of rows: text and suffix behind a shared prefix, label words behind both.

Neither batching nor the tokenizer's padding side changes anything: see `prefix/readouts.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from rationales.errors import ModelError
from rationales.models.prompt.labels import LabelTree
from rationales.models.prompt.prefix.prefix_attention import UnsupportedAttentionError
from rationales.models.prompt.prefix.prefix_cache import Prefix, Versions, weight_versions, with_states
from rationales.models.prompt.prefix.readouts import PrefixReading, readout_logits
from rationales.models.prompt.prefix.verification import Verification, verify

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
    """What is computed once, until a weight changes or an adapter is switched."""

    versions: Versions
    prefix: Prefix
    calibration: Tensor | None  # (spellings, C) scores of the empty text


class PromptNetwork(nn.Module):
    """Log-likelihoods of the labels for rows of tokens, (R, T) -> (R, C).

    `label_ids`: the labels' tokens, in each spelling; the type of a row's tokens is the number of its spelling.
    `prefix_ids`: tokens before every row. `empty_ids`: the row of an empty text, for calibration; None: no calibration.
    `single`: there is one label, and the second class is everything else. `continues`: labels are words that continue a
    prompt. `digest`: text that identifies the prompt,
    kept as a buffer so that fingerprints of the weights include it.
    """

    def __init__(
        self,
        language_model: nn.Module,
        labels: Sequence[str],
        label_ids: Sequence[Sequence[Sequence[int]]],
        prefix_ids: Sequence[int],
        *,
        length_normalised: bool = False,
        empty_ids: Sequence[int] | None = None,
        continues: bool = False,
        digest: str = "",
    ) -> None:
        super().__init__()
        self.continues = continues
        self.language_model = language_model
        self.config = PromptConfig(labels, getattr(language_model, "config", None))
        self.length_normalised = length_normalised
        self.spellings, self.single = len(label_ids), len(label_ids[0]) == 1
        device = self.device
        if device.type == "meta":
            raise ModelError(
                "the word embeddings are offloaded, so that words cannot be replaced; keep them on a device, for "
                "instance by device_map={'model.embed_tokens': 'cpu', …}, or load the model without offloading"
            )
        self.register_buffer("prefix_ids", torch.tensor(list(prefix_ids), dtype=torch.long, device=device))
        empty = None if empty_ids is None else torch.tensor([list(empty_ids)], dtype=torch.long, device=device)
        self.register_buffer("empty_ids", empty)
        self.register_buffer("digest", torch.tensor(list(digest.encode()), dtype=torch.uint8, device=device))
        tree = LabelTree.from_ids([ids for spelling in label_ids for ids in spelling], self.spellings)
        for name, value in vars(tree).items():
            self.register_buffer(_TREE + name, value.to(device))
        self.train(language_model.training)
        self._prepared: _Prepared | None = None
        self._verification: Verification | None = None

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

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None) -> Tensor:
        """(R, T) each -> (R, C): the labels' scores; `attention_mask` is 0 for padding on the right.

        `token_type_ids`: the number of the spelling, the same for all tokens of a row; None: 0.
        """
        spelling = None if token_type_ids is None else token_type_ids[:, 0]
        return self.scores_of_embeddings(self.get_input_embeddings()(input_ids), attention_mask.sum(1), spelling)

    def scores_of_embeddings(self, words: Tensor, lengths: Tensor, spelling: Tensor | None = None) -> Tensor:
        """(R, T, hidden) word embeddings of rows of these lengths (R,) -> (R, C) scores; `spelling`: (R,)."""
        prepared = self.prepare()
        if spelling is None:
            spelling = lengths.new_zeros(len(words))
        scores = self._scores(words, lengths.to(words.device), spelling, prepared.prefix)
        if prepared.calibration is not None:
            scores = scores - prepared.calibration.to(scores)[spelling.to(scores.device)]
        return scores

    @property
    def verification(self) -> Verification:
        """How rows are read, compared with plain passes once."""
        if self._verification is None:
            vocabulary = next(weight.shape[0] for weight in self.get_input_embeddings().parameters())
            self._verification = verify(self.language_model, self._embed, vocabulary, self.device)
        return self._verification

    def tokens_read(self, length: int) -> int:
        """Tokens that go through the model for a row of this length, without the labels' own."""
        total = self.prefix_length + length
        if self.verification.reading_of(total + self.tree.longest) is not PrefixReading.SEPARATE:
            return length
        return total * len(self.tree.paths)

    def prepare(self) -> _Prepared:
        """The states of the prefix and the scores of the empty text, computed anew if the model has changed."""
        versions = weight_versions(self.language_model)
        if self._prepared is None or self._prepared.versions != versions:
            is_separate = self.verification.reading is PrefixReading.SEPARATE
            with torch.no_grad():
                embeddings = self._embed(cast("Tensor", self.prefix_ids)[None])
                prefix = Prefix(embeddings) if is_separate else with_states(self.language_model, embeddings)
                calibration = None
                if self.empty_ids is not None:
                    empty = cast("Tensor", self.empty_ids).expand(self.spellings, -1)
                    spelling = torch.arange(self.spellings, device=empty.device)
                    lengths = torch.full_like(spelling, empty.shape[1])
                    calibration = self._scores(self._embed(empty), lengths, spelling, prefix)
            self._prepared = _Prepared(versions, prefix, calibration)
        return self._prepared

    def _embed(self, ids: Tensor) -> Tensor:
        """The word embeddings of these tokens, past any hook that replaces those of a row."""
        return cast("Tensor", self.get_input_embeddings().forward(ids))

    def _scores(self, words: Tensor, lengths: Tensor, spelling: Tensor, prefix: Prefix) -> Tensor:
        tree = self.tree
        reading = self.verification.reading_of(prefix.length + words.shape[1] + tree.longest)
        try:
            logits = readout_logits(
                self.language_model, words, lengths, self._embed(tree.node_ids), tree, prefix, reading
            )
        except UnsupportedAttentionError as error:
            raise ModelError(f"the attention of the model has changed ({error}); load it again") from error
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        scores = tree.to(logits.device).log_likelihoods(logits)
        if self.length_normalised:
            scores = scores / tree.lengths.to(scores)
        by_spelling = scores.view(len(scores), self.spellings, -1)
        scores = by_spelling[torch.arange(len(scores), device=scores.device), spelling.to(scores.device)]
        if self.single:
            scores = torch.cat([scores, _log_complement(scores)], 1)
        return scores


def _log_complement(log_probability: Tensor) -> Tensor:
    """log(1 - p) from log p, finite also for p = 1."""
    return torch.log(-torch.expm1(log_probability.clamp(max=-1e-7)))
