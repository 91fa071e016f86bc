"""Which run to make: a plant, a network and a run number, and the random seeds that follow from them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rationales.models.batch.rows import content_key

MAX_ATTEMPTS = 6  # trainings with different seeds before a run counts as failed
MAX_ATTEMPTS_FIXED = 2  # the same where the position is fixed: a plant that is too faint there stays too faint
BIRDS = "birds"
VALIDATION_INPUTS = 4  # on which methods choose their baseline, half of them with the plant
REQUIRED_ACCURACY = 0.95  # test accuracy above which a trained model is explained


@dataclass(frozen=True)
class RunSpec:
    """One run. A field that is 0 does not apply to it."""

    plant: str
    network: str
    run: int = 0
    level: int = 0  # visibility, 1 to 5; 0: as drawn
    r: float = 0.5  # probability that a label is kept
    rate: float = 0.0  # share of the words that a rationale model selects
    data: str = BIRDS

    @property
    def key(self) -> str:
        """Unique name, used as the name of the run's file."""
        fields = [self.data, self.plant, self.network]
        fields += [f"level{self.level}"] if self.level else []
        fields += [f"r{self.r:g}"] if self.r != 0.5 else []
        fields += [f"rate{self.rate:g}"] if self.rate else []
        return "-".join([*fields, f"run{self.run + 1}"])

    @property
    def title(self) -> str:
        """Name for reports."""
        fields = [self.plant, self.network]
        fields += [f"visibility {self.level}"] if self.level else []
        fields += [f"r = {self.r:g}"] if self.r != 0.5 else []
        fields += [f"%Sel {100 * self.rate:g}"] if self.rate else []
        return ", ".join([*fields, f"run {self.run + 1}"])


@dataclass(frozen=True)
class RunSettings:
    """Settings that all runs of an experiment share; plain data, so that they can be sent to another process."""

    experiment: str
    methods: tuple[str, ...]  # keys of `method_rows`
    limit: int  # test inputs that are explained
    seed: int = 0
    data: Path | None = None
    device: str | None = None
    fixed_position: bool = False  # the plant keeps its position over levels, r and repeated trainings
    explain_during_training: bool = False
    distinct_kinds: bool = False  # every second run uses two bird species that are easy to tell apart
    all_distinct: bool = False  # every run does
    selected_shares: tuple[float, ...] = ()  # shares of the words that methods select
    validation: int = VALIDATION_INPUTS  # validation inputs on which methods choose their baseline

    @property
    def max_attempts(self) -> int:
        """Trainings before a run counts as failed."""
        return MAX_ATTEMPTS_FIXED if self.fixed_position else MAX_ATTEMPTS

    def training_seed(self, spec: RunSpec, attempt: int) -> int:
        """Seed of the labels, the initial weights and the order of the examples."""
        return content_key(self.seed, "training", spec.key, attempt) & 0x7FFFFFFF

    def position_seed(self, spec: RunSpec, attempt: int) -> int:
        """Seed of the plant's position and the bird species; independent of visibility, r and network."""
        attempt = 0 if self.fixed_position else attempt
        return content_key(self.seed, "place", spec.plant, spec.run, attempt) & 0x7FFFFFFF
