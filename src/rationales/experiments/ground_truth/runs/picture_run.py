"""A run on planted bird photographs (section 5 of the paper)."""

from __future__ import annotations

from dataclasses import replace

from rationales.experiments.ground_truth.method_rows import PICTURE_METHODS, by_cost
from rationales.experiments.ground_truth.runs import bird_pictures, training_run
from rationales.experiments.ground_truth.runs.networks import PICTURE_NETWORKS
from rationales.experiments.ground_truth.runs.run_record import RunRecord
from rationales.experiments.ground_truth.runs.run_spec import REQUIRED_ACCURACY, RunSettings, RunSpec
from rationales.groundtruth import modify, reassignment_keeping
from rationales.groundtruth.encoded_examples import EncodedImages, encode_images
from rationales.groundtruth.explainable import image_model
from rationales.groundtruth.training import EncodedSplits

EPOCH_SLICES = 4  # slices of an epoch after which the accuracy is tested where methods run during training


def run(spec: RunSpec, settings: RunSettings, previous: RunRecord | None = None) -> RunRecord:
    """Train a network on planted pictures and measure all methods on it."""
    methods = by_cost(PICTURE_METHODS, settings.methods)
    return training_run.train_and_explain(spec, settings, methods, prepare, data_settings(spec), previous)


def unfinished(spec: RunSpec, settings: RunSettings, previous: RunRecord | None) -> bool:
    """Whether the run, or a method of it, is still to be done."""
    return training_run.is_incomplete(
        previous, spec, settings, by_cost(PICTURE_METHODS, settings.methods), data_settings(spec)
    )


def data_settings(spec: RunSpec) -> str:
    """Recipe and constants that a run depends on, as text for its fingerprint."""
    recipe = PICTURE_NETWORKS[spec.network].recipe
    constants = (bird_pictures.SIZE, bird_pictures.VERSIONS, bird_pictures.MAX_SHIFT, EPOCH_SLICES, REQUIRED_ACCURACY)
    return training_run.recipe_text(recipe, *constants)


def prepare(spec: RunSpec, settings: RunSettings, attempt: int) -> training_run.TrainingSetup:
    """Choose two bird species and a plant, and plant it."""
    network = PICTURE_NETWORKS[spec.network]
    seed, position_seed = settings.training_seed(spec, attempt), settings.position_seed(spec, attempt)
    kinds = bird_pictures.choose_kinds(position_seed, distinct_kinds(spec, settings))
    pictures = bird_pictures.read_kinds(settings.data, kinds)
    size = pictures.size
    plant = bird_pictures.draw_plant(spec.plant, spec.level, position_seed, size)
    training = bird_pictures.RelabelledPictures(
        pictures.train, plant, kinds, spec.r, seed, training_run.compute_device(settings)
    )
    reassignment = reassignment_keeping(kinds, spec.r)
    val, test = (modify(shots, plant, reassignment=reassignment, seed=seed) for shots in (pictures.val, pictures.test))
    recipe = network.recipe
    if settings.explain_during_training:
        recipe = replace(recipe, epochs=EPOCH_SLICES * recipe.epochs)

    def epoch_slice(number: int) -> EncodedImages:
        return training.epoch_slice(number, EPOCH_SLICES)

    return training_run.TrainingSetup(
        make_network=lambda: network.make(2, size),
        data=EncodedSplits(training.epoch(0), *(encode_images(split.examples, split.labels) for split in (val, test))),
        recipe=recipe,
        test=test,
        validation=val,
        plant_description=f"{plant}; {' and '.join(kinds)}",
        make_model=lambda module: image_model(module, size, test.labels, network.title),
        required_accuracy=REQUIRED_ACCURACY,
        training_fold=epoch_slice if settings.explain_during_training else training.epoch,
    )


def distinct_kinds(spec: RunSpec, settings: RunSettings) -> bool:
    """Whether this run uses two bird species that are easy to tell apart."""
    return settings.all_distinct or (settings.distinct_kinds and spec.run % 2 == 1)
