"""Rationales as artefacts of an MLflow run: the page, the record, and the mean probabilities as metrics.

    with mlflow.start_run():
        log_rationales(rationales.explain(model, texts))

MLflow is not needed by the package: pip install mlflow.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rationales.errors import OptionError
from rationales.evaluation.drift import write_record
from rationales.rationale import Rationale
from rationales.report.html.page import page


def log_rationales(
    rationales: Sequence[Rationale] | Rationale, artifact_path: str = "rationales", *, metrics: bool = True
) -> dict[str, float]:
    """Log to the active run: ARTIFACT_PATH/index.html, and ARTIFACT_PATH/record.jsonl for `rationales check`.

    `metrics`: also log, and return, the means over inputs: `rationale.sufficiency` (probability of the target in the
    full input minus given the rationale alone), `rationale.comprehensiveness` (minus given everything else) and
    `rationale.share` (of the units). The method and its seed are logged as tags.
    """
    try:
        import mlflow as client
    except ImportError:
        raise OptionError("this needs MLflow, which is not installed: pip install mlflow") from None
    listed = [rationales] if isinstance(rationales, Rationale) else list(rationales)
    if not listed:
        raise OptionError("there are no rationales to log")
    client.log_text(page(listed), f"{artifact_path}/index.html")
    client.log_text(write_record(listed), f"{artifact_path}/record.jsonl")
    client.set_tags({"rationales.method": listed[0].method, "rationales.seed": str(listed[0].seed)})
    means = mean_drops(listed) if metrics else {}
    if means:
        client.log_metrics(means)
    return means


def mean_drops(rationales: Sequence[Rationale]) -> dict[str, float]:
    """Means over inputs of what the target's probability loses, and of the share of units that is selected."""

    def drop(rationale: Rationale, selection: str) -> float:
        full, remaining = rationale.probabilities["full"], rationale.probabilities[selection]
        return float(full[rationale.target] - remaining[rationale.target])

    return {
        "rationale.sufficiency": float(np.mean([drop(rationale, "rationale") for rationale in rationales])),
        "rationale.comprehensiveness": float(np.mean([drop(rationale, "complement") for rationale in rationales])),
        "rationale.share": float(np.mean([rationale.selected().mean() for rationale in rationales])),
    }
