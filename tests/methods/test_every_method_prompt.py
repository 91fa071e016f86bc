"""What must hold for every method on a language model that classifies by a prompt, and on every architecture."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from language_models import LANGUAGE_MODELS, keyword_language_model, tiny_language_model

import rationales
from methods.test_every_method import GOOD, INSIDE, PICTURES, TOLERANCE, explain, slow_but
from rationales.errors import InputError, ModelError
from rationales.methods import METHODS

TEXTS = [
    "Dull.",
    "I did not like the soup, but the bread wasn't bad at all!",
    "Every morning the baker carried twelve loaves up the hill; " * 3,  # several segments
]
PROMPT = {"labels": ["good", "not good", "bad"], "template": "The boat. Review: {text}\nSentiment:"}
METHODS_OF_TEXTS = [name for name in METHODS if name not in (*PICTURES, *INSIDE, "llm-ranking")]  # test_llm_ranking.py
QUICK_METHODS = (
    "marc",
    "occlusion",
    "integrated-gradients",
    "loo-empty",
    "lime",
    "kernel-shap",
    "aml-finetuned",
    "random",
)
SOME_METHODS = [
    "marc",
    "loo-empty",
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("occlusion", "saliency")),
]


def load(family="qwen2", **options):
    return rationales.load(*tiny_language_model(family), **PROMPT, segment=90, **options)


def check_alone_and_together(model, method):
    together = explain(model, TEXTS, method)
    backwards = explain(model, TEXTS[::-1], method)[::-1]
    for text, mine, theirs in zip(TEXTS, together, backwards, strict=True):
        alone = explain(model, text, method)
        assert np.allclose(mine.scores, alone.scores, atol=TOLERANCE)
        assert np.allclose(mine.scores, theirs.scores, atol=TOLERANCE)
        assert mine.target == alone.target
        assert mine.scores.shape == (len(mine.units),)
        assert np.isfinite(mine.scores).all()
        rebuilt, cursor = "", 0
        for unit in mine.units:
            assert not text[cursor : unit.start].strip()
            rebuilt += text[cursor : unit.start] + unit.text
            cursor = unit.end
        assert rebuilt + text[cursor:] == text
    assert np.array_equal(alone.scores, explain(model, text, method).scores)  # the same seed, the same bits


def check_left_as_it_was(family, method):
    module, tokenizer = tiny_language_model(family)
    module.train()
    next(module.parameters()).requires_grad_(False)
    weights, settings = copy.deepcopy(module.state_dict()), copy.deepcopy(module.config.to_dict())
    flags = [weight.requires_grad for weight in module.parameters()]
    attention = module.config._attn_implementation
    model = rationales.load(module, tokenizer, **PROMPT)
    explain(model, TEXTS[1], method)
    interrupt = module.get_output_embeddings().register_forward_hook(_interrupt)
    with pytest.raises(KeyboardInterrupt):
        explain(model, TEXTS[1], method)
    interrupt.remove()
    assert all(submodule.training for submodule in module.modules())
    assert [weight.requires_grad for weight in module.parameters()] == flags
    assert all(weight.grad is None for weight in module.parameters())
    assert not any(submodule._forward_hooks or submodule._forward_pre_hooks for submodule in module.modules())
    assert all(torch.equal(value, weights[name]) for name, value in module.state_dict().items())
    assert module.config.to_dict() == settings
    assert module.config._attn_implementation == attention


def _interrupt(*_):
    raise KeyboardInterrupt


@pytest.mark.parametrize("method", slow_but(METHODS_OF_TEXTS, *QUICK_METHODS))
class TestEveryMethod:
    def test_alone_equals_in_a_batch_in_any_order(self, method):
        check_alone_and_together(load(), method)

    def test_model_is_left_as_it_was_also_after_an_exception(self, method):
        check_left_as_it_was("qwen2", method)

    def test_a_model_that_gives_nan_is_reported_with_the_inputs_name(self, method):
        module, tokenizer = tiny_language_model("qwen2")
        model = rationales.load(module, tokenizer, **PROMPT)
        with torch.no_grad():
            module.lm_head.weight.fill_(float("nan"))
        with pytest.raises(InputError, match=r"NaN.*second"):
            explain(model, ["one"], method, names=["the second"])

    def test_finds_the_keyword_of_a_keyword_model(self, method):
        if method == "random" or {"a masker", "an AML masker", "a filler"} & {*METHODS[method].needs}:
            pytest.skip("random scores find nothing, and untrained parts neither")
        model = rationales.load(
            *keyword_language_model("bridge"), labels=["found", "absent"], template="Text: {text}\nAnswer:"
        )
        text = "The boat drifted slowly towards the old bridge and nobody laughed again that day"
        result = rationales.explain(model, text, method=method, options=GOOD.get(method, {}))
        words = [unit.text for unit in result.units]
        assert result.target == "found"
        assert result.scores.argmax() == words.index("bridge")
        assert result.selected()[words.index("bridge")]


@pytest.mark.parametrize("method", SOME_METHODS)
@pytest.mark.parametrize("family", slow_but([f for f in LANGUAGE_MODELS if f != "qwen2"], "llama", "gpt2"))
class TestEveryArchitecture:
    def test_alone_equals_in_a_batch_in_any_order(self, family, method):
        check_alone_and_together(load(family), method)

    def test_model_is_left_as_it_was_also_after_an_exception(self, family, method):
        check_left_as_it_was(family, method)


@pytest.mark.parametrize("method", INSIDE)
def test_a_method_that_reads_an_encoders_attention_says_what_to_use_instead(method):
    with pytest.raises(ModelError, match=r"attention.*decoder.*occlusion"):
        explain(load(), TEXTS[1], method)


@pytest.mark.parametrize("options", [{"explain_prompt": True}, {"calibrated": True}, {"unit": "sentence"}])
def test_marc_explains_with_every_option(options):
    result = explain(load(**options), TEXTS[1])
    assert np.isfinite(result.scores).all()
    assert len(result.units) == len(result.scores)
