"""Figure 3: the confusion matrix of a network of all bird species, and the pairs that it confuses most.

The paper chooses its four pairs of similar species in this way, from a network trained on CUB-200-2011.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from rationales.errors import DataError, OptionError
from rationales.evaluation.tables import markdown
from rationales.evaluation.tables.table import Cell, Table, TableRow
from rationales.experiments.ground_truth.reporting import plots
from rationales.experiments.ground_truth.runs import bird_pictures
from rationales.experiments.ground_truth.runs.networks import PICTURE_NETWORKS
from rationales.experiments.ground_truth.runs.run_spec import RunSettings
from rationales.experiments.ground_truth.runs.training_run import compute_device
from rationales.experiments.registry import ExperimentReport, Request
from rationales.groundtruth.encoded_examples import EncodedImages, encode_images
from rationales.groundtruth.training import EncodedSplits, train
from rationales.version import __version__

NAME = "gt-fig3"
TITLE = "Ground truth, Figure 3: confusion of bird species, and the choice of pairs"
PAIRS = 4
SPLITS = ("train", "val", "test")


def names() -> list[str]:
    """The names that `--rows` accepts."""
    return list(PICTURE_NETWORKS)


def confusion_matrix(labels: Sequence[int], predictions: Sequence[int], classes: int) -> np.ndarray:
    """(classes, classes): how many inputs of each label (row) have each prediction (column)."""
    matrix = np.zeros((classes, classes), dtype=np.int64)
    np.add.at(matrix, (np.asarray(labels, dtype=np.int64), np.asarray(predictions, dtype=np.int64)), 1)
    return matrix


def confusing_pairs(matrix: np.ndarray, count: int = PAIRS) -> list[tuple[int, int, float]]:
    """(class, class, confusion) of the pairs confused most, each class in one pair at most, the most confused first.

    The confusion of a pair is the mean of the shares of each class that are taken for the other; of equals, the first.
    """
    shares = matrix / np.maximum(matrix.sum(1, keepdims=True), 1)
    confusion = (shares + shares.T) / 2
    candidates = [(first, second) for first in range(len(matrix)) for second in range(first + 1, len(matrix))]
    candidates.sort(key=lambda pair: (-confusion[pair], pair))
    pairs: list[tuple[int, int, float]] = []
    used: set[int] = set()
    for first, second in candidates:
        if len(pairs) < count and not {first, second} & used:
            pairs.append((first, second, float(confusion[first, second])))
            used |= {first, second}
    return pairs


def reproduce(request: Request) -> ExperimentReport:
    """Train a network on all species, and report its confusion matrix and the pairs."""
    unknown = [name for name in request.rows or () if name not in PICTURE_NETWORKS]
    if unknown:
        raise OptionError(f"there is no row {unknown[0]!r}; there are: {', '.join(PICTURE_NETWORKS)}")
    network = PICTURE_NETWORKS[(request.rows or ("resnet34",))[0]]
    pictures = {split: bird_pictures.read_all_kinds(request.data, split) for split in SPLITS}
    kinds = sorted({str(shot.label) for shot in pictures["train"]})
    if len(kinds) < 2:
        raise DataError(f"{bird_pictures.DATA} has fewer than two species; is the data set complete?")
    encoded = {split: encode_images(shots, kinds) for split, shots in pictures.items()}
    size = encoded["train"].pixels.shape[-1]
    settings = RunSettings(NAME, (), 0, request.seed, request.data, request.device)
    trained = train(
        lambda: network.make(len(kinds), size),
        EncodedSplits(encoded["train"], encoded["val"], encoded["test"]),
        network.recipe,
        seed=request.seed,
        device=compute_device(settings),
        progress=request.progress,
    )
    test = encoded["test"].to(compute_device(settings))
    predictions = predicted_labels(trained.module, test, network.recipe.batch_size)
    matrix = confusion_matrix(test.labels.tolist(), predictions, len(kinds))
    return report(matrix, kinds, network.title, request.seed, [str(shot.name) for shot in pictures["test"]])


def predicted_labels(module: torch.nn.Module, examples: EncodedImages, batch_size: int) -> list[int]:
    """The predicted class of every example."""
    with torch.no_grad():
        parts = [
            examples.logits(module, index).argmax(-1)
            for index in torch.split(torch.arange(len(examples), device=examples.labels.device), batch_size)
        ]
    predictions: list[int] = torch.cat(parts).tolist()
    return predictions


def report(
    matrix: np.ndarray, kinds: Sequence[str], network: str, seed: int, inputs: Sequence[str]
) -> ExperimentReport:
    """The accuracy of each species as a table, the matrix and the pairs as sections."""
    rows = []
    for number, kind in enumerate(kinds):
        correct = int(matrix[number, number])
        values = [1.0] * correct + [0.0] * int(matrix[number].sum() - correct)
        rows.append(TableRow(kind, {"accuracy": Cell(tuple(values) + (float("nan"),) * (len(inputs) - len(values)))}))
    table = Table(
        rows=tuple(rows),
        metrics=("accuracy",),
        inputs=tuple(inputs),
        protocol=None,
        selection="",
        model=network,
        baseline="none",
        seed=seed,
        versions={"rationales": __version__},
        recipe="The share of a species' test pictures that the network of all species predicts.",
    )
    shares = matrix / np.maximum(matrix.sum(1, keepdims=True), 1)
    lines = [[kind, *(f"{share:.2f}" for share in shares[number])] for number, kind in enumerate(kinds)]
    pairs = [[kinds[first], kinds[second], f"{value:.3f}"] for first, second, value in confusing_pairs(matrix)]
    sections = (
        ("The pairs that are confused most", markdown.table(["species", "species", "confusion"], pairs)),
        ("Confusion: the share of each species (row) with each prediction", markdown.table(["", *kinds], lines)),
    )
    return ExperimentReport(
        table, None, ("accuracy",), sections, TITLE, draw_figures=lambda folder: draw(shares, kinds, folder)
    )


def draw(shares: np.ndarray, kinds: Sequence[str], folder: Path) -> list[Path]:
    """Write the confusion matrix as a figure."""
    return [plots.matrix(folder / "confusion.png", shares, [kind.replace("_", " ") for kind in kinds])]
