"""A run on texts whose articles tell the class (sections 6 and 7)."""

from __future__ import annotations

from torch import nn

from rationales.experiments.ground_truth import passages
from rationales.experiments.ground_truth.networks import TEXTS as NETWORKS
from rationales.experiments.ground_truth.networks import TOLERANCE
from rationales.experiments.ground_truth.plan import Plan, Setting
from rationales.experiments.ground_truth.record import Record
from rationales.experiments.ground_truth.rows import OWN, RANDOM, TEXTS, MethodSpec, in_order
from rationales.experiments.ground_truth.running import Ready, carry_out, missing
from rationales.groundtruth import find_plant, modify
from rationales.groundtruth.encoded_examples import EncodedExamples, encode_texts
from rationales.groundtruth.explainable import near_rate, selection_rate, word_model
from rationales.groundtruth.networks.vocabulary import word_tokenizer
from rationales.groundtruth.training import EncodedSplits

ENOUGH = 0.97
FAR = 0.05  # a rationale model that selects so many more words than wanted has not learned to select


def run(plan: Plan, setting: Setting, old: Record | None = None) -> Record:
    """Train a network on planted texts and ask the methods."""
    return carry_out(plan, setting, fitting(plan, setting), prepare, about(plan), old)


def unfinished(plan: Plan, setting: Setting, old: Record | None) -> bool:
    """Whether there is anything to do."""
    return missing(old, plan, setting, fitting(plan, setting), about(plan))


def fitting(plan: Plan, setting: Setting) -> list[MethodSpec]:
    """The methods that are asked about this network: a rationale model says itself what it decides by."""
    network = NETWORKS[plan.network]
    wanted = [OWN, RANDOM] if network.selects else [key for key in setting.methods if key != OWN or network.tells]
    return in_order(TEXTS, wanted)


def about(plan: Plan) -> str:
    """What else a run depends on."""
    return repr((NETWORKS[plan.network].recipe, passages.WORDS, passages.MOST, TOLERANCE, FAR, ENOUGH))


def prepare(plan: Plan, setting: Setting, attempt: int) -> Ready:
    """Plant articles."""
    network, seed = NETWORKS[plan.network], setting.training_seed(plan, attempt)
    given = passages.texts(plan.data, setting.data)
    plant = find_plant(plan.plant)
    train, val, test = (modify(part, plant, r=plan.r, seed=seed) for part in (given.train, given.val, given.test))
    tokenizer = word_tokenizer(one.text for one in train.examples)
    data = EncodedSplits(*(encode_texts(one.examples, one.labels, tokenizer) for one in (train, val, test)))
    return Ready(
        factory=lambda: network.make(len(tokenizer), test.labels, plan.rate),
        data=data,
        recipe=network.recipe,
        test=test,
        where=f"{plant}; {plan.data}",
        model=lambda module: word_model(module, tokenizer, network.title),
        enough=ENOUGH,
        also=near_rate(plan.rate, TOLERANCE) if network.selects else None,
        check=(lambda module: _too_many(module, data.test, plan.rate)) if network.selects else None,
        selects=network.selects,
    )


def _too_many(module: nn.Module, test: EncodedExamples, rate: float) -> str:
    """Why a rationale model's selection is none; figures are by what is really selected, as in the paper."""
    share = selection_rate(module, test.to(next(module.parameters()).device))
    return "" if share <= rate + FAR else f"it selects {share:.1%} of the words where {rate:.1%} were wanted"
