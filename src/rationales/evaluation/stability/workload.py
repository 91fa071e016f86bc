"""One run of a method over all inputs, reduced to what is compared, and the count of runs for the progress bar."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from rationales.evaluation.collecting import Progress, progress_of_step
from rationales.evaluation.entries import ResolvedEntry
from rationales.evaluation.stability.results import RunValues
from rationales.methods import Method
from rationales.models.image.model import ImageModel
from rationales.models.model import Model
from rationales.models.text.model import TextModel
from rationales.pipeline.explain import explain
from rationales.rationale import Rationale

BASELINE_WITHOUT_CHOICE = ("mean",)


@dataclass(frozen=True, eq=False)
class RunOutcome:
    """One run over all inputs."""

    rationales: Sequence[Rationale]  # without images, and with the probabilities of the target only
    values: RunValues
    evidence: Mapping[str, float]  # label -> mean probability on the baseline alone
    scores: Sequence[np.ndarray]  # one (n,) array per input: units that the model reads
    selections: Sequence[np.ndarray]  # the same units, bool: the rationale


@dataclass
class Workload:
    """The runs of all methods, counted for the progress bar."""

    inputs: Sequence[Any]
    names: Sequence[str]
    rule: Mapping[str, Any]  # threshold, share or top of `explain`
    total: int
    progress: Progress | None
    read_masks: Sequence[np.ndarray | slice]  # of each input: the units that the model reads
    done: int = 0
    images: list[np.ndarray | None] = field(default_factory=list)  # of each input, kept once for all runs

    def run(self, model: Model, entry: ResolvedEntry, method: Method, seed: int) -> RunOutcome:
        """Explain all inputs together."""
        report = progress_of_step(self.progress, self.done, self.total)
        settings = {"method": method, "smooth": entry.smooth, "shape": entry.shape, "seed": seed, **self.rule}
        rationales = explain(model, list(self.inputs), names=list(self.names), progress=report, **settings)
        self.count_done(1)
        self.images = self.images or [rationale.image for rationale in rationales]
        return run_outcome(rationales, self.read_masks)

    def count_done(self, runs: int) -> None:
        """Count runs as done, also those that are not needed."""
        self.done += runs
        if self.progress is not None:
            self.progress(self.done / self.total)


def read_masks(model: TextModel | ImageModel, inputs: Sequence[Any]) -> list[np.ndarray | slice]:
    """The units of each input that the model reads: all of a text, of an image those inside the model's crop.

    Pixels outside have the score 0 in every run; compared too, they would look like agreement.
    """
    if isinstance(model, TextModel):
        return [slice(None)] * len(inputs)
    reader = replace(model, baselines=BASELINE_WITHOUT_CHOICE)  # choosing baselines takes many forward passes
    masks: list[np.ndarray | slice] = []
    for value in inputs:
        (encoded,) = reader.encode([reader.read(value, None)])
        mask = reader.describe(encoded, torch.zeros(encoded.real.numel())).read_mask
        masks.append(slice(None) if mask is None else mask)
    return masks


def run_outcome(rationales: Sequence[Rationale], masks: Sequence[np.ndarray | slice]) -> RunOutcome:
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
    scores = [rationale.scores[mask] for rationale, mask in zip(rationales, masks, strict=True)]
    selections = [rationale.selected()[mask] for rationale, mask in zip(rationales, masks, strict=True)]
    return RunOutcome(reduced, values, evidence, scores, selections)


def _of_target(rationale: Rationale) -> dict[str, dict[str, float]]:
    target = rationale.target
    return {name: {target: by_label[target]} for name, by_label in rationale.probabilities.items()}
