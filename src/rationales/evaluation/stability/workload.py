"""One run of a method over all inputs, reduced to what is compared, and the count of runs for the progress bar."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rationales.evaluation.collecting import Progress, progress_of_step
from rationales.evaluation.entries import ResolvedEntry
from rationales.evaluation.stability.results import RunValues
from rationales.methods import Method
from rationales.models.model import Model
from rationales.pipeline.explain import explain
from rationales.rationale import Rationale


@dataclass(frozen=True, eq=False)
class RunOutcome:
    """One run over all inputs."""

    rationales: Sequence[Rationale]  # without images, and with the probabilities of the target only
    values: RunValues
    evidence: Mapping[str, float]  # label -> mean probability on the baseline alone

    @property
    def scores(self) -> list[np.ndarray]:
        """One (n,) array per input."""
        return [rationale.scores for rationale in self.rationales]

    @property
    def selections(self) -> list[np.ndarray]:
        """One (n,) bool array per input: the rationale."""
        return [rationale.selected() for rationale in self.rationales]


@dataclass
class Workload:
    """The runs of all methods, counted for the progress bar."""

    inputs: Sequence[Any]
    names: Sequence[str]
    rule: Mapping[str, Any]  # threshold, share or top of `explain`
    total: int
    progress: Progress | None
    done: int = 0
    images: list[np.ndarray | None] = field(default_factory=list)  # of each input, kept once for all runs

    def run(self, model: Model, entry: ResolvedEntry, method: Method, seed: int) -> RunOutcome:
        """Explain all inputs together."""
        report = progress_of_step(self.progress, self.done, self.total)
        settings = {"method": method, "smooth": entry.smooth, "seed": seed, "names": list(self.names), **self.rule}
        rationales = explain(model, list(self.inputs), progress=report, **settings)
        self.done += 1
        self.images = self.images or [rationale.image for rationale in rationales]
        return run_outcome(rationales)

    def skip(self, runs: int) -> None:
        """Count runs that are not needed as done."""
        self.done += runs
        if self.progress is not None:
            self.progress(self.done / self.total)


def run_outcome(rationales: Sequence[Rationale]) -> RunOutcome:
    """What a run gave, reduced to what is compared."""
    probabilities = {
        name: np.array([rationale.probabilities[name][rationale.target] for rationale in rationales])
        for name in ("full", "rationale", "complement", "baseline")
    }
    values = RunValues(
        **probabilities,
        selected=np.array([float(rationale.selected().mean()) for rationale in rationales]),
        unconverged=np.array(
            [any(note.kind == "not-converged" for note in rationale.notes) for rationale in rationales]
        ),
    )
    empty = np.array([list(rationale.probabilities["baseline"].values()) for rationale in rationales]).mean(0)
    evidence = dict(zip(rationales[0].labels, empty.tolist(), strict=True))
    reduced = [replace(rationale, image=None, probabilities=_of_target(rationale)) for rationale in rationales]
    return RunOutcome(reduced, values, evidence)


def _of_target(rationale: Rationale) -> dict[str, dict[str, float]]:
    target = rationale.target
    return {name: {target: by_label[target]} for name, by_label in rationale.probabilities.items()}
