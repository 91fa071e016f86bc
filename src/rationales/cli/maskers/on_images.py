"""`rationales train-masker --images`: train a masker for an image model."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from rationales.cli.inputs import check_kind
from rationales.cli.streams import prepare_libraries
from rationales.errors import DataError, OptionError

if TYPE_CHECKING:
    from rationales.masks.instant.training import ValidationResult

DEFAULT_IMAGE_MODEL = "efficientnet-lite0"


@dataclass(frozen=True)
class ImageRun:
    """What the command was asked to train, and where the masker goes."""

    model: str
    images: Path
    out: Path
    limit: int | None
    seed: int
    baseline: str | None
    half: bool
    device: str | None
    trust_remote_code: bool


def progress_path(out: Path) -> Path:
    """File with the state of an unfinished training of the masker `out`."""
    return out.with_name(f"{out.name}.progress")


def train_on_images(run: ImageRun, objective_options: dict[str, Any], train_options: dict[str, Any]) -> None:
    """Train and write a masker for an image model; progress and figures go to standard error."""
    prepare_libraries()
    from rationales.evaluation.sampling import evenly
    from rationales.masks.instant.pictures.augmentation import picture_files
    from rationales.masks.instant.pictures.training import PictureTrainSettings, train_pictures
    from rationales.masks.settings import MaskSettings
    from rationales.methods import build
    from rationales.report.terminal.progress import progress, waiting

    known = [spec.name for spec in fields(PictureTrainSettings)]
    for name in train_options:
        if name not in known:
            raise OptionError(f"a training has no setting {name!r}; there are: {', '.join(known)}")
    settings = replace(PictureTrainSettings(seed=run.seed), **train_options)
    marc = build("marc", objective_options, "image")  # checks names and values
    objective = MaskSettings(**{spec.name: getattr(marc, spec.name) for spec in fields(MaskSettings)})
    if not run.images.is_dir():
        raise DataError(f"there is no folder {run.images}")
    files = evenly(picture_files(run.images), run.limit)
    if not files:
        raise DataError(f"there are no images in {run.images}")
    with waiting("loading the model"):
        import rationales
        from rationales.models.image.model import ImageModel

        model = rationales.load(
            run.model, device=run.device, baseline=run.baseline, trust_remote_code=run.trust_remote_code
        )
        check_kind(model, "image")
        if not isinstance(model, ImageModel):
            raise OptionError(f"a masker is trained for an image model, and {run.model} is none")
    resume = progress_path(run.out)
    with progress(f"training on {len(files)} images") as report:
        masker = train_pictures(model, files, settings, objective, report, _print_validation, resume)
    masker.save(run.out, run.half)
    figures = masker.card.training
    summary = f"loss {figures['held_out_loss']:.3f} on {figures['held_out']} held-out images"
    typer.echo(f"wrote {run.out} ({run.out.stat().st_size / 2**20:.1f} MB, {summary})", err=True)


def _print_validation(result: ValidationResult) -> None:
    star = " *" if result.best else ""
    typer.echo(f"step {result.step}  {result.seconds:.0f} s  loss on held-out images {result.loss:.4f}{star}", err=True)
