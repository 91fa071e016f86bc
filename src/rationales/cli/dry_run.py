"""`rationales dry-run`: plant a known cause in the user's own data and see which methods find it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from rationales.cli.app import clean_exit
from rationales.cli.inputs import check_outputs, method_rows, options
from rationales.cli.shared import Device, Json, methods_option
from rationales.cli.streams import prepare_libraries
from rationales.errors import OptionError

NO_VERDICT = 1  # the exit code where no model learned its plant


def add(app: typer.Typer) -> None:
    """Enter the command."""
    app.command("dry-run")(dry_run)


@clean_exit
def dry_run(
    data: Annotated[
        str | None,
        typer.Argument(help="A folder of pictures, or a file of texts (CSV, TSV, JSON lines).", show_default=False),
    ] = None,
    plant: Annotated[
        list[str] | None,
        typer.Option(
            "--plant",
            help="What is planted; several by commas, parameters behind colons. --list shows all.",
            metavar="P[:NAME=VALUE]",
            show_default="watermark; for texts trigger",
        ),
    ] = None,
    methods: Annotated[
        list[str] | None,
        methods_option("marc, integrated-gradients, saliency, occlusion; grad-cam, for texts marc:preset=words"),
    ] = None,
    network: Annotated[
        str | None,
        typer.Option(
            help="What is trained: small-resnet, resnet34, small-vit; for texts transformer, bilstm.",
            show_default="small-resnet; for texts transformer",
        ),
    ] = None,
    model_factory: Annotated[
        str | None,
        typer.Option(
            "--model-factory",
            help="Your own model: a function of the number of labels. It is run, so only if you trust it.",
            metavar="PACKAGE.MODULE:FUNCTION",
        ),
    ] = None,
    r: Annotated[
        float | None, typer.Option("--r", help="How often a label stays.", show_default="as often as by chance")
    ] = None,
    accuracy: Annotated[
        float | None, typer.Option(help="Training stops above this in validation.", show_default="0.97")
    ] = None,
    inputs: Annotated[int, typer.Option(help="Planted test inputs explained with each method, at most.")] = 30,
    limit: Annotated[int, typer.Option(help="Examples used at most, evenly spread over the data.")] = 2000,
    size: Annotated[int, typer.Option(help="Pixels a side that pictures are cut to.")] = 112,
    words: Annotated[int, typer.Option(help="Words after which texts are cut.")] = 100,
    text_column: Annotated[str, typer.Option(help="The column that holds the texts.", show_default="text")] = "",
    label_column: Annotated[
        str, typer.Option(help="The column that holds the labels; there may be none.", show_default="label")
    ] = "",
    training: Annotated[
        list[str] | None,
        typer.Option("--train", help="How to train: epochs, rate, batch, least, decay, ...", metavar="NAME=VALUE"),
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same verdicts.")] = 0,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the report page, one HTML file.")] = None,
    as_json: Json = False,
    device: Device = None,
    show_list: Annotated[bool, typer.Option("--list", help="List the plants and their parameters.")] = False,
) -> None:
    """Plant a known cause in your own data, train a model that must use it, and see which methods find it.

    Labels are drawn anew, so that nothing but the plant predicts them. There is a verdict only for a model that is
    shown to rely on the plant: found, distracted or missed, for each method.

    [bold]Examples[/bold]

      rationales dry-run photos/ --out report.html

      rationales dry-run reviews.csv --text-column review --plant trigger,sentence --methods marc,integrated-gradients

      rationales dry-run photos/ --plant watermark:level=3,blur:std=8 --model-factory my_model:make --device cuda
    """
    if show_list:
        _list()
        return
    if data is None:
        raise OptionError("no data given: name a folder of pictures or a file of texts; --list shows the plants")
    if network is not None and model_factory is not None:
        raise OptionError("give --network or --model-factory, not both")
    rows = method_rows(methods) if methods else None
    planted = plant_rows(plant) if plant else None
    recipe = options(training or [], "--train") | ({} if accuracy is None else {"until": accuracy})
    check_outputs(None, out)
    prepare_libraries()
    from rationales.report.progress import progress, waiting

    with waiting("loading"):
        from rationales.groundtruth.dryrun import dry_run as run
        from rationales.groundtruth.dryrun import load_factory

        factory = None if model_factory is None else load_factory(model_factory)
    found = run(
        data,
        plants=planted,
        methods=rows,
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
        stage=progress,
    )
    for note in found.notes:
        typer.echo(f"note: {note}", err=True)
    if out is not None:
        from rationales.files import write_text

        write_text(out, found.to_html())
    if as_json:
        typer.echo(found.to_json(), nl=False)
    else:
        from rationales.report.dry_run import show

        show(found)
    if out is not None:
        typer.echo(f"wrote {out}", err=True)
    if not found.judged:
        raise typer.Exit(NO_VERDICT)


def plant_rows(given: Sequence[str]) -> list[dict[str, Any]]:
    """Plants from 'watermark:level=3,blur:std=8'; commas and colons inside of brackets do not count."""
    rows: list[dict[str, Any]] = []
    for one in (part.strip() for several in given for part in _outside(",", several)):
        if one:
            name, *settings = _outside(":", one)
            rows.append({"name": name.strip()} | options(settings, f"--plant {name}:"))
    if not rows:
        raise OptionError("no plant to try; give --plant with names from 'rationales dry-run --list'")
    return rows


def _outside(mark: str, text: str) -> list[str]:
    return re.split(rf"{mark}(?![^\[]*\])", text)


def _list() -> None:
    from dataclasses import fields

    from rationales.groundtruth.registry import PLANTS

    for kind, title in (("image", "pictures"), ("text", "texts")):
        typer.echo(f"for {title}")
        for name, one in PLANTS.items():
            if one.kind == kind:
                told = ", ".join(f"{field.name}={_written(field.default)}" for field in fields(one))
                level = "level=1 … 5, " if kind == "image" else ""
                typer.echo(f"  {name:<12} {one.summary}\n  {'':<12} {level}{told}")


def _written(value: object) -> str:
    from rationales.cli.inputs import written

    return written(list(value) if isinstance(value, tuple) else value)
