"""The maskers of a classifier: trained by AML for each metric, and files that an earlier run trained."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from rationales.files import write_text
from rationales.masks.instant.aml.backbone import OWN, BackboneSource
from rationales.masks.instant.aml.pretraining import pretrain_for_metrics
from rationales.masks.instant.aml.settings import AmlLosses, AmlTraining
from rationales.models.text.model import TextModel

TEXTS = 1200  # to train on and to validate with, as many as the paper's


@dataclass(frozen=True)
class MaskerPlan:
    """How maskers are trained; `metrics`: those that get a masker of their own."""

    training: AmlTraining = field(default_factory=AmlTraining)
    losses: AmlLosses = field(default_factory=AmlLosses)
    metrics: tuple[str, ...] = (
        "sufficiency",
        "log-odds",
        "comprehensiveness",
        "aopc-sufficiency",
        "aopc-comprehensiveness",
    )
    finetuning: Mapping[str, object] = field(default_factory=dict)  # options of aml-finetuned
    backbone: BackboneSource = OWN  # encoder of the attribution networks
    resumable: bool = True  # whether the state of an unfinished training is stored


def train_maskers(
    model: TextModel, texts: Sequence[str], plan: MaskerPlan, folder: Path, name: str, seed: int = 0
) -> dict[str, Path]:
    """Metric -> file of its masker in `folder`; those whose files are there are not trained again.

    Beside each file its card as JSON, which says what the search tried.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = {metric: folder / f"{name}-{metric}.safetensors" for metric in plan.metrics}
    missing = [metric for metric, path in paths.items() if not path.is_file()]
    if missing:
        resume = folder / f"{name}-{'-'.join(missing)}.state"
        maskers = pretrain_for_metrics(
            model,
            list(texts),
            missing,
            replace(plan.training, seed=seed),
            plan.losses,
            backbone=plan.backbone,
            resume=resume if plan.resumable else None,
            data=name,
        )
        for metric, masker in maskers.items():
            masker.save(paths[metric])
            write_text(paths[metric].with_suffix(".json"), json.dumps(asdict(masker.card), indent=1))
    return paths
