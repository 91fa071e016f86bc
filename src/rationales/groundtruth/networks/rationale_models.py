"""Models that select words first and decide by these alone, trained end to end.

`Rationalizing Neural Predictions` (Lei, Barzilay and Jaakkola 2016) draws 0 or 1 for each word and learns by REINFORCE;
`Interpretable Neural Predictions with Differentiable Binary Variables` (Bastings, Aziz and Titov 2019) draws HardKuma
variables and learns by their gradients. Both are held to a selection rate by the penalty of Zhou et al. 2022, section
7: lambda |selected words / words - rate| over a mini-batch, and without a penalty for discontinuity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from rationales.errors import OptionError
from rationales.groundtruth.networks.hardkuma import HardKuma, from_raw
from rationales.groundtruth.networks.recurrent import BothWays
from rationales.groundtruth.networks.vocabulary import PADDING, configuration

LEARNING = ("reinforce", "hardkuma")


@dataclass(frozen=True)
class Selecting:
    """How the selection of words is learned."""

    learning: str = "hardkuma"  # or reinforce
    rate: float = 0.1  # of the words, %Sel
    strength: float = 2.0  # of the penalty, lambda
    easing: float = 0.4  # share of the training in which the wanted rate falls from 1 to `rate`
    samples: int = 4  # selections drawn for each text; REINFORCE compares them with each other
    decided: float = 0.3  # weight of the mean entropy of REINFORCE's probabilities, once the rate has fallen

    def __post_init__(self) -> None:
        if self.learning not in LEARNING:
            raise OptionError(f"selections are learned by {' or '.join(LEARNING)}, not {self.learning!r}")
        if not 0 < self.rate <= 1 or not 0 <= self.easing <= 1 or self.strength < 0:
            raise OptionError(
                f"the rate lies in (0, 1], the easing in [0, 1], the strength is not negative; not {self}"
            )
        if self.samples < (2 if self.learning == "reinforce" else 1):
            raise OptionError("reinforce compares at least two samples of each text")

    def wanted(self, done: float) -> float:
        """The rate asked for when this share of the training is done."""
        eased = min(1.0, done / self.easing) if self.easing else 1.0
        return 1 + eased * (self.rate - 1)


class RationaleModel(nn.Module):
    """A selector and a classifier on the same word embeddings; `telling` gives out the selection, (S, T) in [0, 1]."""

    def __init__(
        self,
        vocabulary: int,
        labels: Sequence[str],
        selecting: Selecting | None = None,
        width: int = 200,
        hidden: int = 200,
    ) -> None:
        super().__init__()
        self.selecting = selecting or Selecting()
        self.embeddings = nn.Embedding(vocabulary, width, padding_idx=PADDING)
        self.selector = BothWays(width, hidden)
        self.choice = nn.Linear(2 * hidden, 1 if self.selecting.learning == "reinforce" else 2)
        self.telling = nn.Identity()
        self.reader = BothWays(width, hidden)
        self.classifier = nn.Linear(2 * hidden, len(labels))
        self.config = configuration(labels, width, num_hidden_layers=4, intermediate_size=8 * hidden)

    def get_input_embeddings(self) -> nn.Module:
        """Where words become numbers."""
        return self.embeddings

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """(S, T) -> (S, classes), by the likeliest selection."""
        words = self.embeddings(input_ids)
        raw = self.choice(self.selector(words, attention_mask))
        if self.selecting.learning == "reinforce":
            chosen = (raw[..., 0] > 0).to(words.dtype)
        else:
            chosen = from_raw(raw).likeliest()
        return self._decide(words, attention_mask, self.telling(chosen * attention_mask))

    def loss(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor, done: float) -> Tensor:
        """What training makes small; `done` is the share of the training behind."""
        words = self.embeddings(input_ids)
        raw = self.choice(self.selector(words, attention_mask))
        learn = self._reinforce if self.selecting.learning == "reinforce" else self._relaxed
        cost, kept = learn(words, raw, attention_mask, labels)
        rate = (kept * attention_mask).sum() / attention_mask.sum()
        cost = cost + self.selecting.strength * (rate - self.selecting.wanted(done)).abs()
        if self.selecting.learning == "reinforce" and done >= self.selecting.easing:
            # The same middling probability for every word has the wanted rate, too, and selects nothing in the end.
            entropy = functional.binary_cross_entropy_with_logits(raw[..., 0], kept, reduction="none")
            cost = cost + self.selecting.decided * (entropy * attention_mask).sum() / attention_mask.sum()
        return cost

    def _decide(self, words: Tensor, attention: Tensor, chosen: Tensor) -> Tensor:
        """Logits by the selected words: the others are zeros to the reader, and their states are not counted."""
        states = self.reader(words * chosen[..., None], attention)
        pooled = (states * chosen[..., None]).sum(1) / chosen.sum(1, keepdim=True).clamp(min=1)
        found: Tensor = self.classifier(pooled)
        return found

    def _relaxed(self, words: Tensor, raw: Tensor, attention: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of one draw, and every word's probability to be selected (Bastings et al., section 3.2)."""
        variable: HardKuma = from_raw(raw)
        chosen = variable.sample(torch.rand_like(variable.a)) * attention
        cost = functional.cross_entropy(self._decide(words, attention, chosen), labels)
        return cost, 1 - variable.zero()

    def _reinforce(self, words: Tensor, raw: Tensor, attention: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of several draws, with the selector's REINFORCE term (Lei et al., Eq. 7), and the probabilities.

        A draw is judged against the mean of the text's other draws, which takes nothing from the expectation and much
        from the variance. The penalty is on the expected rate, whose gradient is known and need not be sampled.
        """
        draws, rows = self.selecting.samples, len(words)
        chance = torch.sigmoid(raw[..., 0])
        chosen = torch.bernoulli(chance.detach().expand(draws, -1, -1)) * attention  # (draws, S, T)
        logits = self._decide(words.repeat(draws, 1, 1), attention.repeat(draws, 1), chosen.flatten(0, 1))
        cost = functional.cross_entropy(logits, labels.repeat(draws), reduction="none").view(draws, rows)
        others = (cost.sum(0) - cost) / (draws - 1)
        surprise = functional.binary_cross_entropy_with_logits(
            raw[..., 0].expand_as(chosen), chosen, reduction="none"
        )  # -log p of each word's draw
        logs = -(surprise * attention).sum(-1)
        return cost.mean() + ((cost - others).detach() * logs).mean(), chance
