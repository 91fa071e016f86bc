"""`rationales check`: fails when a model's rationales are no longer those of a record."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Argument, Option

from rationales.cli import shared
from rationales.cli.app import clean_exit
from rationales.cli.inputs import prompt_options
from rationales.cli.streams import import_torch, prepare_libraries
from rationales.errors import OptionError

if TYPE_CHECKING:
    from rationales.evaluation.drift import Drift

DRIFTED = 1  # exit code


@clean_exit
def check(
    record: Annotated[Path, Argument(help="Rationales as JSON lines, from 'rationales explain --json'.")],
    model: Annotated[
        str | None,
        Option("--model", "-m", help="The model to check.", show_default="the recorded one"),
    ] = None,
    min_rank: Annotated[float, Option(help="Smallest accepted mean rank correlation with the recorded scores.")] = 0.7,
    min_overlap: Annotated[
        float, Option(help="Smallest accepted mean overlap (IoU) with the recorded rationales.")
    ] = 0.5,
    max_flips: Annotated[float, Option(help="Largest accepted share of texts whose predicted label changed.")] = 0.0,
    update: Annotated[
        bool, Option("--update", help="Write the new rationales into the record and exit with code 0.")
    ] = False,
    output: Annotated[
        Literal["text", "json", "github"],
        Option("--format", help="text, one JSON object, or annotations of GitHub Actions."),
    ] = "text",
    labels: shared.Labels = None,
    template: shared.Template = None,
    continuations: shared.Continuations = None,
    prompt: shared.Prompt = None,
    device: shared.Device = None,
    trust_remote_code: shared.Trust = False,
) -> None:
    """Explain the texts of a record again, with the same settings, and fail where the rationales have drifted.

    Exit codes: 0 as recorded, 1 drifted, 2 a mistake in what was asked for. In GitHub Actions the summary of the job
    gets a table.

    [bold]Examples[/bold]

      rationales explain --file reviews.csv --json > record.jsonl

      rationales check record.jsonl

      rationales check record.jsonl --model ./fine-tuned --min-overlap 0.6 --max-flips 0.05 --format github
    """
    if not record.is_file():
        raise OptionError(f"there is no record {record}; write it by 'rationales explain --file texts.csv --json'")
    of_prompt = prompt_options(labels, template, continuations, prompt)
    prepare_libraries()
    from rationales.report.terminal.progress import progress, waiting

    with waiting("loading the model"):
        import_torch()
        import rationales
        from rationales.evaluation.drift import (
            DriftLimits,
            compare_with_record,
            read_record,
            repeat_record,
            write_record,
        )

        limits = DriftLimits(min_rank, min_overlap, max_flips)
        recorded = read_record(record)
        options: dict[str, Any] = {"unit": recorded[0].unit, "baseline": recorded[0].baseline, "device": device}
        loaded = rationales.load(
            model or recorded[0].model, **options, **of_prompt, trust_remote_code=trust_remote_code
        )
    with progress(f"explaining {len(recorded):,} texts again") as report:
        repeated = repeat_record(loaded, recorded, report)
    drift = compare_with_record(recorded, repeated, limits)
    if update:
        from rationales.files import write_text

        write_text(record, write_record(repeated))
    typer.echo(_printed(drift, output, record))
    _write_summary(drift, record)
    if drift.failures and not update:
        raise typer.Exit(DRIFTED)


def _printed(drift: Drift, output: str, record: Path) -> str:
    if output == "json":
        return json.dumps(drift.to_dict(), ensure_ascii=False, allow_nan=False)
    lines = _lines(drift)
    if output == "github":
        annotations = [f"::error title=Rationales drifted,file={_escaped(str(record), True)}::{_escaped(failure)}"
                       for failure in drift.failures]  # fmt: skip
        return "\n".join([*lines, *annotations])
    return "\n".join(lines)


def _lines(drift: Drift) -> list[str]:
    verdict = "drifted" if drift.failures else "as recorded"
    lines = [
        f"{verdict}: {len(drift.texts):,} texts, {drift.model} against the record of {drift.recorded_model}",
        f"  rank correlation  {_interval(drift.rank)}  at least {drift.limits.rank:g}",
        f"  overlap (IoU)     {_interval(drift.overlap)}  at least {drift.limits.overlap:g}",
        f"  changed labels    {drift.flips:.1%}  at most {drift.limits.flips:.1%}",
    ]
    lines += [f"  {failure}" for failure in drift.failures]
    if drift.worst:
        lines.append("  changed most:")
        lines += [
            f"    {' '.join(text.name.split())[:60]}: overlap {text.overlap:.2f}, rank correlation {text.rank:.2f}"
            + (f", {text.recorded_label} became {text.label}" if text.flipped else "")
            for text in drift.worst
        ]
    return lines


def _write_summary(drift: Drift, record: Path) -> None:
    """A table for the summary of a job of GitHub Actions, where there is one."""
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        return
    rows = [
        ("rank correlation", f"{drift.rank.mean:.3f}", f"≥ {drift.limits.rank:g}"),
        ("overlap (IoU)", f"{drift.overlap.mean:.3f}", f"≥ {drift.limits.overlap:g}"),
        ("changed labels", f"{drift.flips:.1%}", f"≤ {drift.limits.flips:.1%}"),
    ]
    table = "".join(f"| {name} | {value} | {limit} |\n" for name, value, limit in rows)
    verdict = "drifted" if drift.failures else "as recorded"
    heading = f"### Rationales {verdict}: {len(drift.texts):,} texts of `{record.name.replace('`', '')}`"
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(f"{heading}\n\n| | mean | limit |\n| --- | --- | --- |\n{table}\n")


def _escaped(text: str, in_property: bool = False) -> str:
    """A text inside an annotation, in which line ends, %, and in properties : and comma, have a meaning."""
    for character, code in (("%", "%25"), ("\r", "%0D"), ("\n", "%0A")):
        text = text.replace(character, code)
    return text.replace(":", "%3A").replace(",", "%2C") if in_property else text


def _interval(estimate: object) -> str:
    mean, low, high = (getattr(estimate, name) for name in ("mean", "low", "high"))
    return f"{mean:.3f} [{low:.3f} {high:.3f}]"
