"""Prompts as rows: tokens in context, units with the right offsets, templates, chats, examples, pairs."""

from __future__ import annotations

import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from language_models import LANGUAGE_MODELS, tiny_language_model
from reference.prompt import token_ids

import rationales
from rationales.errors import OptionError, RationalesError
from rationales.models.prompt.baselines import FINALISTS
from rationales.models.prompt.template import PromptTemplate, as_template

LABELS = ["good", "bad"]
TEMPLATE = "Review: {text}\nSentiment:"
CHAT = (
    "{% for message in messages %}<s>{{ message['role'] }}\n{{ message['content'] }}</s>\n{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant\n{% endif %}"
)


def load(family="llama", template=TEMPLATE, **options):
    module, tokenizer = tiny_language_model(family)
    return rationales.load(module, tokenizer, labels=LABELS, template=template, baseline="mean", **options)


_MODELS = {}


def cached(family):
    if family not in _MODELS:
        _MODELS[family] = load(family)
    return _MODELS[family]


@pytest.mark.parametrize("family", LANGUAGE_MODELS)
class TestTokens:
    @settings(max_examples=25)
    @given(st.text(alphabet="ab .,!é“\n\t3The", min_size=1, max_size=30))
    def test_a_row_is_what_the_tokenizer_makes_of_the_whole_prompt(self, family, text):
        model = cached(family)
        try:
            (encoded,) = model.encode([model.read(text, None)])
        except RationalesError:
            assert not text.strip() or not model.tokenizer(text, add_special_tokens=False)["input_ids"]
            return
        row = encoded.rows[0]
        assert [*model.encoder.prefix_ids, *row.ids] == token_ids(model.tokenizer, model.prompt(text))
        assert all(text[unit.start : unit.end] == unit.text for unit in encoded.units)
        assert set(row.owner) - {-1} == set(range(len(encoded.units)))

    def test_units_are_the_words_of_the_text(self, family):
        model = cached(family)
        (encoded,) = model.encode([model.read("I did not like the soup, sorry!", None)])
        assert [unit.text for unit in encoded.units] == ["I", "did", "not", "like", "the", "soup", ",", "sorry", "!"]

    def test_units_of_the_whole_prompt(self, family):
        model = load(family, explain_prompt=True)
        source = model.read("I like soup", None)
        (encoded,) = model.encode([source])
        assert [unit.text for unit in encoded.units] == ["Review", ":", "I", "like", "soup", "Sentiment", ":"]
        assert source.text == "Review: I like soup\nSentiment:"


class TestTemplates:
    def test_a_template_from_a_file(self, tmp_path):
        (tmp_path / "review.txt").write_text(TEMPLATE + "\n", encoding="utf-8")
        assert as_template(tmp_path / "review.txt") == PromptTemplate(TEMPLATE)

    def test_a_template_from_json(self, tmp_path):
        data = {
            "template": "First: {text} Second: {pair}",
            "chat": True,
            "system": "Be brief.",
            "examples": [[["The soup.", "The bread."], "bad"]],
            "separator": "\n",
            "instruction": "Compare. ",
        }
        expected = PromptTemplate(
            data["template"],
            chat=True,
            system="Be brief.",
            examples=((("The soup.", "The bread."), "bad"),),
            separator="\n",
            instruction="Compare. ",
        )
        (tmp_path / "prompt.json").write_text(json.dumps(data | {"labels": LABELS}), encoding="utf-8")
        assert as_template(tmp_path / "prompt.json") == as_template(data) == expected
        assert expected.to_dict() == data
        assert PromptTemplate(TEMPLATE).to_dict() == {"template": TEMPLATE}
        assert as_template(data, separator="").separator == ""

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("nope", "is not JSON"),
            ("[1]", "an object with the text"),
            ('{"labels": ["a"]}', "an object with the text"),
            ('{"template": "{text}", "loud": true}', "has no 'loud'; there are: template, chat"),
            ('{"template": "{text}", "examples": [["a"]]}', "an example is a tuple"),
        ],
    )
    def test_a_template_in_json_that_cannot_be_read(self, tmp_path, content, message):
        (tmp_path / "prompt.json").write_text(content, encoding="utf-8")
        with pytest.raises(OptionError, match=f"prompt.json.*{message}"):
            as_template(tmp_path / "prompt.json")

    def test_other_braces_are_plain(self):
        model = load(template='Answer as {"label": ...}. {text} Answer:')
        assert model.prompt("One {text} more") == 'Answer as {"label": ...}. One {text} more Answer:'

    def test_examples_come_first_with_their_labels(self):
        model = load(template=PromptTemplate(TEMPLATE, examples=(("The soup.", "bad"), ("The bread.", "good"))))
        expected = (
            "Review: The soup.\nSentiment: bad\n\nReview: The bread.\nSentiment: good\n\nReview: Calm.\nSentiment:"
        )
        assert model.prompt("Calm.") == expected

    def test_a_space_at_the_end_goes_with_the_label(self):
        with_space, without = load(template=TEMPLATE + " "), load()
        assert with_space.prompt("Calm.") == without.prompt("Calm.")
        assert [with_space.encoder.label_ids(label) for label in LABELS] == [
            without.encoder.label_ids(label) for label in LABELS
        ]

    def test_two_texts(self):
        model = load(template="First: {text} Second: {pair} Same:")
        (encoded,) = model.encode([model.read(("The soup.", "A dull lecture."), None)])
        assert [unit.text for unit in encoded.units] == ["The", "soup", ".", "A", "dull", "lecture", "."]
        assert [unit.text_index for unit in encoded.units] == [0, 0, 0, 1, 1, 1, 1]

    def test_a_chat_is_rendered_by_the_tokenizer(self):
        module, tokenizer = tiny_language_model("qwen2")
        tokenizer.chat_template = CHAT
        template = PromptTemplate("Is it good? {text}", system="Be brief.", examples=(("The soup.", "bad"),), chat=True)
        model = rationales.load(module, tokenizer, labels=LABELS, template=template)
        messages = [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Is it good? The soup."},
            {"role": "assistant", "content": "bad"},
            {"role": "user", "content": "Is it good? Calm."},
        ]
        rendered = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        assert model.prompt("Calm.") == rendered
        ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        (encoded,) = model.encode([model.read("Calm.", None)])
        assert [*model.encoder.prefix_ids, *encoded.rows[0].ids] == list(ids)

    def test_special_tokens_of_a_chat_are_no_units(self):
        module, tokenizer = tiny_language_model("qwen2")
        tokenizer.chat_template = CHAT
        model = rationales.load(module, tokenizer, labels=LABELS, template="{text}", chat=True, explain_prompt=True)
        (encoded,) = model.encode([model.read("Calm soup", None)])
        assert [unit.text for unit in encoded.units] == ["user", "Calm", "soup", "assistant"]


class TestScores:
    def test_calibrated_scores_of_an_empty_text_are_zero(self):
        model = load(calibrated=True)
        network = model.networks[0].module
        empty = network.empty_ids
        assert torch.allclose(network(empty, torch.ones_like(empty)), torch.zeros(1, 2), atol=1e-5)

    def test_length_normalised_scores_are_per_token(self):
        plain, normalised = load(), load(length_normalised=True)
        counts = torch.tensor([len(plain.encoder.label_ids(label)) for label in LABELS])
        ids = torch.tensor([plain.encode([plain.read("Calm.", None)])[0].rows[0].ids])
        with torch.no_grad():
            scores = [model.networks[0].module(ids, torch.ones_like(ids)) for model in (plain, normalised)]
        assert torch.allclose(scores[0] / counts, scores[1], atol=1e-5)

    def test_the_baseline_is_the_least_informative_candidate_and_is_said(self):
        module, tokenizer = tiny_language_model("llama")
        model = rationales.load(module, tokenizer, labels=LABELS, template=TEMPLATE)
        values = [value for _, value in model.choice.informativeness]
        assert values[0] <= min(values[:FINALISTS]) + 0.01
        assert values[FINALISTS:] == sorted(values[FINALISTS:], key=lambda value: round(value, 2))
        result = rationales.explain(model, "Calm soup.", method="occlusion")
        assert result.baseline == model.baseline
        assert result.notes[0].kind == "baselines"
