"""Figure 5 again on what no setting was chosen by: another seed, other pairs of birds, and two new plants.

The rule for baselines (`models/image/baseline_choice.py`) was found on models of `gt-fig5`. Here it is as it was, and
every rival that replaces pixels has the baseline that serves it best on validation pictures of each model, whose true
region is known: more than any user of such a method could know.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from rationales.evaluation.tables import markdown
from rationales.evaluation.tables.statistics import compare, holm
from rationales.evaluation.tables.table import Table
from rationales.experiments.claims import ClaimVerdict, PaperClaim
from rationales.experiments.ground_truth.experiment import Sections
from rationales.experiments.ground_truth.figures import fig5
from rationales.experiments.ground_truth.method_rows import MARC, PICTURE_METHODS, RANDOM, RULE
from rationales.experiments.ground_truth.reporting.run_statistics import Floats, finite_mean, pooled_mean
from rationales.experiments.ground_truth.reporting.run_tables import ExperimentRuns
from rationales.experiments.ground_truth.row_choices import Dimension, method_dimension
from rationales.experiments.ground_truth.runs.networks import PICTURE_NETWORKS
from rationales.experiments.ground_truth.runs.run_record import BOTH, WITH, WITHOUT, RunRecord

MARC_BEST = f"{MARC}-best"
MARGIN = 0.05  # of Attr%: the rule may be this much below the best baseline and still count as confirmed
FIRST_SEED = 1000  # far from the seeds that were used elsewhere
NEW, OLD, ALL = "new plants", "the paper's plants", "all plants"
DEFAULT_METHODS = (
    *("gradient", "smooth-grad", "grad-cam", "guided-backpropagation"),  # without a baseline
    *("lime-best", "shap-best", "integrated-gradients-best", "deep-lift-best", "occlusion-best"),
    *(MARC, MARC_BEST),
)
BASELINES = (
    "best baseline: of black, white, mean, blur-10, blur-20, noise, `rule` (the three that tell the model least about "
    "a picture) and `pictures` (three pictures of the same data, for SHAP 20) the one with the highest mean Attr% on "
    "validation pictures, chosen for every model. MaRC itself has those of the rule."
)
BIRDS = "Pairs of birds are not those of gt-fig5: each has one species of two of its pairs."
Verdicts = tuple[ClaimVerdict, ...]


def confirmation_table(runs: ExperimentRuns) -> tuple[Table, tuple[str, ...]]:
    """Figure 5's table; its remarks say which baselines the methods chose."""
    table, metrics = fig5.picture_table(runs)
    remarks = tuple(remark for remark in table.remarks if remark not in (fig5.BASELINES, fig5.BIRDS))
    chosen = (
        f"{runs.method_title(key)}: {_counted(counts)}" for key, counts in chosen_baselines(runs.successful).items()
    )
    count = f"{runs.settings.validation} validation pictures of each model"
    choices = f"Chosen on {count} (number of models): {'; '.join(chosen)}."
    return replace(table, remarks=(*remarks, BASELINES, choices, fig5.BIRDS, BIRDS)), metrics


def chosen_baselines(records: Sequence[RunRecord]) -> dict[str, Counter[str]]:
    """Method -> how many models it chose each baseline for, in the order of the rows."""
    counts = {
        key: Counter(run.measures[key].baseline for run in records if key in run.measures) for key in PICTURE_METHODS
    }
    return {key: count for key, count in counts.items() if any(count)}


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def sections(runs: ExperimentRuns) -> Sections:
    """Results by plant and by baseline."""
    if not runs.successful:
        return []
    groups = {plant: runs.with_plant(plant) for plant in runs.plants}
    groups |= {name: group.successful for name, group in plant_groups(runs).items()}
    area = ["area", *(markdown.number(fig5.mean_area(group)) for group in groups.values())]
    titled_texts = [
        (f"Attr% on pictures {description}, by manipulation", fig5.by_group(runs, groups, side, area))
        for side, (description, *_) in fig5.SIDES.items()
    ]
    if len(runs.chosen_rows["networks"]) > 1:
        titled_texts.append(("Attr% on pictures with the plant, by network", fig5.by_network(runs)))
    return [
        *titled_texts,
        ("Baselines that were chosen, by manipulation", baselines_by_plant(runs)),
        ("Attr% on validation pictures, by baseline", validation_markdown(runs)),
    ]


def baselines_by_plant(runs: ExperimentRuns) -> str:
    """Methods by manipulations: the chosen baselines, and for how many models. Markdown."""
    by_plant = {plant: chosen_baselines(runs.with_plant(plant)) for plant in runs.plants}
    lines = [
        [runs.method_title(key), *(_counted(by_plant[plant].get(key, {})) for plant in runs.plants)]
        for key in chosen_baselines(runs.successful)
    ]
    return markdown.table(["method", *runs.plants], lines) if lines else ""


def validation_markdown(runs: ExperimentRuns) -> str:
    """Methods by baselines: mean Attr% on the validation pictures of all models. Markdown."""
    keys = list(chosen_baselines(runs.successful))
    names = [alternative.key for key in keys[:1] for alternative in PICTURE_METHODS[key].alternatives]
    lines = [
        [
            runs.method_title(key),
            *(markdown.number(finite_mean(validation_shares(runs.successful, key, name))) for name in names),
        ]
        for key in keys
    ]
    return markdown.table(["method", *names], lines) if lines else ""


def validation_shares(records: Sequence[RunRecord], method: str, baseline: str) -> Floats:
    """(runs,): mean Attr% of a method with a baseline on the validation pictures of each run."""
    measures = [run.measures.get(method) for run in records]
    return np.array([measure.validation.get(baseline, math.nan) if measure else math.nan for measure in measures])


def plant_groups(runs: ExperimentRuns) -> dict[str, ExperimentRuns]:
    """The runs with new plants, with those of the paper, and all; groups without runs are left out."""
    members = {NEW: fig5.NEW_PLANTS, OLD: fig5.PLANTS, ALL: (*fig5.NEW_PLANTS, *fig5.PLANTS)}
    groups = {
        name: replace(runs, records=tuple(run for run in runs.records if run.spec.plant in plants))
        for name, plants in members.items()
    }
    return {name: group for name, group in groups.items() if group.successful}


def claims(runs: ExperimentRuns) -> list[PaperClaim]:
    """What the study of `gt-fig5` says about MaRC and about the rule, each with a test over runs."""
    claim_list = [fig5.learned_claim(runs)]
    for side in (WITH, WITHOUT):
        for name, group in plant_groups(runs).items():
            rivals = [key for key in runs.methods if key not in (MARC, MARC_BEST, RANDOM)]
            if MARC in runs.methods and rivals:
                text = f"MaRC's Attr% on pictures {fig5.SIDES[side][0]} is above that of every other method; {name}"
                claim_list.append(PaperClaim(None, text, _against_rivals(group, rivals, side)))
    if MARC in runs.methods and MARC_BEST in runs.methods:
        text = (
            f"With the rule's baselines MaRC's Attr% is at most {MARGIN:g} below that with its best baseline (p: of a "
            "difference as large as that)"
        )
        verdicts = [_rule_verdict(group, name) for name, group in plant_groups(runs).items()]
        claim_list.append(PaperClaim(None, text, tuple(verdicts)))
    if MARC_BEST in runs.methods:
        for name, group in plant_groups(runs).items():
            text = f"The rule's baselines serve MaRC better than any other, on validation pictures; {name}"
            claim_list.append(PaperClaim(None, text, _against_baselines(group)))
    return claim_list


def _against_rivals(runs: ExperimentRuns, rivals: Sequence[str], side: str) -> Verdicts:
    marc = pooled_mean(runs.successful, MARC, side=side).mean
    means = {key: pooled_mean(runs.successful, key, side=side).mean for key in rivals}
    return _compared(
        marc,
        fig5.run_means(runs, MARC, side),
        means,
        {key: fig5.run_means(runs, key, side) for key in rivals},
        runs.method_title,
    )


def _against_baselines(runs: ExperimentRuns) -> Verdicts:
    records = runs.successful
    names = [alternative.key for alternative in PICTURE_METHODS[MARC_BEST].alternatives if alternative.key != RULE]
    values = {name: validation_shares(records, MARC_BEST, name) for name in names}
    rule = validation_shares(records, MARC_BEST, RULE)
    means = {name: finite_mean(shares) for name, shares in values.items()}
    return _compared(finite_mean(rule), rule, means, values, lambda name: name)


def _compared(
    mean: float, values: Floats, means: Mapping[str, float], rivals: Mapping[str, Floats], title: Callable[[str], str]
) -> Verdicts:
    """A verdict against each rival: sign-flip tests over runs, p-values corrected by Holm over all rivals."""
    tests = {key: compare(values, rival) for key, rival in rivals.items()}
    corrected = dict(zip(tests, holm([test.p for test in tests.values()]), strict=True))
    verdicts = []
    for key, test in tests.items():
        p = corrected[key]
        figures = (
            f"{markdown.number(mean)} against {markdown.number(means[key])}, p = {markdown.number(p)} after Holm's "
            f"correction, {test.n} runs"
        )
        verdicts.append(ClaimVerdict(None if math.isnan(p) else test.difference > 0, figures, title(key), p))
    return tuple(verdicts)


def _rule_verdict(runs: ExperimentRuns, name: str) -> ClaimVerdict:
    rule, best = (fig5.run_means(runs, key, BOTH) for key in (MARC, MARC_BEST))
    test = compare(rule + MARGIN, best)
    difference = finite_mean(rule - best)
    figures = f"difference {markdown.number(difference)}, p = {markdown.number(test.p)}, {test.n} runs"
    return ClaimVerdict(None if math.isnan(test.p) else difference > -MARGIN, figures, name, p=test.p)


ALL_PLANTS = (*fig5.NEW_PLANTS, *fig5.PLANTS)
EXPERIMENT = replace(
    fig5.EXPERIMENT,
    name="gt-fig5-confirm",
    title="Ground truth, Figure 5 confirmed: another seed, other birds, new plants, baselines that suit each method",
    dimensions=(
        Dimension("plants", ALL_PLANTS, ALL_PLANTS, {"new-plants": fig5.NEW_PLANTS, "paper-plants": fig5.PLANTS}),
        Dimension("networks", tuple(PICTURE_NETWORKS), ("resnet34",)),
        method_dimension(PICTURE_METHODS, ("chance",), DEFAULT_METHODS),
    ),
    table=confirmation_table,
    claims=claims,
    sections=sections,
    limit=20,
    run_options={"all_distinct": True},
    first_seed=FIRST_SEED,
    claims_title="Claims",
)
