"""A run on texts whose articles determine the class (sections 6 and 7 of the paper)."""

from __future__ import annotations

from torch import nn

from rationales.experiments.ground_truth.method_rows import INHERENT, INSIDE, RANDOM, TEXT_METHODS, MethodSpec, by_cost
from rationales.experiments.ground_truth.runs import review_passages, training_run
from rationales.experiments.ground_truth.runs.networks import SHARE_TOLERANCE, TEXT_NETWORKS
from rationales.experiments.ground_truth.runs.run_record import RunRecord
from rationales.experiments.ground_truth.runs.run_spec import RunSettings, RunSpec
from rationales.groundtruth import find_plant, modify
from rationales.groundtruth.encoded_examples import EncodedExamples, encode_texts
from rationales.groundtruth.explainable import near_rate, selection_rate, word_model
from rationales.groundtruth.networks.vocabulary import word_tokenizer
from rationales.groundtruth.networks.word_vectors import pretrained_vectors, set_word_vectors
from rationales.groundtruth.training import EncodedSplits

REQUIRED_ACCURACY = 0.97
MAX_EXCESS = 0.05  # a rationale model whose selected share exceeds the requested one by more is rejected


def run(spec: RunSpec, settings: RunSettings, previous: RunRecord | None = None) -> RunRecord:
    """Train a network on planted texts and measure all methods on it."""
    return training_run.train_and_explain(
        spec, settings, suitable_methods(spec, settings), prepare, data_settings(spec), previous
    )


def unfinished(spec: RunSpec, settings: RunSettings, previous: RunRecord | None) -> bool:
    """Whether the run, or a method of it, is still to be done."""
    return training_run.is_incomplete(previous, spec, settings, suitable_methods(spec, settings), data_settings(spec))


def suitable_methods(spec: RunSpec, settings: RunSettings) -> list[MethodSpec]:
    """The methods that run on this network; for a rationale model, its own selection and random scores."""
    network = TEXT_NETWORKS[spec.network]
    if network.selects:
        return by_cost(TEXT_METHODS, [INHERENT, RANDOM])
    keys = [key for key in settings.methods if key != INHERENT or network.has_inherent_scores]
    return by_cost(TEXT_METHODS, [key for key in keys if TEXT_METHODS[key].group != INSIDE or network.is_encoder])


def data_settings(spec: RunSpec) -> str:
    """Recipe and constants that a run depends on, as text for its fingerprint."""
    constants = (review_passages.PASSAGE_WORDS, review_passages.MAX_TEXTS)
    limits = (SHARE_TOLERANCE, MAX_EXCESS, REQUIRED_ACCURACY)
    return training_run.recipe_text(TEXT_NETWORKS[spec.network].recipe, *constants, *limits)


def prepare(spec: RunSpec, settings: RunSettings, attempt: int) -> training_run.TrainingSetup:
    """Plant articles into the texts."""
    network, seed = TEXT_NETWORKS[spec.network], settings.training_seed(spec, attempt)
    texts = review_passages.read_texts(spec.data, settings.data)
    plant = find_plant(spec.plant)
    train, val, test = (modify(split, plant, r=spec.r, seed=seed) for split in (texts.train, texts.val, texts.test))
    tokenizer = word_tokenizer(example.text for example in train.examples)
    data = EncodedSplits(*(encode_texts(split.examples, split.labels, tokenizer) for split in (train, val, test)))

    vectors = pretrained_vectors(tokenizer, network.pretrained_width) if network.pretrained_width else None

    def make_network() -> nn.Module:
        module = network.make(len(tokenizer), test.labels, spec.rate)
        return module if vectors is None else set_word_vectors(module, vectors, trainable=not network.frozen_vectors)

    return training_run.TrainingSetup(
        make_network=make_network,
        data=data,
        recipe=network.recipe,
        test=test,
        plant_description=f"{plant}; {spec.data}",
        make_model=lambda module: word_model(module, tokenizer, network.title),
        required_accuracy=REQUIRED_ACCURACY,
        stop_condition=near_rate(spec.rate, SHARE_TOLERANCE) if network.selects else None,
        find_fault=(lambda module: _excess_selection(module, data.test, spec.rate)) if network.selects else None,
        selects=network.selects,
        training_texts=tuple(example.text for example in train.examples),
    )


def _excess_selection(module: nn.Module, test: EncodedExamples, rate: float) -> str:
    """Reason to reject a rationale model that selects far too many words; empty: none."""
    share = selection_rate(module, test.to(next(module.parameters()).device))
    return "" if share <= rate + MAX_EXCESS else f"it selects {share:.1%} of the words where {rate:.1%} were wanted"
