"""`rationales explain`: why a model predicts a class."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from rationales.cli.app import clean_exit
from rationales.cli.inputs import check_kind, check_outputs, check_rule, load_model, options, prompt_options, text_unit
from rationales.cli.inputs import target as find_target
from rationales.cli.shared import (
    Against,
    Continuations,
    Device,
    Labels,
    ModelName,
    Prompt,
    Shape,
    Share,
    Snap,
    Target,
    Template,
    Threshold,
    Top,
    Trust,
    UnitOfText,
)
from rationales.cli.sources import gather
from rationales.cli.streams import import_torch, prepare_libraries
from rationales.errors import OptionError


@clean_exit
def explain(
    text: Annotated[
        list[str] | None, Argument(help="The text; '-' or nothing reads standard input. After --file: further files.")
    ] = None,
    file: Annotated[
        list[Path] | None,
        Option(
            "--file",
            "-f",
            help="Read a UTF-8 text file; or explain a table (.csv, .tsv, .jsonl) or a folder. May be repeated.",
        ),
    ] = None,
    image: Annotated[
        list[Path] | None,
        Option("--image", "-i", help="Explain an image, or a folder of them; may be repeated.", show_default=False),
    ] = None,
    audio: Annotated[
        list[Path] | None,
        Option("--audio", "-a", help="Explain a sound (a WAV file); may be repeated.", show_default=False),
    ] = None,
    pair: Annotated[
        str | None, Option(help="The second text, for models of text pairs (premise and hypothesis).")
    ] = None,
    model: ModelName = None,
    method: Annotated[str, Option(help="A name from 'rationales methods'.")] = "marc",
    target: Target = None,
    against: Against = None,
    seed: Annotated[int, Option(help="The same seed gives the same result.")] = 0,
    labels: Labels = None,
    template: Template = None,
    continuations: Continuations = None,
    prompt: Prompt = None,
    unit: UnitOfText = None,
    baseline: Annotated[
        str | None,
        Option(
            help="What a replaced unit becomes: pad, mask, unk, zero, mean or a word; for images black, white, mean, "
            "noise, blur-N or a file, several with commas; for an image with a text both ('mask; black'); for sounds "
            "silence, noise, blur-N."
        ),
    ] = None,
    fit: Annotated[
        str | None,
        Option(
            help="How an image is fitted into the model: crop, pad or squash; default: as the model preprocesses it."
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        Option("--set", help="An option of the method, as name=value; may be repeated.", metavar="NAME=VALUE"),
    ] = None,
    smooth: Annotated[float | None, Option(help="Width of a Gaussian over neighbouring units.")] = None,
    shape: Shape = None,
    snap: Snap = True,
    threshold: Threshold = None,
    share: Share = None,
    top: Top = None,
    text_column: Annotated[
        str | None, Option(help="The column of a table that holds the texts.", show_default="text")
    ] = None,
    limit: Annotated[int | None, Option(min=1, help="Explain only the first N inputs.")] = None,
    candidates: Annotated[
        int | None,
        Option(
            min=1,
            help="For one text: the N words that a masked language model expects in the place of each word, and the "
            "model's answer with each, and without the word; --set filler=F chooses the masked language model.",
        ),
    ] = None,
    html: Annotated[
        Path | None, Option(help="Write a self-contained page with a threshold slider; for many inputs, with an index.")
    ] = None,
    png: Annotated[Path | None, Option(help="Write an image's rationale side by side as PNG.")] = None,
    figure: Annotated[
        list[Path] | None,
        Option(help="Write a text's rationale as a figure (.svg, .pdf or .tex); may be repeated."),
    ] = None,
    save: Annotated[Path | None, Option(help="Write the result as JSON, for Rationale.load.")] = None,
    as_json: Annotated[
        bool, Option("--json", help="Print one JSON object, or one per line for many inputs, and nothing else.")
    ] = False,
    device: Device = None,
    trust_remote_code: Trust = False,
) -> None:
    """Show which words of a text, which regions of an image, or which seconds of a sound made a model decide.

    Without --model the sentiment model inside the package is used; nothing is downloaded.

    [bold]Examples[/bold]

      rationales explain "Not a good film, whatever the posters say."

      rationales explain --file review.txt --html why.html

      cat review.txt | rationales explain --json > why.json

      rationales explain "A man sleeps." --pair "He is awake." --model ./nli

      rationales explain --file review.txt --set steps=200 --target positive

      rationales explain --file review.txt --method integrated-gradients --shape clauses

      rationales explain "A good stepping stone." --method input-marginalization --candidates 3

      rationales explain --image cat.jpg --target tabby --against "Egyptian cat"

      rationales explain --file a.txt b.txt --html why.html

      rationales explain --file reviews.csv --text-column review --limit 50 --html why.html

      rationales explain --image cat.jpg --html why.html --png why.png

      rationales explain "a red circle above a blue square" --image shapes.png --model ./match --png why.png

      rationales explain --audio voice.wav --model silero-vad

      rationales explain --file review.txt --model smollm2 --labels positive,negative --template prompt.txt

      rationales explain "I have two kittens. My pets are" --model smollm2 --continuations cats,dogs
    """
    files, images, sounds = file or [], image or [], audio or []
    figures = figure or []
    check_outputs([*files, *images, *sounds], html, png, save, *figures)
    check_rule(threshold, share, top)
    chosen = options(settings or [])
    sources = gather(text or [], files, images, sounds, pair, text_column, limit)
    if sources.several and (save is not None or png is not None or figures):
        raise OptionError("--save, --png and --figure are for one input; of several, --json prints one object a line")
    for path in figures:
        if path.suffix.lower() not in (".svg", ".pdf", ".tex"):
            raise OptionError(f"--figure writes .svg, .pdf or .tex, not {path.name}")
    if figures and sources.kind != "text":
        raise OptionError("--figure is for texts; an image or a sound is drawn by --png")
    if png is not None and sources.kind == "text":
        raise OptionError("--png is for images and sounds; a text is shown by --html")
    if candidates is not None and (sources.several or sources.kind != "text" or as_json):
        raise OptionError("--candidates is for one text, in the terminal and on the page; leave --json out")
    text_units, of_prompt = text_unit(unit, sources.kind), prompt_options(labels, template, continuations, prompt)
    prepare_libraries()
    from rationales.report.terminal.progress import progress, waiting

    with waiting("loading the model"):
        import_torch()
        import rationales
        from rationales.methods import build
        from rationales.pipeline.scoring import check_shape

        build(method, dict(chosen), sources.kind)  # reports unknown names and options before a model is loaded
        check_shape(shape, sources.kind)
        load_options = {"device": device, "unit": text_units, "baseline": baseline, "fit": fit}
        explained = load_model(model, sources.kind, **load_options, **of_prompt, trust_remote_code=trust_remote_code)
        check_kind(explained, sources.kind)
    count = f"{len(sources.inputs):,} inputs " if sources.several else ""
    with progress(f"explaining {count}with {method}") as report:
        results: Any = rationales.explain(
            explained,
            sources.raw_inputs,
            method=method,
            target=find_target(target, explained.labels),
            against=find_target(against, explained.labels),
            seed=seed,
            options=chosen,
            smooth=smooth,
            shape=shape,
            snap=snap,
            threshold=threshold,
            share=share,
            top=top,
            curve=html is not None and sources.kind != "image-text",
            names=sources.titles,
            progress=report,
        )
    rationale_list = results if sources.several else [results]
    proposals = None
    if candidates is not None:
        from rationales.pipeline.word_candidates import word_candidates

        filler = dict(chosen).get("filler", "")
        proposals = word_candidates(explained, sources.raw_inputs, filler, target=results.target, count=candidates)
    if save is not None:
        rationale_list[0].save(save)
    if html is not None:
        rationales.page(rationale_list, html, ending="" if proposals is None else _candidates_html(proposals))
    if png is not None:
        rationale_list[0].to_png(png)
    for path in figures:
        write = {".svg": "to_svg", ".pdf": "to_pdf", ".tex": "to_latex"}[path.suffix.lower()]
        getattr(rationale_list[0], write)(path)
    if as_json:
        _print_json(rationale_list)
        return
    _print_shown(rationale_list, brief=html is not None)
    if proposals is not None:
        from rationales.report.terminal.candidates import show_candidates

        typer.echo()
        show_candidates(proposals)
    for path in filter(None, (save, html, png, *figures)):
        typer.echo(f"wrote {path}", err=True)


def _candidates_html(proposals: Any) -> str:
    from rationales.report.html.candidates import candidates_section

    return candidates_section(proposals)


def _print_json(rationales: list[Any]) -> None:
    """One object a line; notes go to the other stream, with the input's name where there are several."""
    for rationale in rationales:
        typer.echo(rationale.to_json())
        name = f"{rationale.name}: " if len(rationales) > 1 else ""
        for note in rationale.notes:
            typer.echo(f"{'note' if note.level == 'warning' else 'info'}: {name}{note.message}", err=True)


def _print_shown(rationales: list[Any], *, brief: bool) -> None:
    """Each in full; several that a page shows in full have a line each."""
    if len(rationales) > 1 and brief:
        from rationales.report.terminal.overview import show_overview

        show_overview(rationales)
        return
    from rationales.report.terminal.show import show

    for number, rationale in enumerate(rationales):
        if number:
            typer.echo("\n" + "─" * 72 + "\n")
        show(rationale)
