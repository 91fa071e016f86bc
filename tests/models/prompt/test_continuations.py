"""Continuations of a prompt: the prompt stays as it is, and its end decides whether a space precedes the next word."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from language_models import tiny_language_model
from models.prompt.test_label_probabilities import expected, logits
from reference.prompt import label_scores, token_ids

import rationales
from rationales.errors import OptionError
from rationales.models.prompt.ranking import ranking_question
from rationales.models.prompt.template import RenderedTemplate

WORDS = ["good", "not good", "bad"]
ENDS = {  # end of a prompt -> what stands between it and the next word
    "My pets are": " ",
    "Is it 3": " ",
    "Answer:": " ",
    "Answer: ": " ",
    "Q: soup\nA:\n": "",
    'He said "': "",
    "(": "",
    "é": "",
}


def load(family="llama", **options):
    return rationales.load(*tiny_language_model(family), continuations=WORDS, baseline="mean", **options)


@pytest.mark.parametrize(("prompt", "separator"), ENDS.items())
def test_the_end_of_the_prompt_decides_on_the_space(prompt, separator):
    template = RenderedTemplate(("", ""), (" ", ""), special_tokens=True)
    assert template.separators[template.separator_number(prompt)] == separator


@pytest.mark.parametrize("explain_prompt", [False, True])
def test_nothing_but_spaces_is_taken_from_the_end_of_a_prompt(explain_prompt):
    model = load("gpt2", explain_prompt=explain_prompt)
    for prompt in ENDS:
        assert model.prompt(prompt) == prompt.rstrip(" ")
    (encoded,) = model.encode([model.read("Q: soup\nA:\n", None)])
    assert [*model.encoder.prefix_ids, *encoded.rows[0].ids] == token_ids(model.tokenizer, "Q: soup\nA:\n")


@pytest.mark.parametrize("family", ["llama", "gpt2", "qwen2"])
@pytest.mark.parametrize("options", [{}, {"length_normalised": True}])
def test_likelihoods_are_those_of_plain_passes_in_one_batch_with_other_ends(family, options):
    model = load(family, **options)
    prompts = ["My pets are", "Q: soup\nA:\n", "Answer: "]
    together = logits(model, prompts)
    for prompt, scores in zip(prompts, together, strict=True):
        # byte-level tokens, so that a word has the same tokens behind any prompt
        label_ids = [model.tokenizer(ENDS[prompt] + word, add_special_tokens=False)["input_ids"] for word in WORDS]
        ids = token_ids(model.tokenizer, prompt.rstrip(" "))
        plain = label_scores(model.language_model, ids, label_ids, **options)
        assert torch.allclose(scores, plain, atol=1e-4)


def test_a_template_that_ends_in_the_text_decides_by_it_too():
    model = rationales.load(*tiny_language_model("llama"), labels=WORDS, template="Go on: {text}")
    assert model.prompt("soup\n") == "Go on: soup\n"
    behind_line = [model.tokenizer(word, add_special_tokens=False)["input_ids"] for word in WORDS]
    assert [model.encoder.label_ids(word, 1) for word in WORDS] == behind_line
    assert [model.encoder.label_ids(word, 0) for word in WORDS] != behind_line


def test_calibration_knows_both_spellings():
    options = {"labels": WORDS, "template": "Go on: {text}", "baseline": "mean"}
    plain, calibrated = (
        rationales.load(*tiny_language_model("llama"), **options, calibrated=on) for on in (False, True)
    )
    for number, prompt in enumerate(["the soup", "the soup\n"]):
        network = plain.networks[0].module
        empty = torch.tensor([calibrated.networks[0].module.empty_ids[0].tolist()])
        with torch.no_grad():
            of_empty = network(empty, torch.ones_like(empty), torch.full_like(empty, number))[0]
        assert torch.allclose(logits(calibrated, [prompt])[0], logits(plain, [prompt])[0] - of_empty, atol=1e-5)


def test_a_separator_can_be_set():
    no_space = load(separator="")
    prompt = "My pets are"
    label_ids = [no_space.encoder.label_ids(word) for word in WORDS]
    assert [no_space.tokenizer.decode(ids) for ids in label_ids] == WORDS
    assert torch.allclose(logits(no_space, [prompt])[0], expected(no_space, prompt, WORDS), atol=1e-4)
    assert not torch.allclose(logits(no_space, [prompt]), logits(load(), [prompt]), atol=1e-2)


@pytest.mark.parametrize("method", ["occlusion", "loo-empty", "lime-text", "integrated-gradients"])
def test_methods_explain_both_kinds_of_ends_together(method):
    model, prompts = load("gpt2"), ["My pets are", "Q: soup\nA:\n"]
    together = rationales.explain(model, prompts, method=method)
    for prompt, result in zip(prompts, together, strict=True):
        assert np.allclose(result.scores, rationales.explain(model, prompt, method=method).scores, atol=1e-4)


@pytest.mark.parametrize("words", ["good", [1], [], ["good", " "]])
def test_mistakes_are_about_continuations(words):
    with pytest.raises(OptionError, match="continuations is a list of words that may follow the prompt"):
        rationales.load(*tiny_language_model("llama"), continuations=words)


def test_continuations_that_are_the_same_tokens_are_refused():
    with pytest.raises(OptionError, match="the continuations 'good' and ' good' are the same tokens"):
        rationales.load(*tiny_language_model("llama"), continuations=["good", " good"])


@pytest.mark.parametrize("prompt", ["A dull lecture.", "Not good, not terrible:"])
def test_a_single_continuation_is_the_default_target(prompt):
    model = rationales.load(*tiny_language_model("llama"), continuations=["good"])
    result = rationales.explain(model, prompt, method="occlusion")
    assert result.target == "good"
    assert rationales.explain(model, [prompt], method="occlusion", target=["other"])[0].target == "other"


def test_the_ranking_of_words_is_asked_for_a_continuation():
    question = ranking_question("My pets are", "cats", chat=True, continues=True)
    assert 'The text goes on with "cats".' in question
    assert "classified" not in question
    assert load().networks[0].module.continues
