"""The settings of a dry run, checked before training starts: plants, methods, labels and the training recipe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from rationales.data.example import Example
from rationales.errors import OptionError
from rationales.evaluation.entries import MethodEntry, ResolvedEntry, resolve_entries
from rationales.groundtruth.dryrun.input_data import InputData, check_count
from rationales.groundtruth.label_reassignment import (
    Reassignment,
    reassignment_keeping,
    sorted_labels,
    uniform_reassignment,
)
from rationales.groundtruth.plants.catalogue import PLANTS, find_plant
from rationales.groundtruth.plants.image_plants import ImagePlant
from rationales.groundtruth.plants.plant import Plant
from rationales.groundtruth.training import Recipe
from rationales.options import checked_seed, whole_number

NameWithOptions = str | Mapping[str, Any]  # a name, or a mapping with a name and options

DEFAULT_PLANT = {"image": "watermark", "text": "trigger"}
DEFAULT_LEVEL = 5  # visibility of image plants: the highest, so that small networks learn them from small data
DEFAULT_METHODS: dict[str, tuple[NameWithOptions, ...]] = {
    "image": ("marc", "integrated-gradients", "saliency", "grad-cam", "occlusion"),
    # A plant may be a single word; clauses or windows of several words cannot point at it alone.
    "text": (
        "marc",
        {"name": "marc", "options": {"preset": "words"}},
        "integrated-gradients",
        "saliency",
        {"name": "occlusion", "options": {"window": 1}},
    ),
}
DEFAULT_RECIPE = {
    "image": Recipe(epochs=40, min_epochs=3, batch_size=32),
    "text": Recipe(epochs=30, min_epochs=8, batch_size=32),  # accurate after one or two epochs, confident only later
}
DEFAULT_INPUTS = 30  # explained with each method
DEFAULT_LIMIT = 2000  # examples: a CPU trains on so many in minutes
DEFAULT_SIZE, DEFAULT_WORDS = 112, 100  # pixels per side of images; words of a text
SINGLE_CLASS = "all"  # label of all examples when their own labels cannot be used


@dataclass(frozen=True)
class DryRunSettings:
    """All settings of a dry run."""

    plants: tuple[Plant, ...]
    entries: tuple[ResolvedEntry, ...]  # methods, always with random scores among them
    recipe: Recipe
    r: float | None
    inputs: int
    seed: int


def resolve_settings(
    kind: str,
    *,
    plants: Sequence[NameWithOptions | Plant] | None = None,
    methods: Sequence[NameWithOptions | MethodEntry] | None = None,
    training: Mapping[str, Any] | None = None,
    r: float | None = None,
    inputs: int = DEFAULT_INPUTS,
    seed: int = 0,
) -> DryRunSettings:
    """Check the settings, and fill in the defaults for this kind of data."""
    if inputs < 1:
        raise OptionError(f"one input or more must be explained, not {inputs}")
    number = checked_seed(seed)
    requested: Sequence[NameWithOptions | Plant] = plants or (DEFAULT_PLANT[kind],)
    resolved_plants = tuple(resolve_plant(plant, kind) for plant in requested)
    method_entries = tuple(resolve_entries(list(methods or DEFAULT_METHODS[kind]), None, kind))
    for entry in method_entries:
        if kind != "image" and {"feature maps", "images"} & {*entry.method.needs}:
            raise OptionError(f"{entry.method.name} is for images; leave it out for texts")
    recipe = _resolve_recipe(kind, training or {})
    return DryRunSettings(resolved_plants, method_entries, recipe, r, inputs, number)


def resolve_plant(requested: NameWithOptions | Plant, kind: str) -> Plant:
    """A plant for this kind of data, by its name or a mapping with parameters; `level` is the visibility in images.

    Without a level, image plants have the highest visibility.
    """
    if isinstance(requested, Plant):
        plant = requested
    else:
        options = {"name": requested} if isinstance(requested, str) else dict(requested)
        name, level = str(options.pop("name", "")), options.pop("level", None)
        parameters = {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()}
        plant = find_plant(name, parameters)
        if isinstance(plant, ImagePlant):
            if level is not None or plant.visibility_field not in parameters:
                plant = plant.at_level(DEFAULT_LEVEL if level is None else whole_number("level", level))
        elif level is not None:
            raise OptionError(f"{name} has no levels of visibility; only plants for images do")
    if plant.kind != kind:
        fitting = ", ".join(name for name, candidate in PLANTS.items() if candidate.kind == kind)
        plurals = {"image": "images", "text": "texts"}
        raise OptionError(
            f"{plant.name} is planted in {plurals[plant.kind]}, not in {plurals[kind]}; take one of: {fitting}"
        )
    return plant


def choose_labels(data: InputData, plant: Plant, r: float | None) -> tuple[list[Example], Reassignment]:
    """The examples with usable labels, and the reassignment to new labels.

    If the data have as many classes as the plant, a label is kept with probability `r`, by default 1/K. Otherwise every
    label is drawn anew.
    """
    examples = data.examples
    labels = sorted({str(example.label) for example in examples if example.label is not None})
    if len(labels) == plant.n_classes and all(example.label is not None for example in examples):
        keep_probability = 1 / plant.n_classes if r is None else r
        return list(examples), reassignment_keeping(sorted_labels(examples), keep_probability)
    if r is not None:
        raise OptionError(
            f"r is the probability that a label is kept, for data of {plant.n_classes} classes; {data.name} has "
            f"{len(labels) or 'none'}: leave r out, and labels are drawn anew"
        )
    new_labels = tuple(f"class {index}" for index in range(plant.n_classes))
    reassignment = uniform_reassignment((SINGLE_CLASS,), new_labels)
    check_count(len(examples), reassignment.bound)
    return [replace(example, label=SINGLE_CLASS) for example in examples], reassignment


def _resolve_recipe(kind: str, training: Mapping[str, Any]) -> Recipe:
    types = {setting.name: type(setting.default) for setting in fields(Recipe)}
    for name, value in training.items():
        if name not in types:
            raise OptionError(f"training has no setting {name!r}; there are: {', '.join(types)}")
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or (types[name] is int and not isinstance(value, int)):
            expected = "an integer" if types[name] is int else "a number"
            raise OptionError(f"the training setting {name} is {expected}, not {value!r}")
    changes = dict(training)
    if "epochs" in changes and "min_epochs" not in changes:
        changes["min_epochs"] = min(DEFAULT_RECIPE[kind].min_epochs, int(changes["epochs"]))
    return replace(DEFAULT_RECIPE[kind], **changes)
