"""Distillation of MaRC into a masker: without `mask_weight`, the masker is trained to predict the optimised field.

The optimised field is anchored to the gradients of the warm-up; this, not the loss, makes its spans those that people
mark. Training on the loss would lose it. Each text is optimised once, at its first use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from rationales.masks.instant.length_buckets import LengthBucket
from rationales.masks.instant.network import MaskerNetwork, predict_parameters
from rationales.masks.objective import edge, mask_rows, mean_over_masks, mean_over_units, row_groups, scaled
from rationales.masks.optimize import fast_precision, optimize
from rationales.masks.optimizer import field_of
from rationales.masks.postprocess import unit_order
from rationales.masks.settings import MaskSettings
from rationales.masks.sizes import CUT_SOFTNESS, best_size
from rationales.models.batch.rows import fold, uniform
from rationales.models.text.batch import TextBatch

OTHER_TARGET_PURPOSE = 4  # key of this random stream, so that no random number is used twice


@dataclass(eq=False)
class FieldDistillation:
    """Optimised fields of the buckets of some texts, computed at their first use."""

    objective: MaskSettings
    other_target_share: float  # share of texts whose target is another class than the predicted one
    stored_fields: dict[str, Tensor] = field(default_factory=dict)  # what `tensors` gave in an earlier run
    bucket_fields: dict[int, _BucketFields] = field(default_factory=dict)  # by the number of the bucket

    def loss(self, network: MaskerNetwork, bucket: LengthBucket, group: Sequence[int]) -> Tensor:
        """(I,): mean squared difference between the predicted and the optimised field."""
        stored = self._fields_of(bucket, group)
        batch, target = bucket.batch.take(group), stored.target[torch.tensor(list(group), device=stored.target.device)]
        target_fields = stored.field[_mask_numbers(bucket, group), : batch.size[1]]
        z = field_of(batch, self.objective, *predict_parameters(network, batch, target, self.objective))
        return mean_over_masks(mean_over_units((z - target_fields).square(), batch), batch)

    def _fields_of(self, bucket: LengthBucket, group: Sequence[int]) -> _BucketFields:
        if bucket.number not in self.bucket_fields:
            self.bucket_fields[bucket.number] = _BucketFields.of(bucket, self.other_target_share, self.stored_fields)
        stored = self.bucket_fields[bucket.number]
        full_bucket = bucket.batch.device.type == "cuda"  # where many inputs at once are faster
        requested = range(bucket.batch.inputs) if full_bucket else group
        missing = [number for number in requested if not stored.known[number]]
        if missing:
            missing_batch = bucket.batch.take(missing)
            target = stored.target[torch.tensor(missing, device=stored.target.device)]
            target_fields = target_field(missing_batch, target, self.objective)
            units = torch.arange(target_fields.shape[1], device=target_fields.device)
            stored.field[_mask_numbers(bucket, missing)[:, None], units] = target_fields
            for number in missing:
                stored.known[number] = True
        return stored

    def tensors(self) -> dict[str, Tensor]:
        """The fields so far, for `stored_fields` of a training that goes on."""
        fields_of_run = {f"field.{number}": fields.field for number, fields in self.bucket_fields.items()}
        known = {f"known.{number}": torch.tensor(fields.known) for number, fields in self.bucket_fields.items()}
        return self.stored_fields | fields_of_run | known


@dataclass(eq=False)
class _BucketFields:
    field: Tensor  # (M, n)
    target: Tensor  # (I,)
    known: list[bool]

    @classmethod
    def of(cls, bucket: LengthBucket, other_target_share: float, stored: Mapping[str, Tensor]) -> _BucketFields:
        """The stored fields of a bucket, or none yet."""
        batch, known = bucket.batch, stored.get(f"known.{bucket.number}")
        target = draw_targets(batch, bucket.predicted_labels, other_target_share)
        values = batch.zeros()[: batch.masks]
        if known is None:
            return cls(values, target, [False] * batch.inputs)
        return cls(stored[f"field.{bucket.number}"].to(values), target, known.tolist())


def _mask_numbers(bucket: LengthBucket, group: Sequence[int]) -> Tensor:
    """Numbers of the masks of these inputs in the bucket."""
    mask_input = mask_rows(bucket.batch.rows.input, bucket.batch)
    return torch.nonzero(torch.isin(mask_input, torch.tensor(list(group), device=mask_input.device))).flatten()


def target_field(batch: TextBatch, target: Tensor, objective: MaskSettings) -> Tensor:
    """(M, n): the optimised field in standard deviations, shifted so that the rationale is above 0."""
    result = optimize(batch, target, objective)
    with torch.no_grad():
        z = scaled(result.bounded_field, batch)
        fast_batch, _ = fast_precision(batch, objective)
        size = best_size(unit_order(z, fast_batch, objective), fast_batch, target, objective).size
        q, _ = edge(z, batch, size.repeat_interleave(batch.views), CUT_SOFTNESS)
        return (z - q[row_groups(batch)[: batch.masks]][:, None]) * mask_rows(batch.rows.real, batch)


def draw_targets(batch: TextBatch, predicted_labels: Tensor, other_target_share: float, step: int = 0) -> Tensor:
    """(inputs,): predicted label, or for a share of the texts another class, drawn anew in every `step`."""
    if batch.classes < 2:
        return predicted_labels
    rows = torch.arange(len(batch.rows.input), device=batch.device)
    first = torch.full_like(predicted_labels, len(rows)).scatter_reduce(0, batch.rows.input, rows, "amin")
    random_numbers = uniform(fold(batch.rows.key[first], OTHER_TARGET_PURPOSE, step), 2)
    other_target = (predicted_labels + 1 + (random_numbers[:, 1] * (batch.classes - 1)).long()) % batch.classes
    return torch.where(random_numbers[:, 0] < other_target_share, other_target, predicted_labels)
