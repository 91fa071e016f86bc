"""Small invented data in the form of the real ones: soft pictures of eight kinds, reviews full of articles."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np

from rationales.experiments.ground_truth.runs.parallel import THREAD_VARIABLES
from rationales.experiments.ground_truth.runs.run_record import MethodMeasures, RunRecord, TrainingAttempt
from rationales.experiments.ground_truth.runs.run_spec import RunSpec

NOUNS = ["bread", "sea", "owl", "film", "heart", "cup", "hill", "door", "song", "lamp"]
VERBS = ["has", "sees", "wants", "likes", "keeps", "finds"]


def bird_folder(folder: Path, side: int = 32, train: int = 40, test: int = 10) -> Path:
    """Pictures of every kind: blocks of colour."""
    from PIL import Image  # not above: a process that only pretends to run should start soon

    from rationales.experiments.ground_truth.runs import bird_pictures

    rng = np.random.default_rng(0)
    for split, count in (("train", train), ("valid", test), ("test", test)):
        for kind in (kind for pair in bird_pictures.SIMILAR_KINDS for kind in pair):
            home = folder / "birds-112" / split / kind
            home.mkdir(parents=True)
            for number in range(count):
                blocks = np.kron(rng.integers(40, 216, (4, 4, 3)), np.ones((side // 4, side // 4, 1)))
                Image.fromarray(blocks.astype(np.uint8)).save(home / f"{number}.png")
    return folder


def review_folder(folder: Path, train: int = 120, test: int = 40) -> Path:
    """Reviews with an article before every noun, two in each half."""
    rng = np.random.default_rng(0)
    docs = folder / "movies" / "docs"
    docs.mkdir(parents=True)
    for split, count in (("train", train), ("val", test), ("test", test)):
        rows = []
        for number in range(2 * count):
            words: list[str] = []
            for _ in range(4):
                words += [
                    str(rng.choice(choices)) for choices in (["the", "a", "an"], NOUNS, VERBS, NOUNS, VERBS, NOUNS)
                ]
            name = f"{split}_{number}.txt"
            (docs / name).write_text(" ".join(words), encoding="utf-8")
            rows.append({"annotation_id": name, "classification": ("NEG", "POS")[number % 2], "evidences": []})
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / "movies" / f"{split}.jsonl").write_text(lines, encoding="utf-8")
    return folder / "movies"


def record(
    spec: RunSpec, attributions: dict[str, tuple[float, float]], area: float = 0.25, inputs: int = 8, **fields
) -> RunRecord:
    """A finished run whose methods reach these Attr% on every picture with, and without the plant."""
    manipulations = tuple(number % 2 for number in range(inputs))
    measures = {
        key: MethodMeasures("print", 0.01, {"region": tuple((without, with_)[number] for number in manipulations)})
        for key, (with_, without) in attributions.items()
    }
    attempt = TrainingAttempt(1, "somewhere", 0.99, 200, 5, 2.0, 1e-9)
    values = {"attempts": (attempt,), "accuracy_bound": max(spec.r, 1 - spec.r), "measures": measures, **fields}
    return RunRecord(
        spec,
        "print",
        input_names=tuple(f"p{number}" for number in range(inputs)),
        manipulations=manipulations,
        unit_counts=(100,) * inputs,
        region_sizes=(round(100 * area),) * inputs,
        distractor_sizes=(0,) * inputs,
        **values,
    )


def pretended(spec: RunSpec, settings: object, previous: RunRecord | None) -> RunRecord:
    """A run that needs no training."""
    assert settings is not None
    return record(spec, {"gradient": (0.9, 0.5)}, note="old" if previous is not None else "new")


def threads_seen(spec: RunSpec, settings: object, previous: RunRecord | None) -> RunRecord:
    """What a process is told about threads, in place of a run."""
    assert settings is not None
    assert previous is None
    return record(spec, {}, note=" ".join(os.environ.get(name, "-") for name in THREAD_VARIABLES))
