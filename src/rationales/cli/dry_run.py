"""`rationales dry-run`: plant a known cause in the user's data and see which methods find it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from rationales.cli.app import clean_exit
from rationales.cli.inputs import check_outputs, method_rows, options, written
from rationales.cli.shared import Device, Json, methods_option
from rationales.cli.streams import prepare_libraries
from rationales.errors import OptionError

NO_VERDICT = 1  # exit code if no model learned its plant


@clean_exit
def dry_run(
    data: Annotated[
        str | None, Argument(help="A folder of images, or a file of texts (CSV, TSV, JSON lines).", show_default=False)
    ] = None,
    plant: Annotated[
        list[str] | None,
        Option(
            "--plant",
            help="The plants, separated by commas, with parameters after colons. --list shows all.",
            metavar="PLANT[:NAME=VALUE]",
            show_default="watermark; for texts trigger",
        ),
    ] = None,
    methods: Annotated[
        list[str] | None,
        methods_option("marc, integrated-gradients, saliency, occlusion; grad-cam, for texts marc:preset=words"),
    ] = None,
    network: Annotated[
        str | None,
        Option(
            help="The network to train: small-resnet, resnet34, small-vit; for texts transformer, bilstm, bert, or a "
            "language model to tune (smollm2, a folder).",
            show_default="small-resnet; for texts transformer",
        ),
    ] = None,
    model_factory: Annotated[
        str | None,
        Option(
            "--model-factory",
            help="Train your own model: a function from the number of labels to a module. The code is executed.",
            metavar="PACKAGE.MODULE:FUNCTION",
        ),
    ] = None,
    r: Annotated[
        float | None, Option("--r", help="Probability that a label is kept.", show_default="1 / number of classes")
    ] = None,
    accuracy: Annotated[
        float | None, Option(help="Validation accuracy above which training stops.", show_default="0.97")
    ] = None,
    inputs: Annotated[int, Option(help="Maximum number of planted test inputs explained with each method.")] = 30,
    limit: Annotated[int, Option(help="Maximum number of examples, evenly spread over the data.")] = 2000,
    size: Annotated[int, Option(help="Pixels per side to which images are resized and cropped.")] = 112,
    words: Annotated[int, Option(help="Maximum number of words per text; longer texts are cut.")] = 100,
    text_column: Annotated[str, Option(help="Column of the texts.", show_default="text")] = "",
    label_column: Annotated[str, Option(help="Column of the labels; labels are optional.", show_default="label")] = "",
    training: Annotated[
        list[str] | None,
        Option(
            "--train",
            help="Training settings: epochs, learning_rate, batch_size, min_epochs, weight_decay, ...",
            metavar="NAME=VALUE",
        ),
    ] = None,
    seed: Annotated[int, Option(help="The same seed gives the same verdicts.")] = 0,
    out: Annotated[Path | None, Option("--out", "-o", help="Write the report as a single HTML file.")] = None,
    as_json: Json = False,
    device: Device = None,
    show_list: Annotated[bool, Option("--list", help="List the plants and their parameters.")] = False,
) -> None:
    """Plant a known cause in your data, train a model that must use it, and see which methods find it.

    Labels are drawn anew, so that only the plant predicts them. If a statistical test shows that the model relies on
    the plant, each method gets a verdict: found, distracted or missed.

    [bold]Examples[/bold]

      rationales dry-run photos/ --out report.html

      rationales dry-run reviews.csv --text-column review --plant trigger,sentence --methods marc,integrated-gradients

      rationales dry-run photos/ --plant watermark:level=3,blur:std=8 --model-factory my_model:make --device cuda
    """
    if show_list:
        _list_plants()
        return
    if data is None:
        raise OptionError("no data given: name a folder of images or a file of texts; --list shows the plants")
    if network is not None and model_factory is not None:
        raise OptionError("give --network or --model-factory, not both")
    requested_methods = method_rows(methods) if methods else None
    requested_plants = parse_plants(plant) if plant else None
    recipe = options(training or [], "--train") | ({} if accuracy is None else {"target_accuracy": accuracy})
    check_outputs(None, out)
    prepare_libraries()
    from rationales.report.terminal.progress import progress, waiting

    with waiting("loading"):
        from rationales.groundtruth.dryrun import dry_run as run
        from rationales.groundtruth.dryrun import load_factory

        factory = None if model_factory is None else load_factory(model_factory)
    result = run(
        data,
        plants=requested_plants,
        methods=requested_methods,
        network=factory or network,
        r=r,
        inputs=inputs,
        limit=limit,
        size=size,
        words=words,
        text_column=text_column,
        label_column=label_column,
        training=recipe,
        seed=seed,
        device=device,
        progress_bar=progress,
    )
    for note in result.notes:
        typer.echo(f"note: {note}", err=True)
    if out is not None:
        from rationales.files import write_text

        write_text(out, result.to_html())
    if as_json:
        typer.echo(result.to_json(), nl=False)
    else:
        from rationales.report.dry_run import show

        show(result)
    if out is not None:
        typer.echo(f"wrote {out}", err=True)
    if not result.judged:
        raise typer.Exit(NO_VERDICT)


def parse_plants(arguments: Sequence[str]) -> list[dict[str, Any]]:
    """Parse plants such as 'watermark:level=3,blur:std=8'; commas and colons in brackets do not separate."""
    plants: list[dict[str, Any]] = []
    for plant in (item.strip() for argument in arguments for item in _split_outside_brackets(",", argument)):
        if plant:
            name, *settings = _split_outside_brackets(":", plant)
            plants.append({"name": name.strip()} | options(settings, f"--plant {name}:"))
    if not plants:
        raise OptionError("no plant to try; give --plant with names from 'rationales dry-run --list'")
    return plants


def _split_outside_brackets(separator: str, text: str) -> list[str]:
    return re.split(rf"{separator}(?![^\[]*\])", text)


JSON_VALUES = (bool, int, float, str, tuple, list, type(None))  # of parameters that --plant can set


def _list_plants() -> None:
    from dataclasses import fields

    from rationales.groundtruth.plants.catalogue import PLANTS

    for kind, title in (("image", "images"), ("text", "texts")):
        typer.echo(f"for {title}")
        for name, plant in PLANTS.items():
            if plant.kind == kind:
                listed_fields = [field for field in fields(plant) if isinstance(field.default, JSON_VALUES)]
                parameters = ", ".join(f"{field.name}={written(field.default)}" for field in listed_fields)
                level = "level=1 … 5, " if kind == "image" else ""
                typer.echo(f"  {name:<16} {plant.summary}\n  {'':<16} {level}{parameters}")
