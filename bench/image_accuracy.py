"""Top-1 and top-5 accuracy of the image models that have a name, on photographs with class numbers.

python bench/image_accuracy.py --data imagenet-val-250.tar
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import torch

import rationales
from rationales.data import read_data
from rationales.errors import ModelError
from rationales.evaluation.tables.statistics import estimate
from rationales.models.image.model import ImageModel

AT_ONCE = 25  # photographs


def hits(model: ImageModel, paths: list[Path], classes: list[int]) -> torch.Tensor:
    """(photographs, 2): whether the class is the first, and among the first five."""
    plain = replace(model, baselines=("black",))
    rows = []
    for begin in range(0, len(paths), AT_ONCE):
        encoded = plain.encode([plain.read(path, None) for path in paths[begin : begin + AT_ONCE]])
        with plain.frozen():
            best = plain.batch(encoded).predict().topk(5, dim=1).indices.cpu()
        right = best == torch.tensor(classes[begin : begin + AT_ONCE])[:, None]
        rows.append(torch.stack([right[:, 0], right.any(1)], 1))
    return torch.cat(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder or archive with index.csv; without it nothing is run")
    parser.add_argument("--models", default="efficientnet-lite0,mobilenet-v2,resnet-50")
    parser.add_argument("--device", default=None)
    args = parser.parse_args()
    if args.data is None:
        print("image_accuracy: give --data, photographs with an index.csv; skipped")
        return
    examples = list(read_data("imagenet-val-250", None, args.data))
    for name in args.models.split(","):
        try:
            model = rationales.load(name, device=args.device)
        except ModelError as error:
            print(f"{name} is left out: {error}")
            continue
        right = hits(model, [example.image for example in examples], [int(example.label) for example in examples])
        cells = []
        for column, title in enumerate(("top-1", "top-5")):
            values = right[:, column].double().numpy()
            interval = estimate(values)
            cells.append(f"{title} {100 * interval.mean:.1f} % [{100 * interval.low:.1f} {100 * interval.high:.1f}]")
        print(f"{name}: {len(examples)} photographs, {', '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
