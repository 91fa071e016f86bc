"""The methods that are judged: the paper's five with its settings, MaRC in several forms, and whatever else fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rationales.errors import OptionError
from rationales.groundtruth.explainable import Inherent
from rationales.methods import Method, build

RANDOM, MARC, OWN = "random", "marc", "own"
DEAR = "dear"  # the group that is made only where it is asked for
LIMITED = 7  # occlusion replaces squares of a seventh of the side


@dataclass(frozen=True)
class MethodSpec:
    """One row: a method with its settings, and what pixels are replaced by."""

    key: str
    title: str
    group: str
    method: str
    options: Mapping[str, Any] = field(default_factory=dict)
    baselines: tuple[str, ...] = ()  # names; none: the three that tell the model least, for each picture
    background: int = 0  # so many test pictures are the baselines instead
    cost: float = 3.0  # how often the model is asked for one input, forwards, roughly: cheap ones come first

    def built(self, kind: str, size: int = 0) -> Method:
        """The method; `size`: side of the pictures."""
        if self.method == Inherent.name:
            return Inherent()
        options = dict(self.options)
        if self.method == "occlusion" and kind == "image":
            options = {"window": max(2, size // LIMITED), "stride": max(1, size // (2 * LIMITED))}
        return build(self.method, options, kind)


_MEAN = ("mean",)  # one baseline is enough where 1,000 samples are asked about
_STEPS = 120

# Appendix B.2: SmoothGrad with 50 copies, LIME with its default of 1,000 samples, SHAP's GradientExplainer with its
# default of 200 samples and pictures of the test set as background. LIME here has cells instead of super-pixels.
PICTURES: dict[str, MethodSpec] = {
    one.key: one
    for one in (
        MethodSpec("gradient", "Gradient", "paper", "saliency"),
        MethodSpec("smooth-grad", "SmoothGrad", "paper", "smooth-grad", {"samples": 50}, cost=150),
        MethodSpec("grad-cam", "GradCAM", "paper", "grad-cam"),
        MethodSpec("lime", "LIME", "paper", "lime", {"samples": 1000}, _MEAN, cost=1000),
        MethodSpec("shap", "SHAP", "paper", "gradient-shap", {"samples": 10, "noise": 0.0}, background=20, cost=600),
        MethodSpec(MARC, "MaRC", "marc", "marc", cost=12 * _STEPS),
        MethodSpec("marc-own", "MaRC, mask alone", "marc", "marc", {"own": 1.0, "levels": 0.0}, cost=6 * _STEPS),
        MethodSpec("marc-indicative", "MaRC, indicative", "marc", "marc", {"indicative": 1.0}, cost=12 * _STEPS),
        MethodSpec("input-x-gradient", "Input x gradient", "others", "input-x-gradient"),
        MethodSpec("integrated-gradients", "Integrated gradients", "others", "integrated-gradients", cost=450),
        MethodSpec("gradient-shap", "GradientSHAP, three baselines", "others", "gradient-shap", cost=225),
        MethodSpec("deep-lift", "DeepLift", "others", "deep-lift", cost=18),
        MethodSpec("guided-backpropagation", "Guided backpropagation", "others", "guided-backpropagation"),
        MethodSpec("occlusion", "Occlusion", "others", "occlusion", cost=500),
        MethodSpec("kernel-shap", "KernelSHAP", "others", "kernel-shap", {"samples": 1024}, _MEAN, cost=1024),
        MethodSpec("shapley-sampling", "Shapley sampling", DEAR, "shapley-sampling", {"orders": 5}, _MEAN, cost=1000),
        MethodSpec("marc-resnet", "MaRC, the paper's settings", DEAR, "marc",
                   {"preset": "resnet", "steps": 1000}, ("black", "white", "mean"), cost=18_000),
        MethodSpec(RANDOM, "Random", "chance", "random", cost=0),
    )
}  # fmt: skip
TEXTS: dict[str, MethodSpec] = {
    one.key: one
    for one in (
        MethodSpec(OWN, "The model's own", "paper", Inherent.name, cost=1),
        MethodSpec(MARC, "MaRC", "marc", "marc", cost=480),
        MethodSpec("marc-words", "MaRC, word by word", "marc", "marc", {"preset": "words"}, cost=480),
        MethodSpec("marc-indicative", "MaRC, indicative", "marc", "marc", {"indicative": 1.0}, cost=480),
        MethodSpec("loo", "Leave one out", "others", "occlusion", {"window": 1}, cost=100),
        MethodSpec("integrated-gradients", "Integrated gradients", "others", "integrated-gradients", cost=150),
        MethodSpec("gradient", "Gradient", "others", "saliency"),
        MethodSpec("input-x-gradient", "Input x gradient", "others", "input-x-gradient"),
        MethodSpec("gradient-shap", "GradientSHAP", "others", "gradient-shap", cost=75),
        MethodSpec("smooth-grad", "SmoothGrad", "others", "smooth-grad", cost=75),
        MethodSpec("occlusion", "Occlusion of five words", "others", "occlusion", {"window": 5}, cost=100),
        MethodSpec("lime", "LIME", "others", "lime", cost=1000),
        MethodSpec("kernel-shap", "KernelSHAP", "others", "kernel-shap", cost=1024),
        MethodSpec("shapley-sampling", "Shapley sampling", DEAR, "shapley-sampling", {"orders": 10}, cost=1000),
        MethodSpec("marc-paper", "MaRC, the paper's settings", DEAR, "marc", {"preset": "paper"}, cost=1800),
        MethodSpec(RANDOM, "Random", "chance", "random", cost=0),
    )
}  # fmt: skip
PAPER = tuple(key for key, one in PICTURES.items() if one.group == "paper")
MARCS = tuple(key for key, one in PICTURES.items() if one.group == "marc")


@dataclass(frozen=True)
class Dimension:
    """One thing that `--rows` chooses of: plants, networks, levels, ..."""

    name: str
    members: tuple[str, ...]
    usual: tuple[str, ...]  # what is taken where none is named
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    always: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """What can be asked for."""
        return (*self.groups, *self.members)


def method_dimension(
    specs: Mapping[str, MethodSpec], usual: Sequence[str] = (), further: Sequence[str] = ()
) -> Dimension:
    """The methods as something to choose of; random scores always, since figures without them mislead.

    `usual`: the groups that are made where nothing is asked for, none: all but the dear ones; `further`: single
    methods beside these.
    """
    by_group: dict[str, tuple[str, ...]] = {}
    for key, one in specs.items():
        by_group[one.group] = (*by_group.get(one.group, ()), key)
    taken = [group for group in by_group if (group in usual if usual else group != DEAR)]
    groups = {f"{name}-methods" if name in specs else name: keys for name, keys in by_group.items()}
    chosen = (*(key for group in taken for key in by_group[group]), *further)
    return Dimension("methods", tuple(specs), chosen, groups, always=(RANDOM,))


def choose(dimensions: Sequence[Dimension], wanted: Sequence[str] | None) -> dict[str, tuple[str, ...]]:
    """Dimension -> members, in their own order: what is named of it, else the usual ones."""
    named: dict[str, set[str]] = {one.name: set() for one in dimensions}
    for name in wanted or ():
        found = False
        for one in dimensions:
            if name in one.names:
                named[one.name].update(one.groups.get(name, (name,)))
                found = True
        if not found:
            known = ", ".join(member for one in dimensions for member in one.names)
            raise OptionError(f"there is no row {name!r}; there are: {known}")
    return {
        one.name: tuple(key for key in one.members if key in {*(named[one.name] or one.usual), *one.always})
        for one in dimensions
    }


def in_order(specs: Mapping[str, MethodSpec], keys: Sequence[str]) -> list[MethodSpec]:
    """Cheap ones first."""
    return sorted((specs[key] for key in keys), key=lambda one: (one.cost, one.key))
