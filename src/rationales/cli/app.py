"""The command line's root. Subcommands import heavy modules when they run, so that --help is fast."""

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
    help="Shows which parts of a text, an image or a sound led a classifier to its decision.",
    epilog="Try:  rationales explain 'The acting is fine, but the plot is a mess.'",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="rich",
)


def main() -> None:
    """Entry point. Exit codes: 0, 1 if the output cannot be written, 2 after a user's mistake, 130 after Ctrl-C."""
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
    """Decorator: report a user's mistake or Ctrl-C in one line on stderr with an exit code, without a traceback."""

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
