"""Language models whose tokenizer has neither a padding nor an unknown token, as those of GPT-2 and Llama."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from language_models import tiny_language_model

import rationales
from rationales.data import Example
from rationales.errors import OptionError
from rationales.evaluation.protocols import PRESETS

EXAMPLES = [
    Example("first", "I did not like the soup.", label="bad"),
    Example("second", "A brilliant joke, suddenly.", label="good"),
]


@pytest.fixture(scope="module")
def model():
    module, tokenizer = tiny_language_model("gpt2")
    tokenizer.pad_token = tokenizer.unk_token = None
    return rationales.load(module, tokenizer, labels=["good", "bad"], template="Review: {text}\nSentiment:")


def values(table):
    return [cell.values for row in table.rows for cell in row.cells.values()]


def test_the_default_protocol_replaces_words_by_the_baseline_and_says_so(model):
    table = rationales.evaluate(model, EXAMPLES, ["occlusion"])
    by_baseline = rationales.evaluate(model, EXAMPLES, ["occlusion"], replace(PRESETS["marc"], removal="baseline"))
    assert np.array_equal(values(table), values(by_baseline))
    assert table.protocol.removal == "baseline"
    remark = f"no padding token, so the model's baseline, {model.baseline}, stands in for it"
    assert remark in table.to_markdown()
    assert remark not in by_baseline.to_markdown()


def test_padding_for_log_odds_alone(model):
    table = rationales.evaluate(model, EXAMPLES, ["occlusion"], "sequential-ig")
    assert (table.protocol.removal, table.protocol.odds_removal) == ("delete", "baseline")


@pytest.mark.parametrize("removal", ["pad", "unk", "mask"])
def test_a_removal_by_a_missing_token_says_what_else_there_is(model, removal):
    with pytest.raises(OptionError, match=f"the token {removal}, which .* --protocol marc:removal=mean"):
        rationales.evaluate(model, EXAMPLES, ["occlusion"], replace(PRESETS["marc"], removal=removal))


def test_a_tokenizer_with_padding_keeps_it():
    model = rationales.load()
    table = rationales.evaluate(model, [Example("one", "A fine film.", label="positive")], ["occlusion"])
    assert table.protocol.removal == "pad"
    assert "stands in" not in table.to_markdown()
