"""`rationales study`: make a page for a human study, collect answers, and report them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Argument, Option

from rationales.cli import shared
from rationales.cli.app import clean_exit
from rationales.cli.inputs import check_kind, check_outputs, check_rule, load_model, method_rows, prompt_options
from rationales.cli.sources import gather
from rationales.cli.streams import import_torch, prepare_libraries
from rationales.errors import InputError, OptionError

if TYPE_CHECKING:
    from rationales.study.results import StudyResults

study_app = typer.Typer(
    name="study",
    help="Make a page on which people compare two blinded explanations or mark words, and report the results.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


def key_path(page: Path) -> Path:
    """Where the key of a page is: study.html -> study.key.json."""
    return page.with_suffix(".key.json")


@study_app.command("make")
@clean_exit
def make(
    inputs: Annotated[
        list[Path], Argument(help="Texts or images: files, folders, tables (.csv, .tsv, .jsonl).", metavar="INPUT...")
    ],
    out: Annotated[
        Path, Option("--out", "-o", help="File of the page; its key is written beside it as NAME.key.json.")
    ],
    task: Annotated[Literal["compare", "mark"], Option(help="Compare two explanations, or mark words.")] = "compare",
    methods: Annotated[list[str] | None, shared.methods_option("marc,occlusion")] = None,
    model: shared.ModelName = None,
    labels: shared.Labels = None,
    template: shared.Template = None,
    continuations: shared.Continuations = None,
    prompt: shared.Prompt = None,
    limit: Annotated[int | None, Option(min=1, help="Only the first N inputs.")] = None,
    text_column: Annotated[str | None, Option(help="The column of a table that holds the texts.")] = None,
    title: Annotated[str, Option(help="The heading of the page.")] = "",
    seed: Annotated[int, Option(help="Seed of the order of the explanations and of the methods.")] = 0,
    threshold: shared.Threshold = None,
    share: shared.Share = None,
    top: shared.Top = None,
    device: shared.Device = None,
    trust_remote_code: shared.Trust = False,
) -> None:
    """Write the page of a study, and its key.

    The page does not tell which method an explanation is from: keep the key to yourself. With --share or --top both
    explanations have the same size. People open the page and send back a file, or 'rationales study serve' collects it.

    [bold]Examples[/bold]

      rationales study make reviews.csv --methods marc,lime --share 0.2 --limit 20 --out study.html

      rationales study make reviews.csv --task mark --limit 20 --out marking.html
    """
    check_rule(threshold, share, top)
    key_file = key_path(out)
    of_prompt = prompt_options(labels, template, continuations, prompt)
    check_outputs(inputs, out, key_file)
    rows = method_rows(methods or ["marc,occlusion"])
    is_image = any(path.is_dir() for path in inputs) or all(
        path.suffix.lower() in (".jpg", ".jpeg", ".png", ".webp") for path in inputs
    )
    files, images = ([], inputs) if is_image else (inputs, [])
    sources = gather([], files, images, [], None, text_column, limit)
    if sources.kind != "text" and task == "mark":
        raise OptionError("words are marked in texts; images can be compared (--task compare)")
    prepare_libraries()
    from rationales.report.terminal.progress import progress, waiting

    with waiting("loading the model"):
        import_torch()
        import rationales
        from rationales.evaluation.entries import resolve_entries
        from rationales.files import write_text
        from rationales.study.page import study_page
        from rationales.study.trials import make_study

        loaded = load_model(model, sources.kind, device=device, trust_remote_code=trust_remote_code, **of_prompt)
        check_kind(loaded, sources.kind)
        entries = resolve_entries(rows, None, loaded.kind)[: len(rows)]
    explained: dict[str, Any] = {}
    rule: dict[str, Any] = {"threshold": threshold, "share": share, "top": top}
    names = [name or f"input {number}" for number, name in enumerate(sources.names, 1)]
    for entry in entries:
        settings: dict[str, Any] = {"method": entry.method, "smooth": entry.smooth, "shape": entry.shape, "seed": seed}
        with progress(f"explaining {len(sources.inputs):,} inputs with {entry.title}") as report:
            explained[entry.title] = rationales.explain(
                loaded, sources.inputs, names=names, progress=report, **settings, **rule
            )
    study = make_study(explained, task, title=title, seed=seed)
    write_text(key_file, json.dumps(study.key(), ensure_ascii=False, indent=1, allow_nan=False) + "\n")
    write_text(out, study_page(study))
    if study.identical:
        typer.echo(f"note: left out, since both explanations mark the same: {study.identical}", err=True)
    typer.echo(f"wrote {out} with {len(study.trials)} questions, and its key {key_file}", err=True)


@study_app.command("serve")
@clean_exit
def serve(
    page: Annotated[Path, Argument(help="The page that 'rationales study make' wrote.")],
    answers: Annotated[Path, Option(help="File to which answers are appended as JSON lines.")],
    key: Annotated[Path | None, Option(help="The key of the study.", show_default="NAME.key.json")] = None,
    host: Annotated[str, Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8765,
) -> None:
    """Serve the page of a study and collect the answers, until Ctrl-C.

    Answers are checked and appended; nothing else can be read or written. The server has no encryption and no
    passwords: it is for this machine or a network that you trust.
    """
    from rationales.study.server import StudyServer
    from rationales.study.trials import read_key

    if answers.is_dir() or not answers.parent.is_dir():
        raise InputError(f"cannot write {answers}: give a file in a folder that exists")
    try:
        server = StudyServer((host, port), page, read_key(key or key_path(page)), answers)
    except OSError as error:
        raise OptionError(f"cannot listen at {host}:{port}: {error.strerror}; give another --host or --port") from None
    with server:
        typer.echo(f"the study is at http://{host}:{server.server_port}/ ; Ctrl-C ends it", err=True)
        server.serve_forever()


@study_app.command("report")
@clean_exit
def report(
    answers: Annotated[list[Path], Argument(help="Files of answers, JSON lines.", metavar="ANSWERS...")],
    key: Annotated[Path, Option(help="The key that 'rationales study make' wrote.")],
    as_json: shared.Json = False,
) -> None:
    """Report what people preferred or marked, how far they agree, and how long they took, with 95 % intervals."""
    from rationales.study.answers import read_answers
    from rationales.study.results import study_results
    from rationales.study.trials import read_key

    content = read_key(key)
    results = study_results(content, read_answers(answers, content))
    if as_json:
        typer.echo(json.dumps(results.to_dict(), ensure_ascii=False, allow_nan=False))
        return
    typer.echo("\n".join(_lines(results)))


def _lines(results: StudyResults) -> list[str]:
    people = "1 person" if results.people == 1 else f"{results.people} people"
    lines = [f"{results.answers} answers by {people} to {results.trials} questions"]
    lines += [
        f"  {preference.first} preferred to {preference.second}: {_interval(preference.share)}, "
        f"p {_plain(preference.p)} ({preference.wins} for, {preference.losses} against, {preference.ties} the same)"
        for preference in results.preferences
    ]
    for row in results.agreements:
        precision = "" if math.isnan(row.average_precision.mean) else f", mAP {_interval(row.average_precision)}"
        name = "people with each other" if row.method == "people" else f"{row.method} with people"
        lines.append(f"  {name}: F1 {_interval(row.f1)}{precision}")
    lines.append(f"  agreement between people (Krippendorff's alpha): {_plain(results.alpha)}")
    lines.append(f"  seconds a question: {_interval(results.seconds, 1)}, median {results.median_seconds:.1f}")
    return lines


def _plain(value: float, digits: int = 3) -> str:
    return "not defined" if math.isnan(value) else f"{value:.{digits}f}"


def _interval(estimate: Any, digits: int = 3) -> str:
    if math.isnan(estimate.low):
        return _plain(estimate.mean, digits)
    return f"{estimate.mean:.{digits}f} [{estimate.low:.{digits}f} {estimate.high:.{digits}f}]"
