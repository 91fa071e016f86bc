"""The command `rationales`. Heavy things are imported inside the commands, so that --help answers at once."""

from __future__ import annotations

import functools
import io
import json
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, ParamSpec

import typer

from rationales.errors import InputError, OptionError, RationalesError
from rationales.files import decode, read_text
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
    """The entry point; leaves with 0, with 2 after a mistake in what was asked for, with 130 after Ctrl-C."""
    app(prog_name="rationales")


def _clean_exit(command: Callable[P, None]) -> Callable[P, None]:
    """One line on stderr and an exit code in place of a traceback, for what is not a bug."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        _prepare_streams()
        try:
            command(*args, **kwargs)
        except RationalesError as error:
            typer.echo(f"error: {' '.join(str(error).split())}", err=True)
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            typer.echo("interrupted", err=True)
            raise typer.Exit(130) from None

    return run


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rationales {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None and not version:
        typer.echo(context.get_help())


@app.command()
@_clean_exit
def explain(
    text: Annotated[
        str | None, typer.Argument(help="The text; '-' or nothing reads standard input.", show_default=False)
    ] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="Read the text from a UTF-8 file.")] = None,
    image: Annotated[
        Path | None, typer.Option("--image", "-i", help="Explain a picture instead of a text.", show_default=False)
    ] = None,
    pair: Annotated[
        str | None, typer.Option(help="The second text, for models of text pairs (premise and hypothesis).")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", help="A Hugging Face id, a folder, or a name from 'rationales models'."),
    ] = None,
    method: Annotated[str, typer.Option(help="A name from 'rationales methods'.")] = "marc",
    target: Annotated[
        str | None, typer.Option("--target", "-t", help="The label to explain, by name or number; else the predicted.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same result.")] = 0,
    unit: Annotated[
        Literal["word", "token", "sentence"], typer.Option(help="What is kept or replaced as one.")
    ] = "word",
    baseline: Annotated[
        str | None, typer.Option(help="What a replaced unit becomes: pad, mask, unk, zero, mean, or a word.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="An option of the method, as name=value; may be repeated.", metavar="NAME=VALUE"),
    ] = None,
    smooth: Annotated[float | None, typer.Option(help="Width of a Gaussian over neighbouring units.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page to share, with a threshold slider.")] = None,
    png: Annotated[Path | None, typer.Option(help="Write a picture's rationale side by side as PNG.")] = None,
    save: Annotated[Path | None, typer.Option(help="Write the result as JSON, for Rationale.load.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, mps.")] = None,
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Run code that a model brings along; only if you trust it.")
    ] = False,
) -> None:
    """Show which words of a text, or which regions of a picture, made a model decide.

    Without --model the sentiment model inside the package is used; nothing is downloaded.

    [bold]Examples[/bold]

      rationales explain "Not a good film, whatever the posters say."

      rationales explain --file review.txt --html why.html

      cat review.txt | rationales explain --json > why.json

      rationales explain "A man sleeps." --pair "He is awake." --model ./nli

      rationales explain --file review.txt --set steps=200 --target positive

      rationales explain --image cat.jpg --html why.html --png why.png
    """
    _check_outputs(file or image, html, png, save)
    options = _options(settings or [])
    source = _source(text, file, image, pair)
    if png is not None and image is None:
        raise OptionError("--png is for pictures; a text is shown by --html")
    silence_libraries()
    from rationales.report.progress import progress, waiting

    with waiting("loading the model"):
        import rationales
        from rationales.models.default import IMAGE_MODEL

        wanted = model or (IMAGE_MODEL if image is not None else None)
        explained = rationales.load(
            wanted, device=device, unit=unit, baseline=baseline, trust_remote_code=trust_remote_code
        )
        if (image is not None) != (explained.kind == "image"):
            what = "pictures, so give --image" if image is None else "texts, not pictures; give another --model"
            raise OptionError(f"{explained.name} is a model of {what}")
    with progress(f"explaining with {method}") as report:
        rationale = rationales.explain(
            explained,
            source,
            method=method,
            target=_target(target, explained.labels),
            seed=seed,
            options=options,
            smooth=smooth,
            names=next((path.name for path in (file, image) if path is not None), None),
            progress=report,
        )
    if save is not None:
        rationale.save(save)
    if html is not None:
        rationale.to_html(html)
    if png is not None:
        rationale.to_png(png)
    if as_json:
        typer.echo(rationale.to_json())
        for note in rationale.notes:
            typer.echo(f"warning: {note.message}", err=True)
    else:
        from rationales.report.terminal import show

        show(rationale)
        for path in filter(None, (save, html, png)):
            typer.echo(f"wrote {path}", err=True)


@app.command()
@_clean_exit
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


@app.command()
@_clean_exit
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
        raise OptionError(f"there is no method {name!r}; there are: {', '.join(found)}")
    method = found[name]
    typer.echo(f"{method.name}: {method.summary}")
    typer.echo(f"needs {', '.join(method.needs) or 'nothing but the model'}")
    for kind, names in method.presets.items():
        typer.echo(f"presets for {kind}, by --set preset=NAME: {', '.join(names)}")
    rows = [
        (f"{one.name}={_value(one.default)}", " | ".join(one.choices) or one.type, one.help) for one in method.options
    ]
    typer.echo("options, by --set NAME=VALUE:" if rows else "no options")
    first, second = (max((len(row[column]) for row in rows), default=0) for column in (0, 1))
    for setting, kind, line in rows:
        typer.echo(f"  {setting:<{first}}  {kind:<{second}}  {line}")


def _check_outputs(source: Path | None, *outputs: Path | None) -> None:
    """Fail before the work, not after it."""
    seen = {} if source is None else {source.resolve(): "the text would be overwritten"}
    for path in filter(None, outputs):
        if path.is_dir():
            raise InputError(f"cannot write {path}: it is a folder; give a file name")
        if not path.parent.is_dir():
            raise InputError(f"cannot write {path}: the folder {path.parent} does not exist")
        if not os.access(path.parent, os.W_OK):
            raise InputError(f"cannot write {path}: no permission to write in {path.parent}")
        if path.resolve() in seen:
            raise InputError(f"cannot write {path}: {seen[path.resolve()]}; give another name")
        seen[path.resolve()] = "the other output goes there too"


def _source(text: str | None, file: Path | None, image: Path | None, pair: str | None) -> str | tuple[str, str]:
    """What to explain: the path of a picture, a text, or two texts."""
    if image is not None:
        if text is not None or file is not None or pair is not None:
            raise OptionError("give a picture or a text, not both")
        return str(image)
    found = _text(text, file)
    return found if pair is None else (found, _utf8(pair, "--pair"))


def _text(text: str | None, file: Path | None) -> str:
    """The text from where it was asked for: the argument, a file, or standard input."""
    if text is not None and file is not None:
        raise OptionError("give a text or --file, not both")
    if file is not None:
        return read_text(file)
    if text is not None and text != "-":
        return _utf8(text, "the text")
    if text is None and sys.stdin.isatty():
        raise OptionError("no text given: write it after 'explain', give --file, or pipe it in")
    return decode(sys.stdin.buffer.read(), "standard input")


def _utf8(argument: str, name: str) -> str:
    """An argument as it is, unless the shell handed over bytes that are not UTF-8."""
    if any("\ud800" <= character <= "\udfff" for character in argument):
        raise InputError(f"{name} is not UTF-8; check the terminal's encoding")
    return argument


def _options(settings: list[str]) -> dict[str, Any]:
    """name=value pairs; a value is JSON where it can be read as such, else a string."""
    options: dict[str, Any] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name.strip():
            raise OptionError(f"--set takes name=value, not {setting!r}")
        try:
            options[name.strip()] = json.loads(value)
        except json.JSONDecodeError:
            options[name.strip()] = value
    return options


def _value(value: object) -> str:
    """A value as --set takes it."""
    return value if isinstance(value, str) else json.dumps(value)


def _target(given: str | None, labels: tuple[str, ...]) -> str | int | None:
    """A label's name, or its number when no label is called so."""
    if given is None or given in labels:
        return given
    return int(given) if given.isascii() and given.isdigit() else given


def _prepare_streams() -> None:
    """Output is UTF-8 wherever it goes, and no character of a text can stop it."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and not stream.isatty():
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def silence_libraries() -> None:
    """What the libraries below say to programmers does not help the user of a command."""
    for name in ("HF_HUB_DISABLE_PROGRESS_BARS", "TRANSFORMERS_NO_ADVISORY_WARNINGS"):
        os.environ.setdefault(name, "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_VERBOSITY", "error")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
