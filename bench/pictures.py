"""Explanations of photographs compared: sufficiency, comprehensiveness, share of the best 15 % of pixels in the boxes.

python bench/pictures.py --data path/to/imagenet-val-250 --device cuda

Protocol: gold class; 19 levels (5..95 % of the pixels), each on four baselines (blur of radius 10, black, mean colour,
white), averaged; sufficiency = p(full) - p(the best pixels alone), lower is better; comprehensiveness = p(full) - p(the
rest), higher is better. 95 % bootstrap intervals over pictures.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from quality import interval
from torch import Tensor

import rationales
from rationales.errors import ModelError
from rationales.evaluation.faithfulness.measure import measure_faithfulness
from rationales.masks.field import smooth
from rationales.methods import build
from rationales.models.image.model import ImageModel
from rationales.models.image.reading import ImageInput, fit_image, read_image

BEST = 0.15
AT_ONCE = 50
TUNED_ON = slice(0, None, 5)  # every fifth picture: what the default preset and the widths below were chosen on
WIDTHS = (6.0, 12.0, 24.0)  # pixels
LOGIT = {"output": "logit"}  # as in the published tables
ROWS: dict[str, dict[str, Any]] = {
    "marc, default": {"method": "marc"},
    "grad-cam": {"method": "grad-cam", "options": LOGIT},
    "saliency": {"method": "saliency", "options": LOGIT},
    "integrated gradients": {"method": "integrated-gradients", "options": LOGIT},
    "marc, paper": {
        "method": "marc",
        "options": {"preset": "resnet", "steps": 700, "precision": "auto"},
        "baselines": ("black", "white", "mean"),
        "at_once": 250,
    },
}


def pictures(folder: Path) -> tuple[list[ImageInput], list[int], list[np.ndarray]]:
    """Pictures, their classes, and for each (h, w, 3) bytes: white inside the boxes."""
    images, classes, boxes = [], [], []
    with (folder / "index.csv").open(encoding="utf-8") as table:
        for line in csv.DictReader(table):
            picture = read_image(folder / "images" / line["file"])
            inside = np.zeros((*picture.size, 3), dtype=np.uint8)
            for box in line["boxes"].split(";"):
                left, top, right, bottom = map(int, box.split())
                inside[top : bottom + 1, left : right + 1] = 255
            images.append(picture)
            classes.append(int(line["class_index"]))
            boxes.append(inside)
    return images, classes, boxes


def boxes_of_units(model: ImageModel, boxes: list[np.ndarray]) -> Tensor:
    """(pictures, pixels) bool: pixels that the model reads and that lie inside the boxes, which are white."""
    return torch.stack([fit_image(ImageInput(box, "boxes"), model.fit)[0][0].flatten() > 0.5 for box in boxes])


def faithful(model: ImageModel, encoded: list[Any], target: Tensor, scores: Tensor) -> np.ndarray:
    """(pictures, 2): sufficiency and comprehensiveness of scores (pictures, pixels) in what the model reads."""
    values = measure_faithfulness(model, encoded, list(scores.cpu().numpy()), target.tolist(), "marc-images")
    return np.stack([values.sufficiency(), values.comprehensiveness()], 1)


def explained(
    model: ImageModel, encoded: list[Any], target: Tensor, row: dict[str, Any]
) -> tuple[Tensor, float, float]:
    """(pictures, pixels) scores, seconds per picture and the mean number of steps of one row: a method and options."""
    if "baselines" in row:
        model = replace(model, baselines=tuple(row["baselines"]))
    method = build(row["method"], row.get("options"), "image")
    at_once = int(row.get("at_once", 64))
    scores, steps = [], []
    _wait(target)
    began = time.perf_counter()
    for begin in range(0, len(encoded), at_once):
        chunk = slice(begin, begin + at_once)
        batch = model.batch(encoded[chunk], 0)
        attribution = method.scores(batch, target[chunk])
        values = attribution.scores if row.get("smooth") is None else smooth(attribution.scores, batch, row["smooth"])
        scores.append(torch.stack(batch.gather(values)).detach())
        steps += attribution.steps
    _wait(target)
    seconds = (time.perf_counter() - began) / len(encoded)
    if steps and min(steps) < max(steps):
        early = np.mean(np.array(steps) < max(steps))
        print(f"{early:.0%} of the pictures ended before step {max(steps)}", file=sys.stderr, flush=True)
    return torch.cat(scores), seconds, float(np.mean(steps)) if steps else 0.0


def _wait(tensor: Tensor) -> None:
    """Wait until the device of the tensor has finished all queued work."""
    if tensor.device.type == "cuda":
        torch.cuda.synchronize()


def compare(
    model: ImageModel, data: Any, rows: dict[str, dict[str, Any]], save: Callable[[dict[str, Any]], None]
) -> None:
    """The figures of every row; `save` is called after each, so that nothing is lost when time runs out."""
    images, classes, boxes = data
    encoded = model.encode(images)
    device = next(model.module.parameters()).device
    target = torch.tensor(classes, device=device)
    inside = boxes_of_units(model, boxes)
    table: dict[str, Any] = {}
    area = float(inside.double().mean())
    with model.frozen():
        batches = (replace(model, baselines=("black",)).batch(encoded[at : at + AT_ONCE]) for at in starts(encoded))
        accuracy = float((torch.cat([batch.predict().argmax(1) for batch in batches]) == target).float().mean())
        for name, row in {**rows, "random": {"method": "random"}}.items():
            scores, seconds, steps = explained(model, encoded, target, row)
            by_name = {name: scores}
            if row.get("smoothed", True):
                width = best_width(model, encoded, target, scores)
                by_name[f"{name}, smoothed {width:g}"] = smoothed(model, encoded, scores, width)
            for title, values in by_name.items():
                table[title] = figures(model, encoded, target, inside, values) | {"seconds": seconds, "steps": steps}
                print(f"{title:<40} {_line(table[title]['all'], table[title])}", file=sys.stderr, flush=True)
                save({"model": model.name, "pictures": len(images), "accuracy": accuracy, "area": area, "rows": table})


def starts(encoded: list[Any]) -> range:
    """Where batches of `AT_ONCE` pictures begin."""
    return range(0, len(encoded), AT_ONCE)


def figures(model: ImageModel, encoded: list[Any], target: Tensor, inside: Tensor, scores: Tensor) -> dict[str, Any]:
    """Means and intervals over all pictures, and over those that nothing was chosen on."""
    suff_comp = faithful(model, encoded, target, scores)
    best = scores.cpu().topk(round(BEST * scores.shape[1]), dim=1).indices
    share = inside.gather(1, best).double().mean(1).numpy()
    values = {"suff": suff_comp[:, 0], "comp": suff_comp[:, 1], "box": share}
    fresh = np.ones(len(share), dtype=bool)
    fresh[TUNED_ON] = False
    return {
        "all": {key: interval(value) for key, value in values.items()},
        "fresh": {key: interval(value[fresh]) for key, value in values.items()},
        "values": {key: value.tolist() for key, value in values.items()},
    }


def smoothed(model: ImageModel, encoded: list[Any], scores: Tensor, width: float) -> Tensor:
    """(pictures, pixels) scores under a Gaussian of this width."""
    single = replace(model, baselines=("black",))
    parts = [
        smooth(scores[begin : begin + AT_ONCE], single.batch(encoded[begin : begin + AT_ONCE]), width)
        for begin in starts(encoded)
    ]
    return torch.cat(parts)


def best_width(model: ImageModel, encoded: list[Any], target: Tensor, scores: Tensor) -> float:
    """The width with the least sufficiency minus comprehensiveness on the pictures that things are chosen on."""
    tuning_inputs, tuning_targets, tuning_scores = encoded[TUNED_ON], target[TUNED_ON], scores[TUNED_ON]
    by_setting = {}
    for width in WIDTHS:
        suff_comp = faithful(model, tuning_inputs, tuning_targets, smoothed(model, tuning_inputs, tuning_scores, width))
        by_setting[width] = float((suff_comp[:, 0] - suff_comp[:, 1]).mean())
    return min(by_setting, key=lambda width: by_setting[width])


def _line(means: dict[str, Any], row: dict[str, Any]) -> str:
    cells = [f"{means[key][0]:.3f} [{means[key][1]:.3f} {means[key][2]:.3f}]" for key in ("suff", "comp", "box")]
    return "  ".join(cells) + f"  {row['seconds']:8.3f} s  {row['steps']:5.0f} steps"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with index.csv and images/; without it nothing is run")
    parser.add_argument("--device", default=None)
    parser.add_argument("--models", default="efficientnet-lite0,mobilenet-v2")
    parser.add_argument("--pictures", default="0:250", help="which of them, as first:end[:step]")
    parser.add_argument("--rows", type=Path, help="a JSON file: name -> method, options, smooth, baselines")
    parser.add_argument("--only", help="names of rows, with semicolons between them; random comes in any case")
    parser.add_argument("--out", type=Path, help="write all figures as JSON")
    args = parser.parse_args()
    if args.data is None:
        print("pictures: give --data, a folder of pictures with boxes; skipped")
        return
    rows = json.loads(args.rows.read_text(encoding="utf-8")) if args.rows else ROWS
    rows = {name: row for name, row in rows.items() if args.only is None or name in args.only.split(";")}
    selected = slice(*(int(bound) for bound in args.pictures.split(":")))
    data = tuple(column[selected] for column in pictures(args.data))
    results: dict[str, dict[str, Any]] = {}

    def save(result: dict[str, Any]) -> None:
        results[result["model"]] = result
        if args.out is not None:
            args.out.write_text(json.dumps(list(results.values())), encoding="utf-8")

    for name in args.models.split(","):
        try:
            model = rationales.load(name, device=args.device)
        except ModelError as error:
            print(f"{name} is left out: {error}")
            continue
        compare(model, data, rows, save)
    for result in results.values():
        print(
            f"\n{result['model']}: {result['pictures']} pictures, accuracy {result['accuracy']:.3f}, "
            f"boxes {result['area']:.3f}"
        )
        for subset, description in (
            ("all", "all pictures"),
            ("fresh", "without every fifth, which settings were chosen on"),
        ):
            print(f"{description:<40} sufficiency          comprehensiveness    best 15 % in boxes      a picture")
            for name, row in result["rows"].items():
                print(f"{name:<40} {_line(row[subset], row)}")


if __name__ == "__main__":
    main()
