"""Figures 10 and 11 (and 19, 20): the attention on every word of a few reviews, as bars.

A network is trained for each data set (articles, CN, NC) as in Table 1, and the scores of its words are drawn: orange
for articles that tell the class, blue for articles that do not, green for all other words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rationales.errors import OptionError
from rationales.evaluation.scores.attribution import attribute
from rationales.evaluation.tables.table import Cell, Table, TableRow
from rationales.experiments.ground_truth.figures.article_scores import CORRELATING, NON_CORRELATING, OTHER_WORDS, PLANTS
from rationales.experiments.ground_truth.method_rows import TEXT_METHODS
from rationales.experiments.ground_truth.reporting import plots
from rationales.experiments.ground_truth.runs import method_measures, review_passages, text_run, training_run
from rationales.experiments.ground_truth.runs.networks import TEXT_NETWORKS
from rationales.experiments.ground_truth.runs.run_spec import RunSettings, RunSpec
from rationales.experiments.registry import ExperimentReport, Request
from rationales.groundtruth import training
from rationales.groundtruth.metrics import attribution_share
from rationales.version import __version__

NAME = "gt-fig10"
TITLE = "Ground truth, Figures 10 and 11: the scores of every word of a few reviews"
REVIEWS = 2  # of each data set
DEFAULT_METHODS = ("inherent",)
COLOURS = {CORRELATING: plots.ORANGE, NON_CORRELATING: plots.BLUE, OTHER_WORDS: plots.GREEN}


@dataclass(frozen=True, eq=False)
class ScoredReview:
    """The words of a review with their scores and kinds."""

    title: str
    plant: str
    method: str
    words: tuple[str, ...]
    scores: np.ndarray  # (words,)
    kinds: tuple[str, ...]  # of each word: a key of COLOURS

    def share(self, kind: str) -> float:
        """Attr% on the words of a kind; NaN where there are none."""
        region = np.array([word_kind == kind for word_kind in self.kinds])
        return attribution_share(self.scores, region) if region.any() else float("nan")


def names() -> list[str]:
    """The names that `--rows` accepts: data sets, networks and methods."""
    networks = [name for name, network in TEXT_NETWORKS.items() if not network.selects]
    return [*PLANTS, *networks, *TEXT_METHODS]


def reproduce(request: Request) -> ExperimentReport:
    """Train a network for each data set, and report and draw the scores of a few reviews."""
    unknown = [name for name in request.rows or () if name not in names()]
    if unknown:
        raise OptionError(f"there is no row {unknown[0]!r}; there are: {', '.join(names())}")
    rows = list(request.rows or ())
    plants = [plant for plant in PLANTS if plant in rows] or list(PLANTS)
    network = next((name for name in TEXT_NETWORKS if name in rows), "attention")
    methods = [name for name in TEXT_METHODS if name in rows] or list(DEFAULT_METHODS)
    reviews: list[ScoredReview] = []
    remarks = []
    for number, plant in enumerate(plants):
        trained_reviews, accuracy = scored_reviews(plant, network, methods, request)
        reviews += trained_reviews
        remarks.append(f"{plant}: test accuracy {accuracy:.3f}.")
        if request.log is not None:
            request.log(remarks[-1])
        if request.progress is not None:
            request.progress((number + 1) / len(plants))
    return ExperimentReport(
        report_table(reviews, methods, network, request.seed, remarks),
        None,
        tuple(COLOURS),
        (),
        TITLE,
        draw_figures=lambda folder: draw(reviews, folder),
    )


def scored_reviews(
    plant: str, network: str, methods: Sequence[str], request: Request
) -> tuple[list[ScoredReview], float]:
    """The first test reviews of a data set with the scores of each method, and the network's test accuracy."""
    spec = RunSpec(plant, network, data=review_passages.MOVIES)
    settings = RunSettings(NAME, tuple(methods), REVIEWS, request.seed, request.data, request.device)
    setup = text_run.prepare(spec, settings, 0)
    seed, device = settings.training_seed(spec, 0), training_run.compute_device(settings)
    trained = training.train(setup.make_network, setup.data, setup.recipe, seed=seed, device=device)
    model = setup.make_model(trained.module)
    planted = training_run.select_inputs(setup.test.planted, request.limit or REVIEWS)
    inputs = method_measures.encode_inputs(model, planted)
    reviews = []
    for method in methods:
        built = TEXT_METHODS[method].build_method("text")
        attributions = attribute(model, inputs.encoded, built, inputs.targets, seed=request.seed)
        for number, attribution in enumerate(attributions):
            if attribution.scores is None:
                continue
            kinds = word_kinds(inputs.regions[number], inputs.distractors[number])
            words = tuple(unit.text for unit in inputs.encoded[number].units)
            title = f"{plant}, {inputs.planted[number].example.name}"
            reviews.append(ScoredReview(title, plant, method, words, np.asarray(attribution.scores), kinds))
    return reviews, trained.accuracy


def word_kinds(region: np.ndarray, distractors: np.ndarray) -> tuple[str, ...]:
    """The kind of every word from two (words,) masks: articles that tell the class, and articles that do not."""
    return tuple(
        CORRELATING if tells else NON_CORRELATING if misleads else OTHER_WORDS
        for tells, misleads in zip(region.tolist(), distractors.tolist(), strict=True)
    )


def report_table(
    reviews: Sequence[ScoredReview], methods: Sequence[str], network: str, seed: int, remarks: Sequence[str]
) -> Table:
    """Methods by Attr% on each kind of word, over all drawn reviews."""
    titles = list(dict.fromkeys(review.title for review in reviews))
    rows = []
    for method in methods:
        by_title = {review.title: review for review in reviews if review.method == method}
        cells = {
            kind: Cell(tuple(by_title[title].share(kind) if title in by_title else float("nan") for title in titles))
            for kind in COLOURS
        }
        rows.append(TableRow(TEXT_METHODS[method].title, cells, method))
    return Table(
        rows=tuple(rows),
        metrics=tuple(COLOURS),
        inputs=tuple(titles),
        protocol=None,
        selection="",
        model=TEXT_NETWORKS[network].title,
        baseline="pad",
        seed=seed,
        versions={"rationales": __version__},
        remarks=tuple(remarks),
        recipe="Attr% on articles that tell the class, on articles that do not, and on other words.",
        unit="reviews",
    )


def draw(reviews: Sequence[ScoredReview], folder: Path) -> list[Path]:
    """Write one figure per method with a panel of bars for each review."""
    paths = []
    for method in dict.fromkeys(review.method for review in reviews):
        of_method = [review for review in reviews if review.method == method]
        paths.append(plots.word_bars(folder / f"word-bars-{method}.png", [_panel(review) for review in of_method]))
    return paths


def _panel(review: ScoredReview) -> tuple[str, Sequence[str], Any, Sequence[str]]:
    return review.title, review.words, review.scores, [COLOURS[kind] for kind in review.kinds]
