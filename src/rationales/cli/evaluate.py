"""`rationales evaluate`: methods evaluated side by side on any data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from rationales.cli.app import clean_exit
from rationales.cli.evaluation_options import (
    check_comparison,
    protocol_named,
    show_comparison,
    show_tables,
    with_filler,
)
from rationales.cli.inputs import listed, load_model, made_folder, method_rows, options, prompt_options
from rationales.cli.shared import (
    Cache,
    Continuations,
    Device,
    Folder,
    Json,
    Labels,
    ModelName,
    NoCache,
    Prompt,
    Shape,
    Template,
    Trust,
    methods_option,
)
from rationales.cli.streams import prepare_libraries
from rationales.errors import OptionError

if TYPE_CHECKING:
    from rationales.evaluation.tables.table import Table


@clean_exit
def evaluate(
    data: Annotated[
        str, Argument(help="A data set by name, a file of texts (CSV, TSV, JSON lines), or a folder of images.")
    ],
    methods: Annotated[list[str], methods_option()],
    protocol: Annotated[
        str | None,
        Option(
            help="The exact definition of the metrics; fields after colons change it.",
            metavar="P[:FIELD=VALUE]",
            show_default="marc; im for ways of removal",
        ),
    ] = None,
    protocols: Annotated[
        list[str] | None,
        Option(
            "--protocols",
            help="Rank the methods under several protocols or ways of removal (delete, pad, unk, mask, fill).",
            metavar="A,B,C",
        ),
    ] = None,
    filler: Annotated[
        str | None,
        Option(help="Masked language model that fills in removed words: a name, an id or a folder."),
    ] = None,
    train: Annotated[
        str | None,
        Option(
            help="roar: training data: a file, a data set, or another split of DATA (train); default: DATA is divided."
        ),
    ] = None,
    study: Annotated[
        list[str] | None,
        Option("--study", help="A setting of roar or sanity: seeds, epochs, start, runs, ...", metavar="NAME=VALUE"),
    ] = None,
    split: Annotated[str | None, Option(help="train, val or test; default: the data set's evaluation split.")] = None,
    folder: Folder = None,
    model: ModelName = None,
    labels: Labels = None,
    template: Template = None,
    continuations: Continuations = None,
    prompt: Prompt = None,
    limit: Annotated[int | None, Option(help="Use N examples, evenly spread over the data.")] = None,
    text_column: Annotated[str | None, Option(help="The column or field of the texts; default: text.")] = None,
    label_column: Annotated[str | None, Option(help="The column or field of the labels; default: label.")] = None,
    metrics: Annotated[
        list[str] | None, Option("--metrics", help="Names from 'rationales metrics'; default: those marked * there.")
    ] = None,
    selection: Annotated[
        str | None, Option(help="How words are selected: fitted, sufficient, keep-sum, share=0.2, ...")
    ] = None,
    smooth: Annotated[float | None, Option(help="Width of a Gaussian over neighbouring units, all rows.")] = None,
    shape: Shape = None,
    seed: Annotated[int, Option(help="The same seed gives the same table.")] = 0,
    out: Annotated[Path | None, Option(help="Write table.md, .csv, .json and plot.png into this folder.")] = None,
    as_json: Json = False,
    device: Device = None,
    cache: Cache = None,
    no_cache: NoCache = False,
    baseline: Annotated[
        str | None, Option(help="What methods replace a unit by: pad, mask, unk, zero, mean, or a word.")
    ] = None,
    trust_remote_code: Trust = False,
) -> None:
    """Measure methods on labelled data: faithfulness to the model and, where people marked words, agreement with them.

    A row of random scores is always there, and every number has a 95 % interval.

    [bold]Examples[/bold]

      rationales evaluate my-texts.jsonl --methods marc,occlusion

      rationales evaluate eraser-movies --folder data/ --methods marc:preset=paper,saliency --limit 20 --out results

      rationales evaluate eraser-movies --methods integrated-gradients:steps=25:smooth=6,lime --protocol eraser-code

      rationales evaluate eraser-movies --methods marc,integrated-gradients:smooth=6:shape=clauses

      rationales evaluate texts.csv --methods occlusion --protocol marc:label=predicted --metrics comprehensiveness

      rationales evaluate survey.csv --text-column answer --label-column class --methods marc,occlusion

      rationales evaluate texts.csv --methods loo-empty,input-marginalization --protocols delete,pad,unk,mask,fill

      rationales evaluate texts.csv --methods loo-empty,marc --metrics roar,sanity --train train.csv --study seeds=5

      rationales evaluate photos.tar --methods grad-cam,saliency --model efficientnet-lite0
    """
    rows = with_filler(method_rows(methods), filler)
    if cache is not None and no_cache:
        raise OptionError("give --cache or --no-cache, not both")
    of_prompt = prompt_options(labels, template, continuations, prompt)
    made_folder(out)
    prepare_libraries()
    from rationales.data import read_data
    from rationales.evaluation.entries import check_request
    from rationales.evaluation.studies import (
        STUDIES,
        check_study_methods,
        check_study_settings,
        check_training_data,
        setting_names,
        split_studies,
    )
    from rationales.report.terminal.progress import progress, waiting

    compared = [protocol_named(name) for name in listed(protocols)]
    resolved_protocol = protocol_named(protocol or ("im" if compared else "marc"))
    requested_metrics = listed(metrics) or None
    studies, other_metrics = split_studies(requested_metrics)
    study_settings = options(study or (), "--study")
    check_study_settings(studies, study_settings)
    if train is not None:
        check_training_data(studies)
    if compared:
        check_comparison(compared, resolved_protocol, requested_metrics, selection)
    check_request(rows, resolved_protocol, other_metrics or None, smooth, selection, shape=shape)
    with waiting("reading the data"):
        columns: dict[str, Any] = {"text_column": text_column, "label_column": label_column}
        examples = read_data(*(data, split, folder, limit), spread=True, **columns)
        training_examples = None
        if train is not None:
            source = (data, train, folder) if train in ("train", "val", "test") else (train, None, folder)
            training_examples = read_data(*source, **columns)
    kind = "text" if examples[0].image is None else "image"
    check_request(rows, resolved_protocol, other_metrics or None, smooth, selection, [kind], shape)
    check_study_methods(studies, rows, kind)
    with waiting("loading the model"):
        import rationales

        options_of_model = {"device": device, "baseline": baseline, "trust_remote_code": trust_remote_code}
        loaded_model = load_model(model, kind, **options_of_model, **of_prompt)
    shared_options: dict[str, Any] = {
        "smooth": smooth,
        "seed": seed,
        "cache": None if no_cache else cache or score_folder(),
        "filler": filler,
    }
    if compared:
        with progress(f"evaluating {len(rows)} methods under {len(compared)} protocols") as report:
            comparison = rationales.compare_protocols(
                *(loaded_model, examples, rows, compared),
                base=resolved_protocol,
                metrics=requested_metrics,
                progress=report,
                **shared_options,
            )
        show_comparison(comparison, out, as_json)
        return
    tables: dict[str, Table] = {}
    if other_metrics is None or other_metrics:
        with progress(f"evaluating {len(rows)} methods on {len(examples)} examples") as report:
            tables["table"] = rationales.evaluate(
                *(loaded_model, examples, rows, resolved_protocol, other_metrics),
                progress=report,
                selection=selection,
                shape=shape,
                **shared_options,
            )
    for name in studies:
        settings = {key: value for key, value in study_settings.items() if key in setting_names(name)}
        with progress(f"{name}: {len(rows)} methods on {len(examples)} examples") as report:
            tables[name] = rationales.evaluate(
                *(loaded_model, examples, rows),
                metrics=[name],
                train=training_examples if STUDIES[name].takes_training_data else None,
                study=settings,
                progress=report,
                **shared_options,
            )
    show_tables(tables, out, as_json)


def score_folder() -> Path:
    """Default folder of the cached scores."""
    from rationales.data.archives import cache_folder

    return cache_folder().parent / "scores"
