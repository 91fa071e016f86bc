"""Settings of Attributive Masking Learning: its losses with their variants, and the pretraining."""

from __future__ import annotations

from dataclasses import dataclass

from rationales.errors import OptionError
from rationales.masks.instant.aml.example_metrics import EXAMPLE_METRICS
from rationales.options import check_settings, option

REPLACEMENTS = ("auto", "mask", "unk", "random", "context", "learned", "omission")


@dataclass(frozen=True)
class AmlLosses:
    """The loss of Eq. 4, and the variants of masking (section 3), target and loss terms (section 3.1)."""

    prediction_weight: float = option(0.6, "weight of the prediction on the masked input, lambda_p of Eq. 4")
    attribution_weight: float = option(0.3, "weight of the size of the attribution map, lambda_a of Eq. 4")
    inverse_weight: float = option(0.6, "weight of the prediction on the inversely masked input, lambda_inv of Eq. 4")
    mask: str = option(
        "soft", "soft: blend with the mask vector (Eq. 3); hard: keep or replace, at random", "soft", "hard"
    )
    replacement: str = option(
        "auto",
        "what masked units become: the mask or unk token, a random token, the word that a masked language model "
        "predicts, a learned vector, or omission (hard masks only); auto: the first of mask and unk",
        *REPLACEMENTS,
    )
    filler: str = option("", "masked language model of replacement=context: a name, an id or a folder")
    inverse_loss: str = option(
        "log", "log: -log(1 - p), Eq. 6; probability: p; entropy: negative entropy", "log", "probability", "entropy"
    )
    mask_loss: str = option("log", "log: binary cross-entropy to 0, Eq. 7; l1: mean score", "log", "l1")
    target: str = option("soft", "soft: the model's prediction; one-hot: the explained class", "soft", "one-hot")
    merge: str = option("mean", "score of a unit from several tokens of the attribution network", "mean", "max")

    def __post_init__(self) -> None:
        check_settings(self, (), ("prediction_weight", "attribution_weight", "inverse_weight"))
        if not self.prediction_weight + self.attribution_weight + self.inverse_weight:
            raise OptionError("all weights of the loss are 0; there is nothing to train")
        if self.replacement == "omission" and self.mask == "soft":
            raise OptionError("a unit can only be omitted or kept, not half of it; set mask=hard for omission")
        if self.replacement == "context" and not self.filler:
            raise OptionError("replacement=context needs a masked language model; set filler")


@dataclass(frozen=True)
class AmlTraining:
    """Settings of the pretraining; the defaults are those of the paper's experiments."""

    metric: str = option(
        "comprehensiveness", "what the loss weights and the checkpoint are chosen by", *EXAMPLE_METRICS
    )
    texts: int = option(1000, "largest number of training texts")
    validation_texts: int = option(200, "texts for the choice of weights and checkpoint, at most a fifth of all")
    epochs: int = option(10, "passes over the training texts")
    inputs: int = option(20, "texts in a step")
    tokens: int = option(16384, "largest number of tokens in a step")
    learning_rate: float = option(4e-5, "learning rate of AdamW at the start; it falls linearly to 0")
    weight_decay: float = option(0.01, "weight decay of AdamW")
    patience: int = option(4, "epochs without a better checkpoint after which the training stops; 0: never")
    other_target_share: float = option(0.0, "share of texts whose target is another class than the predicted one")
    trials: int = option(30, "trials of the search for loss weights; 0: the weights as they are set")
    trial_texts: int = option(450, "training texts of a trial")
    trial_epochs: int = option(2, "epochs of a trial")
    finalists: int = option(
        3, "best trials whose weights a network is trained with; of these networks the best by the metric is kept"
    )
    search: str = option(
        "auto", "tpe: Optuna; random: random search; auto: tpe where Optuna is installed", "auto", "tpe", "random"
    )
    networks: int = option(
        1, "networks trained at once, of trials and of metrics; a GPU is faster with 25 (soft masks with one vector)"
    )
    layers: int = option(0, "layers of the backbone that are used, from the first; 0: all")
    dropout: bool = option(True, "whether the backbone's dropout is active in training")
    minutes: float = option(0.0, "time limit; at most half of it is for the search; 0: none")
    seed: int = option(0, "seed of the initial weights, the split and the order of the texts")

    def __post_init__(self) -> None:
        positive = ("texts", "validation_texts", "epochs", "inputs", "tokens", "learning_rate")
        also_positive = ("trial_texts", "trial_epochs", "finalists", "networks")
        non_negative = ("weight_decay", "patience", "trials", "layers", "minutes", "seed")
        check_settings(self, (*positive, *also_positive), non_negative)
        if not 0 <= self.other_target_share < 1:
            raise OptionError(f"other_target_share must be at least 0 and less than 1, not {self.other_target_share}")
