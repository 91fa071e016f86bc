"""The interface of a method: a frozen dataclass of documented options with one function, `scores`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from torch import Tensor

from rationales.models.batch import Batch
from rationales.models.batch.queries import to_rows
from rationales.rationale import Note, Rule

Progress = Callable[[float], None]
Presets = Mapping[str, Mapping[str, Mapping[str, Any]]]  # kind of input -> name -> options


@dataclass(frozen=True)
class Attribution:
    """Result of a method: scores (S, n), and per input the number of steps, the stop reason and notes."""

    scores: Tensor
    steps: list[int] = field(default_factory=list)  # per input; empty: the method has no steps
    stop: list[str] = field(default_factory=list)
    notes: list[list[Note]] = field(default_factory=list)
    span_scores: Tensor | None = None  # (S, n) scores that the rationale is selected by; None: by `scores`


# what a copy in half precision does not have, or not exactly; a masker is refused for other weights
EXACT_MODEL_NEEDS = frozenset({"gradients", "attention", "a masker", "an AML masker"})


@dataclass(frozen=True)
class Method(ABC):
    """A method with its options; subclasses are frozen dataclasses whose fields carry `help` in their metadata."""

    name: ClassVar[str]
    summary: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()  # gradients, attention, training data, ...
    removes_by: ClassVar[str] = ""  # delete, fill or a baseline, if the method always removes units in this way
    uses_baselines: ClassVar[bool] = True  # False: scores do not depend on what replaced units become
    baselines_option: ClassVar[str] = (
        ""  # name of an option: while it is 0, scores of images do not depend on it either
    )
    class_specific: ClassVar[bool] = True  # False: the scores are the same whichever class is explained
    contrasts: ClassVar[bool] = True  # False: it explains a class, but not one class against another
    scores_are_ranks: ClassVar[bool] = False  # True: only the order of the scores means something
    rules: ClassVar[tuple[Rule, ...]] = tuple(Rule(share=share) for share in (0.2, 0.3, 0.4, 0.5))
    # selection of the rationale: the first of these rules whose units alone suffice, else the best one
    presets: ClassVar[Presets] = {}

    @property
    def depends_on_baselines(self) -> bool:
        """Whether scores of images depend, with these options, on what replaced units become."""
        return self.uses_baselines and (not self.baselines_option or bool(getattr(self, self.baselines_option)))

    @property
    def removal_operation(self) -> str:
        """How units are removed to score them: delete, fill or a baseline (`baseline`: the model's); empty: none."""
        return self.removes_by or ("baseline" if self.depends_on_baselines else "")

    @property
    def training_operation(self) -> str:
        """How units were removed to train a network that the method reads, in the same words; empty: there is none."""
        return ""

    @property
    def selected_by(self) -> str:
        """Metric on the explained input itself by which its scores are selected; empty: none is looked at."""
        return ""

    @property
    def runs_in_half_precision(self) -> bool:
        """Whether a copy of the model in half precision, without gradients, gives the method what it needs."""
        return not EXACT_MODEL_NEEDS & {*self.needs}

    def trained_part_fingerprint(self) -> str:
        """Fingerprint of a trained file that the scores depend on besides the options; empty if there is none."""
        return ""

    def full_logits(self, batch: Batch) -> Tensor:
        """(S, classes): logits of the inputs as they are; a method that needs more of this pass can keep it."""
        return batch.full_logits()

    def scores_on(self, baseline: str, batch: Batch, target: Tensor, progress: Progress | None) -> Attribution:
        """The scores of these options on the baseline of this name in place of the model's, for all rows."""
        attribution = self.scores(batch.with_baseline(baseline), target, progress)
        return replace(attribution, scores=to_rows(batch, attribution.scores))

    @abstractmethod
    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        """Score every unit of every row; `target` is (inputs,)."""
