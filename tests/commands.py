"""Helpers for tests of the commands: run one, and read its error message."""

from __future__ import annotations

from typer.testing import CliRunner, Result

from rationales import cli


def run(*arguments: object) -> Result:
    """Run the command in this process."""
    return CliRunner().invoke(cli.app, list(map(str, arguments)))


def error(result: Result) -> str:
    """The single line that an error prints."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    return line.removeprefix("error: ")
