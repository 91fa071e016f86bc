"""Turn the raw sources into one small folder that `zoo.train` reads: overlap removed, weights halved, texts packed."""

from __future__ import annotations

import argparse
import json
import lzma
import random
import shutil
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from zoo import text as sources
from zoo.overlap import Protected, without_overlap
from zoo.probes import PROBES
from zoo.templates import synthetic_texts
from zoo.text import Text

SEED = 7
ENCODER_FILES = ("config.json", "tokenizer.json", "tokenizer_config.json")


def write(path: Path, texts: Sequence[Text]) -> None:
    lines = "".join(f"{text.label}\t{text.text}\n" for text in texts)
    path.write_bytes(lzma.compress(lines.encode(), preset=9 | lzma.PRESET_EXTREME))


def halve_encoder(source: Path, target: Path) -> None:
    """Copy the encoder with its weights in half precision: the copy has to travel."""
    target.mkdir(parents=True, exist_ok=True)
    weights = load_file(source / "model.safetensors")
    halved = {name: value.to(torch.float16) for name, value in weights.items() if value.is_floating_point()}
    save_file(halved, target / "model.safetensors")
    for name in ENCODER_FILES:
        shutil.copy(source / name, target / name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--imdb", type=Path, required=True, help="csv with columns review, sentiment")
    parser.add_argument("--eraser", type=Path, required=True, help="folder with train/val/test.jsonl and docs/")
    parser.add_argument("--sst2", type=Path, required=True, help="folder with train.tsv and dev.tsv")
    parser.add_argument("--trees", type=Path, required=True, help="folder with dev.txt and test.txt")
    parser.add_argument("--minilm", type=Path, required=True, help="model folder of the MiniLM package")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--imdb-limit", type=int, default=50_000, help="reviews to read, in random order")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)

    test = sources.read_eraser(args.eraser, "test")
    dev = sources.read_sst2(args.sst2 / "dev.tsv")
    trees = [s for split in ("dev", "test") for s in sources.read_tree_sentences(args.trees / f"{split}.txt")]
    protected = Protected.build(
        reviews=[text.text for text in test + sources.read_eraser(args.eraser, "val")],
        sentences=[text.text for text in dev] + trees + [probe for probe, _ in PROBES],
    )
    imdb = sources.read_imdb(args.imdb)
    random.Random(SEED).shuffle(imdb)  # noqa: S311 - no secret
    training = {
        "imdb": imdb[: args.imdb_limit],
        "eraser": sources.read_eraser(args.eraser, "train"),
        "sst2": sources.read_sst2(args.sst2 / "train.tsv"),
        "synthetic": synthetic_texts(per_label=15_000, seed=SEED),
    }
    report = {}
    for name, texts in training.items():
        kept, dropped = without_overlap(texts, protected)
        write(args.out / f"{name}.tsv.xz", kept)
        report[name] = {"read": len(texts), "kept": len(kept), "dropped": dict(dropped)}
        print(name, report[name], flush=True)
    (args.out / "overlap.json").write_text(json.dumps(report, indent=1) + "\n")
    write(args.out / "eraser-test.tsv.xz", test)
    write(args.out / "sst2-dev.tsv.xz", dev)
    halve_encoder(args.minilm, args.out / "minilm")


if __name__ == "__main__":
    main()
