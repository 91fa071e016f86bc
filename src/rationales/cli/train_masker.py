"""`rationales train-masker`: train a masker for one model, with which marc-instant explains it in one pass."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from rationales.cli.app import clean_exit
from rationales.cli.inputs import check_kind, check_outputs, options
from rationales.cli.shared import Baseline, Device, Folder, Trust, Unit
from rationales.cli.streams import prepare_libraries
from rationales.errors import DataError, OptionError

UNLIMITED_STEPS = 10**9  # where --minutes ends the training

if TYPE_CHECKING:
    from rationales.masks.instant.training import ValidationResult


@clean_exit
def train_masker(
    model: Annotated[str, Argument(help="A Hugging Face id, a folder, or a name from 'rationales models'.")],
    data: Annotated[
        str, Argument(help="A data set by name, or a file of texts (CSV, TSV, JSON lines); labels are not used.")
    ],
    out: Annotated[Path, Option("--out", "-o", help="File to write the masker to (safetensors).")],
    split: Annotated[str | None, Option(help="train, val or test; by default train, for a named data set.")] = None,
    folder: Folder = None,
    limit: Annotated[int | None, Option(help="Number of texts, evenly spread over the data.")] = None,
    steps: Annotated[
        int | None, Option(help="Largest number of training steps.", show_default="3000, or as --minutes allow")
    ] = None,
    minutes: Annotated[float | None, Option(help="Time limit in minutes; the learning rate's schedule adapts.")] = None,
    seed: Annotated[int, Option(help="The same seed gives the same masker on the CPU without --minutes.")] = 0,
    settings: Annotated[
        list[str] | None,
        Option("--set", help="Option of marc, for the training objective (sparsity=2).", metavar="NAME=VALUE"),
    ] = None,
    training: Annotated[
        list[str] | None,
        Option("--train", help="Training setting: inputs, learning_rate, width, layers, ...", metavar="NAME=VALUE"),
    ] = None,
    unit: Unit = "word",
    baseline: Baseline = None,
    half: Annotated[bool, Option("--half", help="Store the weights in half precision.")] = False,
    device: Device = None,
    trust_remote_code: Trust = False,
) -> None:
    """Train a masker on texts without labels; marc-instant then explains the model in one pass.

    [bold]Examples[/bold]

      rationales train-masker ./my-model my-texts.jsonl --out masker.safetensors --device cuda --minutes 5

      rationales train-masker embedded sst-2 --folder data/ --limit 20000 --out masker.safetensors

      rationales explain --file review.txt --model ./my-model --method marc-instant --set masker=masker.safetensors
    """
    check_outputs(None, out)
    objective_options, train_options = options(settings or []), options(training or [], "--train")
    if minutes is not None:
        train_options = {"steps": UNLIMITED_STEPS} | train_options | {"minutes": minutes}
    train_options |= {} if steps is None else {"steps": steps}
    prepare_libraries()
    from rationales.report.terminal.progress import progress, waiting

    with waiting("reading the data"):
        texts = _texts(data, split, folder, limit)
    with waiting("loading the model"):
        import rationales
        from rationales.masks.instant.training import TrainSettings, train
        from rationales.masks.settings import MaskSettings
        from rationales.methods import build
        from rationales.models.text.model import TextModel

        train_settings = _train_settings(TrainSettings(seed=seed), train_options)
        marc = build("marc", objective_options)  # checks names and values
        objective = MaskSettings(**{spec.name: getattr(marc, spec.name) for spec in fields(MaskSettings)})
        text_model = rationales.load(
            model, device=device, unit=unit, baseline=baseline, trust_remote_code=trust_remote_code
        )
        check_kind(text_model, "text")
        if not isinstance(text_model, TextModel):
            raise OptionError(f"a masker is trained for a text model, and {model} is none")
    with progress(f"training on {len(texts)} texts") as report:
        masker = train(text_model, texts, train_settings, objective, report, _print_validation)
    masker.save(out, half)
    size = out.stat().st_size / 2**20
    best = masker.card.training["held_out_loss"]
    texts_held_out = masker.card.training["held_out"]
    typer.echo(f"wrote {out} ({size:.1f} MB, loss {best:.3f} on {texts_held_out} held-out texts)", err=True)


def _texts(data: str, split: str | None, folder: Path | None, limit: int | None) -> list[Any]:
    from rationales.data import DATASETS, read_data
    from rationales.evaluation.sampling import evenly

    if split is None and data in DATASETS and "train" in DATASETS[data].splits:
        split = "train"
    examples = evenly(read_data(data, split, folder), limit)
    if any(example.image is not None for example in examples):
        raise DataError(f"{data} contains images; a masker is trained on texts")
    return [example.raw_input() for example in examples]


def _train_settings(settings: Any, options: dict[str, Any]) -> Any:
    """Training settings with these options set; an OptionError names an unknown one."""
    known = [spec.name for spec in fields(settings)]
    for name in options:
        if name not in known:
            raise OptionError(f"a training has no setting {name!r}; there are: {', '.join(known)}")
    return replace(settings, **options)


def _print_validation(result: ValidationResult) -> None:
    star = " *" if result.best else ""
    typer.echo(f"step {result.step}  {result.seconds:.0f} s  loss on held-out texts {result.loss:.4f}{star}", err=True)
