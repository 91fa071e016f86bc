"""What of a text's scores and selections falls on articles that tell the class, and on those that do not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rationales.evaluation.statistics import Estimate
from rationales.experiments.ground_truth.method_rows import OWN
from rationales.experiments.ground_truth.reporting.run_statistics import Floats, mean_of, nested, plain_mean, values_of
from rationales.experiments.ground_truth.reporting.run_tables import Results
from rationales.experiments.ground_truth.runs import review_passages as passages
from rationales.experiments.ground_truth.runs.run_record import Record

ARTICLES, CN, NC = "articles", "cn", "nc"
PLANTS = (ARTICLES, CN, NC)
SHARES = (0.04, 0.08)  # of the words that are selected: about as many as articles that tell the class
REGION, IDLE, REST = "correlating", "non-correlating", "other"
MEASURES = {REGION: "region", IDLE: "distractors"}


def share_of(record: Record) -> float:
    """How many words are selected."""
    return SHARES[1] if record.plan.plant == ARTICLES else SHARES[0]


def selected(records: Sequence[Record], method: str, what: str, name: str | None = None) -> Estimate:
    """Precision, recall or lured of selections, all texts thrown together; `name`: the selection (see `explaining`)."""
    parts, wholes = zip(*(_counts(one, method, what, name or f"{share_of(one):g}") for one in records), strict=True)
    return nested(parts, wholes)


def _counts(record: Record, method: str, what: str, name: str) -> tuple[Floats, Floats]:
    told = record.told.get(method)
    part = values_of(record, told, f"{'lured' if what == 'lured' else 'hits'}@{name}")
    whole = values_of(record, told, f"had@{name}")
    if what == "recall":
        whole = np.where(np.isnan(part), np.nan, np.array(record.region, dtype=np.float64))
    elif what == "selected":
        part, whole = whole, np.array(record.units, dtype=np.float64)
    elif what == "articles":
        part = part + values_of(record, told, f"lured@{name}")
    return part, np.where(whole > 0, whole, np.nan)


def measure(record: Record, method: str, metric: str) -> float:
    """One number for one run."""
    if metric in MEASURES:
        return mean_of(record, method, MEASURES[metric])
    if metric == REST:
        return 1 - float(np.nansum([mean_of(record, method, own) for own in MEASURES.values()]))
    return selected([record], method, metric).mean


def titles(results: Results) -> dict[str, str]:
    """Rows by key; the model's own is its attention."""
    return {key: "Attention" if key == OWN else results.title(key) for key in results.methods}


def remarks(results: Results) -> tuple[str, ...]:
    """Which texts were taken."""
    said = [passages.said(name, passages.texts(name, results.setting.data)) for name in results.chosen["data"]]
    left_out = "Texts without an article where the plant needs one are left out."
    return (*said, f"{left_out} Replaced words become padding. Word embeddings are learned from scratch.")


def frequency(records: Sequence[Record], what: str) -> float:
    """The share of the words that are of this kind: what random scores give them; NaN where there are none."""
    shares = [np.sum(one.region if what == REGION else one.idle) / np.sum(one.units) for one in records if one.units]
    return plain_mean([one for one in shares if one > 0])


def spread(records: Sequence[Record], method: str) -> float:
    """The standard deviation over runs of what correlating articles get."""
    values = [mean_of(one, method) for one in records]
    return float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")
