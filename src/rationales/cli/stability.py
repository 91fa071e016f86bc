"""`rationales stability`: how far explanations depend on the seed, the learning rate and the baseline."""

from __future__ import annotations

from collections.abc import Sequence
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
    listed,
    load_model,
    method_rows,
    options,
    prompt_options,
)
from rationales.cli.sources import gather
from rationales.cli.streams import prepare_libraries
from rationales.errors import OptionError


@clean_exit
def stability(
    inputs: Annotated[
        list[Path] | None,
        Argument(help="Texts or images: files, folders, tables (.csv, .tsv, .jsonl), an archive of images."),
    ] = None,
    data: Annotated[
        str | None, Option(help="A data set by name, or a path, as 'rationales evaluate' reads it.", show_default=False)
    ] = None,
    folder: shared.Folder = None,
    split: Annotated[str | None, Option(help="train, val or test; default: the data set's evaluation split.")] = None,
    text_column: Annotated[str | None, Option(help="The column or field of the texts; default: text.")] = None,
    limit: Annotated[int | None, Option(min=1, help="Use N inputs, evenly spread over a data set.")] = None,
    model: shared.ModelName = None,
    methods: Annotated[
        list[str] | None,
        Option(
            "--methods",
            "--method",
            help="Names from 'rationales methods', separated by commas; options after colons.",
            metavar="A,B:NAME=VALUE",
            show_default="marc",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        Option("--set", help="An option of the method, if only one method is used.", metavar="NAME=VALUE"),
    ] = None,
    preset: Annotated[str | None, Option(help="A preset of the method, if only one method is used.")] = None,
    seeds: Annotated[list[str] | None, Option(help="Seeds, separated by commas.", show_default="0,1,2")] = None,
    learning_rates: Annotated[
        list[str] | None,
        Option(help="Learning rates, separated by commas.", show_default="half, once and twice the method's"),
    ] = None,
    baselines: Annotated[
        list[str] | None,
        Option(
            help="Baselines to try alone, separated by commas; 'none' for none.",
            show_default="those that the model could use",
        ),
    ] = None,
    labels: shared.Labels = None,
    template: shared.Template = None,
    continuations: shared.Continuations = None,
    prompt: shared.Prompt = None,
    baseline: shared.Baseline = None,
    smooth: Annotated[float | None, Option(help="Width of a Gaussian over neighbouring units, all methods.")] = None,
    shape: shared.Shape = None,
    threshold: shared.Threshold = None,
    share: shared.Share = None,
    top: shared.Top = None,
    html: Annotated[Path | None, Option(help="Write a page with heat maps and the least stable inputs.")] = None,
    save: Annotated[Path | None, Option(help="Write the figures as JSON to this file.")] = None,
    as_json: shared.Json = False,
    device: shared.Device = None,
    trust_remote_code: shared.Trust = False,
) -> None:
    """Explain the same inputs with several seeds, learning rates and single baselines: what stays the same?

    Reported are the rank correlation of the scores and the overlap (IoU) of the rationales between every two runs, the
    inputs that agree least, and for every baseline alone, per predicted label, how the result differs.

    [bold]Examples[/bold]

      rationales stability reviews.csv --limit 20 --html stability.html

      rationales stability photos/ --seeds 0,1 --learning-rates 0.1,0.2,0.4 --html stability.html

      rationales stability --data eraser-movies --limit 50 --device cuda --html stability.html

      rationales stability a.txt b.txt --methods marc:preset=words,lime --baselines none
    """
    rows = _rows(methods, settings or [], preset)
    seed_numbers = [_number(text, int, "--seeds") for text in listed(seeds)]
    rates = [_number(text, float, "--learning-rates") for text in listed(learning_rates)]
    baseline_names, of_prompt = listed(baselines), prompt_options(labels, template, continuations, prompt)
    check_rule(threshold, share, top)
    check_outputs(inputs or None, html, save)
    if (data is None) == (not inputs):
        raise OptionError("give files or folders, or --data with the name of a data set; one of the two")
    prepare_libraries()
    from rationales.evaluation.entries import resolve_entries
    from rationales.report.terminal.progress import progress, waiting

    with waiting("reading the inputs"):
        kind, raw_inputs, names = _read(inputs or [], data, split, folder, limit, text_column)
    resolve_entries(rows, smooth, kind, shape)  # reports unknown names and options before a model is loaded
    with waiting("loading the model"):
        import rationales

        load_options = {"device": device, "baseline": baseline, "trust_remote_code": trust_remote_code}
        loaded_model = load_model(model, kind, **load_options, **of_prompt)
        check_kind(loaded_model, kind)
    requested: dict[str, Any] = {"seeds": seed_numbers} if seed_numbers else {}
    if rates:
        requested["learning_rates"] = rates
    if baseline_names:
        requested["baselines"] = [] if baseline_names == ["none"] else baseline_names
    with progress(f"explaining {len(raw_inputs)} inputs again and again") as report:
        result = rationales.stability(
            loaded_model,
            raw_inputs,
            rows,
            smooth=smooth,
            shape=shape,
            threshold=threshold,
            share=share,
            top=top,
            names=names,
            progress=report,
            **requested,
        )
    if html is not None:
        result.to_html(html)
    if save is not None:
        result.save(save)
    if as_json:
        typer.echo(result.to_json())
    else:
        from rationales.report.stability import show

        show(result)
    for path in filter(None, (html, save)):
        typer.echo(f"wrote {path}", err=True)


def _rows(methods: Sequence[str] | None, settings: Sequence[str], preset: str | None) -> list[dict[str, Any]]:
    """The methods with their options; --set and --preset belong to one method."""
    rows = method_rows(methods or ["marc"])
    common = options(settings) | ({} if preset is None else {"preset": preset})
    if common and len(rows) > 1:
        raise OptionError("--set and --preset go with one method; write options behind its name: marc:steps=50")
    if common:
        rows[0]["options"] = rows[0]["options"] | common
    return rows


def _read(
    paths: Sequence[Path],
    data: str | None,
    split: str | None,
    folder: Path | None,
    limit: int | None,
    text_column: str | None,
) -> tuple[str, list[Any], list[str]]:
    """The kind of the inputs, the inputs and their names."""
    from rationales.data.archives import is_archive
    from rationales.data.image_folders import SUFFIXES

    if data is None and len(paths) == 1 and paths[0].is_file() and is_archive(paths[0]):
        data, paths = str(paths[0]), []
    if data is not None:
        from rationales.data import read_data

        examples = read_data(data, split, folder, limit, spread=True, text_column=text_column)
        kind = "text" if examples[0].image is None else "image"
        return kind, [example.raw_input() for example in examples], [example.name for example in examples]
    if split is not None or folder is not None:
        raise OptionError("--split and --folder go with --data")
    images = [path for path in paths if path.suffix.lower() in SUFFIXES]
    texts = [path for path in paths if path not in images]
    sources = gather([], texts, images, [], None, text_column, limit)
    titles = sources.titles if sources.several else [sources.names[0] or "input 1"]
    return sources.kind, sources.inputs[:limit], titles[:limit]


def _number(text: str, convert: type[int] | type[float], flag: str) -> Any:
    try:
        return convert(text)
    except ValueError:
        raise OptionError(f"{flag} takes numbers separated by commas, not {text!r}") from None
