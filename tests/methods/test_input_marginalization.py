"""Input Marginalization against its slow reference, values by hand, and the paper's point about sure words."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from families import tiny, tokenizer_of
from reference.marginalization import input_marginalization, leave_one_out, log2_odds

import rationales
from methods.fillers import (
    dropping_filler,
    filler_folder,
    known_filler,
    language_model,
    tiny_filler,
    word_tokenizer,
)
from methods.keyword import WeightedWordsModel, keyword_model
from methods.test_leave_one_out import classifier_of
from rationales.errors import ModelError, OptionError
from rationales.methods import build

TEXTS = ["nobody laughed at the joke again , but the soup was cold", "dull", "a very very old bridge"]
OPTIONS = [
    {},
    {"candidates": 3},
    {"candidates": 1},
    {"threshold": 0.02},
    {"without_original": True},
    {"threshold": 0.02, "without_original": True},
    {"phrase": 2, "candidates": 6},
    {"phrase": 3, "candidates": 3, "without_original": True},
]


def explain(model, texts, filler, target, **options):
    options = options | {"filler": filler}
    return rationales.explain(model, texts, method="input-marginalization", target=target, options=options)


def classifier_model():
    """A random classifier that reads with the filler's own tokenizer."""
    module, _ = tiny("bert", vocab_size=len(word_tokenizer()))
    return module, word_tokenizer()


class TestAgainstTheReference:
    @pytest.mark.parametrize("options", OPTIONS, ids=str)
    def test_every_option(self, options):
        module, tokenizer = classifier_model()
        filler = tiny_filler()
        results = explain(rationales.load(module, tokenizer), TEXTS, filler, 1, **options)
        for text, result in zip(TEXTS, results, strict=True):
            expected = input_marginalization(
                classifier_of(module, tokenizer, 1), language_model(*filler), text.split(), **options
            )
            assert np.allclose(result.scores, expected, atol=2e-4), text

    def test_a_filler_with_another_tokenizer(self):
        """The classifier reads pieces of words, the filler words; candidates are mapped by their spelling."""
        module, tokenizer = tiny("bert")
        filler = tiny_filler()
        result = explain(rationales.load(module, tokenizer), TEXTS[0], filler, 2)
        expected = input_marginalization(classifier_of(module, tokenizer, 2), language_model(*filler), TEXTS[0].split())
        assert np.allclose(result.scores, expected, atol=2e-4)

    def test_words_that_the_filler_cannot_express_are_masked_as_one(self):
        """'lighthouse' is [UNK] for one filler and several pieces for the other: one mask, and other words."""
        module, tokenizer = tiny("bert")
        text = "the lighthouse was cold"
        for filler in (tiny_filler(), tiny_filler(tokenizer_of("bert"))):
            result = explain(rationales.load(module, tokenizer), text, filler, 0)
            expected = input_marginalization(classifier_of(module, tokenizer, 0), language_model(*filler), text.split())
            assert np.allclose(result.scores, expected, atol=2e-4)

    def test_probabilities_instead_of_odds(self):
        module, tokenizer = classifier_model()
        filler = known_filler({0: {"a": 0.5, "the": 0.3}})
        classifier = classifier_of(module, tokenizer, 1)
        result = explain(rationales.load(module, tokenizer), "old", filler, 1, output="probability")
        expected = 0.625 * classifier(["a"]) + 0.375 * classifier(["the"])
        assert result.scores.tolist() == pytest.approx([classifier(["old"]) - expected], abs=1e-5)


class TestByHand:
    """The keyword model's odds for 'found' are exp(12 (share - 1/2)), the share of its two words that are there."""

    def test_a_value(self):
        """'a' stays 'a' with weight 0.6 / 0.8 and becomes 'soup' with 0.2 / 0.8; 'i' never stays."""
        model = rationales.load(*keyword_model("a", "i"))
        filler = known_filler({0: {"a": 0.6, "soup": 0.2}, 1: {"soup": 1.0}, 2: {"soup": 0.9, "bread": 0.1}})
        full, half = 1 / (1 + np.exp(-6)), 0.5
        result = explain(model, "a soup i", filler, "found")
        expected = [
            log2_odds(full) - log2_odds(0.75 * full + 0.25 * half),
            0.0,
            log2_odds(full) - log2_odds(half),
        ]
        assert result.scores.tolist() == pytest.approx(expected, abs=1e-4)
        assert expected[0] == pytest.approx(5.87, abs=0.01)
        assert expected[2] == pytest.approx(8.66, abs=0.01)

    def test_a_sure_filler_leaves_next_to_nothing_and_deletion_does_not(self):
        """Section 5.3: what is highly predictable gets no score, however important it is to the classifier."""
        module, tokenizer = keyword_model("a", "i")
        model = rationales.load(module, tokenizer)
        sure = {0: {"a": 0.9999, "soup": 0.0001}, 1: {"soup": 0.5, "bread": 0.5}, 2: {"i": 0.9999, "soup": 0.0001}}
        marginalized = explain(model, "a soup i", known_filler(sure), "found").scores
        deleted = rationales.explain(model, "a soup i", method="loo-empty", target="found").scores
        assert np.abs(marginalized).max() < 0.05
        assert deleted[[0, 2]].min() > 8
        left_out = explain(model, "a soup i", known_filler(sure), "found", without_original=True).scores
        assert left_out[[0, 2]].min() > 8

    def test_words_that_change_nothing_have_the_score_0_also_where_the_model_is_certain(self):
        """1 - p is 6e-6, which weights of the sum 1 + 1e-7 or a probability in single precision would change."""
        model = rationales.load(WeightedWordsModel({"bridge": (0.0, 12.0)}, ("absent", "found")), tokenizer_of("bert"))
        likelihoods = [0.3, 0.17, 0.11, 0.071, 0.053, 0.029, 0.013]
        words = dict(zip(("bread", "soup", "boat", "joke", "stone", "day", "warm"), likelihoods, strict=True))
        result = explain(model, "the old bridge again", known_filler(dict.fromkeys(range(4), words)), "found")
        assert result.scores[[0, 1, 3]].tolist() == pytest.approx([0, 0, 0], abs=1e-9)
        assert result.scores[2] == pytest.approx(log2_odds(1 / (1 + np.exp(-12))), abs=1e-4)

    def test_phrases_see_what_single_words_hide(self):
        """Either word brings the other with it; only when both are masked does the filler not know."""
        model = rationales.load(*keyword_model("a", "i"))
        filler = known_filler({0: {"a": 0.5, "soup": 0.5}, 1: {"i": 0.5, "soup": 0.5}})
        full, half, none = (1 / (1 + np.exp(-odds)) for odds in (6, 0, -6))
        result = explain(model, "a i", filler, "found", phrase=2)
        expected = log2_odds(full) - log2_odds((full + half + half + none) / 4)
        assert result.scores.tolist() == pytest.approx([expected] * 2, abs=1e-4)

    def test_the_threshold_is_a_likelihood_before_normalisation(self):
        model = rationales.load(*keyword_model("a", "i"))
        filler = known_filler({0: {"a": 0.5, "soup": 0.3, "bread": 0.1}, 1: {"i": 1.0}})
        full, half = 1 / (1 + np.exp(-6)), 0.5
        for threshold, share in ((0.05, 5 / 9), (0.2, 5 / 8), (0.4, 1.0)):
            result = explain(model, "a i", filler, "found", threshold=threshold)
            expected = log2_odds(full) - log2_odds(share * full + (1 - share) * half)
            assert result.scores[0] == pytest.approx(expected, abs=1e-3)

    def test_without_any_proposal_a_word_has_the_score_0(self):
        model = rationales.load(*keyword_model("a", "i"))
        filler = known_filler({0: {"a": 0.5}, 1: {"i": 0.5}})
        assert not explain(model, "a i", filler, "found", threshold=0.9).scores.any()
        assert not explain(model, "a i", filler, "found", without_original=True).scores.any()


class TestConventions:
    def test_a_text_of_one_word(self):
        module, tokenizer = classifier_model()
        filler = tiny_filler()
        result = explain(rationales.load(module, tokenizer), "dull", filler, 0, phrase=3)
        expected = input_marginalization(
            classifier_of(module, tokenizer, 0), language_model(*filler), ["dull"], phrase=3
        )
        assert np.allclose(result.scores, expected, atol=2e-4)

    def test_the_word_itself_stays_as_it_is_written(self):
        """A filler in lower case that proposes 'soup' for 'SOUP' changes nothing."""
        module, tokenizer = tiny("roberta")
        filler = known_filler({0: {"the": 1.0}, 1: {"soup": 1.0}})
        assert not explain(rationales.load(module, tokenizer), "The SOUP", filler, 0).scores.any()

    def test_a_word_that_the_filler_drops_has_the_score_0(self):
        """The filler's normaliser removes the symbol, so that there is nothing to mask."""
        module, tokenizer = tiny("roberta")
        result = explain(rationales.load(module, tokenizer), "the soup ☀ was cold", dropping_filler("☀"), 0)
        words = [unit.text for unit in result.units]
        assert result.scores[words.index("☀")] == 0
        assert np.abs(np.delete(result.scores, words.index("☀"))).min() > 0

    def test_a_text_that_the_filler_drops_has_scores_of_0_and_other_texts_the_same_as_alone(self):
        model, filler = rationales.load(*tiny("roberta")), dropping_filler("☀", "☂")
        texts = ["☀", "the soup was cold", "☂ ☀", ("the soup", "☀"), ("☀", "the soup")]
        for group in (texts[:3], texts[3:]):
            for text, result in zip(group, explain(model, group, filler, 0), strict=True):
                assert np.allclose(result.scores, explain(model, text, filler, 0).scores, atol=1e-6)
                dropped = [unit.text in "☀☂" for unit in result.units]
                assert not result.scores[dropped].any()
                assert np.abs(result.scores[~np.array(dropped)]).min(initial=1) > 0

    def test_long_texts_are_read_in_segments_by_both(self):
        module, tokenizer = tiny("bert")
        filler = tiny_filler(max_position_embeddings=24)
        text = "nobody laughed at the joke again , but the soup was cold . " * 8
        result = explain(rationales.load(module, tokenizer), text, filler, 0)
        assert result.segments > 1
        assert result.scores.shape == (len(result.units),)
        assert np.isfinite(result.scores).all()
        assert (np.abs(result.scores) > 0).mean() > 0.9

    def test_pairs_of_texts(self):
        module, tokenizer = tiny("bert")
        filler = tiny_filler()
        model = rationales.load(module, tokenizer)
        pair = ("the soup was cold", "nobody laughed")
        result = explain(model, pair, filler, 0)
        encoding = tokenizer(*pair, return_tensors="pt")
        assert len(result.scores) == 6

        def classifier(words):
            encoding = tokenizer(" ".join(words[:4]), " ".join(words[4:]), return_tensors="pt")
            with torch.no_grad():
                return float(module(**encoding).logits.double().softmax(-1)[0, 0])

        def masked_model(words):
            module, tokenizer = filler
            masked = ["[MASK]" if word is None else word for word in words]
            encoding = tokenizer(" ".join(masked[:4]), " ".join(masked[4:]), return_tensors="pt")
            with torch.no_grad():
                likelihoods = module(**encoding).logits.double().softmax(-1)[0]
            position = int(torch.nonzero(encoding["input_ids"][0] == tokenizer.mask_token_id)[0])
            names = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
            return [{name: float(likelihoods[position, token]) for token, name in enumerate(names) if token > 4}]

        expected = input_marginalization(classifier, masked_model, [*pair[0].split(), *pair[1].split()])
        assert np.allclose(result.scores, expected, atol=2e-4)
        assert encoding["token_type_ids"].max() == 1

    def test_every_distinct_text_is_read_once(self):
        """Three equal words and candidates that coincide: the classifier reads each text once, the filler each mask."""
        module, tokenizer = classifier_model()
        likelihoods = {"very": 0.5, "soup": 0.3, "a": 0.2}
        known, known_tokenizer = known_filler(dict.fromkeys(range(3), likelihoods))
        model = rationales.load(module, tokenizer)
        read = {"classifier": 0, "filler": 0}

        def count(name):
            def hook(_module, _arguments, named):
                read[name] += len(named["input_ids"])

            return hook

        module.register_forward_pre_hook(count("classifier"), with_kwargs=True)
        known.register_forward_pre_hook(count("filler"), with_kwargs=True)
        encoded = model.encode([model.read("very very very", None)])
        with model.frozen():
            method = build("input-marginalization", {"filler": (known, known_tokenizer)})
            method.scores(model.batch(encoded), torch.tensor([0]))
        assert read == {"classifier": 1 + 3 * 2, "filler": 3}

    def test_the_filler_is_left_as_it_was(self):
        module, tokenizer = tiny_filler()
        module.train()
        explain(rationales.load(*tiny("bert")), TEXTS[0], (module, tokenizer), 0)
        assert all(submodule.training for submodule in module.modules())
        assert all(weight.requires_grad and weight.grad is None for weight in module.parameters())
        assert not any(submodule._forward_pre_hooks for submodule in module.modules())


class TestBadInput:
    def test_no_filler(self, monkeypatch):
        from rationales.models.text.filling import loading

        monkeypatch.setattr(loading, "filler_names", tuple)
        with pytest.raises(OptionError, match=r"input-marginalization needs a masked language model: .*--set filler"):
            rationales.explain(rationales.load(*tiny("bert")), "the soup", method="input-marginalization")

    def test_a_model_that_is_no_fill_mask_model(self, tmp_path):
        model = rationales.load(*tiny("bert"))
        with pytest.raises(ModelError, match="no fill-mask model: its output is"):
            explain(model, "the soup", tiny("bert"), 0)
        module, tokenizer = tiny("bert")
        module.save_pretrained(tmp_path)
        tokenizer.save_pretrained(tmp_path)
        with pytest.raises(ModelError, match="no masked language model: it lacks the weights"):
            explain(model, "the soup", str(tmp_path), 0)
        with pytest.raises(ModelError, match="no mask token"):
            explain(model, "the soup", tiny("gpt2"), 0)
        with pytest.raises(OptionError, match="a masked language model is a name, an id, a folder or"):
            explain(model, "the soup", 3, 0)
        with pytest.raises(ModelError, match="there is no filler 'nowhere'"):
            explain(model, "the soup", "nowhere", 0)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"candidates": 0}, "at least one candidate"),
            ({"phrase": 0}, "at least one word"),
            ({"threshold": 1.5}, "likelihood from 0 to 1"),
            ({"threshold": 1e-5, "phrase": 2}, "for single words"),
        ],
    )
    def test_values_that_do_not_fit(self, options, message):
        with pytest.raises(OptionError, match=message):
            build("input-marginalization", options)

    def test_units_that_are_no_words(self):
        model = rationales.load(*tiny("bert"), unit="sentence")
        with pytest.raises(OptionError, match="needs words as units, not sentences"):
            explain(model, "the soup", filler_folder(), 0)


def test_the_result_names_the_filler_and_can_be_saved(tmp_path):
    model = rationales.load(*tiny("bert"))
    result = explain(model, "the soup was cold", tiny_filler(), 0)
    result.save(tmp_path / "r.json")
    assert rationales.Rationale.load(tmp_path / "r.json").options["filler"] == "BertForMaskedLM"
    again = explain(model, "the soup was cold", filler_folder(), 0)
    assert again.options["filler"] == filler_folder()
    assert np.allclose(result.scores, again.scores, atol=1e-5)


def test_leave_one_out_and_marginalization_agree_where_nothing_is_proposed_but_one_word():
    """With a single candidate, the score is that of the replacement by it."""
    module, tokenizer = classifier_model()
    filler = known_filler({position: {"bread": 1.0} for position in range(5)})
    result = explain(rationales.load(module, tokenizer), TEXTS[2], filler, 1)
    expected = leave_one_out(classifier_of(module, tokenizer, 1), TEXTS[2].split(), "bread")
    assert np.allclose(result.scores, expected, atol=1e-4)


def test_the_cache_tells_fillers_apart():
    """Two fillers of one name are two methods; the same weights are found again."""
    from rationales.evaluation.scores.cache import entry_key

    def key(filler):
        return entry_key("model", "input", build("input-marginalization", {"filler": filler}), 0, 0)

    assert key(tiny_filler()) == key(tiny_filler())
    assert key(tiny_filler()) != key(tiny_filler(seed=1))
    assert key(filler_folder()) != key("")
