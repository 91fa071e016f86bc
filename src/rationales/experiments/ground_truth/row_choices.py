"""What `--rows` chooses from: plants, networks, methods, and what else the runs of an experiment differ in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rationales.errors import OptionError
from rationales.experiments.ground_truth.method_rows import BEST_BASELINE, EXPENSIVE, INSIDE, RANDOM, MethodSpec


@dataclass(frozen=True)
class Dimension:
    """One thing that runs differ in, such as the network, with its possible values."""

    name: str
    members: tuple[str, ...]
    default: tuple[str, ...]  # used where no member is named
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    always: tuple[str, ...] = ()  # members that are included in any case

    @property
    def names(self) -> tuple[str, ...]:
        """The names that `--rows` accepts."""
        return (*self.groups, *self.members)


def method_dimension(
    specs: Mapping[str, MethodSpec], default_groups: Sequence[str] = (), default_methods: Sequence[str] = ()
) -> Dimension:
    """The methods as a dimension; random scores are always included, since figures without them mislead.

    `default_groups`: the groups that run without `--rows`, empty: all except the expensive ones, those with a
    baseline of their choice and those for encoders alone; `default_methods`: single methods that run in addition.
    """
    by_group: dict[str, tuple[str, ...]] = {}
    for key, spec in specs.items():
        by_group[spec.group] = (*by_group.get(spec.group, ()), key)
    on_request = (EXPENSIVE, BEST_BASELINE, INSIDE)
    selected = [group for group in by_group if (group in default_groups if default_groups else group not in on_request)]
    groups = {f"{name}-methods" if name in specs else name: keys for name, keys in by_group.items()}
    default = (*(key for group in selected for key in by_group[group]), *default_methods)
    return Dimension("methods", tuple(specs), default, groups, always=(RANDOM,))


def choose_rows(dimensions: Sequence[Dimension], requested: Sequence[str] | None) -> dict[str, tuple[str, ...]]:
    """Dimension -> selected members in their order: those that are requested, else the default ones."""
    selected: dict[str, set[str]] = {dimension.name: set() for dimension in dimensions}
    for name in requested or ():
        matching = [dimension for dimension in dimensions if name in dimension.names]
        if not matching:
            known = ", ".join(member for dimension in dimensions for member in dimension.names)
            raise OptionError(f"there is no row {name!r}; there are: {known}")
        for dimension in matching:
            selected[dimension.name].update(dimension.groups.get(name, (name,)))
    return {
        dimension.name: tuple(
            key
            for key in dimension.members
            if key in {*(selected[dimension.name] or dimension.default), *dimension.always}
        )
        for dimension in dimensions
    }
