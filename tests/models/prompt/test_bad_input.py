"""Mistakes in prompts, labels, texts and models are reported with what to do."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from language_models import keyword_language_model, tiny_language_model

import rationales
from rationales.errors import InputError, ModelError, OptionError
from rationales.models.prompt.template import PromptTemplate

TEMPLATE = "Review: {text}\nSentiment:"
LABELS = ["good", "bad"]


def load(labels=LABELS, template=TEMPLATE, family="llama", **options):
    return rationales.load(*tiny_language_model(family), labels=labels, template=template, **options)


class TestWhatIsMissing:
    @pytest.mark.parametrize(
        ("options", "missing"),
        [
            ({}, "labels and template are missing"),
            ({"labels": LABELS}, "template is missing"),
            ({"template": TEMPLATE}, "labels is missing"),
        ],
    )
    def test_a_language_model_needs_labels_and_a_template(self, options, missing):
        with pytest.raises(OptionError, match=f"LlamaForCausalLM is a language model.*{missing}.*--labels, --template"):
            rationales.load(*tiny_language_model("llama"), **options)

    def test_a_module_needs_its_tokenizer(self):
        module, _ = tiny_language_model("llama")
        with pytest.raises(OptionError, match="a module needs its tokenizer"):
            rationales.load(module, labels=LABELS, template=TEMPLATE)

    def test_options_of_prompts_are_for_language_models(self):
        with pytest.raises(OptionError, match="calibrated is for language models"):
            rationales.load("embedded", calibrated=True)

    def test_continuations_stand_in_place_of_labels_and_template(self):
        with pytest.raises(OptionError, match="leave labels and template out"):
            rationales.load(*tiny_language_model("llama"), continuations=["a"], labels=LABELS)


class TestTemplates:
    @pytest.mark.parametrize(
        ("template", "message"),
        [
            ("Review:\nSentiment:", r"has no place \{text\}"),
            ("Review: {text} and {text}\nSentiment:", r"has 2 places \{text\}"),
            ("nowhere.txt", r"'nowhere.txt' has no place \{text\}, and there is no file"),
            ("{pair} then {text}", r"write \{text\} first"),
            (7, "a template is a text with"),
        ],
    )
    def test_a_template_has_one_place(self, template, message):
        with pytest.raises(OptionError, match=message):
            load(template=template)

    def test_a_long_template_without_a_place_is_no_file(self):
        with pytest.raises(OptionError, match=r"the template 'xxx.*\.\.\.' has no place \{text\}"):
            load(template="x" * 400)

    def test_a_chat_template_that_writes_the_text_twice_is_refused(self):
        module, tokenizer = tiny_language_model("llama")
        tokenizer.chat_template = "{{ messages[0]['content'] }} {{ messages[0]['content'] }}"
        with pytest.raises(OptionError, match="writes the user's text 2 times"):
            rationales.load(module, tokenizer, labels=LABELS, template=TEMPLATE, chat=True)

    def test_a_chat_needs_a_chat_template(self):
        with pytest.raises(OptionError, match="the tokenizer has no chat template"):
            load(chat=True)

    def test_a_chat_template_that_refuses_is_quoted(self):
        module, tokenizer = tiny_language_model("llama")
        tokenizer.chat_template = "{{ raise_exception('no system here') }}"
        with pytest.raises(OptionError, match="refuses this prompt: no system here"):
            rationales.load(module, tokenizer, labels=LABELS, template=TEMPLATE, chat=True)

    def test_a_system_message_needs_a_chat(self):
        with pytest.raises(OptionError, match="belongs to a chat"):
            PromptTemplate(TEMPLATE, system="Be brief.")

    def test_an_example_is_a_text_and_its_label(self):
        with pytest.raises(OptionError, match=r"an example is a tuple \(text, label\)"):
            PromptTemplate(TEMPLATE, examples=(("a text", "good", "bad"),))

    def test_a_template_that_leaves_no_room_is_refused_with_the_numbers(self):
        with pytest.raises(
            ModelError, match=r"the template takes \d+ tokens and the labels \d+ of the 160 .* leaves \d"
        ):
            load(template="The river was calm. " * 20 + TEMPLATE)

    def test_calibration_needs_words_around_the_text(self):
        with pytest.raises(OptionError, match="no words around the text"):
            load(template="{text}", calibrated=True, family="gpt2")


class TestLabels:
    @pytest.mark.parametrize(
        ("labels", "message"),
        [
            ([], "one of the labels is empty"),
            (["good", " "], "one of the labels is empty"),
            (["good", "good"], "two labels are equal"),
            ("good", "labels is a list of words, one for each class"),
            ({"good": 0, "bad": 1}, "labels is a list of words"),
            (7, "labels is a list of words"),
            ([1, 2], "labels is a list of words"),
        ],
    )
    def test_labels_are_different_words(self, labels, message):
        with pytest.raises(OptionError, match=message):
            load(labels=labels)

    @pytest.mark.parametrize("labels", [np.array(LABELS), (label for label in LABELS), tuple(LABELS)])
    def test_labels_are_any_list_of_words(self, labels):
        assert load(labels=labels).labels == ("good", "bad")

    def test_labels_that_leave_no_room_are_to_be_shortened(self):
        with pytest.raises(ModelError, match=r"the labels \d+ of the 160 .*; shorten the labels"):
            load(labels=["good " * 200, "bad"])
        with pytest.raises(ModelError, match="shorten the labels"):
            rationales.load(*tiny_language_model("llama"), continuations=["good " * 200, "bad"])

    def test_a_single_label_is_the_default_target(self):
        for text in ("The soup was calm.", "A dull lecture.", "Not good."):
            assert rationales.explain(load(labels=["good"]), text, method="occlusion").target == "good"

    def test_labels_are_not_for_classifiers_of_texts(self):
        with pytest.raises(OptionError, match="labels is for language models"):
            rationales.load("embedded", labels=["good", "bad"])

    def test_labels_that_are_the_same_tokens_are_refused(self):
        with pytest.raises(OptionError, match="'good' and ' good' are the same tokens"):
            load(labels=["good", " good"])

    def test_labels_with_a_common_beginning_are_told_apart(self):
        model = load(labels=["not good", "not bad"])
        first, second = (model.encoder.label_ids(label) for label in model.labels)
        assert first[0] == second[0]
        result = rationales.explain(model, "The soup was calm.", method="occlusion")
        assert result.probabilities["full"]["not good"] != result.probabilities["full"]["not bad"]

    def test_one_label_is_set_against_everything_else(self):
        result = rationales.explain(load(labels=["good"]), "The soup was calm.", method="occlusion")
        assert set(result.probabilities["full"]) == {"good", "other"}


class TestTexts:
    @pytest.mark.parametrize("text", ["", "  \n"])
    def test_an_empty_text_is_refused(self, text):
        for options in ({}, {"explain_prompt": True}):
            with pytest.raises(InputError, match="empty; there is nothing to explain"):
                rationales.explain(load(**options), text)

    def test_a_text_beyond_the_context_is_divided(self):
        model = load()
        text = "Every morning the baker carried twelve loaves up the hill. " * 20
        result = rationales.explain(model, text, method="occlusion", options={"window": 20, "stride": 10})
        assert result.segments > 1
        assert len(result.units) == 20 * 11

    def test_a_prompt_beyond_the_context_is_refused_with_the_numbers(self):
        text = "Every morning the baker carried twelve loaves up the hill. " * 20
        for model in (
            load(explain_prompt=True),
            rationales.load(*tiny_language_model("llama"), continuations=["a", "b"]),
        ):
            with pytest.raises(InputError, match=r"has \d+ tokens, and the model takes 1\d\d"):
                rationales.explain(model, text, method="occlusion")

    def test_a_pair_needs_a_place(self):
        with pytest.raises(InputError, match=r"no place \{pair\}"):
            rationales.explain(load(), ("one", "two"))
        with pytest.raises(InputError, match="a tuple of two texts"):
            rationales.explain(load(template="{text} Or: {pair} Then:"), "one")


class TestBaselines:
    def test_other_baselines_are_suggested_that_the_tokenizer_has(self):
        module, tokenizer = keyword_language_model("joke")
        tokenizer.mask_token = None
        labels = {"labels": ["found", "absent"], "template": "Text: {text} Verdict:", "separator": ""}
        model = rationales.load(module, tokenizer, **labels, baseline="mean")
        result = rationales.explain(model, "A dull lecture.", method="occlusion")
        (message,) = [note.message for note in result.notes if note.kind == "informative-baseline"]
        assert message.endswith("try another baseline (unk, zero)")

    def test_words_that_are_offloaded_cannot_be_replaced(self):
        accelerate = pytest.importorskip("accelerate")
        module, tokenizer = tiny_language_model("llama")
        offloaded = accelerate.cpu_offload(module, execution_device=torch.device("cpu"))
        with pytest.raises(ModelError, match="the word embeddings are offloaded"):
            rationales.load(offloaded, tokenizer, labels=LABELS, template=TEMPLATE)


class Quantised(torch.nn.Module):
    """A language model whose layers round, as integer kernels do: it has outputs and no gradients."""

    def __init__(self, module):
        super().__init__()
        self.module, self.config = module, module.config

    def get_input_embeddings(self):
        return self.module.get_input_embeddings()

    def get_output_embeddings(self):
        return self.module.get_output_embeddings()

    def forward(self, **arguments):
        with torch.no_grad():
            return self.module(**arguments)


class TestWithoutGradients:
    def test_gradient_methods_say_what_to_use_instead(self):
        module, tokenizer = tiny_language_model("llama")
        model = rationales.load(Quantised(module), tokenizer, labels=LABELS, template=TEMPLATE)
        for method in ("marc", "integrated-gradients"):
            with pytest.raises(ModelError, match=r"no gradients with respect to its input.*use .*occlusion"):
                rationales.explain(model, "The soup was calm.", method=method)

    @pytest.mark.parametrize("method", ["occlusion", "loo-empty", "kernel-shap"])
    def test_other_methods_explain_it(self, method):
        module, tokenizer = tiny_language_model("llama")
        quantised = rationales.load(Quantised(module), tokenizer, labels=LABELS, template=TEMPLATE, baseline="mean")
        plain = rationales.load(module, tokenizer, labels=LABELS, template=TEMPLATE, baseline="mean")
        first, second = (rationales.explain(model, "The soup was calm.", method=method) for model in (quantised, plain))
        assert first.scores == pytest.approx(second.scores, abs=1e-5)

    @pytest.mark.filterwarnings("ignore")  # this way to quantise will move to another package
    def test_dynamically_quantised_layers_are_explained(self):
        module, tokenizer = tiny_language_model("llama")
        try:
            quantised = torch.ao.quantization.quantize_dynamic(module, {torch.nn.Linear}, dtype=torch.qint8)
        except (AttributeError, RuntimeError) as error:
            pytest.skip(f"this torch has no quantised kernels: {error}")
        model = rationales.load(quantised, tokenizer, labels=LABELS, template=TEMPLATE)
        result = rationales.explain(model, "The soup was calm.", method="occlusion")
        assert len(result.scores) == len(result.units)
        with pytest.raises(ModelError, match="no gradients"):
            rationales.explain(model, "The soup was calm.", method="saliency")
