"""Sufficiency against the share of the best 15 % of pixels in the boxes, for mixtures of MaRC and Grad-CAM.

    python bench/picture_frontier.py --data path/to/imagenet-val-250 --device cuda
    python bench/picture_frontier.py --data path/to/imagenet-val-250 --quick          # 20 photographs, on a CPU

Rows: standard scores of MaRC plus a times those of Grad-CAM, for every a of --weights; Grad-CAM alone; and MaRC with
closed regions filled: what is surrounded by higher scores is raised to the lowest of them. Each picture's scores are
standardised by themselves. Protocol and pictures as in bench/pictures.py, whose every fifth picture settings were
chosen on: the second table leaves these out.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pictures import ROWS, boxes_of_units, explained, figures, pictures
from timing import table
from torch import Tensor

import rationales
from rationales.files import write_text
from rationales.models.image.model import ImageModel

WEIGHTS = (0.0, 0.25, 0.5, 1.0, 2.0)
QUICK_PICTURES = 20
SUBSETS = {"all": "all pictures", "fresh": "without every fifth, which settings were chosen on"}
COLUMNS = ("sufficiency", "comprehensiveness", "in boxes")


def standardized(scores: Tensor) -> Tensor:
    """(pictures, pixels): each picture's scores with mean 0 and standard deviation 1."""
    centred = scores - scores.mean(1, keepdim=True)
    return centred / scores.std(1, keepdim=True).clamp(min=1e-6)


def filled(scores: Tensor, grid: tuple[int, int]) -> Tensor:
    """(pictures, pixels): pixels that higher scores surround, raised to the lowest on the way out of them."""
    from skimage.morphology import reconstruction

    def fill(values: np.ndarray) -> np.ndarray:
        seed = np.full_like(values, values.max())
        seed[[0, -1]], seed[:, [0, -1]] = values[[0, -1]], values[:, [0, -1]]
        result: np.ndarray = reconstruction(seed, values, method="erosion")
        return result

    grids = scores.cpu().double().numpy().reshape(-1, *grid)
    return torch.from_numpy(np.stack([fill(values) for values in grids])).flatten(1).to(scores)


def mixtures(marc: Tensor, grad_cam: Tensor, grid: tuple[int, int], weights: list[float]) -> dict[str, Tensor]:
    """(pictures, pixels) scores of each row."""
    rows = {
        f"z(marc) + {weight:g} z(grad-cam)": standardized(marc) + weight * standardized(grad_cam) for weight in weights
    }
    return rows | {"grad-cam": grad_cam, "marc, closed regions filled": filled(marc, grid)}


def measure(model: ImageModel, data: Any, weights: list[float], steps: int | None) -> dict[str, dict[str, Any]]:
    """Figures of each row."""
    images, classes, boxes = data
    encoded = model.encode(images)
    target = torch.tensor(classes, device=next(model.module.parameters()).device)
    inside = boxes_of_units(model, boxes)
    marc_row = {"method": "marc", "options": {"steps": steps} if steps else {}}
    with model.frozen():
        marc, grad_cam = (explained(model, encoded, target, row)[0] for row in (marc_row, ROWS["grad-cam"]))
        rows = mixtures(marc, grad_cam, (model.fit.height, model.fit.width), weights)
        return {name: figures(model, encoded, target, inside, scores) for name, scores in rows.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with index.csv and images/; without it nothing is run")
    parser.add_argument("--device", default=None)
    parser.add_argument("--model", default="efficientnet-lite0")
    parser.add_argument("--pictures", help="which of them, as first:end[:step]; by default all")
    parser.add_argument("--weights", type=float, nargs="+", default=list(WEIGHTS), help="a, of Grad-CAM")
    parser.add_argument("--steps", type=int, help="of MaRC; by default the preset's")
    parser.add_argument("--quick", action="store_true", help=f"the first {QUICK_PICTURES} pictures")
    parser.add_argument("--out", type=Path, help="write all figures as JSON")
    args = parser.parse_args()
    if args.data is None:
        print("picture_frontier: give --data, a folder of pictures with boxes; skipped")
        return
    bounds = args.pictures or (f"0:{QUICK_PICTURES}" if args.quick else ":")
    selected = slice(*(int(bound) if bound else None for bound in bounds.split(":")))
    data = tuple(column[selected] for column in pictures(args.data))
    rows = measure(rationales.load(args.model, device=args.device), data, args.weights, args.steps)
    print(f"{args.model}, {len(data[0])} pictures")
    for subset, description in SUBSETS.items():
        print(f"\n{table([description, *COLUMNS], [line(name, row[subset]) for name, row in rows.items()])}")
    if args.out is not None:
        write_text(args.out, json.dumps({"model": args.model, "pictures": len(data[0]), "rows": rows}))


def line(name: str, means: dict[str, Any]) -> list[str]:
    """Cells of the printed table for one row: means with their intervals."""
    return [
        name,
        *(f"{means[key][0]:.3f} [{means[key][1]:.3f} {means[key][2]:.3f}]" for key in ("suff", "comp", "box")),
    ]


if __name__ == "__main__":
    main()
