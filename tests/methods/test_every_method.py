"""What must hold for every method: the registry is the list, so that a new method cannot be forgotten."""

from __future__ import annotations

import copy
import functools
import subprocess
import sys

import numpy as np
import pytest
import torch
from families import FAMILIES, tiny

import rationales
from methods.aml_maskers import constant_logit_aml_file, keyword_aml_file, untrained_aml_file
from methods.fillers import filler_folder
from methods.keyword import (
    attentive_constant_logit_model,
    attentive_contrast_model,
    attentive_keyword_model,
    constant_logit_model,
    contrast_model,
    keyword_model,
)
from methods.maskers import constant_logit_masker_file, contrast_masker_file, keyword_masker_file, untrained_masker_file
from rationales.errors import InputError, ModelError, OptionError
from rationales.methods import METHODS
from rationales.methods.gradient.gradient_method import GradientMethod

TEXTS = [
    "Dull.",
    "I did not like the soup, but the bread wasn't bad at all!",
    "Every morning the baker carried twelve loaves up the hill; " * 6,  # several segments
    "She said nothing; he laughed, and nobody else in the room understood why.",
]
PICTURES = [name for name, method in METHODS.items() if {"feature maps", "images"} & {*method.needs}]
LANGUAGE_MODELS = [
    name for name, method in METHODS.items() if "a language model" in method.needs
]  # tested with prompts
INSIDE = [name for name, method in METHODS.items() if "attention" in method.needs]
QUICK = {  # the invariants do not need a converged mask, nor many samples
    "marc": {"steps": 20},
    "meaningful-perturbation": {"steps": 10},
    "extremal-perturbation": {"steps": 8, "areas": "0.2,0.5"},
    "aml-finetuned": {"steps": 3},
    "integrated-gradients": {"steps": 8},
    "sequential-ig": {"steps": 3},
    "gradient-shap": {"samples": 5},
    "smooth-grad": {"samples": 5},
    "transition-attention": {"steps": 4},
    "lime": {"samples": 60},
    "kernel-shap": {"samples": 60},
    "shapley-sampling": {"orders": 2},
    "solvex": {"beams": 2, "passes": 150},
    "input-marginalization": {"candidates": 4},
    "lime-text": {"samples": 60},
    "lime-bert": {"samples": 60},
}


def slow_but(names, *quick):
    """The names as parameters of a test; all but the quick ones run with the slow tests alone."""
    return [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in names]


GOOD = {  # enough steps to find a cause, on texts of a few words
    "meaningful-perturbation": {"steps": 100},
    "extremal-perturbation": {"steps": 120, "areas": "0.1,0.2,0.4"},
}
TOLERANCE = 2e-3  # float32: other company means other sums, and Adam divides small slopes by their size


def trained_parts(method, masker_file):
    """Options of a method that needs a trained file: a masker, or a filler with random weights."""
    needs = METHODS[method].needs
    masker = {"masker": masker_file(needs)} if {"a masker", "an AML masker"} & {*needs} else {}
    return masker | ({"filler": filler_folder()} if "a filler" in needs else {})


def masker_for(needs, file, aml_file):
    """Which of two functions makes the masker of a method."""
    return aml_file if "an AML masker" in needs else file


def explain(model, texts, method="marc", **arguments):
    # nothing below needs a good masker
    options = QUICK.get(method, {}) | trained_parts(
        method, lambda needs: masker_for(needs, untrained_masker_file, untrained_aml_file)(model)
    )
    return rationales.explain(model, texts, method=method, options=options, **arguments)


def small(family="bert", **arguments):
    module, tokenizer = tiny(family, **arguments)
    return rationales.load(module, tokenizer)


@functools.lru_cache(maxsize=8)
def results_together(method):
    """All texts in one batch; what several tests compare with is computed once."""
    return explain(small(), TEXTS, method)


@functools.lru_cache(maxsize=16)
def result_alone(method, number):
    """One text alone, under a global random state that no test has."""
    model = small()
    with torch.random.fork_rng():
        torch.manual_seed(2)
        return explain(model, TEXTS[number], method)


# scope: the tests of a method follow each other, so that they share the results above
@pytest.mark.parametrize(
    "method", [name for name in METHODS if name not in (*PICTURES, *LANGUAGE_MODELS)], scope="class"
)
class TestEveryMethod:
    def test_alone_equals_in_a_batch_in_any_order(self, method):
        backwards = explain(small(), TEXTS[::-1], method)[::-1]
        for number, (mine, theirs) in enumerate(zip(results_together(method), backwards, strict=True)):
            alone = result_alone(method, number)
            assert np.allclose(mine.scores, alone.scores, atol=TOLERANCE)
            assert np.allclose(mine.scores, theirs.scores, atol=TOLERANCE)
            assert mine.target == alone.target

    def test_same_seed_same_bits(self, method):
        second = explain(small(), TEXTS, method)
        assert all(
            np.array_equal(mine.scores, theirs.scores)
            for mine, theirs in zip(results_together(method), second, strict=True)
        )

    def test_global_randomness_is_neither_read_nor_moved(self, method):
        model, expected = small(), result_alone(method, 1)
        torch.manual_seed(1)
        np.random.seed(1)  # noqa: NPY002  # the old global state is what must stay untouched
        before = (torch.random.get_rng_state(), np.random.get_state()[1].copy())  # noqa: NPY002
        result = explain(model, TEXTS[1], method)
        assert torch.equal(before[0], torch.random.get_rng_state())
        assert np.array_equal(before[1], np.random.get_state()[1])  # noqa: NPY002
        assert np.array_equal(result.scores, expected.scores)

    def test_model_is_left_as_it_was(self, method):
        module, tokenizer = tiny("bert")
        module.train()
        module.bert.pooler.eval()
        next(module.parameters()).requires_grad_(False)
        weights = copy.deepcopy(module.state_dict())
        flags = [submodule.training for submodule in module.modules()]
        gradient_flags = [weight.requires_grad for weight in module.parameters()]
        explain(rationales.load(module, tokenizer), TEXTS, method)
        assert [submodule.training for submodule in module.modules()] == flags
        assert [weight.requires_grad for weight in module.parameters()] == gradient_flags
        assert all(weight.grad is None for weight in module.parameters())
        assert not any(submodule._forward_hooks or submodule._forward_pre_hooks for submodule in module.modules())
        assert all(torch.equal(value, weights[name]) for name, value in module.state_dict().items())

    def test_model_is_left_as_it_was_after_an_exception(self, method):
        module, tokenizer = tiny("gpt2")
        module.train()
        model = rationales.load(module, tokenizer)
        handle = module.score.register_forward_hook(_interrupt)
        with pytest.raises(KeyboardInterrupt):
            explain(model, TEXTS, method)
        handle.remove()
        assert all(submodule.training for submodule in module.modules())
        assert all(weight.requires_grad for weight in module.parameters())
        assert not any(submodule._forward_hooks for submodule in module.modules())
        assert module.config.pad_token_id is None

    def test_scores_are_finite_one_per_unit_and_units_rebuild_the_text(self, method):
        for text, result in zip(TEXTS, results_together(method), strict=True):
            assert result.scores.shape == (len(result.units),)
            assert np.isfinite(result.scores).all()
            rebuilt, cursor = "", 0
            for unit in result.units:
                assert not text[cursor : unit.start].strip()
                rebuilt += text[cursor : unit.start] + unit.text
                cursor = unit.end
            assert rebuilt + text[cursor:] == text

    def test_a_model_that_gives_nan_is_reported_with_the_inputs_name(self, method):
        module, tokenizer = tiny("bert")
        with torch.no_grad():
            module.classifier.weight.fill_(float("nan"))
        with pytest.raises(InputError, match=r"NaN.*second"):
            explain(rationales.load(module, tokenizer), ["one"], method, names=["the second"])

    def test_works_where_gradients_are_switched_off(self, method):
        model, expected = small(), result_alone(method, 1)
        with torch.no_grad():
            assert np.array_equal(explain(model, TEXTS[1], method).scores, expected.scores)
        with torch.inference_mode():
            assert np.array_equal(explain(model, TEXTS[1], method).scores, expected.scores)

    def test_smoothing_brings_neighbours_together(self, method):
        plain, smoothed = result_alone(method, 3), explain(small(), TEXTS[3], method, smooth=3.0)
        assert np.abs(np.diff(smoothed.scores)).mean() < np.abs(np.diff(plain.scores)).mean()
        assert smoothed.options["smooth"] == 3.0

    def test_finds_the_keywords_of_a_keyword_model(self, method):
        if method == "random":
            pytest.skip("random scores find nothing, as they should")
        module, tokenizer = (attentive_keyword_model if method in INSIDE else keyword_model)("bridge", "joke")
        text = "The boat drifted slowly towards the old bridge and nobody laughed at the joke again that day"
        options = trained_parts(method, lambda needs: masker_for(needs, keyword_masker_file, keyword_aml_file)())
        options |= GOOD.get(method, {})
        result = rationales.explain(rationales.load(module, tokenizer), text, method=method, options=options)
        words = [unit.text for unit in result.units]
        assert result.target == "found"
        assert result.selected().sum() <= len(words) / 2
        for index in (words.index("bridge"), words.index("joke")):
            assert result.selected()[index]
            assert result.scores[index] == result.scores[max(index - 2, 0) : index + 3].max()

    @pytest.mark.parametrize(("label", "keyword"), [("comedy", "joke"), ("tragedy", "bridge")])
    def test_finds_the_keyword_of_either_class_where_the_first_logit_is_constant(self, method, label, keyword):
        """With logits (0, z) the first class is likely where z is low, and its own logit has no gradient."""
        if method == "random":
            pytest.skip("random scores find nothing, as they should")
        text = f"The boat drifted slowly towards the {keyword} and nobody laughed again that day"
        model = rationales.load(*(attentive_constant_logit_model if method in INSIDE else constant_logit_model)())
        options = trained_parts(
            method, lambda needs: masker_for(needs, constant_logit_masker_file, constant_logit_aml_file)()
        )
        result = rationales.explain(model, text, method=method, options=options | GOOD.get(method, {}))
        words = [unit.text for unit in result.units]
        assert result.target == label
        assert result.scores.argmax() == words.index(keyword)
        assert result.scores.max() > 0
        assert result.selected()[words.index(keyword)]
        assert result.selected().sum() <= len(words) / 2

    def test_against_another_class_only_what_tells_the_two_apart_counts(self, method):
        """'bridge' speaks for comedy and tragedy alike, and louder than 'joke', which speaks for comedy alone."""
        if method == "random":
            pytest.skip("random scores find nothing, as they should")
        if not METHODS[method].class_specific:
            pytest.skip("attention, and what it brings to a token, are the same whichever class is explained")
        if not METHODS[method].contrasts:
            with pytest.raises(OptionError, match=f"{method} explains one class"):
                explain(small(), TEXTS[1], method, target=0, against=1)
            return
        model = rationales.load(*(attentive_contrast_model if method in INSIDE else contrast_model)())
        text = "The boat drifted slowly towards the old bridge and nobody laughed at the joke again that day"
        options = trained_parts(method, lambda _: contrast_masker_file()) | GOOD.get(method, {})
        result = rationales.explain(model, text, method=method, target="comedy", against="tragedy", options=options)
        words = [unit.text for unit in result.units]
        shared, telling = words.index("bridge"), words.index("joke")
        assert (result.target, result.against) == ("comedy", "tragedy")
        assert result.scores.argmax() == telling
        assert result.selected()[telling]
        assert result.scores[shared] < (1.0 if METHODS[method].scores_are_ranks else 0.8) * result.scores[telling]
        assert list(result.probabilities["full"]) == ["comedy", "tragedy", "report"]


CONTRASTING = [name for name in METHODS if METHODS[name].contrasts and name not in (*PICTURES, *LANGUAGE_MODELS)]


@pytest.mark.parametrize(
    "method", slow_but(CONTRASTING, "marc", "marc-instant", "saliency", "occlusion", "lime", "chefer", "random")
)
def test_a_contrast_is_the_same_alone_and_in_a_batch(method):
    model = small(labels=3)
    together = explain(model, TEXTS, method, target=0, against=[1, 2, 1, 2])
    for text, rival, mine in zip(TEXTS, [1, 2, 1, 2], together, strict=True):
        alone = explain(model, text, method, target=0, against=rival)
        assert np.allclose(mine.scores, alone.scores, atol=TOLERANCE)
        assert mine.against == model.labels[rival]


@pytest.mark.parametrize("method", [name for name in METHODS if issubclass(METHODS[name], GradientMethod)])
class TestEveryGradientMethod:
    TEXT = "The boat drifted slowly towards the joke"

    @pytest.mark.parametrize("target", ["comedy", "tragedy"])
    def test_the_keyword_of_one_class_has_the_largest_score_for_both(self, method, target):
        """It speaks for comedy and as strongly against tragedy, so signed scores differ in their sign alone."""
        result = rationales.explain(rationales.load(*constant_logit_model()), self.TEXT, method=method, target=target)
        words = [unit.text for unit in result.units]
        assert np.abs(result.scores).argmax() == words.index("joke")
        if target == "tragedy" and METHODS[method]().reduce == "sum":
            assert result.scores[words.index("joke")] < 0

    def test_of_a_constant_logit_there_is_nothing_to_explain(self, method):
        """Why they do not explain the logit by default."""
        model, options = rationales.load(*constant_logit_model()), {"output": "logit"}
        result = rationales.explain(model, self.TEXT, method=method, target="comedy", options=options)
        assert not result.scores.any()


class Blocked(torch.nn.Module):
    """A classifier that lets no gradients through, as one behind another runtime would."""

    def __init__(self, module):
        super().__init__()
        self.module, self.config = module, module.config

    def get_input_embeddings(self):
        return self.module.get_input_embeddings()

    def forward(self, input_ids, attention_mask):
        with torch.no_grad():
            return self.module(input_ids=input_ids, attention_mask=attention_mask)


@pytest.mark.parametrize("method", [name for name in METHODS if name not in (*PICTURES, *LANGUAGE_MODELS)])
def test_a_model_without_gradients_is_explained_by_methods_that_need_none(method):
    module, tokenizer = tiny("bert")
    model = rationales.load(Blocked(module), tokenizer)
    if method in INSIDE:
        with pytest.raises(ModelError, match=r"no gradients|attention.*Blocked.*module of your own.*use .*occlusion"):
            explain(model, TEXTS[1], method)
    elif "gradients" in METHODS[method].needs:
        with pytest.raises(ModelError, match=r"no gradients with respect to its input.*use .*occlusion"):
            explain(model, TEXTS[1], method)
    else:
        plain = explain(rationales.load(module, tokenizer), TEXTS[1], method)
        assert np.allclose(explain(model, TEXTS[1], method).scores, plain.scores, atol=TOLERANCE)


@pytest.mark.parametrize("method", PICTURES)
def test_a_method_for_pictures_says_what_to_use_instead(method):
    with pytest.raises(OptionError, match=f"{method}.*text model.*use integrated-gradients"):
        explain(small(), TEXTS[1], method)


@pytest.mark.parametrize("family", slow_but(FAMILIES, "bert", "roberta", "distilbert", "gpt2"))
class TestEveryFamily:
    def test_keep_one_is_the_plain_model(self, family):
        """Bit for bit alone; to 1e-5 in a padded batch. The plain model is run as its users run it."""
        module, tokenizer = tiny(family)
        model = rationales.load(module, tokenizer)
        short = [text for text in TEXTS if len(tokenizer(text)["input_ids"]) <= model.limit]
        assert len(short) == 3
        with model.frozen(), torch.no_grad():
            batch = model.batch(model.encode([rationales.models.text.tokens.TextInput(text) for text in short]))
            together = batch.logits(batch.ones())
            for number, text in enumerate(short):
                encoding = tokenizer(text, return_tensors="pt")
                plain = module(**{name: encoding[name] for name in tokenizer.model_input_names}).logits[0]
                alone = batch.take([number])
                assert torch.equal(alone.logits(alone.ones())[0], plain)
                assert torch.allclose(together[number], plain, atol=1e-5, rtol=1e-5)

    def test_alone_equals_in_a_batch(self, family):
        model = small(family)
        for text, mine in zip(TEXTS, explain(model, TEXTS), strict=True):
            assert np.allclose(mine.scores, explain(model, text).scores, atol=TOLERANCE)

    def test_same_seed_same_bits(self, family):
        model = small(family)
        assert np.array_equal(explain(model, TEXTS[2]).scores, explain(model, TEXTS[2]).scores)

    def test_words_are_units_whatever_the_tokenizer_makes_of_them(self, family):
        result = explain(small(family), TEXTS[1])
        expected = "I did not like the soup , but the bread wasn't bad at all !"
        assert [unit.text for unit in result.units] == expected.split()
        assert np.isfinite(result.scores).all()

    def test_model_is_left_as_it_was(self, family):
        module, tokenizer = tiny(family)
        module.train()
        weights = copy.deepcopy(module.state_dict())
        pad = module.config.pad_token_id
        explain(rationales.load(module, tokenizer), TEXTS)
        assert all(submodule.training for submodule in module.modules())
        assert all(weight.requires_grad and weight.grad is None for weight in module.parameters())
        assert not any(submodule._forward_hooks for submodule in module.modules())
        assert module.config.pad_token_id == pad
        assert all(torch.equal(value, weights[name]) for name, value in module.state_dict().items())

    def test_a_pair_of_texts(self, family):
        module, tokenizer = tiny(family)
        result = explain(rationales.load(module, tokenizer), ("The bread was bad.", "Nobody laughed."))
        assert [unit.text_index for unit in result.units] == [0] * 5 + [1] * 3
        assert all(result.text_at(unit.text_index)[unit.start : unit.end] == unit.text for unit in result.units)
        encoding = tokenizer("The bread was bad.", "Nobody laughed.", return_tensors="pt")
        with torch.no_grad():
            plain = module(**{name: encoding[name] for name in tokenizer.model_input_names}).logits[0].softmax(-1)
        assert list(result.probabilities["full"].values()) == pytest.approx(plain.tolist(), abs=2e-6)


def test_the_same_bits_in_another_process():
    """Hash seeds and import order must not matter."""
    text, options = "The bread was not bad.", {"steps": 20}
    code = (
        "import sys; sys.path.insert(0, 'tests')\n"
        "import rationales\nfrom families import tiny\n"
        "module, tokenizer = tiny('bert')\n"
        f"r = rationales.explain(rationales.load(module, tokenizer), {text!r}, options={options})\n"
        "print(r.scores.tobytes().hex())"
    )
    there = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()
    assert there == rationales.explain(small(), text, options=options).scores.tobytes().hex()


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
