"""`rationales reproduce`: a published table, made again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from rationales.cli.app import clean_exit
from rationales.cli.evaluate import score_folder
from rationales.cli.evaluation_options import write_table
from rationales.cli.inputs import listed, made_folder
from rationales.cli.shared import Cache, Device, NoCache
from rationales.cli.streams import prepare_libraries
from rationales.errors import OptionError

if TYPE_CHECKING:
    from rationales.experiments.registry import ExperimentReport


@clean_exit
def reproduce(
    table: Annotated[str | None, Argument(help="The table's name; --list shows all.", show_default=False)] = None,
    show: Annotated[bool, Option("--list", help="List the tables, or the rows of experiment.")] = False,
    limit: Annotated[
        int | None, Option(help="Use N inputs, evenly spread; at most N inputs to choose settings on, too.")
    ] = None,
    data: Annotated[Path | None, Option(help="Folder or archive of the data set.")] = None,
    model: Annotated[
        str | None, Option("--model", "-m", help="A model other than the table's, by id, folder or name.")
    ] = None,
    device: Device = None,
    out: Annotated[
        Path | None, Option(help="Write table.md, .csv, .json and plot.png into this folder, after every row.")
    ] = None,
    rows: Annotated[
        list[str] | None, Option("--rows", help="Only these rows or groups of rows, separated by commas.")
    ] = None,
    validation: Annotated[
        int | None, Option(help="Inputs on which settings, or baselines (gt-fig…), are chosen.")
    ] = None,
    passes: Annotated[
        int | None,
        Option(
            help="Budget of forward passes per segment and row (marc-table1): rows that need more are "
            "reduced, which the table says. 0: the paper's settings, the default (40 for a --limit up to 5 on a CPU)."
        ),
    ] = None,
    seed: Annotated[int, Option(help="The same seed gives the same table.")] = 0,
    as_json: Annotated[bool, Option("--json", help="Print the table as one JSON object, nothing else.")] = False,
    cache: Cache = None,
    no_cache: NoCache = False,
    tf32: Annotated[
        bool, Option("--tf32", help="Faster, slightly coarser products on an NVIDIA card, or a CPU with bfloat16.")
    ] = False,
    runs: Annotated[
        int | None,
        Option(
            help="Number of models trained for each setting (gt-…, im-table2, im-appendix), or of random models "
            "(im-sanity)."
        ),
    ] = None,
    jobs: Annotated[int | None, Option(help="Runs at once, each in its own process (gt-…).")] = None,
    filler: Annotated[
        str | None, Option(help="Masked language model of the im-… tables, by name, id or folder.")
    ] = None,
    samples: Annotated[
        int | None, Option(help="Perturbed texts of LIME (im-table3, im-appendix); default: 1000.")
    ] = None,
    train_texts: Annotated[
        int | None, Option(help="Training texts of ROAR (im-table2, im-appendix); default: 5000.")
    ] = None,
    minutes: Annotated[
        float | None,
        Option(
            help="Start no row (marc-table1) or run (gt-…) after this many minutes; the report has the finished ones."
        ),
    ] = None,
) -> None:
    """Make a published table again, with a chance row, intervals, tests, and a verdict on each of the paper's claims.

    Rows are computed from cheap to expensive, and after each the remaining time is printed. Start an interrupted
    command again to continue where it stopped.

    [bold]Examples[/bold]

      rationales reproduce --list

      rationales reproduce marc-table1 --data data/ --out results --device cuda

      rationales reproduce marc-table1 --limit 20 --rows random,marc,saliency-norm --model embedded

      rationales reproduce gt-fig5 --data data/ --out results --device cuda --runs 5
    """
    from rationales.experiments.registry import EXPERIMENTS, Request

    if table is None and not show:
        raise OptionError(f"name a table: {', '.join(EXPERIMENTS)}; --list says more")
    if table is not None and table not in EXPERIMENTS:
        raise OptionError(f"there is no table {table!r}; there are: {', '.join(EXPERIMENTS)}")
    if show:
        _list(table)
        return
    if cache is not None and no_cache:
        raise OptionError("give --cache or --no-cache, not both")
    experiment = EXPERIMENTS[table or ""]
    counts = {"limit": limit, "validation": validation, "runs": runs, "jobs": jobs}
    counts |= {"samples": samples, "train_texts": train_texts}
    for name, value in counts.items():
        if value is not None and value < 1:
            raise OptionError(f"--{name.replace('_', '-')} must be at least 1, not {value}")
    if passes is not None and passes < 0:
        raise OptionError(f"--passes must be 0 (the paper's settings) or more, not {passes}")
    if minutes is not None and minutes <= 0:
        raise OptionError(f"--minutes must be greater than 0, not {minutes:g}")
    request = Request(
        data=data,
        model=model,
        device=device,
        limit=limit,
        validation=validation,
        passes=passes,
        rows=listed(rows) or None,
        seed=seed,
        cache=None if no_cache else cache or score_folder(),
        out=out,
        tf32=tf32,
        runs=runs,
        jobs=jobs,
        filler=filler,
        samples=samples,
        train_texts=train_texts,
        minutes=minutes,
        log=lambda line: typer.echo(line, err=True),
    )
    experiment.check(request)
    made_folder(out)
    prepare_libraries()
    from rationales.report.terminal.progress import progress

    with progress(f"reproducing {table}") as report:
        outcome = experiment.run(replace(request, progress=report))
    if out is not None:
        write_table(outcome.table, out, outcome.to_markdown(), outcome.printed_metrics)
        for number, (_, further, reference) in enumerate(outcome.further_tables, start=2):
            write_table(further, out, further.to_markdown(reference), name=f"table{number}")
        _draw(outcome, out)
    if as_json:
        typer.echo(outcome.table.to_json(), nl=False)
    else:
        _show(outcome)


def _draw(outcome: ExperimentReport, out: Path) -> None:
    """The experiment's own figures; what cannot be drawn is told."""
    if outcome.draw_figures is None:
        return
    try:
        for path in outcome.draw_figures(out):
            typer.echo(f"wrote {path}", err=True)
    except OptionError as error:
        typer.echo(f"no figures: {error}", err=True)


def _list(table: str | None) -> None:
    from rationales.experiments.registry import EXPERIMENTS

    for experiment in EXPERIMENTS.values():
        if table in (None, experiment.name):
            typer.echo(f"{experiment.name}: {experiment.title}\n  from {experiment.paper}\n  needs {experiment.needs}")
            typer.echo(f"  rows and groups for --rows: {', '.join(experiment.rows())}")


def _show(outcome: ExperimentReport) -> None:
    """On a terminal the table is drawn; into a pipe the whole report goes as Markdown."""
    from rich.console import Console
    from rich.markdown import Markdown

    from rationales.report.terminal.metric_table import show_table

    console = Console()
    if not console.is_terminal:
        typer.echo(outcome.to_markdown(), nl=False)
        return
    show_table(replace(outcome.table, metrics=outcome.printed_metrics), outcome.reference, console)
    for title, further, reference in outcome.further_tables:
        console.print(Markdown(f"## {title}"))
        show_table(further, reference, console)
    for title, text in outcome.sections:
        console.print(Markdown(f"## {title}\n\n{text}"))
