"""`rationales models`, `methods` and `metrics`: what there is."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated

import typer

from rationales.cli.app import clean_exit
from rationales.cli.inputs import written
from rationales.errors import OptionError
from rationales.options import suggestion


def add(app: typer.Typer) -> None:
    """Enter the commands."""
    for command in (models, methods, metrics):
        app.command()(command)


@clean_exit
def models() -> None:
    """List the models that have a name here, and say how to use any other.

    [bold]Example[/bold]

      rationales models
    """
    from rationales.models.default import models_available

    found = models_available()
    width = max(len(model.name) for model in found)
    for model in found:
        state = model.where if model.available else "not installed"
        typer.echo(f"{model.name:<{width}}  {model.summary}  [{state}]")
    typer.echo("\nAny Hugging Face sequence classifier works too: --model with its id or its folder.")


@clean_exit
def methods(
    name: Annotated[str | None, typer.Argument(help="Show this method's options.", show_default=False)] = None,
) -> None:
    """List the methods and what they need; with a NAME, its options.

    [bold]Examples[/bold]

      rationales methods

      rationales methods marc
    """
    from rationales.methods import methods as available

    found = {method.name: method for method in available()}
    if name is None:
        width = max(map(len, found))
        for method in found.values():
            needs = f"  (needs {', '.join(method.needs)})" if method.needs else ""
            typer.echo(f"{method.name:<{width}}  {method.summary}{needs}")
        return
    if name not in found:
        raise OptionError(f"there is no method {name!r}{suggestion(name, found)}; there are: {', '.join(found)}")
    method = found[name]
    typer.echo(f"{method.name}: {method.summary}")
    typer.echo(f"needs {', '.join(method.needs) or 'nothing but the model'}")
    for kind, names in method.presets.items():
        typer.echo(f"presets for {kind}, by --set preset=NAME: {', '.join(names)}")
    rows = [
        (f"{one.name}={written(one.default)}", " | ".join(one.choices) or one.type, one.help) for one in method.options
    ]
    typer.echo("options, by --set NAME=VALUE:" if rows else "no options")
    first, second = (max((len(row[column]) for row in rows), default=0) for column in (0, 1))
    for setting, kind, line in rows:
        typer.echo(f"  {setting:<{first}}  {kind:<{second}}  {line}")


@clean_exit
def metrics(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON list and nothing else.")] = False,
) -> None:
    """List the metrics: what each measures, which way is better, what it needs.

    [bold]Examples[/bold]

      rationales metrics

      rationales metrics --json
    """
    from rationales.evaluation.metrics import metrics as available
    from rationales.evaluation.protocols import PRESETS
    from rationales.evaluation.selection.rules import SELECTIONS

    found = available()
    if as_json:
        better = {True: "higher", False: "lower", None: None}
        told = [
            {
                "name": one.name,
                "summary": one.summary,
                "better": better[one.higher],
                "needs": list(one.needs),
                "default": one.default,
            }
            for one in found
        ]
        typer.echo(json.dumps(told, ensure_ascii=False))
        return
    width = max(len(one.name) for one in found)
    arrow = {True: "↑", False: "↓", None: " "}
    for one in found:
        needs = f"  (needs {', '.join(one.needs)})" if one.needs else ""
        star = "*" if one.default else " "
        typer.echo(f"{one.name:<{width}} {star} {arrow[one.higher]}  {one.summary}{needs}")
    typer.echo("\n* measured where nothing else is asked for; ↑ higher is better, ↓ lower is better.")
    typer.echo(
        f"Words are selected by the protocol's rule or by another, as in token-f1@sufficient: {_and(SELECTIONS)}."
    )
    typer.echo(f"Protocols: {_and(PRESETS)}. docs/metrics.md has all formulas and choices.")


def _and(names: Iterable[str]) -> str:
    return ", ".join(names)
