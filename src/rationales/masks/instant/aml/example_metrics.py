"""The five faithfulness metrics of the AML paper (appendix A.5) for many score vectors of every input of a batch.

`evaluation` has them for tables, with every protocol. Training and the selection of a checkpoint need them below the
methods and on tensors: this is protocol `aml`, for one class per input. Tests hold both to the same values.
Shapes: K score vectors of each of I inputs of up to U units.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rationales.errors import OptionError
from rationales.models.text.batch import TextBatch

LEVELS = (0.01, 0.05, 0.1, 0.2, 0.5)  # shares of the units
LEVEL = 0.2  # of sufficiency, comprehensiveness and log-odds
DIVISOR = 6  # of the sum over the five levels, as in the paper's own figures
CLIP = 1e-6  # probabilities are kept this far from 0 and 1 in a logarithm
ROUNDING = 1e-9  # a level times a number of units that is whole up to this counts as whole
HIGHER_IS_BETTER = {
    "sufficiency": False,
    "comprehensiveness": True,
    "log-odds": False,
    "aopc-sufficiency": False,
    "aopc-comprehensiveness": True,
}
EXAMPLE_METRICS = tuple(HIGHER_IS_BETTER)
REFERENCE_TOKENS = ("mask", "unk", "pad")


def unit_counts(batch: TextBatch) -> Tensor:
    """(I,): the number of units of each input."""
    last = (batch.rows.unit * batch.rows.real).amax(1)
    return torch.zeros(batch.inputs, dtype=torch.long, device=batch.device).scatter_reduce_(
        0, batch.rows.input, last + 1, "amax"
    )


def to_rows(batch: TextBatch, values: Tensor) -> Tensor:
    """(..., I, U) per input -> (..., S, n) per row, 0 for padding. Differentiable."""
    unit = batch.rows.unit.clamp(max=values.shape[-1] - 1)
    return values[..., batch.rows.input[:, None], unit] * batch.rows.real


def check_metric(metric: str) -> None:
    """Raise an OptionError unless there is a metric of this name here."""
    if metric not in HIGHER_IS_BETTER:
        raise OptionError(f"a metric to select by is one of {', '.join(EXAMPLE_METRICS)}, not {metric!r}")


def measure_examples(batch: TextBatch, scores: Tensor, target: Tensor, metric: str) -> Tensor:
    """(K, I): the metric of scores (K, I, U) for the class `target` (I,); no gradients."""
    check_metric(metric)
    batch = batch.uncontrasted()
    with torch.no_grad():
        rank = _ranks(scores, unit_counts(batch))
        full = batch.predict().gather(1, target[:, None]).squeeze(1).double()
        levels = LEVELS if metric.startswith("aopc") else (LEVEL,)
        total = torch.zeros(scores.shape[:2], dtype=torch.float64, device=batch.device)
        for level in levels:
            count = torch.floor(level * unit_counts(batch).double() + ROUNDING).long()
            probability = _reduced(batch, rank, count, target, metric)
            change = full - probability
            if metric == "log-odds":
                change = _log(probability) - _log(full)
            total += torch.where(count == 0, 0.0, change)  # a level that selects nothing counts 0
        return total / DIVISOR if metric.startswith("aopc") else total


def best_candidates(batch: TextBatch, scores: Tensor, target: Tensor, metric: str) -> Tensor:
    """(I,): which of the K score vectors (K, I, U) of each input is the best; the first of equal ones."""
    values = measure_examples(batch, scores, target, metric)
    return (values if HIGHER_IS_BETTER[metric] else -values).argmax(0)


def _ranks(scores: Tensor, units: Tensor) -> Tensor:
    """(K, I, U): how many units come before each; higher scores first, of equal ones the left, padding last."""
    real = torch.arange(scores.shape[-1], device=scores.device) < units[:, None]
    order = torch.where(real, scores.double(), -torch.inf).sort(dim=-1, descending=True, stable=True).indices
    position = torch.arange(scores.shape[-1], device=scores.device).expand_as(order)
    return torch.empty_like(order).scatter_(-1, order, position)


def _reduced(batch: TextBatch, rank: Tensor, count: Tensor, target: Tensor, metric: str) -> Tensor:
    """(K, I): probability of the target with the best `count` (I,) units alone, or without them."""
    selected = to_rows(batch, (rank < count[:, None]).long()) > 0  # (K, S, n)
    keep = (selected if metric.endswith("sufficiency") else ~selected) & batch.rows.real
    if metric == "log-odds":
        logits = batch.with_baseline(_reference(batch)).logits((keep | ~batch.rows.real).to(batch.dtype))
    else:
        logits = batch.logits_deleted(keep)
    pooled = batch.pool(batch.probabilities(logits)).mean(-2)  # (K, I, C)
    return pooled.gather(-1, target.expand(pooled.shape[:-1])[..., None]).squeeze(-1).double()


def _reference(batch: TextBatch) -> str:
    tokenizer = batch.text_sources().tokenizer
    names = [name for name in REFERENCE_TOKENS if isinstance(getattr(tokenizer, f"{name}_token_id", None), int)]
    return names[0] if names else "mean"


def _log(probability: Tensor) -> Tensor:
    return probability.clamp(CLIP, 1 - CLIP).log()
