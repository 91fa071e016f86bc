"""The command without its commands. Heavy things are imported inside these, so that --help answers at once."""

from __future__ import annotations

import functools
import gc
import sys
from collections.abc import Callable
from typing import Annotated, ParamSpec

import typer
from typer import Option

from rationales.cli.streams import FULL_OUTPUT, discard_output, prepare_streams
from rationales.errors import RationalesError
from rationales.version import __version__

P = ParamSpec("P")

app = typer.Typer(
    name="rationales",
    help="Shows why a classifier decided as it did: the few connected spans of a text that made it so.",
    epilog="Try:  rationales explain 'The acting is fine, but the plot is a mess.'",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="rich",
)


def main() -> None:
    """The entry point; leaves with 0, with 1 where its output cannot be written, with 2 after a mistake in what was
    asked for, with 130 after Ctrl-C."""
    try:
        try:
            app(prog_name="rationales")
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
            gc.freeze()  # the interpreter ends without searching torch and the model for garbage
    except OSError as error:
        if error.errno not in FULL_OUTPUT:
            raise
        discard_output()
        typer.echo(f"error: cannot write to standard output: {error.strerror}", err=True)
        sys.exit(1)


def clean_exit(command: Callable[P, None]) -> Callable[P, None]:
    """One line on stderr and an exit code in place of a traceback, for what is not a bug."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        prepare_streams()
        try:
            command(*args, **kwargs)
        except RationalesError as error:
            typer.echo(f"error: {' '.join(str(error).split())}", err=True)
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            typer.echo("interrupted", err=True)
            raise typer.Exit(130) from None

    return run


def _version(requested: bool) -> None:
    if requested:
        typer.echo(f"rationales {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[bool, Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    if context.invoked_subcommand is None and not version:
        typer.echo(context.get_help())
