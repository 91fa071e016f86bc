"""From a plant to a trained network: splits of the data, training, and the inputs that methods explain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import torch

from rationales.data.example import Example
from rationales.errors import DataError
from rationales.groundtruth.dryrun.network_under_test import NetworkUnderTest
from rationales.groundtruth.encoded_examples import EncodedExamples
from rationales.groundtruth.label_reassignment import Reassignment, reassign
from rationales.groundtruth.modified_data import ModifiedData, modify, split
from rationales.groundtruth.plants.insertions import Trigger
from rationales.groundtruth.plants.plant import Plant, PlantedExample, random_generator
from rationales.groundtruth.training import EncodedSplits, Recipe, TrainedModel, train
from rationales.methods.method import Progress
from rationales.models.batch.rows import content_key

MIN_TRAINING_EXAMPLES = 512  # per epoch; smaller data are drawn several times
MIN_VALIDATION_EXAMPLES = 200  # for the validation accuracy; smaller data are drawn several times
MAX_DRAWS = 16  # of the same examples at once
UNPLANTED_SHARE = 0.3  # share of training texts that are also used without an insertion


@dataclass(frozen=True)
class PlantedSplits:
    """Planted data for training, validation, the reliance test, and for explaining."""

    train: ModifiedData
    val: ModifiedData
    test: ModifiedData
    to_explain: ModifiedData  # the test examples, all with a plant

    @property
    def area(self) -> float:
        """The expected Attr% of random scores on the inputs that are explained."""
        return self.to_explain.area

    def training_texts(self) -> Iterator[str]:
        """The texts for a vocabulary; they contain the plants of all classes."""
        yield from (example.text for example in self.train.examples)


def plant_splits(examples: Sequence[Example], plant: Plant, reassignment: Reassignment, seed: int) -> PlantedSplits:
    """Split the examples that the plant fits, and put the plant in; a plant that covers everything is an error."""
    modified = modify(examples, plant, reassignment=reassignment, seed=seed)
    splits = split(modified.sources, seed=seed, bound=reassignment.bound)
    train_data, val_data, test_data = (
        replace(modify(members, plant, reassignment=reassignment, seed=seed, max_area=1.0), left_out=modified.left_out)
        for members in (splits.train, splits.val, splits.test)
    )
    to_explain = test_data
    if plant.kind == "image":  # images of label 0 have no plant: give all test images the last label
        n_labels = len(reassignment.new_labels)
        row = tuple(float(label == n_labels - 1) for label in range(n_labels))
        always_last = replace(reassignment, matrix=tuple(row for _ in reassignment.old_labels))
        to_explain = modify(splits.test, plant, reassignment=always_last, seed=seed, max_area=1.0)
    return PlantedSplits(train_data, val_data, test_data, to_explain)


def train_on_plant(
    network: NetworkUnderTest,
    splits: PlantedSplits,
    recipe: Recipe,
    seed: int,
    device: str | torch.device | None,
    progress: Progress | None = None,
) -> TrainedModel:
    """Train on labels and plants that are drawn anew in every epoch, so that nothing can be memorised."""
    train_draws = _n_draws(len(splits.train.planted), MIN_TRAINING_EXAMPLES)
    val_draws = _n_draws(len(splits.val.planted), MIN_VALIDATION_EXAMPLES)
    data = EncodedSplits(
        network.encode(splits.train.examples),
        network.encode([example for index in range(val_draws) for example in splits.val.redraw(index).examples]),
        network.encode(splits.test.examples),
    )

    def redrawn(epoch: int) -> EncodedExamples:
        draws = range(epoch * train_draws, (epoch + 1) * train_draws)
        return network.encode(list(draw_training_examples(splits.train, draws)))

    return train(lambda: network.module, data, recipe, seed=seed, device=device, epoch_data=redrawn, progress=progress)


def select_inputs(
    network: NetworkUnderTest, candidates: ModifiedData, count: int, seed: int, batch_size: int
) -> list[PlantedExample]:
    """At most `count` planted test inputs that the model predicts correctly, in random order.

    Where the prediction is wrong, the model did not use the plant, and the true cause is unknown.
    """
    encoded = network.encode(candidates.examples).to(next(network.module.parameters()).device)
    correct = torch.zeros(len(encoded), dtype=torch.bool)
    with torch.no_grad():
        for index in encoded.batches(batch_size, torch.arange(len(encoded))):
            correct[index.cpu()] = (encoded.logits(network.module, index).argmax(-1) == encoded.labels[index]).cpu()
    shuffled = sorted(
        (planted for planted, is_correct in zip(candidates.planted, correct.tolist(), strict=True) if is_correct),
        key=lambda planted: float(random_generator(seed, "asked", planted.example.name).random()),
    )
    if not shuffled:
        raise DataError("the model predicts none of the planted test inputs correctly")
    return list(islice(shuffled, count))


def draw_training_examples(data: ModifiedData, draws: range) -> Iterator[Example]:
    """The examples of several draws; for insertions also a share of the original texts with random labels.

    Without these, a model may learn the insertion of one class only and predict the other class in its absence: no word
    of an input would then be evidence for that class, and no method could find it.
    """
    for index in draws:
        yield from data.redraw(index).examples
        if isinstance(data.plant, Trigger):
            key = content_key(data.seed, "unplanted", index)
            unplanted = [
                example
                for example in data.sources
                if random_generator(key, "unplanted", example.name).random() < UNPLANTED_SHARE
            ]
            yield from reassign(unplanted, data.reassignment, key)


def _n_draws(n_examples: int, min_examples: int) -> int:
    return min(MAX_DRAWS, max(1, -(-min_examples // n_examples)))
