"""Small data sets in the forms of SST-2, SST, e-SNLI and MultiRC, in our own words, and models to go with them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from bags import bag_of_words, examples
from families import tiny
from methods.fillers import tiny_filler, word_tokenizer

from rationales.experiments.input_marginalization.workspace import Workspace
from rationales.experiments.registry import Request

FILLERS = ("minilm-filler", "minilm-filler-small", "minilm-filler-sst2")


def write_data(folder: Path) -> Path:
    """All four data sets in one folder."""
    for split, count, seed in (("train", 60, 3), ("dev", 12, 1)):
        lines = [f"{item.text}\t{int(item.label == 'positive')}" for item in examples(count, seed)]
        (folder / f"{split}.tsv").write_text("sentence\tlabel\n" + "\n".join(lines) + "\n", encoding="utf-8")
    (folder / "dev.txt").write_text("".join(tree(item.text) + "\n" for item in examples(8, 5, 6)), encoding="utf-8")
    write_pairs(folder / "esnli_test.csv")
    write_passages(folder)
    return folder


def tree(sentence: str) -> str:
    """A flat tree, in which "good" and "bad" alone are rated."""
    ratings = {"good": "4", "bad": "0"}
    leaves = [f"({ratings.get(word, '2')} {word})" for word in sentence.split()]
    return f"({'3' if 'good' in sentence.split() else '1'} {' '.join(leaves)})"


def write_pairs(path: Path) -> None:
    marks = [f"Sentence{side}_Highlighted_{number}" for number in (1, 2, 3) for side in (1, 2)]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["pairID", "gold_label", "sentence1", "sentence2", *marks])
        labels = ("entailment", "neutral", "contradiction") * 2
        for number, label in enumerate(labels):
            cells = ["1", "0", "1", "{}", "1,2" if number else "{}", "0"]
            writer.writerow([f"p{number}", label, "the old boat was cold", "a cold day", *cells])


def write_passages(folder: Path) -> None:
    (folder / "docs").mkdir()
    rows = []
    for number, label in enumerate(("True", "False", "True")):
        (folder / "docs" / f"d{number}").write_text("the room was warm . the soup was cold .", encoding="utf-8")
        piece = {"docid": f"d{number}", "start_token": 5, "end_token": 10, "text": "the soup was cold ."}
        row = {"annotation_id": f"d{number}:0:0", "classification": label, "query": "was the soup cold || the soup"}
        rows.append(row | {"evidences": [[piece]]})
    (folder / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def workspace(data: Path, **options) -> Workspace:
    """A workspace on these data: a sentiment model that reads "good" and "bad", random models else."""
    tokenizer = word_tokenizer()
    sizes = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}

    def classifier(labels):
        module, _ = tiny("bert", labels=len(labels), **sizes)
        module.config.id2label = dict(enumerate(labels))
        return module, tokenizer

    models = {
        "minilm-sst2": bag_of_words(),
        "minilm-esnli": classifier(("entailment", "neutral", "contradiction")),
        "minilm-multirc": classifier(("false", "true")),
    }
    fillers = {name: tiny_filler(tokenizer, seed) for seed, name in enumerate(FILLERS)}
    request = Request(data=data, samples=30, runs=2, train_texts=40, **options)
    return Workspace(request, models=models, fillers=fillers)
