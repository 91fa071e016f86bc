"""`rationales run`, `show` and `report`: explain a corpus into a folder, and look at what is in it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Argument, Option

from rationales.cli import shared
from rationales.cli.app import clean_exit
from rationales.cli.inputs import check_outputs, method_rows, options, prompt_options
from rationales.cli.streams import import_torch, prepare_libraries

if TYPE_CHECKING:
    from rationales.corpus import CorpusResults, Progress

SOME_FAILED = 3  # exit code of a run that is complete, but has records in errors.jsonl
MAX_POSITIONS = 10  # of records with the same id that are named
LINE_SECONDS = 10.0  # between two lines of progress where stderr is not a terminal


@clean_exit
def run(
    inputs: Annotated[
        list[str],
        Argument(
            metavar="INPUT...",
            help="Files (CSV, TSV, JSON lines, Parquet, Arrow), folders of texts or images, globs, or - for stdin.",
        ),
    ],
    out: Annotated[
        Path, Option("--out", "-o", help="Folder for the results; the same command resumes an interrupted run.")
    ],
    methods: Annotated[list[str] | None, shared.methods_option("marc")] = None,
    settings: Annotated[
        list[str] | None,
        Option("--set", help="An option, for all methods that have it; may be repeated.", metavar="NAME=VALUE"),
    ] = None,
    model: shared.ModelName = None,
    target: shared.Target = None,
    seed: Annotated[int, Option(help="The same seed gives the same results.")] = 0,
    labels: shared.Labels = None,
    template: shared.Template = None,
    continuations: shared.Continuations = None,
    prompt: shared.Prompt = None,
    unit: shared.Unit = "word",
    baseline: shared.Baseline = None,
    smooth: Annotated[float | None, Option(help="Width of a Gaussian over neighbouring units.")] = None,
    shape: shared.Shape = None,
    text_column: Annotated[str, Option(help="The column that holds the texts.")] = "text",
    id_column: Annotated[
        str | None, Option(help="The column that holds the ids.", show_default="id or name, else the position")
    ] = None,
    input_format: Annotated[
        Literal["csv", "tsv", "jsonl", "parquet", "arrow", "lines"] | None,
        Option("--format", help="Format of the input, if its name does not tell; lines: one text per line."),
    ] = None,
    encoding: Annotated[str, Option(help="Encoding of texts and tables: utf-8, utf-16, cp1252, ...")] = "utf-8",
    delimiter: Annotated[
        str | None, Option(help="Character between the columns of a table.", show_default="a comma; in .tsv a tab")
    ] = None,
    where: Annotated[
        list[str] | None, Option(help="Only rows with this value, column=value or column!=value; may be repeated.")
    ] = None,
    sample: Annotated[float | None, Option(help="A random share of the records, from 0 to 1.")] = None,
    limit: Annotated[int | None, Option(min=1, help="Only the first N records.")] = None,
    min_words: Annotated[int | None, Option(min=1, help="Skip shorter texts.")] = None,
    max_words: Annotated[int | None, Option(min=1, help="Skip longer texts.")] = None,
    engine: Annotated[Literal["local", "ray"], Option(help="Run on this machine or on a Ray cluster.")] = "local",
    address: Annotated[
        str | None,
        Option(
            help="Address of the Ray cluster: HOST:PORT or auto.", show_default="RAY_ADDRESS, else a local instance"
        ),
    ] = None,
    gpus_per_worker: Annotated[float, Option(help="On Ray with --device cuda; 0.25: four workers share a GPU.")] = 1.0,
    workers: Annotated[int, Option(min=1, help="Processes; each loads the model once.")] = 1,
    threads: Annotated[int, Option(min=1, help="Threads of each process on a CPU.")] = 1,
    shard_size: Annotated[int, Option(min=1, help="Records that are stored together.")] = 512,
    restart: Annotated[bool, Option("--restart", help="Remove earlier results in the folder first.")] = False,
    retry_failed: Annotated[
        bool, Option("--retry-failed", help="Explain shards again in which memory, the model or a worker failed.")
    ] = False,
    log: Annotated[
        Path | None, Option(help="Append events to this file, as JSON lines: start, each shard, end.")
    ] = None,
    as_json: Annotated[bool, Option("--json", help="Print the summary as one JSON object and nothing else.")] = False,
    device: Annotated[str | None, Option(help="cpu, cuda, mps; several for several workers: cuda:0,cuda:1.")] = None,
    trust_remote_code: shared.Trust = False,
) -> None:
    """Explain a whole corpus into Parquet files; a run that was stopped goes on with the same command.

    Records that cannot be explained go to errors.jsonl in the folder; the exit code is then 3.

    [bold]Examples[/bold]

      rationales run reviews.csv --out results --methods marc-instant

      rationales run 'texts/*.jsonl' --out results --methods marc,occlusion --set steps=50 --workers 4

      rationales run photos/ --out results --methods grad-cam --limit 100

      rationales show results 17

      rationales report results
    """
    rows = method_rows(methods or ["marc"])
    option_values = options(settings or [])
    of_prompt = prompt_options(labels, template, continuations, prompt)
    check_outputs(None, log)
    prepare_libraries()
    from rationales.report.terminal.progress import waiting

    with waiting("loading"):
        import_torch()
        from rationales import corpus
        from rationales.corpus.memory import bound_memory, freeze_objects
    bound_memory()
    freeze_objects()
    with resumable(), progress_lines() as report:
        summary = corpus.run(
            inputs,
            out,
            model=model,
            methods=rows,
            options=option_values,
            smooth=smooth,
            shape=shape,
            seed=seed,
            target=target,
            text_column=text_column,
            id_column=id_column,
            input_format=input_format,
            encoding=encoding,
            delimiter=delimiter,
            where=where or [],
            sample=sample,
            limit=limit,
            min_words=min_words,
            max_words=max_words,
            unit=unit,
            baseline=baseline,
            device=device,
            trust_remote_code=trust_remote_code,
            prompt=of_prompt,
            engine=engine,
            address=address,
            gpus_per_worker=gpus_per_worker,
            workers=workers,
            threads=threads,
            shard_size=shard_size,
            restart=restart,
            retry_failed=retry_failed,
            log=log,
            on_progress=report,
        )
    if as_json:
        typer.echo(json.dumps(summary.to_dict(), ensure_ascii=False))
    else:
        typer.echo(_summary_text(summary))
    if summary.failed:
        raise typer.Exit(SOME_FAILED)


def _summary_text(summary: Any) -> str:
    counts = f"{summary.records:,} records: {summary.explained:,} explained, {summary.failed:,} failed"
    lines = [f"{counts}, {summary.skipped:,} skipped"]
    if summary.failed:
        reasons = ", ".join(f"{number:,} {reason}" for reason, number in summary.reasons.items())
        lines.append(f"failed: {reasons}; see {summary.folder / 'errors.jsonl'}")
    if summary.shards_now:
        per_second = [f"{summary.records_per_second:,.1f} records", f"{summary.units_per_second:,.0f} scores"]
        per_second += [f"{summary.tokens_per_second:,.0f} tokens"] if summary.tokens else []
        speed = f"{', '.join(per_second[:-1])} and {per_second[-1]} a second"
        lines.append(f"{summary.shards_now} of {_shards(summary.shards)} in {_clock(summary.seconds)}, {speed}")
    else:
        lines.append(f"{_shards(summary.shards)} finished before; nothing was to be done")
    verb = "wrote" if summary.shards_now else "results in"
    lines.append(f"{verb} {summary.folder} ({_size(summary.bytes)}, {summary.rows:,} rows)")
    return "\n".join(lines)


def _shards(count: int) -> str:
    return f"{count:,} {'shard' if count == 1 else 'shards'}"


def _size(count: int) -> str:
    return f"{count / 1e6:,.1f} MB" if count >= 1e6 else f"{count / 1e3:,.1f} KB"


@contextmanager
def resumable() -> Iterator[None]:
    """Say on Ctrl-C how the run goes on."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("interrupted; finished shards are stored, and the same command goes on from there", err=True)
        raise typer.Exit(130) from None


@contextmanager
def progress_lines() -> Iterator[Callable[[Progress], None]]:
    """A bar with the time that remains on a terminal; elsewhere a line now and then, on stderr."""
    from rationales.report.terminal.progress import progress

    last_line = -LINE_SECONDS
    with progress("explaining") as bar:

        def report(state: Progress) -> None:
            nonlocal last_line
            if bar is not None:
                bar(state.share)
            elif (state.share >= 1 and not state.open_records) or time.monotonic() - last_line >= LINE_SECONDS:
                last_line = time.monotonic()
                typer.echo(_progress_text(state), err=True)

        yield report


def _progress_text(state: Progress) -> str:
    records = state.totals["records"] + state.open_records
    share = f" ({state.share:.0%})" if state.share else ""
    remaining = state.remaining_seconds
    estimate = f", {_clock(remaining)} to go" if remaining else ""
    failed = f", {state.totals['failed']:,} failed" if state.totals["failed"] else ""
    return f"{records:,} records{share}, {state.records_per_second:,.1f} a second{estimate}{failed}"


def _clock(seconds: float) -> str:
    minutes, rest_seconds = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest_seconds:02}"


@clean_exit
def show(
    folder: Annotated[Path, Argument(help="Folder of a corpus run.")],
    identifier: Annotated[str, Argument(metavar="ID", help="The id of a record, or #N for the record at position N.")],
    method: Annotated[str | None, Option(help="The method, if the run has several.")] = None,
    html: Annotated[Path | None, Option(help="Write a page with a threshold slider.")] = None,
    as_json: shared.Json = False,
) -> None:
    """Show the rationale of one record of a corpus run.

    [bold]Examples[/bold]

      rationales show results 17

      rationales show results '#0' --html why.html
    """
    check_outputs(None, html)
    from rationales.corpus.results import open_results
    from rationales.errors import OptionError
    from rationales.report.html.page import page
    from rationales.report.terminal.show import show as show_rationale

    results = open_results(folder)
    _warn_of_equal_ids(results, identifier)
    if method is not None and method not in results.methods:
        raise OptionError(f"{folder} has no method {method!r}; it has: {', '.join(results.methods)}")
    titles = results.methods
    pairs = [pair for pair in zip(titles, results.record(identifier), strict=True) if method in (None, pair[0])]
    if html is not None:
        page([rationale for _, rationale in pairs], html)
    if as_json:
        objects = [rationale.to_dict() for _, rationale in pairs]
        typer.echo(json.dumps(objects[0] if len(objects) == 1 else {"results": objects}, ensure_ascii=False))
        return
    for number, (title, rationale) in enumerate(pairs):
        if len(pairs) > 1:
            typer.echo(f"{'' if not number else chr(10)}── {title} " + "─" * 40)
        show_rationale(rationale)
    if html is not None:
        typer.echo(f"wrote {html}", err=True)


def _warn_of_equal_ids(results: CorpusResults, identifier: str) -> None:
    positions = [f"'#{position}'" for position in results.positions(identifier)]
    if len(positions) > 1:
        further = ", ".join(positions[1:MAX_POSITIONS]) + (", …" if len(positions) > MAX_POSITIONS else "")
        typer.echo(
            f"note: {len(positions):,} records have the id {identifier}; this is {positions[0]}, others are {further}",
            err=True,
        )


@clean_exit
def report(
    folder: Annotated[Path, Argument(help="Folder of a corpus run.")],
    out: Annotated[
        Path | None, Option("--out", "-o", help="Folder for the pages.", show_default="report in the folder")
    ] = None,
) -> None:
    """Write a summary page of a corpus run, with pages of the records that it lists.

    It shows distributions, the most and least certain records, rationales that do not suffice, the words that matter
    across the corpus and by label, and words that look spurious.

    [bold]Example[/bold]

      rationales report results
    """
    from rationales.corpus.results import open_results
    from rationales.corpus.summary.page import write_report
    from rationales.report.terminal.progress import waiting

    with waiting("reading the results"):
        written = write_report(open_results(folder), out)
    typer.echo(f"wrote {written}", err=True)
