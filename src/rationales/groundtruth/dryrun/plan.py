"""What a dry run is to do, checked before anything takes time: plants, methods, labels and how to train."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from rationales.data.example import Example
from rationales.errors import OptionError
from rationales.evaluation.entries import Entry, MethodEntry, entries
from rationales.groundtruth.dryrun.data import Material, check_count
from rationales.groundtruth.image_plants import ImagePlant
from rationales.groundtruth.labels import Reassignment, keeping, labels_of, random
from rationales.groundtruth.plant import Plant
from rationales.groundtruth.registry import PLANTS, find_plant
from rationales.groundtruth.training import Recipe
from rationales.options import whole

Wanted = str | Mapping[str, Any]  # a name, or a name with its options

PLANT = {"image": "watermark", "text": "trigger"}
LEVEL = 5  # the visibility of changes of pictures, where nothing is said: the most there is
METHODS: dict[str, tuple[Wanted, ...]] = {
    "image": ("marc", "integrated-gradients", "saliency", "grad-cam", "occlusion"),
    # a plant may be a single word, which clauses or a window of several words only point at together with others
    "text": (
        "marc",
        {"name": "marc", "options": {"preset": "words"}},
        "integrated-gradients",
        "saliency",
        {"name": "occlusion", "options": {"window": 1}},
    ),
}
RECIPE = {
    "image": Recipe(epochs=40, least=3, batch=32),
    "text": Recipe(epochs=30, least=8, batch=32),  # accurate after one or two, and sure of it only then
}
INPUTS = 30  # explained with each method
LIMIT = 2000  # examples: what a CPU trains on in minutes
SIZE, WORDS = 112, 100  # pixels a side; words of a text
ALL = "all"  # the class of examples whose own classes are of no use here


@dataclass(frozen=True)
class Plan:
    """Everything that was decided."""

    plants: tuple[Plant, ...]
    entries: tuple[Entry, ...]  # methods; the random one is always among them
    recipe: Recipe
    r: float | None
    inputs: int
    seed: int


def plan(
    kind: str,
    *,
    plants: Sequence[Wanted | Plant] | None = None,
    methods: Sequence[Wanted | MethodEntry] | None = None,
    training: Mapping[str, Any] | None = None,
    r: float | None = None,
    inputs: int = INPUTS,
    seed: int = 0,
) -> Plan:
    """The usual choices for this kind of data, with those that were given in their place."""
    if inputs < 1:
        raise OptionError(f"one input or more must be explained, not {inputs}")
    if whole("the seed", seed) < 0:
        raise OptionError(f"the seed must not be negative, but is {seed}")
    wanted: Sequence[Wanted | Plant] = plants or (PLANT[kind],)
    made = tuple(find(one, kind) for one in wanted)
    rows = tuple(entries(list(methods or METHODS[kind]), None, kind))
    for one in rows:
        if kind != "image" and "feature maps" in one.method.needs:
            raise OptionError(f"{one.method.name} is for pictures; leave it out for texts")
    return Plan(made, rows, _recipe(kind, training or {}), r, inputs, whole("the seed", seed))


def find(wanted: Wanted | Plant, kind: str) -> Plant:
    """A plant for this kind of data, by name or with parameters; `level` is the visibility of a change of pictures.

    Where nothing is said of that it is the highest: small networks and small data are to learn it.
    """
    if isinstance(wanted, Plant):
        plant = wanted
    else:
        options = {"name": wanted} if isinstance(wanted, str) else dict(wanted)
        name, level = str(options.pop("name", "")), options.pop("level", None)
        values = {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()}
        plant = find_plant(name, values)
        if isinstance(plant, ImagePlant):
            if level is not None or plant.visible not in values:
                plant = plant.at(LEVEL if level is None else whole("level", level))
        elif level is not None:
            raise OptionError(f"{name} has no levels of visibility; only changes of pictures do")
    if plant.kind != kind:
        fitting = ", ".join(name for name, one in PLANTS.items() if one.kind == kind)
        what = {"image": "pictures", "text": "texts"}
        raise OptionError(f"{plant.name} is planted in {what[plant.kind]}, not in {what[kind]}; take one of: {fitting}")
    return plant


def relabelled(given: Material, plant: Plant, r: float | None) -> tuple[list[Example], Reassignment]:
    """Examples, and how they get new labels.

    With as many classes as the plant tells apart, a label stays with probability `r`, by default as if it were drawn
    anew. With more, fewer or no classes every label is drawn anew.
    """
    labels = sorted({str(one.label) for one in given.examples if one.label is not None})
    if len(labels) == plant.classes and all(one.label is not None for one in given.examples):
        return list(given.examples), keeping(labels_of(given.examples), 1 / plant.classes if r is None else r)
    if r is not None:
        raise OptionError(
            f"r is how often a label stays, for data of {plant.classes} classes; {given.name} has "
            f"{len(labels) or 'none'}: leave r out, and labels are drawn anew"
        )
    how = random((ALL,), tuple(f"class {number}" for number in range(plant.classes)))
    check_count(len(given.examples), how.bound)
    return [replace(one, label=ALL) for one in given.examples], how


def _recipe(kind: str, training: Mapping[str, Any]) -> Recipe:
    known = {one.name: type(one.default) for one in fields(Recipe)}
    for name, value in training.items():
        if name not in known:
            raise OptionError(f"a training has no setting {name!r}; there are: {', '.join(known)}")
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or (known[name] is int and not isinstance(value, int)):
            raise OptionError(
                f"{name} of a training is a {'whole ' if known[name] is int else ''}number, not {value!r}"
            )
    chosen = dict(training)
    if "epochs" in chosen and "least" not in chosen:
        chosen["least"] = min(RECIPE[kind].least, int(chosen["epochs"]))
    return replace(RECIPE[kind], **chosen)
