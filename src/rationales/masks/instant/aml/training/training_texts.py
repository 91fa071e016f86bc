"""The texts of a pretraining in buckets of similar length, with what the losses need of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from rationales.errors import InputError
from rationales.masks.instant.aml.backbone import Backbone
from rationales.masks.instant.aml.example_metrics import measure_examples, unit_counts
from rationales.masks.instant.aml.masking import MapProblem
from rationales.masks.instant.aml.settings import AmlLosses
from rationales.masks.instant.aml.unit_alignment import BackboneRows, read_windows
from rationales.masks.instant.distillation import draw_targets
from rationales.masks.instant.length_buckets import LengthBucket, LengthBuckets
from rationales.models.text.model import TextModel
from rationales.models.text.tokens import TextInput

RANDOM_DRAWS = 5  # maps of random scores for each text


@dataclass(frozen=True, eq=False)
class TextGroup:
    """Some texts, ready for a step or a validation."""

    bucket: LengthBucket
    windows: BackboneRows
    probabilities: Tensor  # (I, C) of the full texts

    def problem(
        self, losses: AmlLosses, learned: Tensor | None, other_targets: float = 0.0, step: int = 0
    ) -> MapProblem:
        """What attribution maps of these texts are judged by; a share of the targets are other classes."""
        batch = self.bucket.batch
        target = draw_targets(batch, self.probabilities.argmax(-1), other_targets, step)
        return MapProblem.of(batch, self.probabilities, target, losses, learned)

    def take(self, numbers: Sequence[int]) -> TextGroup:
        """These texts alone."""
        index = torch.tensor(list(numbers), device=self.probabilities.device)
        counts = [self.bucket.token_counts[number] for number in numbers]
        bucket = LengthBucket(self.bucket.batch.take(numbers), self.bucket.predicted_labels[index], counts)
        return TextGroup(bucket, self.windows.take(numbers), self.probabilities[index])

    def measure(self, maps: Tensor, metric: str) -> Tensor:
        """(I,): the metric of attribution maps (I, U) for the predicted classes."""
        return self.measure_many(maps[None], metric)[0]

    def measure_many(self, maps: Tensor, metric: str) -> Tensor:
        """(K, I): the metric of K attribution maps (K, I, U) of every text."""
        return measure_examples(self.bucket.batch, maps, self.bucket.predicted_labels, metric)


@dataclass(eq=False)
class TrainingTexts:
    """Texts of one purpose, encoded at their first use."""

    model: TextModel
    sources: Sequence[TextInput]
    backbone: Backbone
    seed: int
    known: dict[int, TextGroup] = field(default_factory=dict)
    random_values: dict[str, float] = field(default_factory=dict)  # by metric

    def __post_init__(self) -> None:
        self.buckets = LengthBuckets(self.model, self.sources, self.seed)

    def groups(self) -> Iterator[TextGroup]:
        """All texts, bucket by bucket."""
        return (self._whole_bucket(bucket) for bucket in self.buckets)

    def random_groups(self, inputs: int, tokens: int, seed: int) -> Iterator[TextGroup]:
        """Every text once, in groups of similar length in random order."""
        generator = torch.Generator().manual_seed(seed)
        for bucket, numbers in self.buckets.random_groups(inputs, tokens, generator):
            yield self._whole_bucket(bucket).take(numbers)

    def steps(self, inputs: int, tokens: int) -> int:
        """Number of groups of `random_groups`, up to the packing of unequal lengths."""
        return sum(1 for _ in self.buckets.random_groups(inputs, tokens, torch.Generator().manual_seed(0)))

    def random_value(self, metric: str) -> float:
        """Mean of the metric over the texts and some maps of random scores; a function of the seed."""
        if metric in self.random_values:
            return self.random_values[metric]
        generator, values = torch.Generator().manual_seed(self.seed), list[Tensor]()
        for group in self.groups():
            batch = group.bucket.batch
            shape = (RANDOM_DRAWS, batch.inputs, int(unit_counts(batch).max()))
            maps = torch.rand(shape, generator=generator).to(batch.device)
            values.append(group.measure_many(maps, metric).mean(0))
        self.random_values[metric] = float(torch.cat(values).mean())
        return self.random_values[metric]

    def _whole_bucket(self, bucket: LengthBucket) -> TextGroup:
        if id(bucket) not in self.known:
            encoded = bucket.batch.text_sources().encoded
            try:
                windows = read_windows(encoded, self.backbone.tokenizer, self.backbone.limit, bucket.batch.device)
            except InputError as error:
                raise InputError(f"the backbone cannot read a text: {error}") from error
            self.known[id(bucket)] = TextGroup(bucket, windows, bucket.batch.predict())
        return self.known[id(bucket)]
