"""A user's mistake is one line that says what was wrong and what to do; never a traceback of ours."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from families import tiny, tokenizer_of
from methods.fillers import filler_folder
from torch import nn

import rationales
from rationales.data.example import Example
from rationales.errors import InputError, ModelError, OptionError, RationalesError
from rationales.methods import METHODS

QUICK = {"steps": 2}


@pytest.fixture(scope="module")
def model():
    return rationales.load(*tiny("bert"))


def refused(kind, *inputs, says, **options):
    with pytest.raises(kind) as caught:
        rationales.explain(*inputs, **options)
    message = str(caught.value)
    assert isinstance(caught.value, RationalesError)
    assert "\n" not in message
    assert says in message
    return message


def test_all_errors_are_of_one_family():
    assert all(issubclass(kind, rationales.RationalesError) for kind in (InputError, ModelError, OptionError))
    assert not issubclass(RationalesError, (ValueError, TypeError))


NEEDS_MORE = {
    "feature maps",
    "images",
    "a masker",
    "an AML masker",
    "attention",
    "a language model",
}  # than a model of texts


class TestInputs:
    @pytest.mark.parametrize("text", ["", " ", "\r\n\t", "\u00a0\u2003"])
    def test_blank(self, model, text):
        refused(InputError, model, text, says="empty")
        refused(InputError, model, ["soup", text], says="empty")
        refused(InputError, model, (text, "soup"), says="empty")
        assert "the review" in refused(InputError, model, text, names="the review", says="empty")

    @pytest.mark.parametrize("text", ["\u200b", "\x00\x01", "\u0301"])
    def test_nothing_but_what_the_tokenizer_drops(self, model, text):
        refused(InputError, model, text, says="nothing to explain")

    @pytest.mark.parametrize("text", ["\ud800", "half \udfff a character"])
    def test_half_a_character(self, model, text):
        refused(InputError, model, text, says="lone surrogate")
        refused(InputError, model, ("soup", text), says="lone surrogate")

    @pytest.mark.parametrize("raw_input", [5, None, b"soup", {"soup": 1}, {"soup"}, 1.5])
    def test_something_else(self, model, raw_input):
        refused(InputError, model, raw_input, says="list of these")

    @pytest.mark.parametrize("inputs", [("soup",), ("a", "b", "c"), ("a", None), [None], [["a", "b"]], [b"soup"]])
    def test_something_else_inside(self, model, inputs):
        refused(InputError, model, inputs, says="a text or a tuple of two texts")

    def test_no_inputs_no_results(self, model):
        assert rationales.explain(model, []) == []


class TestOptions:
    @pytest.mark.parametrize("target", ["ugly", 3, -1, 0.5, ["ugly"], [None, 9]])
    def test_an_unknown_label_lists_the_labels(self, model, target):
        texts = ["soup"] * (len(target) if isinstance(target, list) else 1)
        refused(OptionError, model, texts, target=target, says="its labels are: LABEL_0, LABEL_1, LABEL_2")

    def test_another_number_of_targets_or_names(self, model):
        refused(OptionError, model, ["a", "b"], target=["LABEL_0"], says="1 targets for 2 inputs")
        refused(OptionError, model, ["a", "b"], names=["one"], says="1 names for 2 inputs")
        refused(OptionError, model, ["a", "b"], names="one", says="1 names for 2 inputs")

    def test_an_unknown_method_lists_the_methods(self, model):
        assert all(name in refused(OptionError, model, "soup", method="marx", says="no method") for name in METHODS)

    @pytest.mark.parametrize("method", METHODS)
    def test_an_unknown_option_lists_the_options(self, model, method):
        refused(OptionError, model, "soup", method=method, options={"stepps": 2}, says="its options are: ")

    def test_an_unknown_preset_lists_the_presets(self, model):
        refused(OptionError, model, "soup", options={"preset": "best"}, says="default, words, clauses, paper")

    @pytest.mark.parametrize("value", ["80", 0, -1, 1.5, None, True])
    def test_a_value_that_does_not_fit(self, model, value):
        refused(OptionError, model, "soup", options={"steps": value}, says="steps")

    @pytest.mark.parametrize("window", [-1, "5", 2.5])
    def test_a_window_that_does_not_fit(self, model, window):
        refused(OptionError, model, "soup", method="occlusion", options={"window": window}, says="window")

    @pytest.mark.parametrize("smooth", [0, -1.0, float("nan"), float("inf"), "3"])
    def test_smoothing_over_nothing(self, model, smooth):
        refused(OptionError, model, "soup", method="random", smooth=smooth, says="smooth")

    @pytest.mark.parametrize("seed", ["0", 1.5, None, -1])
    def test_a_seed_that_is_no_number_from_0_on(self, model, seed):
        refused(OptionError, model, "soup", method="random", seed=seed, says="whole number")
        with pytest.raises(OptionError, match="the seed must be a whole number"):
            rationales.evaluate(
                model, [Example("soup", "soup", "LABEL_0")], ["random"], metrics=["sufficiency"], seed=seed
            )


class Odd(nn.Module):
    """Fine with a text as it is; `trouble` decides what happens when words are replaced, or in the backward pass."""

    def __init__(self, trouble):
        super().__init__()
        self.embedding = nn.Embedding(len(tokenizer_of("bert")), 4)
        self.trouble = trouble
        self.config = SimpleNamespace(id2label={0: "no", 1: "yes"}, num_labels=2, problem_type=None, pad_token_id=0)

    def get_input_embeddings(self):
        return self.embedding

    def forward(self, input_ids, attention_mask):
        read = self.embedding(input_ids)
        changed = (read - self.embedding.weight[input_ids]).abs().sum((1, 2))
        score = read.mean((1, 2))
        if self.trouble == "when replaced":
            score = torch.where(changed > 0, torch.nan, score)
        if self.trouble == "backward":
            score = score + (read * 0).sum((1, 2)).sqrt()  # 0, with a slope of 0 / 0
        return torch.stack([-score, score], -1)


class TestNotANumber:
    @pytest.mark.parametrize("value", [float("nan"), float("inf")])
    @pytest.mark.parametrize("method", METHODS)
    def test_a_model_that_gives_it_is_reported_with_the_inputs_name(self, method, value):
        """Only the third text holds the word whose weights are broken."""
        module, tokenizer = tiny("bert")
        token = tokenizer.convert_tokens_to_ids("z")
        with torch.no_grad():
            module.get_input_embeddings().weight[token] = value
        texts = ["The soup", "The bread", "z", "The joke"]
        broken = rationales.load(module, tokenizer)
        assert "float32" in refused(InputError, broken, texts, method=method, says="NaN or infinite logits for 'z'")
        names = ["one", "two", "three", "four"]
        refused(InputError, broken, texts, method=method, names=names, says="NaN or infinite logits for three")

    @pytest.mark.parametrize(
        "method",
        [name for name, method in METHODS.items() if not NEEDS_MORE & {*method.needs}],
    )
    def test_a_model_that_gives_it_for_parts_of_a_text(self, method):
        broken = rationales.load(Odd("when replaced"), tokenizer_of("bert"))
        options = {"filler": filler_folder()} if "a filler" in METHODS[method].needs else {}
        options |= {"steps": 20} if method == "extremal-perturbation" else {}
        texts, names = ["The soup was cold"], ["the soup"]
        refused(InputError, broken, texts, method=method, options=options, names=names, says="the soup")

    def test_slopes_that_are_none(self):
        broken = rationales.load(Odd("backward"), tokenizer_of("bert"))
        refused(InputError, broken, "The soup", options=QUICK, names="the soup", says="the soup")
