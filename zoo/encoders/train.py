"""Train all encoders that the tables of the AML paper explain, in one run; what is finished is written at once.

MiniLM classifiers for Rotten Tomatoes, emotion and IMDB; then small RoBERTa and DistilBERT models that learn the four
data sets from MiniLM classifiers. Under --out: encoders.tar (one folder a model) and results.json; unpack the archive
into zoo/.
"""

from __future__ import annotations

import argparse
import json
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from transformers import AutoTokenizer

from rationales.models.delta import load_delta
from rationales.models.quiet import quiet_transformers
from zoo.encoders.distillation import NO_LABEL, Lesson, TaskTexts, teacher_logits, train_family
from zoo.encoders.families import FAMILIES, Family
from zoo.encoders.pack import LABELS
from zoo.encoders.texts import TextSets, encode_texts, load_texts, review_sentences
from zoo.paper_models.classifiers import Setting, Task, train_classifier
from zoo.paper_models.storage import save_rows, unpack_encoder
from zoo.paper_models.train import table, write_archive

TEACHER = Path(__file__).resolve().parents[1] / "minilm-sst2"  # trained before, by zoo.paper_models
RANKS = (8, 16, 32, 40)  # at most 2 MB
CLASSIFIERS = (
    Task("minilm-rt", LABELS["rt"], "rt-train", ("rt-test",), (Setting(4e-5, 4, 32),), "rt-val", RANKS),
    Task("minilm-emotion", LABELS["emotion"], "emotion-train", ("emotion-test",), (Setting(1e-4, 5, 32),),
         "emotion-val", RANKS),
    Task("minilm-imdb", LABELS["imdb"], "imdb-train", ("imdb-test",), (Setting(6e-5, 2, 16),), "imdb-val", RANKS),
)  # fmt: skip
MINUTES = {
    "minilm-rt": 0.4,
    "minilm-emotion": 0.8,
    "minilm-imdb": 0.9,
    "small-roberta": 1.45,
    "small-distilbert": 1.45,
}  # of five; what an item leaves over goes to the later ones
TESTS = {"sst2": ("dev",), "rt": ("test",), "emotion": ("test",), "imdb": ("test",)}
SENTENCES = 60_000  # of IMDB reviews, labelled by the teachers of sentences alone
TINY_TEXTS = 12


def family_tasks(sets: TextSets, encoder: Path, models: Path, device: torch.device, seed: int) -> list[TaskTexts]:
    """The four tasks with their teachers' logits; tasks whose teacher is missing are left out."""
    tokenizer = AutoTokenizer.from_pretrained(encoder)
    sentences = review_sentences(sets["imdb-train"], SENTENCES, np.random.default_rng(seed))
    tasks = []
    for name, labels in LABELS.items():
        folder = TEACHER if name == "sst2" else models / f"minilm-{name}"
        if not folder.is_dir():
            print(f"{folder.name} is missing: {name} is not learned", flush=True)
            continue
        items = [item for item in sets[f"{name}-train"] if not item.shared]
        texts, label = [item.text for item in items], [item.label for item in items]
        if name in ("sst2", "rt"):
            texts, label = texts + sentences, label + [NO_LABEL] * len(sentences)
        teacher = load_delta(folder, encoder, "AutoModelForSequenceClassification")[0].to(device)
        logits = teacher_logits(teacher, encode_texts(tokenizer, texts), tokenizer.pad_token_id)
        tests = {
            f"{name}-{split}": (
                [item.text for item in sets[f"{name}-{split}"]],
                [item.label for item in sets[f"{name}-{split}"]],
            )
            for split in TESTS[name]
        }
        tasks.append(TaskTexts(name, tuple(labels), Lesson(folder.name, texts, label, logits), tests))
    return tasks


class Run:
    """Items trained one after the other, each within its share of the minutes that are left."""

    def __init__(self, out: Path, models: Path, minutes: float, names: list[str]) -> None:
        self.out, self.models, self.names = out, models, names
        self.end = time.monotonic() + 60 * minutes
        self.results: dict[str, dict[str, Any]] = {}
        self.finished: list[str] = []

    def item(self, name: str, train: Callable[[float], dict[str, dict[str, Any]]]) -> None:
        """Train one item; `train` takes its minutes and returns figures by model name."""
        begin = time.monotonic()
        later = self.names[self.names.index(name) :]
        budget = max(0.05, MINUTES[name] / sum(MINUTES[each] for each in later) * (self.end - begin) / 60)
        print(f"== {name}: {budget:.2f} minutes", flush=True)
        try:
            figures = train(budget)
        except Exception as error:  # noqa: BLE001 - machine time is scarce: the other models are still trained
            traceback.print_exc()
            figures = {name: {"model": name, "error": f"{type(error).__name__}: {error}"}}
        else:
            self.finished += figures
            write_archive(self.out, "encoders", self.models, self.finished)
        seconds = time.monotonic() - begin
        self.results |= {model: {**values, "item seconds": seconds} for model, values in figures.items()}
        (self.out / "results.json").write_text(json.dumps(self.results, indent=1) + "\n")
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def train_all(data: Path, out: Path, work: Path, minutes: float, items: list[str], seed: int, tiny: bool) -> Run:
    begin = time.monotonic()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    encoder = unpack_encoder(data / "minilm", work / "minilm")
    sets = load_texts(data, TINY_TEXTS if tiny else None)
    tokenizer = AutoTokenizer.from_pretrained(encoder)
    (work / "tokens").mkdir()
    (work / "models").mkdir()
    for name, texts in sets.items():
        if name.partition("-")[0] != "sst2":
            rows = encode_texts(tokenizer, [item.text for item in texts], [item.label for item in texts])
            save_rows(rows, work / "tokens", name, preset=0)
    print(f"texts and encoder ready after {time.monotonic() - begin:.0f} s", flush=True)
    run = Run(out, work / "models", minutes - (time.monotonic() - begin) / 60, items)

    def classifier(task: Task) -> Callable[[float], dict[str, dict[str, Any]]]:
        return lambda budget: {task.name: train_classifier(task, work, encoder, run.models, device, budget, seed, tiny)}

    def small(family: Family) -> Callable[[float], dict[str, dict[str, Any]]]:
        return lambda budget: train_family(family, tasks, encoder, run.models, device, budget, seed, tiny)

    for task in CLASSIFIERS:
        if task.name in items:
            run.item(task.name, classifier(task))
    families = [family for family in FAMILIES if family.name in items]
    tasks = family_tasks(sets, encoder, run.models, device, seed) if families else []
    for family in families:
        run.item(family.name, small(family))
    return run


def lines_of(results: dict[str, dict[str, Any]]) -> str:
    """A line a model."""
    lines = []
    for name, figures in results.items():
        if "error" in figures or "setting" in figures:
            lines.append(table({name: figures}))
            continue
        tests = [
            f"{test} {before:.3f} -> stored {figures['test accuracy'][test]:.3f}"
            for test, before in figures.get("test accuracy before compression", {}).items()
        ]
        lines.append(f"{name:24} {figures['delta bytes'] / 1e6:.2f} MB {figures['steps']} steps  " + "; ".join(tests))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("zoo/carry/encoders"), help="folder of zoo.encoders.pack")
    parser.add_argument("--out", type=Path, required=True, help="folder for encoders.tar and results.json")
    parser.add_argument("--items", nargs="+", choices=list(MINUTES), default=list(MINUTES))
    parser.add_argument("--minutes", type=float, default=5.0, help="of all items together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tiny", action="store_true", help="a dry run: few texts, few steps")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as work, quiet_transformers():  # no reports of the heads that the encoder lacks
        run = train_all(args.data, args.out, Path(work), args.minutes, args.items, args.seed, args.tiny)
    print(lines_of(run.results), flush=True)


if __name__ == "__main__":
    main()
