"""The label words of a language model as one tree of tokens, so that a single pass scores them all.

The tokens of all labels form a tree whose root is the end of the prompt. Its inner nodes are read behind the prompt,
each attending to the prompt and to its ancestors alone. The prompt's last token and the inner nodes are the *readouts*:
each gives the probabilities of the tokens that follow it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rationales.errors import OptionError

SMALLEST_REST = 1e-7  # probability that is left for a label that does not go on


@dataclass(frozen=True, eq=False)
class LabelTree:
    """N inner nodes and the steps of C labels; readout 0 is the prompt's last token, readout 1 + i is node i."""

    node_ids: Tensor  # (N,) the token of each inner node
    depth: Tensor  # (N,) its distance from the end of the prompt, from 0
    ancestors: Tensor  # (N, N) bool: [i, j] if node j is node i or one of its ancestors
    step_label: Tensor  # (steps,) the label that a step belongs to
    step_readout: Tensor  # (steps,) the readout that gives the step's probability
    step_token: Tensor  # (steps,) its token
    stop_label: Tensor  # (stops,) a label that ends where another one goes on
    stop_readout: Tensor  # (stops,) the readout at its end
    stop_token: Tensor  # (stops,) a token by which another label goes on
    lengths: Tensor  # (C,) tokens of each label

    @classmethod
    def from_ids(cls, label_ids: Sequence[Sequence[int]], spellings: int = 1) -> LabelTree:
        """The tree of the labels' token ids, none of which is empty.

        `spellings`: that many lists of equal length follow each other, which spell the same labels in different ways;
        labels of one list exclude each other.
        """
        prefixes = {tuple(ids[:count]) for ids in label_ids for count in range(1, len(ids))}
        per_spelling = len(label_ids) // spellings
        # a label that is the beginning of another one is an inner node already
        nodes = sorted(prefixes, key=lambda prefix: (len(prefix), prefix))
        readout = {(): 0} | {prefix: 1 + number for number, prefix in enumerate(nodes)}
        steps = [
            (label, readout[tuple(ids[:count])], ids[count])
            for label, ids in enumerate(label_ids)
            for count in range(len(ids))
        ]
        stops = [
            (label, readout[tuple(ids)], token)
            for label, ids in enumerate(label_ids)
            if tuple(ids) in readout
            for token in sorted(_going_on(ids, label_ids[label - label % per_spelling :][:per_spelling]))
        ]
        ancestors = torch.tensor(
            [[prefix[: len(shorter_prefix)] == shorter_prefix for shorter_prefix in nodes] for prefix in nodes],
            dtype=torch.bool,
        ).view(len(nodes), len(nodes))
        (step_label, step_readout, step_token), (stop_label, stop_readout, stop_token) = map(_columns, (steps, stops))
        return cls(
            node_ids=torch.tensor([prefix[-1] for prefix in nodes], dtype=torch.long),
            depth=torch.tensor([len(prefix) - 1 for prefix in nodes], dtype=torch.long),
            ancestors=ancestors,
            step_label=step_label,
            step_readout=step_readout,
            step_token=step_token,
            stop_label=stop_label,
            stop_readout=stop_readout,
            stop_token=stop_token,
            lengths=torch.tensor([len(ids) for ids in label_ids], dtype=torch.long),
        )

    @property
    def nodes(self) -> int:
        """N, the number of tokens read behind the prompt."""
        return len(self.node_ids)

    @property
    def paths(self) -> list[Tensor]:
        """The inner nodes from the end of the prompt to each leaf, as indices; one empty path if there are none."""
        leaves = (self.ancestors.sum(0) == 1).nonzero().flatten().tolist()  # ancestors of themselves alone
        return [self.ancestors[leaf].nonzero().flatten() for leaf in leaves] or [self.depth]

    @property
    def longest(self) -> int:
        """Positions that the labels take behind the prompt."""
        return 0 if not self.nodes else int(self.depth.max()) + 1

    def log_likelihoods(self, logits: Tensor) -> Tensor:
        """(R, 1 + N, vocabulary) logits of the readouts -> (R, C): log probability of each label after the prompt.

        log p(label) = sum over its tokens of log p(token | prompt, tokens before it). Of a label that is the beginning
        of another one, the probability that it goes on as that one is taken off, so that labels exclude each other.
        """
        normaliser = logits.logsumexp(-1)  # (R, 1 + N)

        def log_probability(readout: Tensor, token: Tensor) -> Tensor:
            return logits[:, readout, token] - normaliser[:, readout]

        total = logits.new_zeros(len(logits), len(self.lengths))
        total = total.index_add(1, self.step_label, log_probability(self.step_readout, self.step_token))
        if not len(self.stop_label):
            return total
        going_on = torch.zeros_like(total).index_add(
            1, self.stop_label, log_probability(self.stop_readout, self.stop_token).exp()
        )
        return total + torch.log((1 - going_on).clamp(min=SMALLEST_REST))

    def to(self, device: torch.device) -> LabelTree:
        """The same tree on another device."""
        return LabelTree(**{name: value.to(device) for name, value in vars(self).items()})


def _going_on(ids: Sequence[int], label_ids: Sequence[Sequence[int]]) -> set[int]:
    """The tokens by which labels go on that begin with all tokens of this one."""
    return {longer[len(ids)] for longer in label_ids if len(longer) > len(ids) and [*longer[: len(ids)]] == [*ids]}


def _columns(rows: Sequence[tuple[int, int, int]]) -> list[Tensor]:
    return [torch.tensor([row[column] for row in rows], dtype=torch.long) for column in range(3)]


def check_labels(labels: Any, name: str = "labels") -> tuple[str, ...]:
    """The labels or continuations, whichever `name` says; an OptionError unless they are different words."""
    words = labels if isinstance(labels, (str, Mapping)) or not isinstance(labels, Iterable) else list(labels)
    purpose = ", one for each class" if name == "labels" else " that may follow the prompt"
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise OptionError(f"{name} is a list of words{purpose}, not {words!r}")
    if not words or not all(word.strip() for word in words):
        raise OptionError(f"one of the {name} is empty; {name} is a list of words{purpose}")
    if len(set(words)) < len(words):
        raise OptionError(f"two {name} are equal: {', '.join(words)}")
    return tuple(map(str, words))


def check_label_ids(labels: Sequence[str], label_ids: Sequence[Sequence[int]], name: str = "labels") -> None:
    """Raise an OptionError for labels without tokens, or with the same tokens."""
    known: dict[tuple[int, ...], str] = {}
    for label, ids in zip(labels, label_ids, strict=True):
        if not ids:
            raise OptionError(f"the tokenizer returns no tokens for {label!r}, one of {name}; choose another word")
        if tuple(ids) in known:
            raise OptionError(
                f"the {name} {known[tuple(ids)]!r} and {label!r} are the same tokens for this model, which cannot tell "
                "them apart; choose other words"
            )
        known[tuple(ids)] = label
