"""The course of every experiment: choose rows, make the runs that are missing, report on all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rationales.errors import OptionError
from rationales.evaluation.tables.table import Table
from rationales.experiments.claims import PaperClaim, claims_markdown
from rationales.experiments.ground_truth.method_rows import MARC, MethodSpec
from rationales.experiments.ground_truth.reporting import run_tables
from rationales.experiments.ground_truth.reporting.run_tables import ExperimentRuns
from rationales.experiments.ground_truth.row_choices import Dimension, choose_rows
from rationales.experiments.ground_truth.runs import parallel
from rationales.experiments.ground_truth.runs.run_record import RunFolder, RunRecord
from rationales.experiments.ground_truth.runs.run_spec import VALIDATION_INPUTS, RunSettings, RunSpec
from rationales.experiments.registry import ExperimentReport, Request
from rationales.files import write_text

ChosenRows = Mapping[str, tuple[str, ...]]  # dimension -> members
Sections = list[tuple[str, str]]  # title and Markdown
INTERIM_SECONDS = 60.0  # time between two interim reports
DEFAULT_RUNS = 5


@dataclass(frozen=True, eq=False)
class GroundTruthExperiment:
    """What is specific to one figure or table of the paper."""

    name: str
    title: str
    dimensions: tuple[Dimension, ...]
    specs: Mapping[str, MethodSpec]
    run: parallel.RunFunction
    unfinished: Callable[[RunSpec, RunSettings, RunRecord | None], bool]
    run_specs: Callable[[ChosenRows, int], list[RunSpec]]  # chosen rows, number of runs
    table: Callable[[ExperimentRuns], tuple[Table, tuple[str, ...]]]  # the table, and the metrics that are printed
    claims: Callable[[ExperimentRuns], list[PaperClaim]]
    sections: Callable[[ExperimentRuns], Sections]  # further sections, after the claims
    draw: Callable[[ExperimentRuns, Path], list[Path]]
    limit: int  # default number of test inputs that are explained in a run
    selected_shares: Callable[[ChosenRows], tuple[float, ...]] = lambda _: ()
    run_options: Mapping[str, Any] = field(default_factory=dict)  # further fields of `RunSettings`
    first_seed: int = 0  # the seed that `--seed 0` stands for
    claims_title: str = "The paper's claims"

    def row_names(self) -> list[str]:
        """The names that `--rows` accepts."""
        return [name for dimension in self.dimensions for name in dimension.names]


def reproduce(experiment: GroundTruthExperiment, request: Request) -> ExperimentReport:
    """Make the runs that are missing, one file each, and report on all of them."""
    began = time.perf_counter()
    chosen_rows = choose_rows(experiment.dimensions, request.rows)
    settings = RunSettings(
        experiment=experiment.name,
        methods=chosen_rows["methods"],
        limit=request.limit or experiment.limit,
        seed=experiment.first_seed + request.seed,
        validation=request.validation or VALIDATION_INPUTS,
        data=request.data,
        device=request.device,
        selected_shares=experiment.selected_shares(chosen_rows),
        **experiment.run_options,
    )
    run_count, jobs = request.runs or DEFAULT_RUNS, request.jobs or 1
    for name, value in (("runs", run_count), ("jobs", jobs)):
        if value < 1:
            raise OptionError(f"--{name} must be at least 1, not {value}")
    specs = experiment.run_specs(chosen_rows, run_count)
    folder = RunFolder(request.out)
    records = {spec: record for spec in specs if (record := folder.get(spec)) is not None}
    missing = [spec for spec in specs if experiment.unfinished(spec, settings, records.get(spec))]
    log = request.log or (lambda _: None)
    log(f"{len(specs)} runs, {len(missing)} of them still to be made")

    def report() -> ExperimentReport:
        existing = tuple(records[spec] for spec in specs if spec in records)
        runs = ExperimentRuns(existing, settings, chosen_rows, experiment.specs)
        return build_report(experiment, runs, time.perf_counter() - began)

    written = time.perf_counter()
    tasks = [(spec, records.pop(spec, None)) for spec in missing]

    def time_is_over() -> bool:
        return request.minutes is not None and time.perf_counter() - began > 60 * request.minutes

    completed = parallel.completed_runs(experiment.run, settings, tasks, jobs, time_is_over)
    for done, record in enumerate(completed, 1):
        folder.put(record)
        records[record.spec] = RunRecord.from_dict(record.to_dict())  # rounded, as it will be read from its file
        log(progress_line(record, len(specs) - len(missing) + done, len(specs)))
        if request.progress is not None:
            request.progress(done / len(missing))
        if request.out is not None and time.perf_counter() - written > INTERIM_SECONDS and done < len(missing):
            write_text(request.out / "table.md", report().to_markdown())
            written = time.perf_counter()
    left = sum(spec not in records for spec in missing)
    if left:
        log(f"{request.minutes:g} minutes are over; {left} runs are still to be made")
    return report()


def build_report(experiment: GroundTruthExperiment, runs: ExperimentRuns, seconds: float) -> ExperimentReport:
    """The report on these runs; `seconds`: duration of this call."""
    table, printed_metrics = experiment.table(runs)
    sections = [
        (experiment.claims_title, claims_markdown(experiment.claims(runs))),
        *experiment.sections(runs),
        ("Runs", run_tables.runs_markdown(runs)),
        ("Time", run_tables.times_markdown(runs, seconds)),
    ]
    return ExperimentReport(
        table,
        runs.method_title(MARC) if MARC in runs.methods else None,
        printed_metrics,
        tuple((title, text) for title, text in sections if text),
        experiment.title,
        draw_figures=lambda folder: experiment.draw(runs, folder),
    )


def progress_line(record: RunRecord, done: int, total: int) -> str:
    """The line that is logged for a finished run."""
    if record.failed:
        return f"[{done}/{total}] {record.spec.title}: failed; {record.failed} ({record.seconds:.1f} s)"
    attempt, explaining = record.last_attempt, run_tables.explaining_seconds(record)
    return (
        f"[{done}/{total}] {record.spec.title}: accuracy {attempt.accuracy:.1%} after {attempt.epochs} epochs "
        f"({attempt.seconds:.1f} s, training {len(record.attempts)}), {len(record.measures)} methods on "
        f"{len(record.input_names)} inputs in {explaining:.1f} s, {record.seconds:.1f} s in all"
    )
