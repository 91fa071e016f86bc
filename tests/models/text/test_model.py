"""Text models: labels, targets, and the token that only fills up a batch."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from families import tiny, tokenizer_of
from tokenizers import processors

import rationales
from rationales.errors import InputError, OptionError
from rationales.models.text.tokens import TextInput

NAMES = {"id2label": {0: "Bad", 1: "good", 2: "GOOD"}, "label2id": {"Bad": 0, "good": 1, "GOOD": 2}}


@pytest.fixture(scope="module")
def model():
    return rationales.load(*tiny("bert", **NAMES))


class TestTarget:
    @pytest.mark.parametrize(
        ("label", "number"), [("good", 1), ("GOOD", 2), ("bad", 0), ("BAD", 0), (0, 0), (2, 2), ("1", 1), (None, None)]
    )
    def test_by_label_or_number(self, model, label, number):
        """Exact spelling first, then any case, then a number."""
        assert model.target(label) == number

    @pytest.mark.parametrize("label", ["ugly", "", "3", "-1", "²", 3, -1, 0.5, b"good"])
    def test_an_unknown_label_lists_what_there_is(self, model, label):
        with pytest.raises(OptionError, match="its labels are: Bad, good, GOOD"):
            model.target(label)

    def test_any_kind_of_integer_will_do(self, model):
        assert [model.target(np.int64(1)), model.target(torch.tensor(2))] == [1, 2]
        seeded = [rationales.explain(model, "a b c", method="random", seed=seed) for seed in (3, np.int32(3))]
        assert np.array_equal(seeded[0].scores, seeded[1].scores)

    def test_an_empty_text_in_a_list_is_named(self, model):
        with pytest.raises(InputError, match="input 1 of the list is empty"):
            rationales.explain(model, ["a", " "])

    def test_a_label_that_is_a_number_is_a_label_first(self):
        model = rationales.load(*tiny("bert", labels=2, id2label={0: "1", 1: "0"}, label2id={"1": 0, "0": 1}))
        assert (model.target("1"), model.target(1)) == (0, 1)

    def test_one_for_each_input(self, model):
        rationales_found = rationales.explain(model, ["a", "b", "c"], method="random", target=["bad", 2, None])
        assert [rationale.target for rationale in rationales_found[:2]] == ["Bad", "GOOD"]
        full = rationales_found[2].probabilities["full"]
        assert rationales_found[2].target == max(full, key=full.get)

    def test_one_logit_has_two_labels(self):
        module, tokenizer = tiny("bert", labels=1)
        model = rationales.load(module, tokenizer)
        assert model.labels == ("not LABEL_0", "LABEL_0")
        with torch.no_grad():
            logit = module(**tokenizer("A text", return_tensors="pt")).logits.item()
        probabilities = rationales.explain(model, "A text", method="random").probabilities["full"]
        assert probabilities["LABEL_0"] == pytest.approx(torch.tensor(logit).sigmoid().item(), abs=2e-6)

    def test_labels_are_in_the_order_of_their_numbers(self):
        """Twelve labels written as strings: "10" does not come after "1"."""
        names = {number: f"label {number}" for number in range(12)}
        written = {str(number): names[number] for number in sorted(names, key=str)}
        model = rationales.load(*tiny("bert", labels=12, id2label=written))
        assert model.labels == tuple(names.values())


def appended(**tokens):
    """GPT-2's tokenizer, but with the end mark after every text."""
    tokenizer = copy.deepcopy(tokenizer_of("gpt2"))
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 2)]
    )
    for name, token in tokens.items():
        setattr(tokenizer, name, token)
    return tokenizer


@pytest.mark.parametrize(
    "tokenizer", [tokenizer_of("gpt2"), appended(), appended(pad_token="</s>")], ids=["plain", "eos", "eos is pad"]
)
def test_a_decoder_without_padding_reads_its_answer_at_the_last_token(tokenizer):
    """Also where every text ends with the very token that others would fill up with."""
    module, _ = tiny("gpt2")
    texts = ["I like soup", "The bread was not bad at all, nobody laughed", "x"]
    model = rationales.load(module, tokenizer)
    with model.frozen(), torch.no_grad():
        batch = model.batch(model.encode([TextInput(text) for text in texts]))
        predicted = batch.logits(batch.ones())
    assert module.config.pad_token_id is None
    for number, text in enumerate(texts):
        encoding = tokenizer(text, return_tensors="pt")
        with torch.no_grad():
            plain = module(input_ids=encoding["input_ids"], attention_mask=encoding["attention_mask"]).logits[0]
        assert torch.allclose(predicted[number], plain, atol=1e-5)
