"""What one run is: a plant, a network and a number, and the random numbers that go with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rationales.models.randomness import content_key

TRIES = 6  # trainings with other seeds before a run counts as failed
FIXED_TRIES = 2  # the same where the plant stays in its place: one that is too faint stays so
BIRDS = "birds"
ENOUGH = 0.95  # accuracy on the test part that a run needs to be explained


@dataclass(frozen=True)
class Plan:
    """One run. What is 0 has no part in it."""

    plant: str
    network: str
    run: int = 0
    level: int = 0  # of visibility, 1 to 5; 0: as drawn
    r: float = 0.5  # probability that a label stays
    rate: float = 0.0  # share of the words that a rationale model selects
    data: str = BIRDS

    @property
    def key(self) -> str:
        """The name of its file."""
        parts = [self.data, self.plant, self.network]
        parts += [f"level{self.level}"] if self.level else []
        parts += [f"r{self.r:g}"] if self.r != 0.5 else []
        parts += [f"rate{self.rate:g}"] if self.rate else []
        return "-".join([*parts, f"run{self.run + 1}"])

    @property
    def title(self) -> str:
        """The same for people."""
        parts = [self.plant, self.network]
        parts += [f"visibility {self.level}"] if self.level else []
        parts += [f"r = {self.r:g}"] if self.r != 0.5 else []
        parts += [f"%Sel {100 * self.rate:g}"] if self.rate else []
        return ", ".join([*parts, f"run {self.run + 1}"])

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Plan:
        """The inverse of `to_dict`."""
        return cls(**data)


@dataclass(frozen=True)
class Setting:
    """What all runs of an experiment share; plain data, so that it can be sent to another process."""

    study: str
    methods: tuple[str, ...]  # keys of `rows`
    limit: int  # test inputs that are explained
    seed: int = 0
    data: Path | None = None
    device: str | None = None
    fixed: bool = False  # a run's plant stays where it is whatever else is varied, also when training is repeated
    along: bool = False  # explain during the training, too
    distinct: bool = False  # every other run takes two kinds that are easily told apart
    shares: tuple[float, ...] = ()  # of the words that methods select

    @property
    def tries(self) -> int:
        """Trainings before a run counts as failed."""
        return FIXED_TRIES if self.fixed else TRIES

    def training_seed(self, plan: Plan, attempt: int) -> int:
        """For labels, weights and the order of examples."""
        return content_key(self.seed, "training", plan.key, attempt) & 0x7FFFFFFF

    def place_seed(self, plan: Plan, attempt: int) -> int:
        """For where the plant lies and which kinds of birds are taken: not a matter of visibility, r or network."""
        return content_key(self.seed, "place", plan.plant, plan.run, 0 if self.fixed else attempt) & 0x7FFFFFFF
