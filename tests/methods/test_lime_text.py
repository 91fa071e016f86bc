"""LIME with words deleted, and with words filled in."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from families import tiny
from reference import rivals
from reference.marginalization import fill_all_at_once, fill_one_by_one
from tokenizers import normalizers

import rationales
from methods.fillers import dropping_filler, filler_folder, known_filler, language_model, tiny_filler
from methods.keyword import keyword_model
from methods.test_input_marginalization import classifier_model
from methods.test_leave_one_out import classifier_of
from rationales.errors import OptionError
from rationales.methods import build
from rationales.methods.support.feature_groups import feature_groups
from rationales.methods.support.linear_model import random_keeps
from rationales.models.text.tokens import TextInput

TEXTS = ["nobody laughed at the joke again , but the soup was cold", "dull", "a very very old bridge"]
SAMPLES = 60


def kept_words(model, texts):
    """(K, words) bool of each text: what the samples keep."""
    batch = model.batch(model.encode([TextInput(text) for text in texts]))
    rows, samples = torch.arange(len(texts)), torch.arange(SAMPLES)
    kept = random_keeps(batch, feature_groups(batch), rows, samples)
    return [kept[:, row, : len(text.split())].numpy() for row, text in enumerate(texts)]


def expected_scores(classifier, texts_of_samples, kept, kernel=0.25, ridge=1.0):
    """The slow reference: a regression of the classifier's answers on what was kept."""
    answers = {frozenset(np.flatnonzero(row)): classifier(words) for words, row in texts_of_samples}
    sets = [frozenset(np.flatnonzero(row)) for row in kept]
    return rivals.lime(lambda chosen: answers[chosen], sets, kept.shape[1], kernel, ridge)


@pytest.mark.parametrize("options", [{}, {"kernel": 0.0, "ridge": 1e-3}])
def test_deletion_equals_the_slow_reference(options):
    module, tokenizer = classifier_model()
    model = rationales.load(module, tokenizer)
    results = rationales.explain(
        model, TEXTS, method="lime-text", target=1, options={"samples": SAMPLES, "output": "probability"} | options
    )
    for text, kept, result in zip(TEXTS, kept_words(model, TEXTS), results, strict=True):
        words = text.split()
        shortened = [([word for word, keep in zip(words, row, strict=True) if keep], row) for row in kept]
        expected = expected_scores(classifier_of(module, tokenizer, 1), shortened, kept, **options)
        assert np.allclose(result.scores, expected, atol=1e-4)


@pytest.mark.parametrize("one_by_one", [False, True])
def test_filling_equals_the_slow_reference(one_by_one):
    module, tokenizer = tiny("bert")
    model, filler = rationales.load(module, tokenizer), tiny_filler()
    options = {"samples": SAMPLES, "filler": filler, "one_by_one": one_by_one}
    results = rationales.explain(model, TEXTS, method="lime-bert", target=2, options=options)
    fill = fill_one_by_one if one_by_one else fill_all_at_once
    for text, kept, result in zip(TEXTS, kept_words(model, TEXTS), results, strict=True):
        words = text.split()
        filled = [(fill(language_model(*filler), words, row.tolist()), row) for row in kept]
        expected = expected_scores(classifier_of(module, tokenizer, 2), filled, kept)
        assert np.allclose(result.scores, expected, atol=1e-4)


def test_equal_words_have_scores_of_their_own():
    """The published code matched scores by spelling. The first word decides here, not its twin."""

    class FirstWord(torch.nn.Module):
        def __init__(self, module):
            super().__init__()
            self.embedding, self.config = torch.nn.Embedding(module.config.vocab_size, 4), module.config

        def get_input_embeddings(self):
            return self.embedding

        def forward(self, input_ids, attention_mask):
            score = 4.0 * (input_ids[:, 1] == input_ids.new_tensor(VERY)).float() - 2
            return torch.stack([score, -score, -score], -1) + 0 * self.embedding(input_ids).sum()

    module, tokenizer = classifier_model()
    VERY = tokenizer.convert_tokens_to_ids("very")  # noqa: N806  # a constant of the class above
    model = rationales.load(FirstWord(module), tokenizer)
    result = rationales.explain(model, "very dull soup very", method="lime-text", target=0)
    assert result.scores[0] > result.scores[3] + 0.1


def test_a_filler_that_knows_the_text_leaves_nothing_to_explain():
    """Every masked word comes back as it was, so that no sample changes anything; deletion does."""
    model = rationales.load(*keyword_model("a", "i"))
    sure = known_filler({0: {"a": 1.0}, 1: {"soup": 1.0}, 2: {"i": 1.0}})
    options = {"samples": SAMPLES, "filler": sure}
    assert np.allclose(rationales.explain(model, "a soup i", method="lime-bert", options=options).scores, 0, atol=1e-6)
    deleted = rationales.explain(model, "a soup i", method="lime-text", target="found").scores
    assert deleted[[0, 2]].min() > 10 * abs(deleted[1])


def test_coefficients_by_hand():
    """The log-odds are 12 (share - 1/2): either word adds 6. A word that the filler brings back adds 0."""
    model = rationales.load(*keyword_model("a", "i"))
    plain = {"samples": SAMPLES, "kernel": 0.0, "ridge": 0.0, "output": "log-odds"}
    other_words = known_filler({position: {"soup": 0.9, "bread": 0.1} for position in range(3)})
    knows_the_first = known_filler({0: {"a": 1.0}, 1: {"soup": 1.0}, 2: {"soup": 1.0}})
    for method, options, expected in (
        ("lime-text", {}, [6.0, 0.0, 6.0]),
        ("lime-bert", {"filler": other_words}, [6.0, 0.0, 6.0]),
        ("lime-bert", {"filler": knows_the_first}, [0.0, 0.0, 6.0]),
    ):
        result = rationales.explain(model, "a soup i", method=method, target="found", options=plain | options)
        assert result.scores.tolist() == pytest.approx(expected, abs=1e-3), method


def test_a_word_that_the_filler_drops_is_deleted():
    """The filler's normaliser removes the symbol, so that there is nothing to mask; it knows the other word."""
    module, tokenizer = tiny("roberta")
    model, text = rationales.load(module, tokenizer), "the ☀"
    filler = known_filler({0: {"the": 1.0}})
    filler[1].backend_tokenizer.normalizer = normalizers.Replace("☀", "")
    options = {"samples": SAMPLES, "filler": filler}
    result = rationales.explain(model, text, method="lime-bert", target=0, options=options)
    (kept,) = kept_words(model, [text])
    texts = [(["the", "☀"] if row[1] else ["the"], row) for row in kept]
    assert np.allclose(result.scores, expected_scores(classifier_of(module, tokenizer, 0), texts, kept), atol=1e-4)
    assert abs(result.scores[1]) > 1e-3


def test_a_text_that_the_filler_drops_is_deleted_as_lime_text_deletes_it():
    model, options = rationales.load(*tiny("roberta")), {"samples": SAMPLES}
    texts = ["☀", "☀ ☂"]
    filled = rationales.explain(
        model, texts, method="lime-bert", target=0, options=options | {"filler": dropping_filler("☀", "☂")}
    )
    deleted = rationales.explain(model, texts, method="lime-text", target=0, options=options)
    for first, second in zip(filled, deleted, strict=True):
        assert np.allclose(first.scores, second.scores, atol=1e-5)
        assert np.abs(first.scores).min() > 1e-4


@pytest.mark.parametrize("method", ["lime-text", "lime-bert"])
def test_equal_samples_are_read_once(method):
    """Three words have eight subsets, however many samples there are."""
    module, tokenizer = classifier_model()
    model, filler = rationales.load(module, tokenizer), known_filler({0: {"a": 1.0}, 1: {"soup": 1.0}, 2: {"i": 1.0}})
    counts = []
    module.register_forward_pre_hook(
        lambda _module, _arguments, named: counts.append(len(named["input_ids"])), with_kwargs=True
    )
    filler[0].register_forward_pre_hook(
        lambda _module, _arguments, named: counts.append(len(named["input_ids"])), with_kwargs=True
    )
    options = {"samples": 500} | ({"filler": filler} if method == "lime-bert" else {})
    with model.frozen():
        batch = model.batch(model.encode([TextInput("old bad door")]))
        build(method, options).scores(batch, torch.tensor([0]))
    assert sum(counts) == (8 if method == "lime-text" else 8 + 7)  # the filler reads what has a mask


@pytest.mark.parametrize("method", ["lime-text", "lime-bert"])
def test_a_text_of_one_word(method):
    model = rationales.load(*tiny("bert"))
    options = {"samples": 10} | ({"filler": filler_folder()} if method == "lime-bert" else {})
    result = rationales.explain(model, "dull", method=method, options=options)
    assert result.scores.shape == (1,)
    assert np.isfinite(result.scores).all()


@pytest.mark.parametrize("method", ["lime-text", "lime-bert"])
@pytest.mark.parametrize("options", [{"samples": 1}, {"kernel": -1.0}, {"ridge": -1.0}])
def test_values_that_do_not_fit(method, options):
    with pytest.raises(OptionError, match=f"{method} needs"):
        build(method, options)
