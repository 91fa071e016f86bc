"""The best of several candidates by a metric on the explained input itself: the oracle that the AML paper gives fAML.

A method that is selected in this way must be compared with others that are, by the same metric and with as many
candidates: even random scores gain by it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from rationales.errors import OptionError
from rationales.masks.instant.aml.example_metrics import best_candidates, check_metric, unit_counts
from rationales.methods import build, resolve_method
from rationales.methods.gradient.gradient_method import GradientMethod
from rationales.methods.marc import Marc
from rationales.methods.method import Attribution, Method, Progress
from rationales.models.batch import Batch
from rationales.models.batch.rows import fold
from rationales.models.classes import OUTPUTS
from rationales.models.text.batch import TextBatch

CANDIDATES = 11  # as many as fAML has with ten steps
DRAW_PURPOSE = 13  # key of the random streams of further draws


@dataclass(frozen=True)
class SelectedByMetric(Method):
    """Scores of the candidate whose metric (protocol `aml`) on the explained input is the best; texts only."""

    name: ClassVar[str] = "selected-by-metric"
    summary: ClassVar[str] = "the best of several candidates by a metric on the explained input itself"

    candidates: tuple[Method, ...] = ()
    metric: str = "comprehensiveness"
    draws: int = 1  # of every candidate, with other random numbers
    # by candidate, draw and inputs: methods for several metrics that share it compute scores once; no option
    computed: ClassVar[MutableMapping[Any, Tensor] | None] = None

    def __post_init__(self) -> None:
        check_metric(self.metric)
        if not self.candidates or self.draws < 1:
            raise OptionError("give at least one candidate, and at least one draw of each")

    @property
    def selected_by(self) -> str:
        """The metric."""
        return self.metric

    @property
    def runs_in_half_precision(self) -> bool:
        """Whether all candidates do."""
        return all(candidate.runs_in_half_precision for candidate in self.candidates)

    def trained_part_fingerprint(self) -> str:
        """Fingerprint of the candidates' names and trained files."""
        named = [(candidate.name, candidate.trained_part_fingerprint()) for candidate in self.candidates]
        return hashlib.blake2b(repr(named).encode(), digest_size=16).hexdigest()

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        if not isinstance(batch, TextBatch):
            raise OptionError("candidates are selected by a metric of texts; use one method")
        if batch.rows.contrast is not None:
            raise OptionError("the metric is about one class; explain it without against")
        rows: list[Tensor] = []
        for number, (candidate, draw) in enumerate(self._runs()):
            if "gradients" in candidate.needs:
                batch.check_gradients()
            rows.append(self._candidate_scores(batch, target, candidate, draw))
            if progress is not None:
                progress((number + 1) / (len(self.candidates) * self.draws))
        maps = torch.stack([_padded(batch, scores) for scores in rows])  # (K, I, U)
        best = best_candidates(batch, maps, target, self.metric)
        selected = torch.stack(rows)[best[batch.rows.input], torch.arange(batch.size[0], device=batch.device)]
        return Attribution(selected, steps=best.tolist(), stop=["selected"] * batch.inputs)

    def _candidate_scores(self, batch: TextBatch, target: Tensor, candidate: Method, draw: int) -> Tensor:
        if self.computed is None:
            return candidate.scores(_redrawn(batch, draw), target, None).scores.detach()
        key = (candidate, draw, tuple(batch.rows.key.tolist()), tuple(target.tolist()))
        if key not in self.computed:
            self.computed[key] = candidate.scores(_redrawn(batch, draw), target, None).scores.detach()
        return self.computed[key]

    def _runs(self) -> list[tuple[Method, int]]:
        return [(candidate, draw) for candidate in self.candidates for draw in range(self.draws)]


def selected_by_metric(
    method: str | Method,
    metric: str,
    variants: Sequence[Mapping[str, Any]] | None = None,
    options: Mapping[str, Any] | None = None,
    computed: MutableMapping[Any, Tensor] | None = None,
) -> SelectedByMetric:
    """A method with the oracle that the AML paper gives fAML: for every input the best of its variants by `metric`.

    variants: options of each candidate. By default eleven step counts for MaRC, every explained output and reduction
    for gradient methods (8), and eleven draws for all other methods. options: of all candidates. computed: shared by
    methods of several metrics, so that candidates of the same model and inputs are computed once.
    """
    method_for_metric = _selected(method, metric, variants, options)
    object.__setattr__(method_for_metric, "computed", computed)
    return method_for_metric


def _selected(
    method: str | Method, metric: str, variants: Sequence[Mapping[str, Any]] | None, options: Mapping[str, Any] | None
) -> SelectedByMetric:
    base = resolve_method(method, options, "text")
    if variants is not None:
        return SelectedByMetric(tuple(_variant(base, variant) for variant in variants), metric)
    if isinstance(base, Marc):
        steps = [max(1, round(base.steps * number / (CANDIDATES - 1))) for number in range(CANDIDATES)]
        return SelectedByMetric(tuple(replace(base, steps=count, stop="steps") for count in steps), metric)
    if isinstance(base, GradientMethod):
        names = {spec.name for spec in fields(base)}
        choices = [{"output": output, "reduce": reduce} for output in OUTPUTS for reduce in ("sum", "norm")]
        usable = [{name: value for name, value in choice.items() if name in names} for choice in choices]
        distinct = [variant for number, variant in enumerate(usable) if variant not in usable[:number]]
        return SelectedByMetric(tuple(_variant(base, variant) for variant in distinct), metric)
    return SelectedByMetric((base,), metric, draws=CANDIDATES)


def _variant(base: Method, variant: Mapping[str, Any]) -> Method:
    build(base.name, dict(variant))  # checks names and values
    return replace(base, **variant)


def _redrawn(batch: TextBatch, draw: int) -> TextBatch:
    """The batch with other random numbers for every draw after the first."""
    if not draw:
        return batch
    return replace(batch, rows=replace(batch.rows, key=fold(batch.rows.key, DRAW_PURPOSE, draw)))


def _padded(batch: TextBatch, scores: Tensor) -> Tensor:
    """(S, n) -> (I, U): the scores of the inputs' units, segments blended."""
    padded = torch.zeros(batch.inputs, int(unit_counts(batch).max()), device=batch.device, dtype=scores.dtype)
    for number, values in enumerate(batch.gather(scores)):
        padded[number, : len(values)] = values
    return padded
