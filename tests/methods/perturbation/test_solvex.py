"""Solvex: with a full beam the best order of all, merged sets, and a budget that holds."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
import torch
from families import tiny, tokenizer_of
from methods.keyword import WeightedWordsModel
from reference import rivals

import rationales
from rationales.errors import OptionError
from rationales.methods import build

TEXTS = ["The bread was not bad today", "Nobody else in the room laughed"]  # six words each
FULL_BEAM = 20  # the most sets of one size that six words have: 6! / (3! 3!)


def batch_of(module, tokenizer, texts=TEXTS):
    model = rationales.load(module, tokenizer)
    return model.batch(model.encode([model.read(text, None) for text in texts]))


def probability(batch, row, target, removal="baseline"):
    """A set of words -> the target's probability with these words alone."""
    logits = batch.logits if removal == "baseline" else batch.logits_deleted

    @functools.cache
    def of(words):
        keep = batch.zeros()
        keep[row, list(words)] = 1
        with torch.no_grad():
            return float(logits(keep).softmax(-1)[row, target])

    return lambda words: of(frozenset(words))


@pytest.mark.parametrize(("seed", "removal"), [(0, "baseline"), (1, "baseline"), (2, "delete")])
def test_a_full_beam_equals_brute_force_on_six_words(seed, removal):
    batch, target = batch_of(*tiny("bert", seed=seed)), torch.tensor([1, 0])
    attribution = build("solvex", {"beams": FULL_BEAM, "removal": removal}).scores(batch, target)
    for row in range(2):
        score = probability(batch, row, int(target[row]), removal)
        best, value = rivals.solvex(score, 6)
        order = tuple(attribution.scores[row].argsort(descending=True).tolist())
        reached = sum(score(set(order[:size])) - score(set(range(6)) - set(order[:size])) for size in range(1, 7))
        assert reached == pytest.approx(value, abs=1e-5)
        assert order == best
        assert attribution.scores[row, list(order)].tolist() == pytest.approx([1, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6])
    assert attribution.steps == [6, 6]
    assert attribution.stop == ["complete", "complete"]


def test_equal_sets_are_merged_so_that_a_full_beam_evaluates_every_set_once(monkeypatch):
    batch, evaluated = batch_of(*tiny("bert"), TEXTS[:1]), []
    plain = type(batch).forward

    def counted(self, piece, keep, noise):
        evaluated.extend(tuple(row) for row in keep.int().tolist())
        return plain(self, piece, keep, noise)

    monkeypatch.setattr(type(batch), "forward", counted)
    build("solvex", {"beams": FULL_BEAM, "metric": "sufficiency"}).scores(batch, torch.tensor([1]))
    assert sorted(evaluated) == sorted(set(itertools.product((0, 1), repeat=6)) - {(0,) * 6})


@pytest.mark.parametrize("metric", ["comp-suff", "comprehensiveness", "sufficiency"])
def test_a_wider_beam_is_never_worse_at_the_size_of_a_full_one(metric):
    """A narrow beam may miss the best order; the full one cannot."""
    batch, target = batch_of(*tiny("bert", seed=4), TEXTS[:1]), torch.tensor([1])
    score = probability(batch, 0, 1)

    def value(order):
        prefixes = [set(order[:size]) for size in range(1, 7)]
        alone = sum(score(prefix) for prefix in prefixes)
        removed = sum(score(set(range(6)) - prefix) for prefix in prefixes)
        return {"comp-suff": alone - removed, "comprehensiveness": -removed, "sufficiency": alone}[metric]

    values = []
    for beams in (1, 3, FULL_BEAM):
        scores = build("solvex", {"beams": beams, "metric": metric}).scores(batch, target).scores[0]
        values.append(value(scores.argsort(descending=True).tolist()))
    best = max(value(order) for order in itertools.permutations(range(6)))
    assert values[-1] == pytest.approx(best, abs=1e-5)
    assert max(values) <= best + 1e-5


def test_another_baseline_is_that_of_a_model_with_it():
    module, tokenizer = tiny("bert", seed=3)
    target, options = torch.tensor([1, 0]), {"metric": "comprehensiveness", "output": "log-probability"}
    replaced = build("solvex", {**options, "baseline": "mask"}).scores(batch_of(module, tokenizer), target)
    model = rationales.load(module, tokenizer, baseline="mask")
    batch = model.batch(model.encode([model.read(text, None) for text in TEXTS]))
    expected = build("solvex", options).scores(batch, target)
    assert torch.equal(replaced.scores, expected.scores)
    assert not torch.equal(build("solvex", options).scores(batch_of(module, tokenizer), target).scores, expected.scores)


class TestBudget:
    def test_units_that_the_search_does_not_reach_follow_by_their_value_alone(self):
        """Four words, each alone and left out, are eight passes."""
        weights = {"soup": (4.0, 0.0), "bread": (3.0, 0.0), "door": (1.0, 0.0), "hill": (2.0, 0.0)}
        model = rationales.load(WeightedWordsModel(weights, ("a", "b")), tokenizer_of("bert"))
        result = rationales.explain(
            model, "hill soup door bread", target="a", method="solvex", options={"beams": 2, "passes": 8}
        )
        assert result.scores == pytest.approx([2 / 4, 4 / 4, 1 / 4, 3 / 4])
        assert (result.steps, result.stop) == (1, "budget")

    @pytest.mark.parametrize("passes", [12, 40, 100])
    def test_never_more_forward_passes_than_allowed(self, passes, monkeypatch):
        batch, counted = batch_of(*tiny("bert")), []
        plain = type(batch).forward

        def forward(self, piece, keep, noise):
            counted.extend(piece.row.tolist())
            return plain(self, piece, keep, noise)

        monkeypatch.setattr(type(batch), "forward", forward)
        attribution = build("solvex", {"beams": 50, "passes": passes}).scores(batch, torch.tensor([1, 0]))
        assert max([counted.count(row) for row in range(2)], default=0) <= passes
        for row in range(2):
            assert sorted(attribution.scores[row].tolist()) == pytest.approx([k / 6 for k in range(1, 7)])

    def test_texts_of_unequal_length_stop_when_they_are_done(self):
        texts = ["Dull.", *TEXTS]
        model = rationales.load(*tiny("bert"))
        together = rationales.explain(model, texts, method="solvex", options={"beams": 5})
        assert [result.steps for result in together] == [2, 6, 6]
        for text, result in zip(texts, together, strict=True):
            alone = rationales.explain(model, text, method="solvex", options={"beams": 5})
            assert np.array_equal(alone.scores, result.scores)

    def test_too_small_a_budget_for_the_first_step_is_refused(self):
        with pytest.raises(
            OptionError, match=r"needs 12 forward passes.* 6 units, and the budget is 11; set passes=12"
        ):
            build("solvex", {"passes": 11}).scores(batch_of(*tiny("bert")), torch.tensor([1, 0]))

    def test_impossible_settings_are_refused(self):
        for options, message in (
            ({"beams": 0}, "at least 1 beam"),
            ({"passes": 0}, "at least 1 forward pass"),
            ({"removal": "delete", "baseline": "mask"}, "deletes units .* or replaces them by mask .* not both"),
        ):
            with pytest.raises(OptionError, match=message):
                build("solvex", options)
