"""A run on the bird photographs (section 5)."""

from __future__ import annotations

from dataclasses import replace

from rationales.experiments.ground_truth import birds
from rationales.experiments.ground_truth.networks import PICTURES as NETWORKS
from rationales.experiments.ground_truth.plan import ENOUGH, Plan, Setting
from rationales.experiments.ground_truth.record import Record
from rationales.experiments.ground_truth.rows import PICTURES, in_order
from rationales.experiments.ground_truth.running import Ready, carry_out, home, missing
from rationales.groundtruth import modify, reassignment_keeping
from rationales.groundtruth.encoded_examples import encode_images
from rationales.groundtruth.explainable import image_model
from rationales.groundtruth.training import EncodedSplits

PIECES = 4  # an epoch is cut into so many where methods are asked during the training


def run(plan: Plan, setting: Setting, old: Record | None = None) -> Record:
    """Train a network on planted pictures and ask the methods."""
    return carry_out(plan, setting, in_order(PICTURES, setting.methods), prepare, about(plan), old)


def unfinished(plan: Plan, setting: Setting, old: Record | None) -> bool:
    """Whether there is anything to do."""
    return missing(old, plan, setting, in_order(PICTURES, setting.methods), about(plan))


def about(plan: Plan) -> str:
    """What else a run depends on."""
    return repr((NETWORKS[plan.network].recipe, birds.SIZE, birds.VERSIONS, birds.MOVED, PIECES, ENOUGH))


def prepare(plan: Plan, setting: Setting, attempt: int) -> Ready:
    """Choose two kinds of birds and a place, and plant."""
    network = NETWORKS[plan.network]
    seed, where = setting.training_seed(plan, attempt), setting.place_seed(plan, attempt)
    kinds = birds.pair(where, distinct(plan, setting))
    given = birds.parts(setting.data, kinds)
    size = given.size
    plant = birds.place(plan.plant, plan.level, where, size)
    deck = birds.Deck(given.train, plant, kinds, plan.r, seed, home(setting))
    how = reassignment_keeping(kinds, plan.r)
    val, test = (modify(part, plant, reassignment=how, seed=seed) for part in (given.val, given.test))
    recipe = network.recipe
    if setting.along:
        recipe = replace(recipe, epochs=PIECES * recipe.epochs)
    return Ready(
        factory=lambda: network.make(2, size),
        data=EncodedSplits(deck.fold(0), *(encode_images(one.examples, one.labels) for one in (val, test))),
        recipe=recipe,
        test=test,
        where=f"{plant}; {' and '.join(kinds)}",
        model=lambda module: image_model(module, size, test.labels, network.title),
        enough=ENOUGH,
        renew=(lambda number: deck.piece(number, PIECES)) if setting.along else deck.fold,
    )


def distinct(plan: Plan, setting: Setting) -> bool:
    """Whether this run's two kinds are easily told apart."""
    return setting.distinct and plan.run % 2 == 1
