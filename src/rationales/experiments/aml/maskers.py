"""The maskers of a classifier: trained by AML for each metric, and files that an earlier run trained."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from rationales.files import write_text
from rationales.masks.instant import masker_file
from rationales.masks.instant import training as instant
from rationales.masks.instant.aml.backbone import OWN, BackboneSource
from rationales.masks.instant.aml.masker import stored_digest
from rationales.masks.instant.aml.pretraining import pretrain_for_metrics, training_digest
from rationales.masks.instant.aml.settings import AmlLosses, AmlTraining
from rationales.masks.instant.training import TrainSettings
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
    marc: TrainSettings = field(default_factory=TrainSettings)  # of the masker of marc-instant
    resumable: bool = True  # whether the state of an unfinished training is stored


@dataclass(frozen=True, eq=False)
class MaskerFiles:
    """The maskers of one model, as files in a folder; those that are there are used if they were trained in this way.

    log: gets a line for every masker that is there but was trained in another way (model, texts, settings, losses,
    backbone or seed), and is trained again.
    """

    model: TextModel
    texts: Sequence[str]
    plan: MaskerPlan
    folder: Path
    name: str  # that the names of files begin with
    seed: int = 0
    log: Callable[[str], None] | None = None

    def of_aml(self) -> dict[str, Path]:
        """Metric -> file of its masker; beside each file its card as JSON, which says what the search tried."""
        plan, texts = self.plan, list(self.texts)
        settings = replace(plan.training, seed=self.seed)
        self.folder.mkdir(parents=True, exist_ok=True)
        paths = {metric: self.folder / f"{self.name}-{metric}.safetensors" for metric in plan.metrics}
        digest = training_digest(self.model, texts, settings, plan.losses, plan.backbone)
        missing = missing_maskers(paths, digest, stored_digest, self.log)
        if missing:
            resume = self.folder / f"{self.name}-{'-'.join(missing)}.state" if plan.resumable else None
            maskers = pretrain_for_metrics(
                self.model, texts, missing, settings, plan.losses, backbone=plan.backbone, resume=resume, data=self.name
            )
            for metric, masker in maskers.items():
                masker.save(paths[metric])
                write_text(paths[metric].with_suffix(".json"), json.dumps(asdict(masker.card), indent=1))
        return paths

    def of_marc(self) -> Path:
        """File of the masker of marc-instant."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path, settings = self.folder / f"{self.name}-marc.safetensors", replace(self.plan.marc, seed=self.seed)
        digest = instant.training_digest(self.model, self.texts, settings)
        if missing_maskers({self.name: path}, digest, masker_file.stored_digest, self.log):
            resume = path.with_suffix(".state") if self.plan.resumable else None
            instant.train(self.model, self.texts, settings, resume=resume).save(path)
        return path


def missing_maskers(
    paths: Mapping[str, Path],
    digest: str,
    digest_of: Callable[[Path], str],
    log: Callable[[str], None] | None = None,
) -> list[str]:
    """The keys of `paths` without a file whose masker was trained with what the digest is of; `log`: says why."""
    missing = []
    for key, path in paths.items():
        if not path.is_file() or digest_of(path) != digest:
            missing.append(key)
            if path.is_file() and log is not None:
                log(
                    f"{path.name} was trained in another way (another model, texts, settings, losses, backbone or "
                    "seed); it is trained again"
                )
    return missing
