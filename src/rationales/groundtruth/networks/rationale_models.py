"""Rationale models: they select words and classify a text by these words alone, trained end to end.

`Rationalizing Neural Predictions` (Lei, Barzilay and Jaakkola 2016) draws 0 or 1 for each word and is trained with
REINFORCE; `Interpretable Neural Predictions with Differentiable Binary Variables` (Bastings, Aziz and Titov 2019) draws
HardKuma variables and is trained with their gradients. Both are held to a selection rate by the penalty of Zhou et al.
2022, section 7: lambda |selected words / words - rate| over a mini-batch, without a penalty for discontinuity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from rationales.errors import OptionError
from rationales.groundtruth.networks.hardkuma import HardKuma, hardkuma_from_raw
from rationales.groundtruth.networks.recurrent import BidirectionalLSTM
from rationales.groundtruth.networks.vocabulary import PADDING_ID, TextConfiguration

ESTIMATORS = ("reinforce", "hardkuma")


@dataclass(frozen=True)
class SelectionSettings:
    """How the selection of words is trained."""

    estimator: str = "hardkuma"  # or reinforce
    rate: float = 0.1  # target share of selected words, %Sel
    penalty: float = 2.0  # weight of the rate penalty, lambda
    annealing: float = 0.4  # share of the training in which the target rate falls from 1 to `rate`
    samples: int = 4  # selections drawn for each text; REINFORCE compares them with each other
    entropy_weight: float = 0.3  # of the mean entropy of REINFORCE's probabilities, after the annealing

    def __post_init__(self) -> None:
        if self.estimator not in ESTIMATORS:
            raise OptionError(f"selections are trained with {' or '.join(ESTIMATORS)}, not {self.estimator!r}")
        if not 0 < self.rate <= 1 or not 0 <= self.annealing <= 1 or self.penalty < 0:
            raise OptionError(
                f"the rate lies in (0, 1], the annealing in [0, 1], and the penalty is not negative; not {self}"
            )
        if self.samples < (2 if self.estimator == "reinforce" else 1):
            raise OptionError("reinforce compares at least two samples of each text")

    def target_rate(self, training_progress: float) -> float:
        """The target selection rate after this share of the training."""
        annealed = min(1.0, training_progress / self.annealing) if self.annealing else 1.0
        return 1 + annealed * (self.rate - 1)


class RationaleModel(nn.Module):
    """A selector and a classifier on shared word embeddings; `explanation` outputs the selection, (S, T) in [0, 1]."""

    def __init__(
        self,
        vocabulary_size: int,
        labels: Sequence[str],
        settings: SelectionSettings | None = None,
        width: int = 200,
        hidden: int = 200,
    ) -> None:
        super().__init__()
        self.settings = settings or SelectionSettings()
        self.embeddings = nn.Embedding(vocabulary_size, width, padding_idx=PADDING_ID)
        self.selector = BidirectionalLSTM(width, hidden)
        self.selection_head = nn.Linear(2 * hidden, 1 if self.settings.estimator == "reinforce" else 2)
        self.explanation = nn.Identity()
        self.encoder = BidirectionalLSTM(width, hidden)
        self.classifier = nn.Linear(2 * hidden, len(labels))
        self.config = TextConfiguration(
            dict(enumerate(labels)), width, num_hidden_layers=4, intermediate_size=8 * hidden
        )

    def get_input_embeddings(self) -> nn.Module:
        """The word embeddings."""
        return self.embeddings

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """(S, T) -> (S, classes), with the most likely selection."""
        embeddings = self.embeddings(input_ids)
        raw = self.selection_head(self.selector(embeddings, attention_mask))
        if self.settings.estimator == "reinforce":
            selection = (raw[..., 0] > 0).to(embeddings.dtype)
        else:
            selection = hardkuma_from_raw(raw).likeliest()
        return self._classify(embeddings, attention_mask, self.explanation(selection * attention_mask))

    def loss(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor, training_progress: float) -> Tensor:
        """The training loss; `training_progress` is the share of the training that is done."""
        embeddings = self.embeddings(input_ids)
        raw = self.selection_head(self.selector(embeddings, attention_mask))
        estimate = self._reinforce_loss if self.settings.estimator == "reinforce" else self._hardkuma_loss
        loss, probabilities = estimate(embeddings, raw, attention_mask, labels)
        rate = (probabilities * attention_mask).sum() / attention_mask.sum()
        loss = loss + self.settings.penalty * (rate - self.settings.target_rate(training_progress)).abs()
        if self.settings.estimator == "reinforce" and training_progress >= self.settings.annealing:
            # Equal probabilities for all words can also have the target rate, but select nothing at test time.
            entropy = functional.binary_cross_entropy_with_logits(raw[..., 0], probabilities, reduction="none")
            loss = loss + self.settings.entropy_weight * (entropy * attention_mask).sum() / attention_mask.sum()
        return loss

    def _classify(self, embeddings: Tensor, attention_mask: Tensor, selection: Tensor) -> Tensor:
        """Logits from the selected words: the others are zero vectors, and their states are not pooled."""
        states = self.encoder(embeddings * selection[..., None], attention_mask)
        pooled = (states * selection[..., None]).sum(1) / selection.sum(1, keepdim=True).clamp(min=1)
        logits: Tensor = self.classifier(pooled)
        return logits

    def _hardkuma_loss(
        self, embeddings: Tensor, raw: Tensor, attention_mask: Tensor, labels: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The loss of one sample, and the probability of each word to be selected (Bastings et al., section 3.2)."""
        variable: HardKuma = hardkuma_from_raw(raw)
        selection = variable.sample(torch.rand_like(variable.a)) * attention_mask
        loss = functional.cross_entropy(self._classify(embeddings, attention_mask, selection), labels)
        return loss, 1 - variable.probability_zero()

    def _reinforce_loss(
        self, embeddings: Tensor, raw: Tensor, attention_mask: Tensor, labels: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The loss of several samples with the REINFORCE term of the selector (Lei et al., Eq. 7), and probabilities.

        The baseline of a sample is the mean loss of the other samples of the same text: it reduces the variance and
        does not change the expectation. The penalty is on the expected rate, whose gradient needs no sampling.
        """
        samples, rows = self.settings.samples, len(embeddings)
        probabilities = torch.sigmoid(raw[..., 0])
        selection = torch.bernoulli(probabilities.detach().expand(samples, -1, -1)) * attention_mask  # (samples, S, T)
        logits = self._classify(
            embeddings.repeat(samples, 1, 1), attention_mask.repeat(samples, 1), selection.flatten(0, 1)
        )
        losses = functional.cross_entropy(logits, labels.repeat(samples), reduction="none").view(samples, rows)
        baseline = (losses.sum(0) - losses) / (samples - 1)
        negative_log_p = functional.binary_cross_entropy_with_logits(
            raw[..., 0].expand_as(selection), selection, reduction="none"
        )
        log_p = -(negative_log_p * attention_mask).sum(-1)
        return losses.mean() + ((losses - baseline).detach() * log_p).mean(), probabilities
