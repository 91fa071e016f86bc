"""`rationales train-masker`: a masker for one model, so that marc-instant can explain it in one pass."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rationales.cli.app import clean_exit
from rationales.cli.inputs import check_kind, check_outputs, options
from rationales.cli.shared import Baseline, Device, Folder, Trust, Unit
from rationales.cli.streams import prepare_libraries
from rationales.errors import DataError, OptionError

ENDLESS = 10**9  # steps, where the clock decides

if TYPE_CHECKING:
    from rationales.masks.train_masker import Look


def add(app: typer.Typer) -> None:
    """Enter the command."""
    app.command("train-masker")(train_masker)


@clean_exit
def train_masker(
    model: Annotated[str, typer.Argument(help="A Hugging Face id, a folder, or a name from 'rationales models'.")],
    data: Annotated[
        str, typer.Argument(help="A data set by name, or a file of texts (CSV, TSV, JSON lines); labels are not used.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the masker goes: one safetensors file.")],
    split: Annotated[str | None, typer.Option(help="train, val or test; of a named set else train.")] = None,
    folder: Folder = None,
    limit: Annotated[int | None, typer.Option(help="So many texts, evenly spread over the data.")] = None,
    steps: Annotated[
        int | None, typer.Option(help="Training steps at most.", show_default="3000, or as --minutes allow")
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(help="Training ends after so many minutes; the rate falls accordingly.")
    ] = None,
    seed: Annotated[
        int, typer.Option(help="The same seed gives the same masker, on the CPU and without --minutes.")
    ] = 0,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="An option of marc: what is trained for (sparsity=2).", metavar="NAME=VALUE"),
    ] = None,
    training: Annotated[
        list[str] | None,
        typer.Option("--train", help="How to train: inputs, rate, width, layers, ...", metavar="NAME=VALUE"),
    ] = None,
    unit: Unit = "word",
    baseline: Baseline = None,
    half: Annotated[bool, typer.Option("--half", help="Store half precision: a file half as large.")] = False,
    device: Device = None,
    trust_remote_code: Trust = False,
) -> None:
    """Train a masker once, from texts without labels; marc-instant then explains the model in one pass.

    [bold]Examples[/bold]

      rationales train-masker ./my-model my-texts.jsonl --out masker.safetensors --device cuda --minutes 5

      rationales train-masker embedded sst-2 --folder data/ --limit 20000 --out masker.safetensors

      rationales explain --file review.txt --model ./my-model --method marc-instant --set masker=masker.safetensors
    """
    check_outputs(None, out)
    objective, chosen = options(settings or []), options(training or [], "--train")
    if minutes is not None:
        chosen = {"steps": ENDLESS} | chosen | {"minutes": minutes}
    chosen |= {} if steps is None else {"steps": steps}
    prepare_libraries()
    from rationales.report.terminal.progress import progress, waiting

    with waiting("reading the data"):
        texts = _texts(data, split, folder, limit)
    with waiting("loading the model"):
        import rationales
        from rationales.masks.train_masker import TrainSettings, train
        from rationales.methods import build
        from rationales.models.text import TextModel

        how = _replaced(TrainSettings(seed=seed), chosen)
        wanted = build("marc", objective)  # checks names and values
        explained = rationales.load(
            model, device=device, unit=unit, baseline=baseline, trust_remote_code=trust_remote_code
        )
        check_kind(explained, "text")
        if not isinstance(explained, TextModel):
            raise OptionError(f"a masker is trained for a model of texts, and {model} is none")
    with progress(f"training on {len(texts)} texts") as report:
        made = train(explained, texts, how, _settings(wanted), report, _tell)
    made.save(out, half)
    size = out.stat().st_size / 2**20
    best = made.card.training["held_out_loss"]
    typer.echo(f"wrote {out} ({size:.1f} MB, loss {best:.3f} on {made.card.training['held']} held-out texts)", err=True)


def _texts(data: str, split: str | None, folder: Path | None, limit: int | None) -> list[Any]:
    from rationales.data import DATASETS, read_data
    from rationales.evaluation.sampling import evenly

    if split is None and data in DATASETS and "train" in DATASETS[data].splits:
        split = "train"
    examples = evenly(read_data(data, split, folder), limit)
    if any(one.image is not None for one in examples):
        raise DataError(f"{data} holds pictures; a masker is trained on texts")
    return [one.raw_input() for one in examples]


def _replaced(how: Any, chosen: dict[str, Any]) -> Any:
    """Training settings with the given ones in place."""
    known = [one.name for one in fields(how)]
    for name in chosen:
        if name not in known:
            raise OptionError(f"a training has no setting {name!r}; there are: {', '.join(known)}")
    return replace(how, **chosen)


def _settings(method: Any) -> Any:
    """The part of marc's options that an optimisation, or a training, goes by."""
    from rationales.masks.settings import MaskSettings

    return MaskSettings(**{one.name: getattr(method, one.name) for one in fields(MaskSettings)})


def _tell(look: Look) -> None:
    star = " *" if look.best else ""
    typer.echo(f"step {look.step}  {look.seconds:.0f} s  loss on held-out texts {look.loss:.4f}{star}", err=True)
