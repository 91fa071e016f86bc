"""The networks that runs train, by name, with training recipes that reach the required accuracy quickly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import nn

from rationales.groundtruth.networks.rationale_models import RationaleModel, SelectionSettings
from rationales.groundtruth.networks.recurrent import AttentionLSTM
from rationales.groundtruth.networks.resnet import resnet34, small_resnet
from rationales.groundtruth.networks.stock_bert import small_bert
from rationales.groundtruth.networks.transformer import TextTransformer
from rationales.groundtruth.networks.vit import small_vit
from rationales.groundtruth.training import Recipe

SHARE_TOLERANCE = 0.015  # largest difference between the selected share of words and the requested one
TextFactory = Callable[[int, Sequence[str], float], nn.Module]  # vocabulary size, labels, selection rate


@dataclass(frozen=True)
class PictureNetwork:
    """A network for pictures of size x size pixels."""

    title: str
    make: Callable[[int, int], nn.Module]  # classes, size
    recipe: Recipe


@dataclass(frozen=True)
class TextNetwork:
    """A network for words."""

    title: str
    make: TextFactory
    recipe: Recipe
    selects: bool = False  # whether it selects words first and decides by these alone
    has_inherent_scores: bool = True  # whether it has attention weights or selects words
    is_encoder: bool = False  # whether it is of a class that methods look inside
    pretrained_width: int = 0  # of word vectors from an encoder that training starts with; 0: random ones
    frozen_vectors: bool = False  # whether the pretrained word vectors stay as they are in training


def _rationale_model(estimator: str) -> TextFactory:
    return lambda words, labels, rate: RationaleModel(words, labels, SelectionSettings(estimator, rate))


PICTURE_NETWORKS: dict[str, PictureNetwork] = {
    "resnet34": PictureNetwork("ResNet-34", lambda classes, _: resnet34(classes), Recipe(epochs=40)),
    "small-resnet": PictureNetwork(
        "small ResNet", lambda classes, _: small_resnet(classes), Recipe(epochs=40, learning_rate=2e-3, batch_size=64)
    ),
    "small-vit": PictureNetwork(
        "small ViT",
        lambda classes, size: small_vit(classes, size),
        Recipe(epochs=80, learning_rate=5e-4, warmup_steps=100),
    ),
}
_SELECTING = Recipe(epochs=30, min_epochs=13, learning_rate=2e-3, batch_size=256)
TEXT_NETWORKS: dict[str, TextNetwork] = {
    "attention": TextNetwork(
        "BiLSTM with attention", lambda words, labels, _: AttentionLSTM(words, labels), Recipe(epochs=30)
    ),
    "attention-pretrained": TextNetwork(
        "BiLSTM with attention, pretrained word vectors",
        lambda words, labels, _: AttentionLSTM(words, labels),
        Recipe(epochs=30),
        pretrained_width=200,
    ),
    "attention-frozen": TextNetwork(
        "BiLSTM with attention, frozen word vectors",
        lambda words, labels, _: AttentionLSTM(words, labels),
        Recipe(epochs=30),
        pretrained_width=200,
        frozen_vectors=True,
    ),
    "transformer": TextNetwork(
        "Transformer",
        lambda words, labels, _: TextTransformer(words, labels),
        Recipe(epochs=30, learning_rate=5e-4, warmup_steps=100),
        has_inherent_scores=False,
    ),
    "bert": TextNetwork(
        "BERT",
        lambda words, labels, _: small_bert(words, labels),
        Recipe(epochs=30, learning_rate=5e-4, warmup_steps=100),
        has_inherent_scores=False,
        is_encoder=True,
    ),
    "reinforce": TextNetwork("RL", _rationale_model("reinforce"), _SELECTING, True),
    "hardkuma": TextNetwork("CR", _rationale_model("hardkuma"), _SELECTING, True),
}
