"""Adapters of a language model, Table 2 of the AML paper, a planted cause and a long document, on a GPU.

python -m bench.prompt_tables adapters tables plant document steps --data DIR --out OUT --minutes 12
python -m bench.prompt_tables tables --rows rt few-shot --data DIR --out PART       # one of several runs on a GPU
python -m bench.prompt_tables --merge PART PART ... --out OUT                       # Table 2 of their rows
python -m bench.prompt_tables tables --model FOLDER --data DIR --out OUT --tiny     # a dry run on a small model

--data: folder of the data sets (SST-2, Rotten Tomatoes, IMDB, emotion; for the document ERASER's film reviews). --model
is the language model, by default smollm2; with another one, tuned models are left out. Under --out: adapters/NAME,
scenarios/*.json, replies.json and table-ROWS.md (aml-table2), plant.json, document.html, document.json, steps.tsv and
log.txt, each written when it is there; a table is made anew after every row. Adapters are also copied to zoo/, where
tables see them; --wait lets the tables of tuned models wait for those that another process trains.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

import rationales
from bench.aml_tables import merged_tables, row_seconds, use_packed_encoder
from bench.run_log import RunLog
from rationales.data import read_data
from rationales.evaluation.entries import MethodEntry
from rationales.evaluation.sampling import evenly
from rationales.evaluation.tables.table import compare_cells
from rationales.experiments.aml import table2
from rationales.experiments.aml.decoders import (
    FEW_SHOT,
    PROMPTS,
    SETTINGS,
    TUNED,
    DecoderScenario,
    decoder_plan,
)
from rationales.experiments.aml.maskers import MaskerPlan
from rationales.experiments.aml.row_specs import LLM, METRICS, ROWS, MethodRow
from rationales.experiments.aml.scenario_run import ScenarioRun, StudySettings
from rationales.experiments.aml.scenarios import CORPORA
from rationales.experiments.registry import Request
from rationales.files import write_text
from rationales.groundtruth.dryrun import dry_run
from rationales.groundtruth.dryrun.results import PlantResult
from rationales.masks.instant.aml.settings import AmlTraining
from rationales.models.batch import execution
from rationales.models.delta import DELTA_FOLDER

STAGES = ("adapters", "tables", "plant", "document", "steps")
BASE = "smollm2"
ADAPTERS = ("emotion", "sst2")  # of zoo.prompt_adapter
CORE = ("random", "input-x-gradient", "gradient-shap", "deep-lift", LLM, "marc", "integrated-gradients")
MASKERS = ("paml", "faml")
EXPENSIVE = ("sequential-ig", "words")
PAPER_SCENARIOS = (("sst2", FEW_SHOT), ("rt", FEW_SHOT), ("emotion", TUNED), ("imdb", FEW_SHOT))
OPTIONS: dict[str, dict[str, Any]] = {"sequential-ig": {"steps": 20}}  # the paper has 50; each costs a pass for a word
TINY_OPTIONS: dict[str, dict[str, Any]] = {
    **{key: {"steps": 2} for key in ("sequential-ig", "integrated-gradients", "marc", "words")},
    "gradient-shap": {"samples": 2},
    LLM: {"max_tokens": 8},
}
LEFT_OUT = ("sequential-ig@imdb", "words@imdb")  # the paper has no SIG on IMDB either
SEARCH_METRICS = ("sufficiency", "comprehensiveness")  # that get maskers; others use those of their kin
PLANT_METHODS: tuple[dict[str, Any], ...] = (  # in the order of their importance
    {"name": "marc"},
    {"name": "marc", "options": {"preset": "words"}},
    *({"name": name} for name in ("saliency", "input-x-gradient", "integrated-gradients", "deep-lift")),
    {"name": "occlusion", "options": {"window": 1}},
    *({"name": name} for name in ("gradient-shap", "loo-empty", "llm-ranking", "lime", "kernel-shap")),
    {"name": "shapley-sampling", "options": {"orders": 10}},
    {"name": "sequential-ig", "options": {"steps": 10}},
)
STEP_COUNTS = (50, 40, 30, 24)  # of MaRC; the first is the default
STEP_TEXTS = 150  # validation texts of a data set
DOCUMENT_WORDS = 3000
REPLIES = "replies.json"  # what the models named when they were asked to rank the words, by scenario
DOCUMENT_TEMPLATE = PROMPTS["imdb"].template


class Results(RunLog):
    """The folder of results and what every stage needs."""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(options.out)
        self.options = options
        self.end = self.began + 60 * options.minutes
        self.failed: list[str] = []

    @property
    def tiny(self) -> bool:
        """Whether this is a dry run."""
        return bool(self.options.tiny)

    def is_over(self) -> bool:
        """Whether the time is up: nothing new is started."""
        return bool(time.monotonic() > self.end)

    def attempt(self, name: str, action: Callable[[], Any]) -> Any:
        """The result of an action; an exception is logged, and the run goes on."""
        self.tell(f"{name}")
        try:
            return action()
        except Exception:  # noqa: BLE001 - machine time is scarce: everything else is still done
            self.failed.append(name)
            self.tell(f"{name} FAILED\n{traceback.format_exc()}")
            return None


def train_adapters(results: Results) -> None:
    """Each adapter in a process of its own, so that both share the device."""
    options, processes = results.options, {}
    short = ["--steps", "3", "--batch", "4", "--texts", "16", "--test-texts", "8"] if results.tiny else []
    for task in ADAPTERS:
        folder = options.out / "adapters" / f"{BASE}-{task}"
        command = [sys.executable, "-m", "zoo.prompt_adapter", task, "--data", str(options.data), "--out", str(folder)]
        command += ["--base", options.model, "--device", device(), *(short or ["--batch", "32"])]
        log = (options.out / f"adapter-{task}.log").open("w")
        processes[task] = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        results.tell(f"adapter {task} begun")
    for task, process in processes.items():
        try:
            code = process.wait(max(1.0, results.end - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            code = -1
        if code:
            results.failed.append(f"adapter {task}")
            log_text = (options.out / f"adapter-{task}.log").read_text()[-3000:]
            results.tell(f"adapter {task} FAILED ({code})\n{log_text}")
            continue
        folder = options.out / "adapters" / f"{BASE}-{task}"
        results.tell(f"adapter {task}: {(folder / 'metrics.json').read_text()}")
        if not results.tiny:
            partial = DELTA_FOLDER / f".{folder.name}"
            shutil.copytree(folder, partial, dirs_exist_ok=True)
            partial.rename(DELTA_FOLDER / folder.name)  # the tables see a complete folder or none


def study_settings(tiny: bool) -> StudySettings:
    """Maskers for two metrics with a short search, and fewer steps where a method takes a path for every word."""
    if tiny:
        training = AmlTraining(
            texts=8, validation_texts=4, epochs=1, trials=2, trial_texts=4, trial_epochs=1, networks=4
        )
        plan = MaskerPlan(training, metrics=METRICS[:2], finetuning={"steps": 2, "tune": "head"}, resumable=False)
        return StudySettings(decoder_plan(plan), METRICS[:1], TINY_OPTIONS, LEFT_OUT)
    training = AmlTraining(networks=16, trials=8, trial_texts=200, epochs=5, patience=2, minutes=1.5)
    plan = MaskerPlan(training, metrics=SEARCH_METRICS, resumable=False)
    return StudySettings(decoder_plan(plan), METRICS, OPTIONS, LEFT_OUT, coarse=True)


def scenarios_of(names: Sequence[str], other_model: bool) -> list[DecoderScenario]:
    """The scenarios of these data sets and settings, those of the paper first; adapters need not exist yet."""
    corpora = [name for name in CORPORA if name in names] or list(CORPORA)
    settings = [name for name in SETTINGS if name in names] or list(SETTINGS)
    pairs = [*PAPER_SCENARIOS, *((corpus, setting) for setting in SETTINGS for corpus in CORPORA)]
    selected_pairs = [pair for pair in dict.fromkeys(pairs) if pair[0] in corpora and pair[1] in settings]
    tuned = {f"{BASE}-{task}" for task in ADAPTERS} if not other_model else set()
    scenarios = [DecoderScenario(CORPORA[corpus], BASE, tuned=setting == TUNED) for corpus, setting in selected_pairs]
    return [scenario for scenario in scenarios if not scenario.tuned or scenario.adapter in tuned]


def stages(scenarios: Sequence[DecoderScenario]) -> Iterator[tuple[DecoderScenario, list[MethodRow]]]:
    """Scenarios with rows to compute: the core of all of them first, then maskers, then what is expensive."""
    for keys in (CORE, MASKERS, EXPENSIVE):
        for scenario in scenarios:
            yield scenario, [ROWS[key] for key in keys]


def make_tables(results: Results, names: Sequence[str]) -> None:
    """Table 2, row by row; the report of all rows so far after each of them."""
    options = results.options
    other_model = options.model != BASE
    request = Request(
        data=options.data,
        out=options.out,
        limit=4 if results.tiny else options.limit,
        log=results.tell,
        device=device(),
        model=options.model if other_model else None,
    )
    settings = study_settings(results.tiny)
    scenarios = scenarios_of(names, other_model)
    runs: dict[DecoderScenario, ScenarioRun] = {}
    replies: dict[DecoderScenario, table2.Replies] = {}

    def write() -> None:
        tables = {scenario: run.compute(list(ROWS.values()), lambda: True) for scenario, run in runs.items()}
        tables = {scenario: table for scenario, table in tables.items() if table.rows}
        if tables:
            report = table2.report(tables, replies, time.monotonic() - results.began)
            write_text(options.out / f"table-{'-'.join(names) or 'all'}.md", report.to_markdown())

    for scenario, rows in stages(scenarios):
        if scenario.tuned and not wait_for(scenario, results):
            results.tell(f"{scenario.model_name}: no adapter")
            continue
        if scenario not in runs and not results.is_over():
            opened = results.attempt(
                f"open {scenario.model_name}",
                lambda: ScenarioRun.open(scenario, request, settings, options.out / "maskers"),  # noqa: B023  # called at once
            )
            if opened is None:
                continue
            runs[scenario] = opened
            results.tell(f"{scenario.model_name}: {len(opened.prepared.names)} texts, accuracy {accuracy(opened):.3f}")
        for row in rows:
            if scenario in runs and not results.is_over():
                results.attempt(
                    f"{scenario.model_name}: {row.key}",
                    lambda: runs[scenario].compute([row], results.is_over),  # noqa: B023  # called at once
                )
                if row.key == LLM:
                    texts = [example.text for example in runs[scenario].prepared.examples[: table2.REPLIES]]
                    replies[scenario] = table2.count_replies(runs[scenario].model, texts)
                    counts = {scenario.model_name: asdict(count) for scenario, count in replies.items()}
                    write_text(options.out / REPLIES, json.dumps(counts, indent=1) + "\n")
        write()


def merge(parts: Sequence[Path], out: Path) -> None:
    """Table 2 of the rows and replies that several runs stored."""
    scenarios = scenarios_of([], other_model=False)
    tables = merged_tables(scenarios, parts)
    stored = [json.loads(path.read_text()) for part in parts if (path := part / REPLIES).is_file()]
    counts = {name: table2.Replies(**values) for replies in reversed(stored) for name, values in replies.items()}
    replies = {scenario: counts[scenario.model_name] for scenario in scenarios if scenario.model_name in counts}
    report = table2.report(tables, replies, row_seconds(tables.values()))
    out.mkdir(parents=True, exist_ok=True)
    path = write_text(out / "table.md", report.to_markdown())
    print(f"{len(tables)} scenarios, {len(report.table.rows)} rows: {path}")


def accuracy(run: ScenarioRun) -> float:
    """Share of the scenario's texts whose label the model predicts."""
    model, examples = run.model, run.prepared.examples
    with torch.no_grad(), model.frozen():
        batch = model.batch(model.encode([model.read(example.text, None) for example in examples]))
        predicted = batch.predict().argmax(-1).tolist()
    pairs = zip(predicted, examples, strict=True)
    return float(np.mean([model.labels[label] == str(example.label) for label, example in pairs]))


def wait_for(scenario: DecoderScenario, results: Results) -> bool:
    """Whether the adapter of a scenario is there, now or within --wait minutes of the beginning."""
    while not scenario.is_stored and results.minutes() < results.options.wait and not results.is_over():
        time.sleep(2)
    return scenario.is_stored


def find_plant(results: Results) -> None:
    """A language model tuned on texts with a planted word: how much of each method's scores is on that word."""
    options = results.options
    examples = read_data("rotten-tomatoes", "train", options.data)

    def write(result: PlantResult) -> None:
        if result.methods:
            last = result.methods[-1]
            share = last.region.attribution.mean
            results.tell(f"plant: {last.title}: Attr% {share:.3f} ({last.error or last.seconds})")
        rows = [
            {
                "method": method.title,
                "verdict": None if method.verdict is None else method.verdict.name,
                "attribution": vars_of(method.region.attribution),
                "top_unit": vars_of(method.top_unit),
                "inputs": len(method.explained),
                "seconds": method.seconds,
                "error": method.error,
            }
            for method in result.methods
        ]
        facts = {
            "plant": result.plant.name,
            "area": result.area,
            "accuracy": result.reliance.accuracy,
            "tested": result.reliance.n,
            "epochs": result.epochs,
            "training_seconds": result.seconds,
            "methods": rows,
        }
        write_text(options.out / "plant.json", json.dumps(facts, indent=1) + "\n")

    outcome = dry_run(
        examples,
        methods=PLANT_METHODS[: 3 if results.tiny else None],
        network=options.model,
        inputs=5 if results.tiny else 60,
        limit=600 if results.tiny else 2000,
        words=40,
        training={"epochs": 1} if results.tiny else {"epochs": 10, "min_epochs": 3},
        device=device(),
        on_result=write,
    )
    write_text(options.out / "plant.md", outcome.to_markdown())
    write_text(options.out / "plant.html", outcome.to_html())


def vars_of(value: Any) -> dict[str, float]:
    """Mean and interval of an estimate."""
    return {"mean": value.mean, "low": value.low, "high": value.high, "n": value.n}


def explain_document(results: Results) -> None:
    """A document of about three thousand words, explained at once; its page, its numbers, and the time it took."""
    options = results.options
    size = 150 if results.tiny else DOCUMENT_WORDS
    if results.tiny:
        texts = [example.text for example in read_data("rotten-tomatoes", "test", options.data)]
    else:
        examples = read_data("eraser-movies", "test", options.data)
        texts = [example.text for example in examples if str(example.label).lower().startswith("neg")]
    document = ""
    for text in texts:
        document += ("\n\n" if document else "") + text.strip()
        if len(document.split()) >= size:
            break
    labels = PROMPTS["imdb"].labels
    model = rationales.load(options.model, labels=labels, template=DOCUMENT_TEMPLATE, device=device())
    for number in range(2):  # the second time without what only the first call has to do
        if device() == "cuda":
            torch.cuda.reset_peak_memory_stats()
        began = time.monotonic()
        rationale = rationales.explain(model, document, options={"steps": 3} if results.tiny else {})
        seconds = time.monotonic() - began
        memory = torch.cuda.max_memory_allocated() / 2**30 if device() == "cuda" else 0.0
        results.tell(
            f"document: {len(document.split())} words, {len(rationale.units)} units, {rationale.segments} segments, "
            f"call {number + 1}: {seconds:.1f} s, {memory:.1f} GiB, {len(rationale.spans())} spans, "
            f"{rationale.probabilities}, notes {[note.message for note in rationale.notes]}"
        )
        rationale.save(options.out / "document.json")
        rationale.to_html(options.out / "document.html")


def compare_steps(results: Results) -> None:
    """MaRC with fewer steps on validation texts of two data sets: means, and paired differences to the default."""
    options, lines = results.options, []
    for key in ("rt", "emotion"):
        corpus, prompt = CORPORA[key], PROMPTS[key]
        examples = evenly(read_data(corpus.data, "val", options.data), 4 if results.tiny else STEP_TEXTS)
        model = rationales.load(options.model, labels=prompt.labels, template=prompt.template, device=device())
        counts = (6, 4) if results.tiny else STEP_COUNTS
        entries = [MethodEntry("marc", {"steps": count}, title=f"{count} steps") for count in counts]
        table = rationales.evaluate(model, examples, entries, "aml", METRICS)
        default = next(row for row in table.rows if row.title == entries[0].title)
        for row in table.rows:
            for metric in METRICS:
                difference = compare_cells(row.cells[metric], default.cells[metric])
                lines.append(
                    f"{key}\t{row.title}\t{metric}\t{np.mean(row.cells[metric].values):.4f}\t{difference}\t{row.seconds:.3f}"
                )
        write_text(options.out / "steps.tsv", "\n".join(lines) + "\n")
        table.to_json(options.out / f"steps-{key}.json")
        results.tell(f"steps: {key} done")


def device() -> str:
    """The device of everything."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def main() -> None:
    """Run the stages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stages", nargs="*", choices=[*STAGES, []], default=[])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, help="folder for the results; without it nothing is run")
    parser.add_argument("--minutes", type=float, default=12.0, help="nothing is begun later")
    parser.add_argument("--model", default=BASE, help="another language model: a folder or id")
    parser.add_argument("--minilm", type=Path, help="encoder that zoo.paper_models.pack packed, for the maskers")
    parser.add_argument("--rows", nargs="*", default=[], help="data sets of the tables, few-shot, tuned; default: all")
    parser.add_argument("--wait", type=float, default=0.0, help="minutes that tables of tuned models wait for adapters")
    parser.add_argument("--limit", type=int, default=200, help="texts of a table")
    parser.add_argument("--gpu-share", type=float, help="of the free GPU memory, where several runs share a GPU")
    parser.add_argument("--merge", type=Path, nargs="+", help="folders of earlier runs: Table 2 of all their rows")
    parser.add_argument("--tiny", action="store_true", help="a dry run: few texts, few steps")
    options = parser.parse_args()
    if options.merge is not None:
        if options.out is None:
            parser.error("--merge needs --out, a folder for the table")
        merge(options.merge, options.out)
        return
    if options.out is None or options.data is None:
        print("prompt_tables: give --data and --out; skipped")
        return
    torch.set_float32_matmul_precision("high")
    execution.GPU_SHARE = options.gpu_share or execution.GPU_SHARE
    results = Results(options)
    actions: dict[str, Callable[[], None]] = {
        "adapters": lambda: train_adapters(results),
        "tables": lambda: make_tables(results, options.rows),
        "plant": lambda: find_plant(results),
        "document": lambda: explain_document(results),
        "steps": lambda: compare_steps(results),
    }
    with tempfile.TemporaryDirectory() as folder:
        if options.minilm is not None:
            use_packed_encoder(options.minilm, Path(folder))
        for stage in options.stages:
            results.attempt(f"== {stage}", actions[stage])
    results.tell(f"end; with errors: {'; '.join(results.failed) or 'none'}")
    if results.failed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
