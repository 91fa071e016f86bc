"""Train all models of the papers' experiments in one run; what is finished is written at once and never lost.

Under --out: classifiers.tar and fillers.tar (one folder a model: delta.safetensors, config.json, metrics.json) and
results.json; unpack both archives into zoo/.
"""

from __future__ import annotations

import argparse
import json
import os
import tarfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from rationales.models.quiet import quiet_transformers
from zoo.paper_models.classifiers import TASKS, train_classifier
from zoo.paper_models.fillers import train_filler, tune_filler
from zoo.paper_models.storage import unpack_encoder

MINUTES = {  # of nine; what an item leaves over goes to the later ones
    "minilm-sst2": 1.5,
    "minilm-movies": 1.0,
    "minilm-esnli": 0.7,
    "minilm-multirc": 1.9,
    "minilm-filler": 2.2,
    "minilm-filler-sst2": 0.8,
    "minilm-filler-small": 0.9,
}


@dataclass(frozen=True)
class Item:
    """A model to train: its archive and the function that trains it (keywords: minutes)."""

    name: str
    archive: str
    train: Callable[..., dict[str, Any]]


def items(tested_share: float = 1.0) -> list[Item]:
    """All models in the order of their training; `tested_share`: of the tokens that a tuned filler is tested on."""
    tune = partial(tune_filler, "minilm-filler-sst2", "minilm-filler", tested_share=tested_share)
    classifiers = [Item(task.name, "classifiers", partial(train_classifier, task)) for task in TASKS]
    return [
        *classifiers,
        Item("minilm-filler", "fillers", partial(train_filler, "minilm-filler", 6)),
        Item("minilm-filler-sst2", "fillers", tune),
        Item("minilm-filler-small", "fillers", partial(train_filler, "minilm-filler-small", 3)),
    ]


def write_archive(out: Path, archive: str, models: Path, names: list[str]) -> None:
    """All finished models of an archive, written beside the old file and then put in its place."""
    unfinished = out / f"{archive}.part"
    with tarfile.open(unfinished, "w") as file:
        for name in names:
            file.add(models / name, arcname=name)
    os.replace(unfinished, out / f"{archive}.tar")


def table(results: dict[str, dict[str, Any]]) -> str:
    lines = []
    for name, figures in results.items():
        if "error" in figures:
            lines.append(f"{name:22} FAILED: {figures['error']}")
            continue
        if "delta bytes" not in figures:
            lines.append(f"{name:22} not stored, {figures['confirmation']}; {figures['settings tried']}")
            continue
        size = f"{figures['delta bytes'] / 1e6:.2f} MB"
        if "test accuracy" in figures:
            tests = [
                f"{test} {before:.3f} -> stored {figures['test accuracy'][test]:.3f}"
                for test, before in figures["test accuracy before compression"].items()
            ]
            setting = figures["setting"]
            detail = f"lr {setting['rate']:g}, {setting['epochs']} epochs, {setting['steps']}/{setting['of']} steps; "
            detail += "; ".join(tests)
        else:
            sets = {test: figures["unseen"][test] for test in ("sst-test", "imdb-unseen", "movies-test")}
            detail = f"{figures['steps']} steps; " + "; ".join(
                f"{test} top-1 {f['top-1']:.3f} top-10 {f['top-10']:.3f} ce {f['cross-entropy']:.2f}"
                for test, f in sets.items()
            )
            if "unseen before" in figures:
                detail += f"; sst-test ce before {figures['unseen before']['sst-test']['cross-entropy']:.2f}"
        lines.append(f"{name:22} {size} {figures['item seconds']:.0f}s  {detail}")
    return "\n".join(lines)


def run(
    selected: list[Item], data: Path, encoder: Path, models: Path, out: Path, minutes: float, seed: int, tiny: bool
) -> dict[str, dict[str, Any]]:
    """Train the items in turn, each within its share of the minutes that are left."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    end = time.monotonic() + 60 * minutes
    results: dict[str, dict[str, Any]] = {}
    finished: dict[str, list[str]] = {}
    for number, item in enumerate(selected):
        begin = time.monotonic()
        share = MINUTES[item.name] / sum(MINUTES[later.name] for later in selected[number:])
        budget = max(0.05, share * (end - begin) / 60)
        print(f"== {item.name}: {budget:.2f} minutes", flush=True)
        try:
            figures = item.train(data, encoder, models, device, budget, seed, tiny)
        except Exception as error:  # noqa: BLE001 - machine time is scarce: the other models are still trained
            traceback.print_exc()
            figures = {"model": item.name, "error": f"{type(error).__name__}: {error}"}
        else:
            if "delta bytes" in figures:  # stored
                finished.setdefault(item.archive, []).append(item.name)
                write_archive(out, item.archive, models, finished[item.archive])
        results[item.name] = figures | {"item seconds": time.monotonic() - begin}
        (out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
        if device.type == "cuda":
            torch.cuda.empty_cache()
    return results


def main() -> None:
    names = [item.name for item in items()]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("carry/paper-models"), help="folder of zoo.paper_models.pack")
    parser.add_argument("--encoder", type=Path, help="packed encoder, if it is not the folder minilm of --data")
    parser.add_argument("--out", type=Path, required=True, help="folder for the archives and results.json")
    parser.add_argument("--items", nargs="+", choices=names, default=names)
    parser.add_argument(
        "--base", type=Path, help="folder with a finished minilm-filler, to tune it without training it"
    )
    parser.add_argument("--minutes", type=float, default=9.0, help="of all items together")
    parser.add_argument(
        "--tested-share", type=float, default=1.0, help="of the tokens that minilm-filler-sst2 is tested on"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tiny", action="store_true", help="a dry run: few texts, few steps")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    with TemporaryDirectory() as work:
        encoder = unpack_encoder(args.encoder or args.data / "minilm", Path(work) / "minilm")
        models = Path(work) / "models"
        models.mkdir()
        if args.base is not None:
            (models / args.base.name).symlink_to(args.base.resolve())
        selected = [item for item in items(args.tested_share) if item.name in args.items]
        minutes = args.minutes - (time.monotonic() - begin) / 60
        with quiet_transformers():  # no reports of the heads that the encoder lacks
            results = run(selected, args.data, encoder, models, args.out, minutes, args.seed, args.tiny)
    print(table(results), flush=True)


if __name__ == "__main__":
    main()
