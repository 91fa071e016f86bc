"""Pretraining of attribution networks (pAML; Barkan et al. 2024, sections 3.1 and 4) for one model.

First the loss weights are searched, for each metric, by short trainings; then the network is trained with the best, and
the checkpoint is kept whose metric on validation texts is the best. No labels are needed. All randomness is a function
of the seed and the texts; on the CPU an interrupted training that goes on gives the same bits as one that was not.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import torch

from rationales.errors import DataError
from rationales.masks.instant.aml.backbone import OWN, Backbone, BackboneSource, make_backbone
from rationales.masks.instant.aml.example_metrics import EXAMPLE_METRICS
from rationales.masks.instant.aml.masker import (
    AmlCard,
    AmlMasker,
    model_weights_fingerprint,
    module_labels,
    tokenizer_fingerprint,
)
from rationales.masks.instant.aml.masking import mask_token
from rationales.masks.instant.aml.settings import REPLACEMENTS, AmlLosses, AmlTraining
from rationales.masks.instant.aml.training.network_stack import can_be_stacked
from rationales.masks.instant.aml.training.progress_file import ProgressFile
from rationales.masks.instant.aml.training.stacked_training import train_maskers_together
from rationales.masks.instant.aml.training.training_run import EpochResult, TrainingRun, seeded
from rationales.masks.instant.aml.training.training_texts import TrainingTexts
from rationales.masks.instant.length_buckets import without_repetitions
from rationales.models.text.batch import TextBatch
from rationales.models.text.fingerprint import model_digest, tokenizer_digest
from rationales.models.text.model import TextModel
from rationales.models.weights_digest import weights_digest


def pretrain(
    model: TextModel,
    texts: Sequence[str | tuple[str, str]],
    settings: AmlTraining | None = None,
    losses: AmlLosses | None = None,
    *,
    backbone: BackboneSource = OWN,
    resume: str | os.PathLike[str] | None = None,
    progress: Callable[[float], None] | None = None,
    on_epoch: Callable[[EpochResult], None] | None = None,
    data: str = "",
) -> AmlMasker:
    """A masker for `model`, trained on texts without labels for `settings.metric`; the model is left unchanged.

    backbone: see `make_backbone`. resume: a file for the state of the training; if it exists the training goes on from
    it, and it is deleted at the end. data: the name of the texts, for the card.
    """
    settings = settings or AmlTraining()
    metrics = (settings.metric,)
    run = pretrain_for_metrics(
        model, texts, metrics, settings, losses, backbone=backbone, resume=resume, progress=progress, on_epoch=on_epoch,
        data=data,
    )  # fmt: skip
    return run[settings.metric]


def pretrain_for_metrics(
    model: TextModel,
    texts: Sequence[str | tuple[str, str]],
    metrics: Sequence[str],
    settings: AmlTraining | None = None,
    losses: AmlLosses | None = None,
    *,
    backbone: BackboneSource = OWN,
    resume: str | os.PathLike[str] | None = None,
    progress: Callable[[float], None] | None = None,
    on_epoch: Callable[[EpochResult], None] | None = None,
    data: str = "",
) -> dict[str, AmlMasker]:
    """A masker for each metric; a random search for weights is made once for all metrics, one by TPE for each."""
    settings, requested_losses = settings or AmlTraining(), losses or AmlLosses()
    start_time = time.monotonic()
    distinct_texts = without_repetitions(texts)
    generator = torch.Generator().manual_seed(settings.seed)
    order = torch.randperm(len(distinct_texts), generator=generator).tolist()
    held_out = min(settings.validation_texts, max(1, len(order) // 5)) if len(order) > 1 else 0
    order = order[: held_out + settings.texts]
    sources = [model.read(distinct_texts[number], None) for number in order]
    if not sources:
        raise DataError("there are no texts to train a masker on; give some that are not empty")
    with torch.inference_mode(False), torch.enable_grad(), model.frozen():
        made_backbone = _seeded_backbone(model, settings, backbone)
        validation = TrainingTexts(model, sources[:held_out] or sources, made_backbone, settings.seed)
        first = next(validation.groups(), None)
        if first is None:
            raise DataError("the tokenizer returns no tokens for any of the validation texts")
        batch = first.bucket.batch
        batch.check_gradients()
        losses = _resolved(requested_losses, batch)
        card = AmlCard(
            model=model.name,
            weights=model_weights_fingerprint(batch),
            tokenizer=tokenizer_fingerprint(model.tokenizer),
            labels=module_labels(batch),
            unit=model.unit,
            losses=losses,
            backbone=made_backbone.name,
            digest=_digest(model, distinct_texts, settings, requested_losses, made_backbone),
            training={"data": data, "texts": len(sources) - held_out, "validation_texts": held_out},
        )
        description = json.dumps([card.digest, list(metrics)])
        state = ProgressFile(None if resume is None else Path(resume), description)
        pretraining = TrainingRun(
            settings, losses, made_backbone, batch, validation, sources[held_out:] or sources, tuple(metrics), state,
            start_time, progress, on_epoch,
        )  # fmt: skip
        if settings.networks > 1 and can_be_stacked(losses):
            maskers = train_maskers_together(pretraining, card)
        else:
            maskers = {metric: pretraining.masker_for(metric, card) for metric in metrics}
    state.delete()
    return maskers


def training_digest(
    model: TextModel,
    texts: Sequence[str | tuple[str, str]],
    settings: AmlTraining | None = None,
    losses: AmlLosses | None = None,
    backbone: BackboneSource = OWN,
) -> str:
    """What decides the maskers of `pretrain_for_metrics` besides their metrics, as their cards have it.

    Equal for trainings that give the same masker for a metric, unless a time limit ends them.
    """
    settings = settings or AmlTraining()
    with torch.inference_mode(False):
        made_backbone = _seeded_backbone(model, settings, backbone)
        return _digest(model, without_repetitions(texts), settings, losses or AmlLosses(), made_backbone)


def _digest(
    model: TextModel,
    distinct_texts: Sequence[str | tuple[str, str]],
    settings: AmlTraining,
    losses: AmlLosses,
    backbone: Backbone,
) -> str:
    decisive = (
        model_digest(model),
        asdict(replace(settings, minutes=0.0, metric=EXAMPLE_METRICS[0])),
        asdict(losses),
        (backbone.name, weights_digest(backbone.encoder), tokenizer_digest(backbone.tokenizer)),
        distinct_texts,
    )
    return hashlib.blake2b(repr(decisive).encode(), digest_size=16).hexdigest()


def _seeded_backbone(model: TextModel, settings: AmlTraining, source: BackboneSource) -> Backbone:
    with seeded(settings.seed, model):
        return make_backbone(source, model, settings.layers)


def _resolved(losses: AmlLosses, batch: TextBatch) -> AmlLosses:
    """The losses with the mask token named, where there is one."""
    name = mask_token(batch)
    return replace(losses, replacement=name) if losses.replacement == "auto" and name in REPLACEMENTS else losses
