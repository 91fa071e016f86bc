"""`rationales train-masker`: train a masker for one model, which then explains it in one pass (marc-instant, AML)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from rationales.cli.app import clean_exit
from rationales.cli.inputs import check_kind, check_outputs, options, prompt_options
from rationales.cli.maskers.on_images import DEFAULT_IMAGE_MODEL, ImageRun, progress_path, train_on_images
from rationales.cli.shared import Baseline, Continuations, Device, Folder, Labels, Prompt, Template, Trust, Unit
from rationales.cli.streams import prepare_libraries
from rationales.errors import DataError, OptionError

UNLIMITED_STEPS = 10**9  # where --minutes ends the training

if TYPE_CHECKING:
    from rationales.masks.instant.aml.training.training_run import EpochResult
    from rationales.masks.instant.training import ValidationResult
    from rationales.models.text.model import TextModel


@clean_exit
def train_masker(
    out: Annotated[Path, Option("--out", "-o", help="File of the masker (safetensors).")],
    model: Annotated[
        str | None,
        Argument(help="A Hugging Face id, a folder, or a name from 'rationales models'.", show_default=False),
    ] = None,
    data: Annotated[
        str | None,
        Argument(
            help="A data set by name, or a file of texts (CSV, TSV, JSON lines); labels are not used.",
            show_default=False,
        ),
    ] = None,
    images: Annotated[
        Path | None, Option(help="Folder of images, in place of DATA: train a masker for an image model.")
    ] = None,
    image_model: Annotated[
        str | None,
        Option("--model", "-m", help="With --images: the image model, as in MODEL.", show_default="efficientnet-lite0"),
    ] = None,
    kind: Annotated[str, Option(help="marc: for marc-instant; aml: for aml-pretrained and aml-finetuned.")] = "marc",
    metric: Annotated[
        str | None,
        Option(help="aml: metric by which loss weights and checkpoint are chosen.", show_default="comprehensiveness"),
    ] = None,
    backbone: Annotated[
        str | None,
        Option(help="aml: encoder of the network: own, small, an id or a folder.", show_default="own"),
    ] = None,
    split: Annotated[str | None, Option(help="train, val or test; by default train, for a named data set.")] = None,
    folder: Folder = None,
    limit: Annotated[int | None, Option(help="Number of texts, evenly spread over the data.")] = None,
    steps: Annotated[
        int | None, Option(help="marc: largest number of training steps.", show_default="3000, or as --minutes allow")
    ] = None,
    minutes: Annotated[float | None, Option(help="Time limit in minutes; the learning rate's schedule adapts.")] = None,
    seed: Annotated[int, Option(help="The same seed gives the same masker on the CPU without --minutes.")] = 0,
    settings: Annotated[
        list[str] | None,
        Option("--set", help="marc: an option of marc (sparsity=2); aml: of its losses.", metavar="NAME=VALUE"),
    ] = None,
    training: Annotated[
        list[str] | None,
        Option("--train", help="Training setting: inputs, learning_rate, layers, trials, ...", metavar="NAME=VALUE"),
    ] = None,
    labels: Labels = None,
    template: Template = None,
    continuations: Continuations = None,
    prompt: Prompt = None,
    unit: Unit = "word",
    baseline: Baseline = None,
    half: Annotated[bool, Option("--half", help="Store the weights in half precision.")] = False,
    device: Device = None,
    trust_remote_code: Trust = False,
) -> None:
    """Train a masker on texts or images without labels, which then explains the model in one pass.

    A training that was interrupted goes on from OUT.progress when the same command is given again.

    [bold]Examples[/bold]

      rationales train-masker ./my-model my-texts.jsonl --out masker.safetensors --device cuda --minutes 5

      rationales train-masker embedded sst-2 --folder data/ --limit 20000 --out masker.safetensors

      rationales explain --file review.txt --model ./my-model --method marc-instant --set masker=masker.safetensors

      rationales train-masker --images photos/ --model efficientnet-lite0 --out masker.safetensors --minutes 60

      rationales train-masker ./my-model my-texts.jsonl --kind aml --metric sufficiency --out aml.safetensors
    """
    check_outputs(None, out)
    of_prompt = prompt_options(labels, template, continuations, prompt)
    _check_kind_options(kind, {"--metric": metric, "--backbone": backbone}, {"--steps": steps})
    objective_options, train_options = options(settings or []), options(training or [], "--train")
    if minutes is not None:
        train_options = ({"steps": UNLIMITED_STEPS} if kind == "marc" else {}) | train_options | {"minutes": minutes}
    train_options |= {} if steps is None else {"steps": steps}
    if images is not None:
        _check_image_options(kind, data, model, image_model, {"--split": split, "--folder": folder}, unit)
        name = image_model or model or DEFAULT_IMAGE_MODEL
        settings_of_run = ImageRun(name, images, out, limit, seed, baseline, half, device, trust_remote_code)
        train_on_images(settings_of_run, objective_options, train_options)
        return
    if model is None or data is None or image_model is not None:
        raise OptionError("give MODEL and DATA for texts, or --images FOLDER --model MODEL for images")
    prepare_libraries()
    from rationales.report.terminal.progress import progress, waiting

    with waiting("reading the data"):
        texts = _texts(data, split, folder, limit)
    with waiting("loading the model"):
        import rationales
        from rationales.models.text.model import TextModel

        if kind == "aml":
            train_options |= {} if metric is None else {"metric": metric}
        train_one = (_marc_training if kind == "marc" else _aml_training)(objective_options, train_options, seed)
        text_model = rationales.load(
            model, device=device, unit=unit, baseline=baseline, trust_remote_code=trust_remote_code, **of_prompt
        )
        check_kind(text_model, "text")
        if not isinstance(text_model, TextModel):
            raise OptionError(f"a masker is trained for a text model, and {model} is none")
    with progress(f"training on {len(texts)} texts") as report:
        masker, summary = train_one(text_model, texts, report, out, backbone or "own", data)
    masker.save(out, half)
    typer.echo(f"wrote {out} ({out.stat().st_size / 2**20:.1f} MB, {summary})", err=True)


def _check_image_options(
    kind: str,
    data: str | None,
    model: str | None,
    image_model: str | None,
    of_texts: dict[str, Any],
    unit: str,
) -> None:
    """Raise an OptionError for options that do not go together with --images."""
    if kind != "marc":
        raise OptionError(f"--kind {kind} trains on texts; leave --images out")
    if data is not None or (model is not None and image_model is not None):
        raise OptionError("with --images give no DATA, and the model once: --images FOLDER --model MODEL")
    for name, value in of_texts.items():
        if value is not None:
            raise OptionError(f"{name} is for texts; leave it out with --images")
    if unit != "word":
        raise OptionError("--unit is for texts; leave it out with --images")


Training = Callable[["TextModel", list[Any], Callable[[float], None] | None, Path, str, str], tuple[Any, str]]


def _marc_training(objective_options: dict[str, Any], train_options: dict[str, Any], seed: int) -> Training:
    """Check the options, and return the training of a masker of marc-instant."""
    from rationales.masks.instant.training import TrainSettings, train
    from rationales.masks.settings import MaskSettings
    from rationales.methods import build

    settings = _with_options(TrainSettings(seed=seed), train_options, "a training")
    marc = build("marc", objective_options)  # checks names and values
    objective = MaskSettings(**{spec.name: getattr(marc, spec.name) for spec in fields(MaskSettings)})

    def run(
        model: TextModel, texts: list[Any], report: Callable[[float], None] | None, out: Path, _name: str, _data: str
    ) -> tuple[Any, str]:
        masker = train(model, texts, settings, objective, report, _print_validation, progress_path(out))
        figures = masker.card.training
        return masker, f"loss {figures['held_out_loss']:.3f} on {figures['held_out']} held-out texts"

    return run


def _aml_training(loss_options: dict[str, Any], train_options: dict[str, Any], seed: int) -> Training:
    """Check the options, and return the training of an AML masker."""
    from rationales.masks.instant.aml.pretraining import pretrain
    from rationales.masks.instant.aml.settings import AmlLosses, AmlTraining

    settings = _with_options(AmlTraining(seed=seed), train_options, "a training")
    losses = _with_options(AmlLosses(), loss_options, "the loss")

    def run(
        model: TextModel, texts: list[Any], report: Callable[[float], None] | None, out: Path, backbone: str, data: str
    ) -> tuple[Any, str]:
        masker = pretrain(
            model, texts, settings, losses, backbone=backbone, resume=progress_path(out),
            progress=report, on_epoch=_print_epoch, data=Path(data).name,
        )  # fmt: skip
        figures = masker.card.training
        where = f"on {figures['validation_texts']} validation texts"
        return masker, f"{figures['metric']} {figures['value']:.3f} {where}, loss weights by {figures['search']} search"

    return run


def _check_kind_options(kind: str, of_aml: dict[str, Any], of_marc: dict[str, Any]) -> None:
    if kind not in ("marc", "aml"):
        raise OptionError(f"--kind is marc or aml, not {kind!r}")
    for name, value in (of_aml if kind == "marc" else of_marc).items():
        if value is not None:
            advice = "" if kind == "marc" else "; set --train epochs=N"
            raise OptionError(f"{name} is no option of --kind {kind}{advice}")


def _texts(data: str, split: str | None, folder: Path | None, limit: int | None) -> list[Any]:
    from rationales.data import DATASETS, read_data
    from rationales.evaluation.sampling import evenly

    if split is None and data in DATASETS and "train" in DATASETS[data].splits:
        split = "train"
    examples = evenly(read_data(data, split, folder), limit)
    if any(example.image is not None for example in examples):
        raise DataError(f"{data} contains images; a masker is trained on texts")
    return [example.raw_input() for example in examples]


def _with_options(settings: Any, options: dict[str, Any], owner: str) -> Any:
    """Settings with these options set; an OptionError names an unknown one."""
    known = [spec.name for spec in fields(settings)]
    for name in options:
        if name not in known:
            raise OptionError(f"{owner} has no setting {name!r}; there are: {', '.join(known)}")
    return replace(settings, **options)


def _print_epoch(result: EpochResult) -> None:
    star, step = " *" if result.best else "", "trial" if result.phase == "search" else "epoch"
    network = f"network {result.network} of {result.networks}, " if result.networks > 1 else ""
    step = f"{network}{step} {result.number} of {result.total}"
    figures = f"{result.seconds:.0f} s  {result.metric} {result.value:.4f}{star}"
    typer.echo(f"{step}  {figures}  about {result.remaining_seconds:.0f} s to go", err=True)


def _print_validation(result: ValidationResult) -> None:
    star = " *" if result.best else ""
    typer.echo(f"step {result.step}  {result.seconds:.0f} s  loss on held-out texts {result.loss:.4f}{star}", err=True)
