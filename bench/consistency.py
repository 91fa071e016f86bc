"""How often the rationale of a photograph contradicts itself: too little probability alone, or too much without it.

python bench/consistency.py --data path/to/imagenet-val-250 --device cuda

For every photograph, explained with the default settings and the predicted class: the share whose rationale alone gives
the class less than 90 % of its probability in the full image, the share whose complement gives it at least as much as
the full image, and how many of either carry a note that says so.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from pictures import pictures

import rationales
from rationales.errors import ModelError
from rationales.models.image.model import ImageModel
from rationales.models.image.reading import ImageInput

SUFFICIENT = 0.9
NOTES = ("not-sufficient", "evidence-against", "not-comprehensive", "keeps-everything")


def report(model: ImageModel, photographs: list[ImageInput], method: str, seed: int) -> str:
    """One line of the table for one model and method."""
    started = time.perf_counter()
    results = rationales.explain(model, [photograph.pixels for photograph in photographs], method=method, seed=seed)
    seconds = (time.perf_counter() - started) / len(results)
    full, rationale, complement = (
        np.array([result.probabilities[name][result.target] for result in results])
        for name in ("full", "rationale", "complement")
    )
    insufficient, contradicted = rationale < SUFFICIENT * full, complement >= full
    notes = [{note.kind for note in result.notes} for result in results]
    counts = "  ".join(f"{kind} {sum(kind in kinds for kinds in notes)}" for kind in NOTES)
    silent = sum(bool(flag and not kinds & set(NOTES[:2])) for flag, kinds in zip(contradicted, notes, strict=True))
    share = float(np.mean([result.selected().mean() for result in results]))
    return (
        f"{model.name:<20} {method:<10} {insufficient.mean():>8.1%} {contradicted.mean():>8.1%} "
        f"{(insufficient | contradicted).mean():>8.1%} {share:>8.1%} {seconds:>8.3f} s   {counts}  unnoted {silent}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with index.csv and images/; without it nothing is run")
    parser.add_argument("--device", default=None)
    parser.add_argument("--models", default="efficientnet-lite0,mobilenet-v2")
    parser.add_argument("--methods", default="marc")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=int, default=None)
    arguments = parser.parse_args()
    if arguments.data is None:
        print("consistency: give --data, a folder of photographs; skipped")
        return
    photographs = pictures(arguments.data)[0][: arguments.limit]
    print(f"{len(photographs)} photographs     rationale < 90 %, complement >= full, either, selected, a photograph")
    for name in arguments.models.split(","):
        try:
            model = rationales.load(name, device=arguments.device)
        except ModelError as error:
            print(f"{name} is left out: {error}")
            continue
        for method in arguments.methods.split(","):
            print(report(model, photographs, method, arguments.seed), flush=True)


if __name__ == "__main__":
    main()
