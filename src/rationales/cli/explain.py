"""`rationales explain`: why a model decided as it did."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rationales.cli.app import clean_exit
from rationales.cli.inputs import check_kind, check_method, check_outputs, options, source, text_unit
from rationales.cli.inputs import target as find_target
from rationales.cli.shared import Device, File, Json, ModelName, Target, Text, Trust, UnitOfText
from rationales.cli.streams import prepare_libraries
from rationales.errors import OptionError


def add(app: typer.Typer) -> None:
    """Enter the command."""
    app.command()(explain)


@clean_exit
def explain(
    text: Text = None,
    file: File = None,
    image: Annotated[
        Path | None, typer.Option("--image", "-i", help="Explain a picture instead of a text.", show_default=False)
    ] = None,
    audio: Annotated[
        Path | None, typer.Option("--audio", "-a", help="Explain a sound (a WAV file) instead.", show_default=False)
    ] = None,
    pair: Annotated[
        str | None, typer.Option(help="The second text, for models of text pairs (premise and hypothesis).")
    ] = None,
    model: ModelName = None,
    method: Annotated[str, typer.Option(help="A name from 'rationales methods'.")] = "marc",
    target: Target = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same result.")] = 0,
    unit: UnitOfText = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            help="What a replaced unit becomes: pad, mask, unk, zero, mean or a word; for pictures black, white, mean, "
            "noise, blur-N or a file, several with commas; for sounds silence, noise, blur-N."
        ),
    ] = None,
    fit: Annotated[
        str | None,
        typer.Option(help="How a picture goes into the model: crop, pad, squash; else as the model does it."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="An option of the method, as name=value; may be repeated.", metavar="NAME=VALUE"),
    ] = None,
    smooth: Annotated[float | None, typer.Option(help="Width of a Gaussian over neighbouring units.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page to share, with a threshold slider.")] = None,
    png: Annotated[Path | None, typer.Option(help="Write a picture's rationale side by side as PNG.")] = None,
    save: Annotated[Path | None, typer.Option(help="Write the result as JSON, for Rationale.load.")] = None,
    as_json: Json = False,
    device: Device = None,
    trust_remote_code: Trust = False,
) -> None:
    """Show which words of a text, which regions of a picture, or which seconds of a sound made a model decide.

    Without --model the sentiment model inside the package is used; nothing is downloaded.

    [bold]Examples[/bold]

      rationales explain "Not a good film, whatever the posters say."

      rationales explain --file review.txt --html why.html

      cat review.txt | rationales explain --json > why.json

      rationales explain "A man sleeps." --pair "He is awake." --model ./nli

      rationales explain --file review.txt --set steps=200 --target positive

      rationales explain --image cat.jpg --html why.html --png why.png

      rationales explain --audio voice.wav --model silero-vad
    """
    check_outputs(file or image or audio, html, png, save)
    chosen = options(settings or [])
    given = source(text, file, image, audio, pair)
    if png is not None and image is None and audio is None:
        raise OptionError("--png is for pictures and sounds; a text is shown by --html")
    kind = "image" if image is not None else "audio" if audio is not None else "text"
    text_units = text_unit(unit, kind)
    prepare_libraries()
    from rationales.report.progress import progress, waiting

    with waiting("loading the model"):
        check_method(method, chosen, kind)
        import rationales
        from rationales.models.default import AUDIO_MODEL, IMAGE_MODEL

        wanted = model or (IMAGE_MODEL if image is not None else AUDIO_MODEL if audio is not None else None)
        explained = rationales.load(
            wanted, device=device, unit=text_units, baseline=baseline, fit=fit, trust_remote_code=trust_remote_code
        )
        check_kind(explained, kind)
    with progress(f"explaining with {method}") as report:
        rationale = rationales.explain(
            explained,
            given,
            method=method,
            target=find_target(target, explained.labels),
            seed=seed,
            options=chosen,
            smooth=smooth,
            names=next((path.name for path in (file, image, audio) if path is not None), None),
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
            typer.echo(f"note: {note.message}", err=True)
    else:
        from rationales.report.terminal import show

        show(rationale)
        for path in filter(None, (save, html, png)):
            typer.echo(f"wrote {path}", err=True)
