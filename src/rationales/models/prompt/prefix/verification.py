"""Compares the ways of reading rows behind a prefix with plain passes, and takes the fastest that agrees.

Architectures differ in what an attention mask, a cache and given positions do to them. Compared are two rows of random
tokens behind a prefix, with labels of several tokens; one row is longer than every local window that the configuration
names, up to `LONGEST`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from rationales.errors import ModelError
from rationales.models.prompt.gguf_file import first_line
from rationales.models.prompt.labels import LabelTree
from rationales.models.prompt.prefix.prefix_cache import Prefix, with_states
from rationales.models.prompt.prefix.readouts import PrefixReading, joined_paths, logits_of, readout_logits, text_config

LONGEST = 600  # tokens of a row; models with a longer window are compared with short rows
PREFIX, LENGTHS = 6, (12, 7)  # tokens of the prefix and of the rows
LABELS = ((0, 1, 2), (3, 4))  # as numbers of random tokens
EXTRA_TOKENS = PREFIX + max(map(len, LABELS)) - 1  # tokens that are read with a row
TOLERANCE = 1e-3  # root mean square of differences of log probabilities over the vocabulary, in single precision
ROUNDING_FACTOR = 24  # in other precisions: tolerance as a multiple of the machine epsilon
NOISE_FACTOR = 3  # tolerance as a multiple of the difference that another row in the batch makes
# attributes of configurations that limit what a token sees; not `max_window_layers` or `chunk_size_feed_forward`
_LOCAL = re.compile(r"(?!.*(layers|feed_forward|pattern)).*(window|chunk)")
MASKED_WINDOW = "sliding_window"  # a limit that the masks of `readouts` apply

Embed = Callable[[Tensor], Tensor]  # token ids to word embeddings


@dataclass(frozen=True)
class Verification:
    """The way of reading that agrees with plain passes, and the longest prompt it holds for; None: any length."""

    reading: PrefixReading
    reach: int | None

    def reading_of(self, tokens: int) -> PrefixReading:
        """The way of reading for prompts of up to `tokens` tokens."""
        return self.reading if self.reach is None or tokens <= self.reach else PrefixReading.SEPARATE


def verify(module: nn.Module, embed: Embed, vocabulary: int, device: torch.device) -> Verification:
    """The fastest way of reading whose outputs are those of plain passes; a ModelError if there is none."""
    config = text_config(module)
    windows, context = _local_windows(config), getattr(config, "max_position_embeddings", None) or LONGEST
    longest = max(
        [LENGTHS[0], *(min(window + 1, context - EXTRA_TOKENS) for window in windows.values() if window < LONGEST)]
    )
    probe = _Probe.random(embed, vocabulary, (longest, LENGTHS[1]), device)
    reach = min(
        (window for name, window in windows.items() if window >= LONGEST and name != MASKED_WINDOW), default=None
    )
    tolerance = _tolerance(probe.prefix.embeddings.dtype)
    differences: dict[PrefixReading, float] = {}
    reports: list[str] = []
    with torch.no_grad():
        expected = probe.plain(module)
        for reading in PrefixReading:
            try:
                differences[reading] = _difference(probe.read(module, reading), expected)
            except torch.OutOfMemoryError:
                raise
            except Exception as error:  # noqa: BLE001  # any exception of a model; the next way is the fallback
                reports.append(f"{reading}: {first_line(error)}")
                continue
            if differences[reading] <= tolerance:
                return Verification(reading, reach)
            reports.append(f"{reading}: a difference of {differences[reading]:.2g}")
        # quantised activations are rounded together, so that outputs depend on what else is in a batch
        noise = _difference(probe.plain(module, beside=True), expected)
        if accepted := [reading for reading in differences if differences[reading] <= NOISE_FACTOR * noise]:
            return Verification(accepted[0], reach)
    raise ModelError(
        f"{type(module).__name__} cannot be explained: for word embeddings, its log probabilities are not those of "
        f"plain passes over the tokens ({'; '.join(reports)})"
    )


@dataclass(frozen=True, eq=False)
class _Probe:
    """Rows of tokens behind a prefix, and labels."""

    prefix_ids: Tensor  # (P,)
    rows: tuple[Tensor, ...]  # (T,) each
    tree: LabelTree
    prefix: Prefix  # without keys and values
    words: Tensor  # (R, T, hidden)
    nodes: Tensor  # (N, hidden)

    @classmethod
    def random(cls, embed: Embed, vocabulary: int, lengths: Sequence[int], device: torch.device) -> _Probe:
        """Tokens from the middle of the vocabulary: special tokens are at its ends."""
        generator = torch.Generator().manual_seed(0)
        counts = [PREFIX, *lengths, 1 + max(max(label) for label in LABELS)]
        first, last = vocabulary // 4, max(3 * vocabulary // 4, vocabulary // 4 + 1)
        ids = torch.randint(first, last, (sum(counts),), generator=generator)
        prefix_ids, *rows, label_ids = torch.split(ids.to(device), counts)
        tree = LabelTree.from_ids([[int(label_ids[number]) for number in label] for label in LABELS]).to(device)
        padded = nn.utils.rnn.pad_sequence(rows, batch_first=True)
        prefix, words, nodes = Prefix(embed(prefix_ids[None])), embed(padded), embed(tree.node_ids)
        return cls(prefix_ids, tuple(rows), tree, prefix, words, nodes)

    def read(self, module: nn.Module, reading: PrefixReading) -> Tensor:
        """(R, 1 + N, vocabulary): log probabilities at the readouts."""
        lengths = torch.tensor([len(row) for row in self.rows], device=self.words.device)
        prefix = self.prefix if reading is PrefixReading.SEPARATE else with_states(module, self.prefix.embeddings)
        logits = readout_logits(module, self.words, lengths, self.nodes, self.tree, prefix, reading)
        return logits.float().log_softmax(-1)

    def plain(self, module: nn.Module, *, beside: bool = False) -> Tensor:
        """The same by a pass for each row and label, without embeddings, masks, positions or a cache.

        `beside`: in a batch with another row.
        """
        results = []
        for row in self.rows:
            by_path = []
            for path in self.tree.paths:
                ids = torch.cat([self.prefix_ids, row, self.tree.node_ids[path]])
                try:
                    output = module(input_ids=torch.stack([ids, ids.flip(0)]) if beside else ids[None])
                except torch.OutOfMemoryError:
                    raise
                except Exception as error:
                    name = type(module).__name__
                    raise ModelError(f"{name} cannot be run on token ids alone: {first_line(error)}") from error
                by_path.append(logits_of(output)[:1, -1 - len(path) :])
            results.append(joined_paths(self.tree, by_path))
        return torch.cat(results).float().log_softmax(-1)


def _local_windows(config: Any) -> dict[str, int]:
    """The numbers of tokens that a configuration limits attention to, below the length of its context."""
    context = getattr(config, "max_position_embeddings", None) or math.inf
    numbers = vars(config) if config is not None else {}
    return {
        name: value
        for name, value in numbers.items()
        if _LOCAL.match(name) and type(value) is int and 0 < value < context
    }


def _difference(first: Tensor, second: Tensor) -> float:
    """Root mean square over the vocabulary, of the readout where it is largest; of equal infinities 0."""
    squares = (first - second.to(first.device)).nan_to_num(0.0).square()
    return float(squares.mean(-1).max().sqrt())


def _tolerance(dtype: torch.dtype) -> float:
    """The difference that rounding explains."""
    is_rounded = dtype == torch.float32 and torch.get_float32_matmul_precision() != "highest"  # to ten bits, at least
    return max(TOLERANCE, ROUNDING_FACTOR * torch.finfo(torch.float16 if is_rounded else dtype).eps)
