"""Results say what a language model was asked: in Python, in files and on pages."""

from __future__ import annotations

import pytest
from language_models import tiny_language_model

import rationales
from rationales.models.prompt.template import PromptTemplate

FEW_SHOT = PromptTemplate(
    "Review: {text}\nSentiment:",
    examples=(("<b>A fine film.</b>", "good"), ("Dull & long.", "bad")),
    instruction="Rate <i>it</i>.\n",
)


@pytest.fixture(scope="module")
def result():
    model = rationales.load(
        *tiny_language_model("llama"),
        labels=["good", "bad"],
        template=FEW_SHOT,
        calibrated=True,
        length_normalised=True,
        baseline="mean",
    )
    return rationales.explain(model, "I did not like the soup.", method="occlusion")


def test_the_template_and_the_switches_that_are_on(result):
    assert result.prompt == {
        "template": "Review: {text}\nSentiment:",
        "examples": [["<b>A fine film.</b>", "good"], ["Dull & long.", "bad"]],
        "instruction": "Rate <i>it</i>.\n",
        "calibrated": True,
        "length_normalised": True,
    }


@pytest.mark.parametrize("options", [{}, {"explain_prompt": True}])
def test_continuations(options):
    model = rationales.load(*tiny_language_model("llama"), continuations=["cats", "dogs"], baseline="mean", **options)
    result = rationales.explain(model, "My pets are", method="occlusion")
    assert result.prompt == {"template": "{text}", "continuations": True, **options}


def test_classifiers_have_no_prompt():
    result = rationales.explain(rationales.load(), "A fine film.", method="occlusion")
    assert result.prompt is None
    assert "prompt" not in result.to_dict()
    assert "<summary>Prompt" not in result.to_html()


def test_a_saved_result_has_it(result, tmp_path):
    assert rationales.Rationale.load(result.save(tmp_path / "result.json")).prompt == result.prompt


def test_pages_show_it_folded_and_escaped(result):
    for page in (result.to_html(), result._repr_html_()):
        prompt = page.partition("<summary>Prompt</summary>")[2].partition("</details>")[0]
        assert "<dt>Template</dt><dd>Review: {text}" in prompt
        assert "<dt>Example</dt><dd>&lt;b&gt;A fine film.&lt;/b&gt; → good</dd>" in prompt
        assert "Dull &amp; long. → bad" in prompt
        assert "<dt>Length normalised</dt><dd>yes</dd>" in prompt
        assert "<b>A fine" not in page
        assert "<i>it</i>" not in page


def test_an_example_of_two_texts_on_a_page():
    template = PromptTemplate("{text} Or: {pair} Then:", examples=((("one", "two"), "good"),))
    model = rationales.load(*tiny_language_model("llama"), labels=["good", "bad"], template=template, baseline="mean")
    page = rationales.explain(model, ("three", "four"), method="occlusion").to_html()
    assert "<dd>one / two → good</dd>" in page
