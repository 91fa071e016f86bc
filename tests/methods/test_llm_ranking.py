"""A language model ranks the words itself: the reading of its reply, and the method on tiny and scripted models."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from language_models import LANGUAGE_MODELS, tiny_language_model

import rationales
from methods.keyword import keyword_model
from rationales.errors import InputError, NotApplicableError, OptionError
from rationales.methods.llm_ranking import LlmRanking
from rationales.models.batch.execution import counted_passes
from rationales.models.prompt.ranking import ranking_question, read_ranking

TEMPLATE = "Review: {text}\nSentiment:"
TEXTS = ["The soup was cold and the waiter rude.", "Lovely bread!", "Nobody came; nobody cared, and the soup was cold."]
WORDS = ["The", "soup", "was", "cold", "and", "the", "waiter", "rude."]


class TestReading:
    def test_words_are_ranked_as_they_are_named(self):
        ranking = read_ranking("cold, rude, waiter", WORDS)
        assert ranking.order == (3, 7, 6)
        assert ranking.scores(len(WORDS)) == pytest.approx([0, 0, 0, 1, 0, 0, 1 / 3, 2 / 3])
        assert (ranking.named, ranking.invented) == (3, 0)

    def test_case_numbering_and_punctuation_do_not_count(self):
        assert read_ranking('1. "Cold"\n2) RUDE!\n- waiter', WORDS).order == (3, 7, 6)

    def test_a_word_that_occurs_twice_is_named_for_both_places(self):
        ranking = read_ranking("the, cold", WORDS)
        assert ranking.order == (0, 5, 3)
        assert ranking.rank == (0, 0, 1)

    def test_a_phrase_names_its_words(self):
        assert read_ranking("cold and rude", WORDS).order == (3, 4, 7)

    def test_invented_words_are_counted_once_and_ranked_nowhere(self):
        ranking = read_ranking("awful, cold, terrible, Awful.", WORDS)
        assert ranking.order == (3,)
        assert (ranking.named, ranking.invented) == (3, 2)

    def test_a_repeated_word_keeps_its_first_rank(self):
        assert read_ranking("rude, cold, rude", WORDS).order == (7, 3)

    @settings(max_examples=60)
    @given(st.text(max_size=80), st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=8))
    def test_any_reply_gives_scores_between_0_and_1(self, reply, words):
        ranking = read_ranking(reply, words)
        scores = ranking.scores(len(words))
        assert len(scores) == len(words)
        assert all(0 <= score <= 1 for score in scores)
        assert 0 <= ranking.invented <= ranking.named
        assert len(set(ranking.order)) == len(ranking.order)
        assert bool(ranking.order) == (max(scores) == 1)

    def test_the_question_has_the_text_and_the_label(self):
        question = ranking_question("Two {label} soups", "bad", chat=True)
        assert "Two {label} soups" in question
        assert '"bad"' in question


def loaded(family="llama", **options):
    module, tokenizer = tiny_language_model(family, **options)
    return rationales.load(module, tokenizer, labels=["good", "bad"], template=TEMPLATE)


class Scripted:
    """Stands in for `generate` of a language model: it names these words, whatever it is asked."""

    def __init__(self, tokenizer, reply):
        self.ids = tokenizer(reply, add_special_tokens=False)["input_ids"]
        self.prompts = []

    def __call__(self, input_ids, attention_mask, **_options):
        self.prompts += [row[mask > 0].tolist() for row, mask in zip(input_ids, attention_mask, strict=True)]
        return torch.cat([input_ids, torch.tensor([self.ids] * len(input_ids))], 1)


@pytest.mark.parametrize("family", LANGUAGE_MODELS)
class TestInvariants:
    def test_alone_equals_in_a_batch_and_the_model_is_left_as_it_was(self, family):
        model = loaded(family, max_position_embeddings=400) if family != "gpt2" else loaded(family, n_positions=400)
        weights = copy.deepcopy(model.language_model.state_dict())
        model.language_model.train()
        options = {"max_tokens": 6}
        together = rationales.explain(model, TEXTS, method="llm-ranking", options=options)
        for text, rationale in zip(TEXTS, together, strict=True):
            alone = rationales.explain(model, text, method="llm-ranking", options=options)
            assert np.array_equal(rationale.scores, alone.scores)
            assert np.isfinite(alone.scores).all()
            assert len(alone.scores) == len(alone.units)
        assert model.language_model.training
        assert all(torch.equal(value, weights[name]) for name, value in model.language_model.state_dict().items())


class TestMethod:
    def test_the_words_of_the_reply_have_the_scores(self, monkeypatch):
        model = loaded(max_position_embeddings=400)
        script = Scripted(model.tokenizer, "rude, cold, disgusting")
        monkeypatch.setattr(model.language_model, "generate", script)
        result = rationales.explain(model, TEXTS[0], method="llm-ranking", target="bad")
        assert [unit.text.strip(".") for unit in result.units][result.scores.argmax()] == "rude"
        assert (result.scores > 0).sum() == 2
        assert [note.message for note in result.notes if note.kind == "words-named"] == [
            "the language model named 3 words, of which 1 are not in the text"
        ]
        assert 'classified as "bad"' in model.tokenizer.decode(script.prompts[0])

    def test_a_reply_without_a_word_of_the_text_is_said(self, monkeypatch):
        model = loaded(max_position_embeddings=400)
        monkeypatch.setattr(model.language_model, "generate", Scripted(model.tokenizer, "awful"))
        result = rationales.explain(model, TEXTS[0], method="llm-ranking")
        assert not result.scores.any()
        assert "no-ranking" in [note.kind for note in result.notes]

    def test_each_token_of_the_reply_is_a_pass(self, monkeypatch):
        model = loaded(max_position_embeddings=400)
        script = Scripted(model.tokenizer, "rude, cold")
        monkeypatch.setattr(model.language_model, "generate", script)
        with torch.no_grad(), model.frozen():
            batch = model.batch(model.encode([model.read(text, None) for text in TEXTS]))
            with counted_passes() as passes:
                LlmRanking().rankings(batch, torch.zeros(len(TEXTS), dtype=torch.long))
        assert passes.forward == len(TEXTS) * len(script.ids)
        assert passes.backward == 0

    def test_a_classifier_cannot_be_asked(self):
        with pytest.raises(NotApplicableError, match="asks a language model, and this model is none"):
            rationales.explain(rationales.load(*keyword_model("bridge")), "a bridge", method="llm-ranking")

    def test_a_question_beyond_the_context_is_refused_with_its_length(self):
        with pytest.raises(InputError, match="exceeds the 160 tokens"):
            rationales.explain(loaded(), TEXTS[0], method="llm-ranking")

    def test_a_reply_has_at_least_one_token(self):
        with pytest.raises(OptionError, match="at least one token"):
            rationales.explain(loaded(), TEXTS[0], method="llm-ranking", options={"max_tokens": 0})
