"""All tables of Input Marginalization in one run, on a machine with a GPU and without the command line's packages.

python -m bench.im_tables --data DIR --out OUT --minutes 8
python -m bench.im_tables --data DIR --out OUT --tiny                      # a dry run: few texts, tiny random models

--encoder: the encoder as `python -m zoo.paper_models.pack` packs it, where the PyPI package is not installed.
--archives: classifiers.tar and fillers.tar of `python -m zoo.paper_models.train`, unpacked into zoo/ first.
Under --out: im-tables.tar (NAME.md and NAME-1.json, NAME-2.json ... of every table; read them by Table.from_json),
im-tables.md and log.txt, written again after every table. Scores and accuracies after retraining are kept in --cache,
by default cache/ under --out: the same command goes on with what a stopped run has finished. accuracies.json, written
all the time, holds the accuracies alone, for a run with another --out that goes on with them (--accuracies).
"""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
import tarfile
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from bench.run_log import RunLog
from rationales.errors import OptionError, RationalesError
from rationales.experiments.input_marginalization import table2
from rationales.experiments.input_marginalization.rows import LIME_ROWS, PAIR_ROWS, REMOVALS, TUNED_FILLER
from rationales.experiments.input_marginalization.tables import TABLES, matrix_precision
from rationales.experiments.input_marginalization.workspace import MULTIRC, SOURCES, Workspace
from rationales.experiments.registry import ExperimentReport, Request
from rationales.files import write_bytes, write_text
from rationales.models.batch import execution
from rationales.models.delta import DELTA_FOLDER, ENCODER_PACKAGE

STEPS = {  # what is computed, in the order of its importance -> minutes on an H200, estimated
    "im-table1a": 0.5,
    "im-table1b": 0.2,
    "im-table4": 0.3,
    "im-table3": 0.3,
    "roar": 4.0,  # what Table 2 needs
    "im-table2": 0.05,
    "im-appendix-scores": 1.2,  # A1 to A3, which need no retraining
    "roar-lime": 5.0,  # what Table A6 needs beyond it
    "im-appendix": 0.3,  # A1 to A3 and A6
    "im-a6": 0.0,  # A6 alone, of what roar-lime trained
    "im-sanity": 1.9,
    "im-threshold": 7.0,  # A4: about 1,800 candidates a word; measured before words were tokenised once
    "multirc": 2.2,
}
RETRAINED = ("roar", "roar-lime")  # accuracies of the first are used again by the second
APPENDIX_PARTS = {  # step -> parts of the appendix
    "im-appendix-scores": ("a1-a2", "a3"),
    "im-appendix": ("a1-a2", "a3", "a6"),
    "im-threshold": ("a4",),
    "im-a6": ("a6",),
}
LONG_TEXTS = ("im-table4", "im-table3", "im-appendix")  # tables that are made again with MultiRC
ACCURACIES = "accuracies.json"


class Results(RunLog):
    """Everything that comes back: an archive of the tables, one Markdown file of all, and the log."""

    def __init__(self, out: Path, cache: Path) -> None:
        self.accuracies = cache / "retraining"
        super().__init__(out)
        self.files: dict[str, str] = {}
        self.reports: dict[str, str] = {}

    def save_progress(self) -> None:
        """Write the accuracies so far."""
        self.write_accuracies()

    def add(self, name: str, report: ExperimentReport) -> None:
        """Store a table and write all files again."""
        self.reports[name] = self.files[f"{name}.md"] = report.to_markdown()
        tables = [report.table, *(table for _, table, _ in report.further_tables)]
        for number, table in enumerate(tables, start=1):
            self.files[f"{name}-{number}.json"] = table.to_json()
        self.write()

    def write_accuracies(self) -> None:
        """All accuracies after retraining that are in the cache, as one file: key -> content of its file."""
        if self.accuracies.is_dir():
            contents = {path.stem: path.read_text() for path in sorted(self.accuracies.glob("*.json"))}
            write_text(self.out / ACCURACIES, json.dumps(contents) + "\n")

    def read_accuracies(self, source: Path) -> None:
        """Put accuracies of an earlier run into the cache."""
        if not source.is_file():
            raise OptionError(f"there is no file {source}; --accuracies takes the {ACCURACIES} of an earlier run")
        self.accuracies.mkdir(parents=True, exist_ok=True)
        for key, content in json.loads(source.read_text()).items():
            write_text(self.accuracies / f"{key}.json", content)

    def write(self) -> None:
        """The archive, the Markdown file, the log and the accuracies."""
        self.write_accuracies()
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:xz") as archive:
            for file_name, content in self.files.items():
                raw = content.encode()
                entry = tarfile.TarInfo(file_name)
                entry.size = len(raw)
                archive.addfile(entry, io.BytesIO(raw))
        write_bytes(self.out / "im-tables.tar", buffer.getvalue())
        write_text(self.out / "im-tables.md", "\n\n".join(self.reports.values()) or "no table is finished\n")


def provide_encoder(packed: Path, folder: Path) -> None:
    """Unpack the encoder so that it is found like the PyPI package."""
    from zoo.paper_models.storage import unpack_encoder

    package = folder / ENCODER_PACKAGE
    unpack_encoder(packed, package / "model")
    (package / "__init__.py").write_text("")
    sys.path.insert(0, str(folder))


def unpack_models(archives: Sequence[Path]) -> None:
    """Put trained models into zoo/."""
    for path in archives:
        with tarfile.open(path) as archive:
            archive.extractall(DELTA_FOLDER, filter="data")


def tiny_workspace(request: Request) -> Workspace:
    """A workspace of random models of two layers, all of them with the tokenizer of the embedded model."""
    import transformers

    from rationales.models import catalogue
    from rationales.models.text.bert import LightTokenizer

    tokenizer = LightTokenizer(Path(catalogue.__file__).parent / "embedded")
    sizes = {"vocab_size": len(tokenizer), "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    sizes |= {"intermediate_size": 64, "pad_token_id": tokenizer.pad_token_id}
    torch.manual_seed(0)

    def classifier(labels: Sequence[str]) -> torch.nn.Module:
        config = transformers.BertConfig(**sizes, id2label=dict(enumerate(labels)), num_labels=len(labels))
        return transformers.BertForSequenceClassification(config).eval()

    def filler() -> torch.nn.Module:
        module = transformers.BertForMaskedLM(transformers.BertConfig(**sizes)).eval()
        torch.nn.init.normal_(module.get_output_embeddings().weight, std=2.0)  # few words are likely
        return module

    models = {
        "minilm-sst2": (classifier(("negative", "positive")), tokenizer),
        "minilm-esnli": (classifier(("entailment", "neutral", "contradiction")), tokenizer),
        "minilm-multirc": (classifier(("false", "true")), tokenizer),
    }
    names = ("minilm-filler", "minilm-filler-small", TUNED_FILLER)
    return Workspace(request, models=models, fillers={name: (filler(), tokenizer) for name in names})


def run_steps(workspace: Workspace, results: Results, steps: Sequence[str], minutes: float) -> None:
    """The steps in turn; one that fails, or for which no time is left, does not keep the others from running."""
    workspace.excluded.add(MULTIRC)
    done, failed = set[str](), set[str]()
    for name in steps:
        needs_lime = name == "im-a6" and "roar-lime" not in done
        if needs_lime or (name == "im-appendix" and "roar-lime" in failed):  # it would train all classifiers of A6
            results.tell(f"== {name}: left out, since roar-lime failed or did not run")
            continue
        remaining = minutes - results.minutes()
        if remaining < min(STEPS[name], 0.5 * minutes):
            results.tell(f"== {name}: left out, {remaining:.1f} minutes remain and about {STEPS[name]:g} are needed")
            continue
        results.tell(f"== {name}: about {STEPS[name]:g} of {remaining:.1f} minutes")
        results.begin_step()
        began = time.monotonic()
        try:
            if name == "multirc":
                _add_long_texts(workspace, results)
            elif name in APPENDIX_PARTS:
                results.add(name, _appendix(workspace, APPENDIX_PARTS[name]))
            elif name in RETRAINED:
                lime = name == "roar-lime"
                rows = workspace.retrained_rows if lime else PAIR_ROWS
                names = workspace.removals if lime else REMOVALS[:2]
                table2.retrained_tables(workspace, [row for row in rows if _possible(workspace, row)], names)
            else:
                results.add(name, TABLES[name](workspace))
            done.add(name)
        except Exception as error:  # noqa: BLE001 - machine time is scarce: the other tables are still made
            traceback.print_exc()
            failed.add(name)
            results.tell(f"{name} FAILED: {type(error).__name__}: {error}")
        results.tell(f"== {name}: {time.monotonic() - began:.1f} s")
        results.write()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def _appendix(workspace: Workspace, parts: Sequence[str]) -> ExperimentReport:
    """The appendix with these parts alone."""
    request = workspace.request
    workspace.request = replace(request, rows=list(parts))
    try:
        return TABLES["im-appendix"](workspace)
    finally:
        workspace.request = request


def _add_long_texts(workspace: Workspace, results: Results) -> None:
    """The tables with MultiRC; of the appendix, without retraining in this run, what needs none."""
    workspace.excluded.clear()
    for name in LONG_TEXTS:
        if name == "im-appendix":
            step = "im-appendix" if workspace.retrained else "im-appendix-scores"
            results.add(name, _appendix(workspace, APPENDIX_PARTS[step]))
        else:
            results.add(name, TABLES[name](workspace))


def _possible(workspace: Workspace, row: str) -> bool:
    return row != "lime-bert-sst2" or workspace.has_filler(TUNED_FILLER)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with the data sets; without it nothing is run")
    parser.add_argument("--out", type=Path, help="folder for the results; without it nothing is run")
    parser.add_argument("--minutes", type=float, default=8.0, help="of all tables together")
    parser.add_argument("--steps", nargs="+", choices=list(STEPS), default=list(STEPS))
    parser.add_argument("--encoder", type=Path, help="packed encoder (carry/paper-models/minilm)")
    parser.add_argument("--archives", type=Path, nargs="+", default=[], help="archives of trained models")
    parser.add_argument("--cache", type=Path, help="folder of scores and accuracies; by default OUT/cache")
    parser.add_argument("--accuracies", type=Path, help=f"{ACCURACIES} of a run that was stopped, to go on with")
    parser.add_argument("--limit", type=int, help="texts of each data set; by default all of SST, 700, 500 of MultiRC")
    parser.add_argument("--train-texts", type=int, help=f"training texts of ROAR, by default {table2.TRAIN_TEXTS}")
    parser.add_argument("--samples", type=int, help="samples of LIME, by default 1000")
    parser.add_argument("--retrained-rows", nargs="+", choices=LIME_ROWS, default=LIME_ROWS, help="of Table A6")
    parser.add_argument("--removals", nargs="+", choices=REMOVALS, default=REMOVALS, help="of Table A6")
    parser.add_argument("--half", action="store_true", help="bfloat16 on a CPU with instructions for it")
    parser.add_argument("--gpu-share", type=float, help="of the free GPU memory, where two runs share a GPU")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tiny", action="store_true", help="a dry run: few texts, few samples, tiny random models")
    args = parser.parse_args()
    if args.data is None or args.out is None:
        print("im_tables: give --data, where the data sets are, and --out, a folder for the results; skipped")
        return
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    execution.GPU_SHARE = args.gpu_share or execution.GPU_SHARE
    cache = args.cache or args.out / "cache"
    results = Results(args.out, cache)
    if args.accuracies is not None:
        results.read_accuracies(args.accuracies)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    request = Request(
        data=args.data, device=device, limit=args.limit, seed=args.seed, tf32=args.half or device == "cuda",
        samples=args.samples, train_texts=args.train_texts, cache=cache, log=results.tell,
        progress=results.progress,
    )  # fmt: skip
    if args.tiny:
        request = replace(request, limit=args.limit or 4, samples=30, train_texts=40, runs=2)
    unpack_models(args.archives)
    with tempfile.TemporaryDirectory() as folder, matrix_precision(request.tf32):
        if args.encoder is not None:
            provide_encoder(args.encoder, Path(folder))
        workspace = tiny_workspace(request) if args.tiny else Workspace(request)
        workspace.retrained_rows, workspace.removals = args.retrained_rows, args.removals
        results.tell(f"{device}; data sets: {', '.join(workspace.available(list(SOURCES)))}")
        run_steps(workspace, results, args.steps, args.minutes)
    print("\n\n".join(results.reports.values()))
    if not results.reports:
        raise RationalesError("no table was finished")


if __name__ == "__main__":
    main()
