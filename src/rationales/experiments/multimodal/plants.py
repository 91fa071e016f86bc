"""Which methods find a cause that was planted in the words, in the picture, or in both.

For each cause a small network is trained on pictures with captions whose labels only the plant tells. Every method then
explains class 1 on test pairs of class 1, and its scores are measured within each part: Attr% of the words on the
inserted word, Attr% of the pixels on the tinted corner (Zhou et al. 2022, section 3).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from rationales.errors import OptionError
from rationales.evaluation.tables.table import Cell, Table, TableRow
from rationales.experiments.registry import ExperimentReport, Request
from rationales.files import write_text
from rationales.groundtruth.captioned_shapes import SIDE, captioned_pictures
from rationales.groundtruth.metrics import attribution_share
from rationales.groundtruth.networks.vocabulary import word_tokenizer
from rationales.groundtruth.pair_plants import CAUSES, PlantedPair, planted_pairs
from rationales.groundtruth.pair_training import PairData, TrainingSettings, accuracy, train_pairs
from rationales.groundtruth.plants.regions import area, units_in_region
from rationales.methods import Method, build
from rationales.models.load import load
from rationales.models.multimodal.model import ImageTextModel
from rationales.models.multimodal.pair_network import PairConfiguration, PairNetwork, picture_reader
from rationales.pipeline.scoring import encode_inputs, open_batch, run_method
from rationales.version import __version__

TITLE = "Planted causes in words, pictures and both"
TRAINING_PAIRS, TEST_PAIRS, STEPS = 2000, 200, 250
TRAINING_SEED, TEST_SEED = 3000, 4000
LIMIT = 40  # explained test pairs of each network
MIN_ACCURACY = 0.97  # below it a network does not rely on the plant, and its columns mean nothing
BASELINE = "pad; mean"  # of words; of pixels
CELL = 4  # pixels: side of the cells that methods with groups replace
ROWS: Mapping[str, tuple[str, Mapping[str, Any]]] = {  # name -> title and options
    "random": ("Random", {}),
    "marc": ("MaRC", {"cell": CELL}),
    "saliency": ("Saliency", {}),
    "input-x-gradient": ("Input x gradient", {}),
    "integrated-gradients": ("Integrated gradients", {}),
    "smooth-grad": ("SmoothGrad", {}),
    "deep-lift": ("DeepLIFT", {}),
    "occlusion": ("Occlusion", {"window": 6, "stride": 3}),
    "lime": ("LIME", {"cell": CELL, "samples": 300}),
    "kernel-shap": ("KernelSHAP", {"cell": CELL, "samples": 300}),
    "shapley-sampling": ("Shapley sampling", {"cell": CELL, "orders": 5}),
}
METRICS = (
    "words",  # cause in the words: Attr% of the words on the inserted word
    "picture",  # cause in the picture: Attr% of the pixels on the corner
    "both, words",
    "both, picture",
    "words, right part",  # cause in the words: mean |score| of words, relative to that of words plus that of pixels
    "picture, right part",
)


@dataclass(frozen=True, eq=False)
class TrainedPairs:
    """A network that was trained on one cause, and the test pairs that are explained."""

    cause: str
    model: ImageTextModel
    accuracy: float
    explained: Sequence[PlantedPair]


def names() -> list[str]:
    """The names that `--rows` accepts."""
    return list(ROWS)


def reproduce(request: Request) -> ExperimentReport:
    """Train the networks, run the methods, and make the table."""
    methods = _chosen(request.rows)
    log = request.log or (lambda _line: None)
    networks = []
    for cause in CAUSES:
        networks.append(trained(cause, request.seed, request.limit or LIMIT, request.device))
        log(f"cause in {cause}: test accuracy {networks[-1].accuracy:.3f}")
    rows: list[TableRow] = []
    for number, (name, method) in enumerate(methods.items()):
        rows.append(measured_row(name, method, networks, request.seed))
        log(f"{rows[-1].title}: {rows[-1].seconds:.2f} s / input")
        if request.progress is not None:
            request.progress((number + 1) / len(methods))
        if request.out is not None:  # a run that is stopped leaves its finished rows
            write_text(request.out / "table.md", build_report(rows, networks, request.seed).to_markdown())
    return build_report(rows, networks, request.seed)


def build_report(rows: Sequence[TableRow], networks: Sequence[TrainedPairs], seed: int) -> ExperimentReport:
    """The report on these rows."""
    count = max(len(network.explained) for network in networks)
    accuracies = ", ".join(f"{network.cause} {network.accuracy:.3f}" for network in networks)
    failed = [network.cause for network in networks if network.accuracy < MIN_ACCURACY]
    remarks = [f"Test accuracy of the networks by cause: {accuracies}.", _chance(networks)]
    if failed:
        remarks.append(f"Below {MIN_ACCURACY}, so that the columns mean nothing: {', '.join(failed)}.")
    table = Table(
        rows=tuple(rows),
        metrics=METRICS,
        inputs=tuple(f"pair {number}" for number in range(count)),
        protocol=None,
        selection="",
        model="PairNetwork, one for each cause",
        baseline=BASELINE,
        seed=seed,
        versions={"rationales": __version__},
        remarks=tuple(remarks),
        recipe="Attr% within a part: the share of its absolute scores on the cause. 'right part': mean |score| of the "
        "part with the cause, relative to the sum of the means of both parts.",
        unit="pairs of class 1 for each cause",
    )
    has_random = any(row.method == "random" for row in rows)
    return ExperimentReport(table, ROWS["random"][0] if has_random else None, METRICS, (), TITLE)


def trained(cause: str, seed: int, limit: int, device: str | None = None) -> TrainedPairs:
    """The network for a cause, and at most `limit` test pairs of class 1 that it predicts."""
    training = planted_pairs(captioned_pictures(TRAINING_PAIRS, TRAINING_SEED + seed), cause, seed)
    test = planted_pairs(captioned_pictures(TEST_PAIRS, TEST_SEED + seed), cause, seed)
    tokenizer = word_tokenizer([pair.caption for pair in training])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        config = PairConfiguration(len(tokenizer), {0: "0", 1: "1"}, SIDE, pad_token_id=tokenizer.pad_token_id)
        module = PairNetwork(config)
    train_pairs(module, _data(training, tokenizer), TrainingSettings(steps=STEPS, seed=seed))
    test_data = _data(test, tokenizer)
    with torch.no_grad():
        predicted = test_data.logits(module, torch.arange(len(test))).argmax(-1).tolist()
    explained = [pair for pair, label in zip(test, predicted, strict=True) if pair.label == label == 1][:limit]
    model: Any = load(module, (tokenizer, picture_reader(SIDE)), baseline=BASELINE, device=device)
    return TrainedPairs(cause, model, accuracy(module, test_data), explained)


def measured_row(name: str, method: Method, networks: Sequence[TrainedPairs], seed: int) -> TableRow:
    """The row of one method: its scores on the pairs of every network, measured."""
    started = time.perf_counter()
    cells: dict[str, list[float]] = {metric: [] for metric in METRICS}
    for network in networks:
        for pair, words, pixels in part_scores(network, method, seed):
            for metric, value in measures(network.cause, pair, words, pixels, network.model).items():
                cells[metric].append(value)
    count = max(len(values) for values in cells.values())
    padded = {metric: (*values, *[np.nan] * (count - len(values))) for metric, values in cells.items()}
    explained = sum(len(network.explained) for network in networks)
    seconds = (time.perf_counter() - started) / max(1, explained)
    title, options = ROWS[name]
    return TableRow(
        title, {metric: Cell(tuple(values)) for metric, values in padded.items()}, name, dict(options), seconds=seconds
    )


def part_scores(network: TrainedPairs, method: Method, seed: int) -> list[tuple[PlantedPair, np.ndarray, np.ndarray]]:
    """Every explained pair with the scores of its words and of its pixels, for class 1."""
    model = network.model
    sources = [model.read((pair.pixels, pair.caption), pair.name) for pair in network.explained]
    encoded = encode_inputs(model, sources, plain_baseline=False)
    with open_batch(model, encoded, seed) as batch:
        target = torch.ones(batch.inputs, dtype=torch.long, device=batch.device)
        scores = [values.cpu().numpy() for values in batch.gather(run_method(batch, method, target).scores)]
    pixels = SIDE * SIDE
    return [(pair, values[pixels:], values[:pixels]) for pair, values in zip(network.explained, scores, strict=True)]


def measures(
    cause: str, pair: PlantedPair, words: np.ndarray, pixels: np.ndarray, model: ImageTextModel
) -> dict[str, float]:
    """The metrics of one pair under one cause."""
    prefix = "both, " if cause == "both" else ""
    values: dict[str, float] = {}
    if cause != "picture":
        values[f"{prefix}words"] = attribution_share(words, word_region(pair, model))
    if cause != "words":
        values[f"{prefix}picture"] = attribution_share(pixels, pair.picture.flatten())
    if cause != "both":
        means = {"words": float(np.abs(words).mean()), "picture": float(np.abs(pixels).mean())}
        total = sum(means.values())
        values[f"{cause}, right part"] = means[cause] / total if total else 0.5
    return values


def word_region(pair: PlantedPair, model: ImageTextModel) -> np.ndarray:
    """(words,) bool: the words of the caption that were inserted."""
    (encoded,) = model.encode([model.read((pair.pixels, pair.caption), pair.name)])
    return units_in_region(pair.words, encoded.words.units, pair.caption)


def _data(pairs: Sequence[PlantedPair], tokenizer: Any) -> PairData:
    labels = [pair.label for pair in pairs]
    return PairData.of([pair.pixels for pair in pairs], [pair.caption for pair in pairs], labels, tokenizer)


def _chance(networks: Sequence[TrainedPairs]) -> str:
    """What equal scores reach: the mean share of words and of pixels that are the cause."""
    words = [area(word_region(pair, network.model)) for network in networks if network.cause == "words"
             for pair in network.explained]  # fmt: skip
    pixels = [area(pair.picture) for network in networks if network.cause == "picture" for pair in network.explained]
    return f"Equal scores reach {np.mean(words):.3f} on the words and {np.mean(pixels):.3f} on the picture."


def _chosen(rows: Sequence[str] | None) -> dict[str, Method]:
    """Name -> method, in the order of `ROWS`."""
    unknown = [name for name in rows or () if name not in ROWS]
    if unknown:
        raise OptionError(f"there is no row {unknown[0]!r}; there are: {', '.join(ROWS)}")
    return {
        name: build(name, dict(options), "image-text")
        for name, (_, options) in ROWS.items()
        if not rows or name in rows
    }
