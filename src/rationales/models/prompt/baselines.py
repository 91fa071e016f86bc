"""Chooses what a replaced word becomes: the embedding that tells the model least, by its own predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rationales.errors import OptionError
from rationales.models.prompt.network import PromptNetwork
from rationales.models.text import baselines

# Tried in this order, which also decides between equals; a word is tried if it is one token of the vocabulary.
CANDIDATES = ("mean", "unk", "pad", "eos", "zero", " the", " …", "…", "...")
FIRST_LENGTH = 16  # tokens of the texts that consist of a candidate alone, for all candidates
FURTHER_LENGTHS = (4, 48)  # for the finalists
FINALISTS = 3
DIGITS = 2  # beyond them, informativeness counts as equal


@dataclass(frozen=True)
class EmbeddingChoice:
    """How much every candidate tells the model, the least first."""

    informativeness: tuple[tuple[str, float], ...]  # (name, 0 (nothing) to 1 (everything))

    @property
    def name(self) -> str:
        """The candidate that tells the model least."""
        return self.informativeness[0][0]

    @property
    def message(self) -> str:
        """What was chosen and why, for people."""
        listed = [f"{_quoted(name)} {value:.2f}" for name, value in self.informativeness]
        further_candidates = f"; the others: {', '.join(listed[1:])}" if listed[1:] else ""
        return (
            f"replaced words become the embedding {listed[0]}, of the candidates the one that tells the model least "
            f"(0: nothing, 1: all{further_candidates}); name a baseline to decide yourself"
        )


def choose_baseline(
    network: PromptNetwork, tokenizer: Any, before: Sequence[int], after: Sequence[int], limit: int
) -> EmbeddingChoice:
    """The choice for a prompt with the tokens `before` and `after` the text.

    A text of one repeated embedding should leave the model undecided, and as close as possible to what it says of an
    empty text. Informativeness is the mean of the model's confidence above chance, (max_c p_c - 1/C) / (1 - 1/C), and
    of the total variation distance to the empty text's probabilities. All candidates are tried in texts of one length;
    of the best, the mean over texts of several lengths decides.
    """
    embedding = network.get_input_embeddings()
    vectors: dict[str, Tensor] = {}
    for name in CANDIDATES:
        try:
            vector = baselines.vector(name, tokenizer, embedding)
        except OptionError:  # the tokenizer has no such token
            continue
        if not any(torch.equal(vector, earlier_vector) for earlier_vector in vectors.values()):
            vectors[name] = vector
    with torch.no_grad():
        empty = _probabilities(network, [None], before, after, 0)[0] if before or after else None
        max_text_tokens = limit - len(before) - len(after)

        def measure(names: Sequence[str], length: int) -> dict[str, float]:
            tried = [vectors[name] for name in names]
            probabilities = _probabilities(network, tried, before, after, min(length, max_text_tokens))
            return dict(zip(names, _informativeness(probabilities, empty).tolist(), strict=True))

        values = measure(list(vectors), FIRST_LENGTH)
        finalists = _ranked(values)[:FINALISTS]
        further = [measure(finalists, length) for length in FURTHER_LENGTHS]
    final = {
        name: (values[name] + sum(by_name[name] for by_name in further)) / (1 + len(further)) for name in finalists
    }
    not_final = {name: value for name, value in values.items() if name not in final}
    return EmbeddingChoice(tuple((name, group[name]) for group in (final, not_final) for name in _ranked(group)))


def _ranked(values: Mapping[str, float]) -> list[str]:
    """The names, the least informative first; of equal ones the first."""
    return sorted(values, key=lambda name: round(values[name], DIGITS))


def _probabilities(
    network: PromptNetwork, vectors: Sequence[Tensor | None], before: Sequence[int], after: Sequence[int], length: int
) -> Tensor:
    """(candidates, C): predictions for texts of `length` times each vector."""
    device, embedding = network.device, network.get_input_embeddings()

    def embed(ids: Sequence[int]) -> Tensor:
        embedded: Tensor = embedding(torch.tensor(list(ids), dtype=torch.long, device=device))
        return embedded

    first, last = embed(before), embed(after)
    rows = [torch.cat([first, *([] if vector is None else [vector.expand(length, -1)]), last]) for vector in vectors]
    words = torch.stack(rows)
    lengths = torch.full((len(words),), words.shape[1], device=device)
    return network.scores_of_embeddings(words, lengths).softmax(-1).float().cpu()


def _informativeness(probabilities: Tensor, empty: Tensor | None) -> Tensor:
    """(candidates,) from (candidates, C) and (C,)."""
    chance = 1 / probabilities.shape[1]
    confidence = (probabilities.amax(-1) - chance) / (1 - chance)
    if empty is None:
        return confidence
    return (confidence + (probabilities - empty).abs().sum(-1) / 2) / 2


def _quoted(name: str) -> str:
    return name if name in baselines.NAMED else repr(name)
