"""A dry run in words: the same sentences in the terminal, in Markdown and on the page."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rationales.evaluation.statistics import Estimate
from rationales.evaluation.table import short
from rationales.groundtruth.dryrun.result import DryRun, Outcome, Row
from rationales.groundtruth.dryrun.verdict import HALF, LEAST

HEADS = (
    "method",
    "verdict",
    "Attr% on the plant",
    "chance",
    "of the way",
    "top unit",
    "on distractors",
    "inputs",
    "s / input",
)


def markdown(run: DryRun) -> str:
    """A section for each plant: its headline, the table, what it rests on."""
    blocks = [block for one in run.outcomes for block in _section(run, one)]
    return "\n\n".join([*blocks, *(f"Note: {note}." for note in run.notes)]) + "\n"


def headline(one: Outcome) -> str:
    """'watermark: found by marc, occlusion; distracted: saliency; missed by grad-cam'."""
    if one.why:
        return f"{one.plant.name}: no verdict. {one.why[:1].upper()}{one.why[1:]}"
    told = {"found": "found by", "distracted": "distracted:", "missed": "missed by"}
    parts = [f"{told[name]} {', '.join(titles)}" for name, titles in one.by_verdict().items() if titles]
    return f"{one.plant.name}: {'; '.join(parts) or 'no method was judged'}"


def choices(run: DryRun, one: Outcome) -> dict[str, str]:
    """What a verdict, or its lack, rests on: name -> value."""
    train, val, test = one.parts
    kept = "drawn anew for every example" if one.r is None else f"stay with r = {one.r:g}"
    return {
        "Plant": f"{one.plant.name}: {parameters(one)}",
        "Area": f"{one.area:.1%} of an input, what random scores reach",
        "Labels": f"{', '.join(one.labels)}; {kept}",
        "Bound": f"without the plant at most {one.bound:.1%} are expected to be right",
        "Model": f"{one.network}, {one.epochs} epochs in {one.seconds:.0f} s on {run.device}",
        "Examples": f"{train:,} to train, {val:,} to stop, {test:,} to test",
        "Accuracy": f"{one.best:.1%} in validation, where more than {one.wanted:.0%} is wanted; "
        f"{one.reliance.accuracy:.1%} in test",
        "Reliance": f"{one.reliance.correct} of {one.reliance.n} right, p = {one.reliance.p:.2g} without the plant: "
        + ("the model relies on it" if one.reliance.relies else "the model need not rely on it"),
        "Explained": f"{explained(one)} planted test inputs that the model gets right",
        "Seed": f"{run.seed}",
    }


def explained(one: Outcome) -> int:
    """How many inputs the methods were asked about."""
    return max((len(row.explained) for row in one.rows), default=0)


def remarks(one: Outcome) -> list[str]:
    """What else a reader must know."""
    said = []
    if one.left_out:
        name, why = one.left_out[0]
        said.append(f"The plant does not fit {len(one.left_out)} examples, which are left out ({name}: {why})")
    return [*said, *one.notes, *(f"{row.title} failed: {row.failed}" for row in one.rows if row.failed)]


def rests_on(run: DryRun, one: Outcome) -> list[str]:
    """The choices and the remarks as lines."""
    return [*(f"{name}: {value}" for name, value in choices(run, one).items()), *remarks(one)]


RULE = (
    "Means with 95 % bootstrap intervals over planted test inputs. Top unit: how often the strongest score is on the "
    "plant. Of the way from chance (0) to a perfect scorer (1): "
    f"found from {HALF:g} on; distracted below, or where distractors get more than chance; missed where the interval "
    f"reaches 0 or the mean is below {LEAST:g}. ~ the interval does not settle it, more inputs would"
)


def cells(row: Row) -> tuple[str, ...]:
    """One line of the table, below `HEADS`."""
    made = row.verdict
    name = "failed" if row.failed else "none" if made is None else made.name + ("" if made.sure else " ~")
    return (
        row.title,
        name,
        interval(row.region.attribution),
        numeral(row.region.area.mean),
        interval(made.gain) if made is not None else "–",
        numeral(row.top.mean),
        interval(row.distractors.attribution) if row.distractors.attribution.n else "–",
        str(row.region.attribution.n),
        "–" if math.isnan(row.seconds) else f"{row.seconds:.3g}",
    )


def parameters(one: Outcome) -> str:
    """'top 10, left 10, height 80'."""
    told = ((name, "/".join(value) if isinstance(value, tuple) else value) for name, value in one.parameters.items())
    return ", ".join(f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in told)


def columns(one: Outcome) -> list[int]:
    """The columns worth showing: distractors only where there are any."""
    some = any(row.distractors.attribution.n for row in one.rows)
    return [place for place, head in enumerate(HEADS) if some or head != "on distractors"]


def interval(own: Estimate) -> str:
    """'.614 [.581 .648]'."""
    return numeral(own.mean) + ("" if math.isnan(own.low) else f" [{short(own.low)} {short(own.high)}]")


def _section(run: DryRun, one: Outcome) -> Iterator[str]:
    yield f"**{headline(one)}**"
    if one.rows:
        shown = columns(one)
        lines = [HEADS, *(cells(row) for row in one.rows)]
        drawn = ["| " + " | ".join(line[place] for place in shown) + " |" for line in lines]
        yield "\n".join([drawn[0], "| --- " * len(shown) + "|", *drawn[1:]])
        yield f"{RULE}."
    yield "\n".join(f"- {line}." for line in rests_on(run, one))


def numeral(value: float) -> str:
    """'.614'; a dash where there is none."""
    return "–" if math.isnan(value) else short(value)
