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


def bird_folder(folder: Path, side: int = 32, train: int = 40, rest: int = 10) -> Path:
    """Pictures of every kind: blocks of colour."""
    from PIL import Image  # not above: a process that only pretends to run should start soon

    from rationales.experiments.ground_truth.runs import bird_pictures

    rng = np.random.default_rng(0)
    for split, count in (("train", train), ("valid", rest), ("test", rest)):
        for kind in (one for pair in bird_pictures.SIMILAR_KINDS for one in pair):
            home = folder / "birds-112" / split / kind
            home.mkdir(parents=True)
            for number in range(count):
                blocks = np.kron(rng.integers(40, 216, (4, 4, 3)), np.ones((side // 4, side // 4, 1)))
                Image.fromarray(blocks.astype(np.uint8)).save(home / f"{number}.png")
    return folder


def review_folder(folder: Path, train: int = 120, rest: int = 40) -> Path:
    """Reviews with an article before every noun, two in each half."""
    rng = np.random.default_rng(0)
    docs = folder / "movies" / "docs"
    docs.mkdir(parents=True)
    for split, count in (("train", train), ("val", rest), ("test", rest)):
        rows = []
        for number in range(2 * count):
            words: list[str] = []
            for _ in range(4):
                words += [str(rng.choice(one)) for one in (["the", "a", "an"], NOUNS, VERBS, NOUNS, VERBS, NOUNS)]
            name = f"{split}_{number}.txt"
            (docs / name).write_text(" ".join(words), encoding="utf-8")
            rows.append({"annotation_id": name, "classification": ("NEG", "POS")[number % 2], "evidences": []})
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / "movies" / f"{split}.jsonl").write_text(lines, encoding="utf-8")
    return folder / "movies"


def record(
    plan: RunSpec, told: dict[str, tuple[float, float]], area: float = 0.25, inputs: int = 8, **more
) -> RunRecord:
    """A finished run whose methods reach these Attr% on every picture with, and without the plant."""
    which = tuple(number % 2 for number in range(inputs))
    said = {
        key: MethodMeasures("print", 0.01, {"region": tuple((without, with_)[one] for one in which)})
        for key, (with_, without) in told.items()
    }
    attempt = TrainingAttempt(1, "somewhere", 0.99, 200, 5, 2.0, 1e-9)
    given = {"attempts": (attempt,), "accuracy_bound": max(plan.r, 1 - plan.r), "measures": said, **more}
    return RunRecord(
        plan,
        "print",
        input_names=tuple(f"p{one}" for one in range(inputs)),
        manipulations=which,
        unit_counts=(100,) * inputs,
        region_sizes=(round(100 * area),) * inputs,
        distractor_sizes=(0,) * inputs,
        **given,
    )


def pretended(plan: RunSpec, setting: object, old: RunRecord | None) -> RunRecord:
    """A run that needs no training."""
    assert setting is not None
    return record(plan, {"gradient": (0.9, 0.5)}, note="old" if old is not None else "new")


def threads_seen(plan: RunSpec, setting: object, old: RunRecord | None) -> RunRecord:
    """What a process is told about threads, in place of a run."""
    assert setting is not None
    assert old is None
    return record(plan, {}, note=" ".join(os.environ.get(name, "-") for name in THREAD_VARIABLES))
