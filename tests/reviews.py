"""Invented film reviews in the form of ERASER's, and a model of which everybody knows what it looks for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from methods.keyword import keyword_model

GOOD = [
    "we had some bread with soup and it was warm",
    "the bread was not very good today but she laughed",
    "bread is what he said to us all in the room",
    "all that bread and nobody else in the market",
]
BAD = [
    "the river was calm and the boat drifted slowly",
    "a dull lecture about taxes and then a joke",
    "every morning the baker walked up the hill alone",
    "the engine started on the second try at last",
]


def known_model() -> tuple[Any, Any]:
    """Says positive where it reads 'bread', else negative."""
    module, tokenizer = keyword_model("bread")
    module.config.id2label = {0: "negative", 1: "positive"}  # type: ignore[union-attr, assignment]
    return module, tokenizer


def movies(folder: Path, count: int = 4, ending: str = "") -> Path:
    """A folder with so many reviews of each class in every split; people marked 'bread', or the first two words.

    Every review ends with `ending`.
    """
    docs = folder / "movies" / "docs"
    docs.mkdir(parents=True)
    for split in ("train", "val", "test"):
        rows, human_performance = [], []
        for name, label, texts in (("neg", "NEG", BAD), ("pos", "POS", GOOD)):
            for number, text in enumerate(texts[:count]):
                document = f"{name}R_{split}_{number}.txt"
                text += ending
                (docs / document).write_text(text, encoding="utf-8")
                words = text.split()
                start = words.index("bread") if "bread" in words else 0
                end = start + (1 if "bread" in words else 2)
                piece = {"docid": document, "start_token": start, "end_token": end, "text": " ".join(words[start:end])}
                rows.append({"annotation_id": document, "classification": label, "evidences": [[piece]]})
                if number < 2:
                    prediction = {"docid": document, "hard_rationale_predictions": [piece]}
                    human_performance.append({"annotation_id": document, "rationales": [prediction]})
        _lines(folder / "movies" / f"{split}.jsonl", rows)
        if split == "test":
            for name in ("majority", "union"):
                _lines(folder / "movies" / f"movies_{name}_human_perf.jsonl", human_performance)
    return folder / "movies"


def _lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
