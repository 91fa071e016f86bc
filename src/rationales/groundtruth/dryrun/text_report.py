"""The results of a dry run as text: the same sentences in the terminal, in Markdown and on the page."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rationales.evaluation.tables.markdown import estimate, number, table
from rationales.groundtruth.dryrun.results import DryRun, MethodResult, PlantResult
from rationales.groundtruth.dryrun.verdict import CHANCE_GAIN, FOUND_GAIN

COLUMNS = (
    "method",
    "verdict",
    "Attr% on the plant",
    "chance",
    "gain",
    "top unit",
    "on distractors",
    "inputs",
    "s / input",
)
LEGEND = (
    "Means with 95 % bootstrap intervals over planted test inputs. Gain: (Attr% - chance) / (1 - chance), 0 for random "
    "and 1 for perfect scores. Top unit: how often the highest score is on the plant. Verdict: "
    f"found from a gain of {FOUND_GAIN:g}; distracted below it, or if the gain on distractors is above chance; missed "
    f"if the interval of the gain reaches 0 or its mean is below {CHANCE_GAIN:g}. ~ the ends of the interval give "
    "different verdicts, more inputs are needed"
)


def markdown(run: DryRun) -> str:
    """A section for each plant: its headline, the table and the settings."""
    blocks = [block for plant in run.plants for block in _section(run, plant)]
    return "\n\n".join([*blocks, *(f"Note: {note}." for note in run.notes)]) + "\n"


def headline(result: PlantResult) -> str:
    """'watermark: found by marc, occlusion; distracted: saliency; missed by grad-cam'."""
    if result.no_verdict:
        return f"{result.plant.name}: no verdict. {result.no_verdict[:1].upper()}{result.no_verdict[1:]}"
    phrases = {"found": "found by", "distracted": "distracted:", "missed": "missed by"}
    groups = [f"{phrases[name]} {', '.join(titles)}" for name, titles in result.by_verdict().items() if titles]
    return f"{result.plant.name}: {'; '.join(groups) or 'no method was judged'}"


def settings_of(run: DryRun, result: PlantResult) -> dict[str, str]:
    """The settings and the measurements that the verdicts are based on: name -> value."""
    n_train, n_val, n_test = result.split_sizes
    reliance = result.reliance
    kept = "drawn anew for every example" if result.r is None else f"kept with probability r = {result.r:g}"
    n_explained = max((len(method.explained) for method in result.methods), default=0)
    conclusion = "the model relies on it" if reliance.relies else "the model need not rely on it"
    return {
        "Plant": f"{result.plant.name}: {parameters(result)}",
        "Area": f"{result.area:.1%} of an input, the expected Attr% of random scores",
        "Labels": f"{', '.join(result.labels)}; {kept}",
        "Bound": f"without the plant, an accuracy of at most {result.bound:.1%} is expected",
        "Model": f"{result.network}, {result.epochs} epochs in {result.seconds:.0f} s on {run.device}",
        "Examples": f"{n_train:,} for training, {n_val:,} for validation, {n_test:,} for test",
        "Accuracy": f"{result.validation_accuracy:.1%} in validation (target: above {result.target_accuracy:.0%}), "
        f"{reliance.accuracy:.1%} in test",
        "Reliance": f"{reliance.correct} of {reliance.n} correct, p = {reliance.p_value:.2g} without the plant: "
        f"{conclusion}",
        "Explained": f"{n_explained} planted test inputs that the model predicts correctly",
        "Seed": f"{run.seed}",
    }


def remarks(result: PlantResult) -> list[str]:
    """Examples that were left out, notes, and methods that failed."""
    lines = []
    if result.left_out:
        name, reason = result.left_out[0]
        lines.append(f"The plant does not fit {len(result.left_out)} examples, which are left out ({name}: {reason})")
    errors = (f"{method.title} failed: {method.error}" for method in result.methods if method.error)
    return [*lines, *result.notes, *errors]


def details(run: DryRun, result: PlantResult) -> list[str]:
    """The settings and the remarks as lines."""
    return [*(f"{name}: {value}" for name, value in settings_of(run, result).items()), *remarks(result)]


def cells(result: MethodResult) -> tuple[str, ...]:
    """One row of the table, with the columns `COLUMNS`."""
    verdict = result.verdict
    if result.error:
        verdict_cell = "failed"
    else:
        verdict_cell = "none" if verdict is None else verdict.name + ("" if verdict.certain else " ~")
    return (
        result.title,
        verdict_cell,
        estimate(result.region.attribution),
        number(result.region.area.mean),
        estimate(verdict.gain) if verdict is not None else "–",
        number(result.top_unit.mean),
        estimate(result.distractors.attribution) if result.distractors.attribution.n else "–",
        str(result.region.attribution.n),
        "–" if math.isnan(result.seconds) else f"{result.seconds:.3g}",
    )


def parameters(result: PlantResult) -> str:
    """'top 10, left 10, height 80'."""
    texts = {key: "/".join(value) if isinstance(value, tuple) else value for key, value in result.parameters.items()}
    return ", ".join(
        f"{key} {value:g}" if isinstance(value, float) else f"{key} {value}" for key, value in texts.items()
    )


def has_distractors(result: PlantResult) -> bool:
    """Whether any input has distractors."""
    return any(method.distractors.attribution.n for method in result.methods)


def visible_columns(result: PlantResult) -> list[int]:
    """The indices of the columns to show: distractors only if there are any."""
    return [index for index, name in enumerate(COLUMNS) if has_distractors(result) or name != "on distractors"]


def _section(run: DryRun, result: PlantResult) -> Iterator[str]:
    yield f"**{headline(result)}**"
    if result.methods:
        columns = visible_columns(result)
        headings, *lines = ([row[i] for i in columns] for row in (COLUMNS, *map(cells, result.methods)))
        yield table(headings, lines)
        yield f"{LEGEND}."
    yield "\n".join(f"- {line}." for line in details(run, result))
