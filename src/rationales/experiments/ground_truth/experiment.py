"""How every experiment goes: what is asked for, the runs that are still to be made, and the report on all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rationales.errors import OptionError
from rationales.evaluation.table import Table
from rationales.experiments.ground_truth.method_rows import Dimension, MethodSpec, choose
from rationales.experiments.ground_truth.reporting.run_tables import Results, reference, run_list, time_list
from rationales.experiments.ground_truth.runs import parallel as pool
from rationales.experiments.ground_truth.runs.run_record import Record, Store
from rationales.experiments.ground_truth.runs.run_spec import Plan, Setting
from rationales.experiments.registry import Outcome, Request
from rationales.files import write_text

Chosen = Mapping[str, tuple[str, ...]]
Sections = list[tuple[str, str]]
PATIENCE = 60.0  # seconds between two reports of what there is so far
RUNS = 5


@dataclass(frozen=True, eq=False)
class Study:
    """One experiment; everything else is the same for all."""

    name: str
    title: str
    dimensions: tuple[Dimension, ...]
    specs: Mapping[str, MethodSpec]
    run: pool.Run
    unfinished: Callable[[Plan, Setting, Record | None], bool]
    plans: Callable[[Chosen, int], list[Plan]]  # what is chosen, runs
    table: Callable[[Results], tuple[Table, tuple[str, ...]]]  # the table, and the metrics that are printed
    sections: Callable[[Results], Sections]
    draw: Callable[[Results, Path], list[Path]]
    limit: int  # test inputs of a run that are explained, usually
    shares: Callable[[Chosen], tuple[float, ...]] = lambda _: ()
    more: Mapping[str, Any] = field(default_factory=dict)  # of the setting

    def rows(self) -> list[str]:
        """The names that can be asked for."""
        return [name for one in self.dimensions for name in one.names]


def reproduce(study: Study, request: Request) -> Outcome:
    """Make the runs that are still missing, one file each, and report on all of them."""
    began = time.perf_counter()
    chosen = choose(study.dimensions, request.rows)
    setting = Setting(
        study=study.name,
        methods=chosen["methods"],
        limit=request.limit or study.limit,
        seed=request.seed,
        data=request.data,
        device=request.device,
        shares=study.shares(chosen),
        **study.more,
    )
    runs, jobs = request.runs or RUNS, request.jobs or 1
    for name, value in (("runs", runs), ("jobs", jobs)):
        if value < 1:
            raise OptionError(f"--{name} must be at least 1, not {value}")
    plans = study.plans(chosen, runs)
    store = Store(request.out)
    records = {plan: own for plan in plans if (own := store.get(plan)) is not None}
    todo = [plan for plan in plans if study.unfinished(plan, setting, records.get(plan))]
    tell = request.tell or (lambda _: None)
    tell(f"{len(plans)} runs, {len(todo)} of them still to be made")

    def results() -> Results:
        return Results(tuple(records[plan] for plan in plans if plan in records), setting, chosen, study.specs)

    written = time.perf_counter()
    tasks = [(plan, records.pop(plan, None)) for plan in todo]
    for done, record in enumerate(pool.finished(study.run, setting, tasks, jobs), 1):
        store.put(record)
        records[record.plan] = Record.from_dict(record.to_dict())  # with the digits that are kept: the same later on
        tell(line(record, len(plans) - len(todo) + done, len(plans)))
        if request.progress is not None:
            request.progress(done / len(todo))
        if request.out is not None and time.perf_counter() - written > PATIENCE and done < len(todo):
            so_far = outcome(study, results(), time.perf_counter() - began)
            write_text(request.out / "table.md", so_far.to_markdown())
            written = time.perf_counter()
    return outcome(study, results(), time.perf_counter() - began)


def outcome(study: Study, results: Results, seconds: float) -> Outcome:
    """The report on these runs."""
    table, shown = study.table(results)
    parts = [
        *study.sections(results),
        ("Runs", run_list(results)),
        ("Time", time_list(results, seconds)),
    ]
    titles = {key: results.title(key) for key in results.methods}
    return Outcome(
        table,
        reference(titles),
        shown,
        tuple((title, text) for title, text in parts if text),
        study.title,
        draw=lambda folder: study.draw(results, folder),
    )


def line(record: Record, done: int, total: int) -> str:
    """What is told of a finished run."""
    if record.failed:
        return f"[{done}/{total}] {record.plan.title}: failed; {record.failed} ({record.seconds:.1f} s)"
    last = record.last
    explaining = sum(own.seconds for own in record.told.values() if own.seconds == own.seconds) * len(record.names)
    return (
        f"[{done}/{total}] {record.plan.title}: accuracy {last.accuracy:.1%} after {last.epochs} epochs "
        f"({last.seconds:.1f} s, training {len(record.attempts)}), {len(record.told)} methods on {len(record.names)} "
        f"inputs in {explaining:.1f} s, {record.seconds:.1f} s in all"
    )


def pairs(sections: Sequence[tuple[str, str]]) -> Sections:
    """Those that have something to say."""
    return [(title, text) for title, text in sections if text]
