"""`rationales compare`: several methods on one input, or on several images."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from rationales.cli import shared
from rationales.cli.app import clean_exit
from rationales.cli.inputs import (
    check_kind,
    check_outputs,
    check_rule,
    load_model,
    method_rows,
    prompt_options,
    text_unit,
)
from rationales.cli.inputs import target as find_target
from rationales.cli.sources import gather
from rationales.cli.streams import import_torch, prepare_libraries
from rationales.errors import OptionError

DEFAULT_METHODS = {"image": "marc,grad-cam"}  # by kind of input; else marc,occlusion
Extents = list[tuple[int, int]]


def _spans(raw_input: str | tuple[str, str], marks: list[str]) -> tuple[Extents, Extents]:
    """Where the marked passages stand, in the text and in its pair; an error for one that stands in neither."""
    texts = (raw_input, "") if isinstance(raw_input, str) else raw_input
    spans: tuple[Extents, Extents] = ([], [])
    for passage in marks:
        positions = [(side, text.find(passage)) for side, text in enumerate(texts)] if passage else []
        side, start = next(((side, start) for side, start in positions if start >= 0), (0, -1))
        if start < 0:
            raise OptionError(f"--mark {passage!r} does not stand in the text")
        spans[side].append((start, start + len(passage)))
    return spans


@clean_exit
def compare(
    text: Annotated[
        list[str] | None,
        Argument(
            help="The text; '-' or nothing reads standard input. With --image: further images, or the image's text."
        ),
    ] = None,
    methods: Annotated[list[str] | None, shared.methods_option("marc,occlusion; for an image marc,grad-cam")] = None,
    file: shared.File = None,
    image: Annotated[
        list[Path] | None,
        Option("--image", "-i", help="An image, several, or a folder of them, instead of a text.", show_default=False),
    ] = None,
    pair: Annotated[str | None, Option(help="The second text, for models of text pairs.")] = None,
    model: shared.ModelName = None,
    target: shared.Target = None,
    against: shared.Against = None,
    seed: Annotated[int, Option(help="The same seed gives the same result.")] = 0,
    labels: shared.Labels = None,
    template: shared.Template = None,
    continuations: shared.Continuations = None,
    prompt: shared.Prompt = None,
    unit: shared.UnitOfText = None,
    baseline: shared.Baseline = None,
    smooth: Annotated[float | None, Option(help="Width of a Gaussian over neighbouring units, all methods.")] = None,
    shape: shared.Shape = None,
    snap: shared.Snap = True,
    threshold: shared.Threshold = None,
    share: shared.Share = None,
    top: shared.Top = None,
    marks: Annotated[
        list[str] | None,
        Option(
            "--mark",
            help="A passage that people marked, exactly as in the text; shown in a column of its own. May be repeated.",
        ),
    ] = None,
    limit: Annotated[int | None, Option(min=1, help="Compare only the first N images.")] = None,
    html: Annotated[
        Path | None, Option(help="Write one page with a column per method and, for several images, a row per image.")
    ] = None,
    png: Annotated[Path | None, Option(help="Write a grid of images and methods as one PNG.")] = None,
    as_json: shared.Json = False,
    device: shared.Device = None,
    trust_remote_code: shared.Trust = False,
) -> None:
    """Explain one input, or several images, with several methods side by side, and say how far they agree.

    [bold]Examples[/bold]

      rationales compare "Not a good film, whatever the posters say." --methods marc,occlusion,random

      rationales compare --file review.txt --methods marc,integrated-gradients:steps=25:smooth=6 --html compare.html

      rationales compare --file review.txt --methods marc,occlusion,integrated-gradients --shape clauses

      rationales compare --file review.txt --methods loo-empty,input-marginalization --mark "not worth the money"

      rationales compare --image cat.jpg --methods marc,grad-cam,occlusion:window=48 --html compare.html

      rationales compare --image cat.jpg dog.jpg --methods marc,grad-cam,occlusion --png grid.png

      rationales compare "there is a red circle" --image shapes.png --model shapes-match --methods marc,occlusion
    """
    files, images = [file] if file is not None else [], image or []
    check_outputs([*files, *images], html, png)
    if png is not None and not images:
        raise OptionError("--png is for images; texts are compared by --html")
    check_rule(threshold, share, top)
    rows = method_rows(methods) if methods else []
    sources = gather(text or [], files, images, [], pair, None, limit, command="compare")
    kind = sources.kind
    rows = rows or method_rows([DEFAULT_METHODS.get(kind, "marc,occlusion")])
    if sources.several and kind == "text":
        raise OptionError("compare takes one text; for a table of texts there is 'rationales evaluate'")
    if marks and kind != "text":
        raise OptionError("--mark is for texts alone")
    if png is not None and kind == "image-text":
        raise OptionError("--png draws images alone; an image with its text is compared by --html")
    spans = _spans(sources.inputs[0], marks) if marks else None
    text_units, of_prompt = text_unit(unit, kind), prompt_options(labels, template, continuations, prompt)
    prepare_libraries()
    from rationales.report.terminal.progress import progress, waiting

    with waiting("loading the model"):
        import_torch()
        from rationales.evaluation.entries import resolve_entries

        resolve_entries(rows, smooth, kind, shape)  # reports unknown names and options before anything is loaded
        if len(rows) < 2:
            raise OptionError("compare takes at least two methods; for one there is 'rationales explain'")
        import rationales

        load_options = {"device": device, "unit": text_units, "baseline": baseline} | of_prompt
        explained = load_model(model, kind, **load_options, trust_remote_code=trust_remote_code)
        check_kind(explained, kind)
    count = f"{len(sources.inputs):,} images " if sources.several else ""
    with progress(f"explaining {count}with {len(rows)} methods") as report:
        compared: Any = rationales.compare(
            explained,
            sources.raw_inputs,
            rows,
            smooth=smooth,
            shape=shape,
            marks=None if spans is None else spans[0],
            pair_marks=() if spans is None else spans[1],
            target=find_target(target, explained.labels),
            against=find_target(against, explained.labels),
            seed=seed,
            snap=snap,
            threshold=threshold,
            share=share,
            top=top,
            curve=html is not None or png is not None or kind != "image",
            names=sources.titles,
            progress=report,
        )
    comparisons = compared if sources.several else [compared]
    if html is not None and sources.several:
        rationales.picture_grid(comparisons, html)
    elif html is not None:
        compared.to_html(html)
    if png is not None:
        rationales.picture_grid(comparisons, png)
    if as_json:
        for comparison in comparisons:
            typer.echo(json.dumps(comparison.to_dict(), ensure_ascii=False, allow_nan=False))
        return
    from rationales.report.terminal.comparison import show_comparison

    for comparison in comparisons:
        show_comparison(comparison.rationales, comparison.titles, not_applicable=comparison.not_applicable)
    for path in filter(None, (html, png)):
        typer.echo(f"wrote {path}", err=True)
