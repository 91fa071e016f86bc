"""Helpers for tests of the commands: run one, and read its error message."""

from __future__ import annotations

from typer.testing import CliRunner, Result

from rationales import cli


def run(*arguments: object, stdin: str | None = None) -> Result:
    """Run the command in this process."""
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments], input=stdin)


def error(result: Result) -> str:
    """The single line that an error prints."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    return line.removeprefix("error: ")
