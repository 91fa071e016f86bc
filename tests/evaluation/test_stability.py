"""Agreement between runs: the overlap of selections, and runs that must or must not agree."""

from __future__ import annotations

import numpy as np
import pytest
from families import tiny
from methods.keyword import keyword_model

import rationales
from rationales.errors import InputError, OptionError
from rationales.evaluation.stability import agreement, between_baselines, between_seeds, selection_iou

TEXTS = ["I did not like the soup, but the bread wasn't bad at all!", "She said nothing; he laughed."]


def test_overlap_of_two_selections():
    assert selection_iou(np.array([True, True, False]), np.array([False, True, True])) == pytest.approx(1 / 3)
    assert selection_iou(np.zeros(2, dtype=bool), np.zeros(2, dtype=bool)) == 1.0


def test_runs_are_compared_in_pairs():
    runs = {"a": [np.array([1.0, 2, 3])], "b": [np.array([1.0, 2, 3])], "c": [np.array([3.0, 2, 1])]}
    stability = agreement(runs, "top=1")
    assert stability.rank == pytest.approx([(1 - 1 - 1) / 3])
    assert stability.iou == pytest.approx([1 / 3])
    with pytest.raises(OptionError, match="at least two runs"):
        agreement({"a": runs["a"]})


class TestModels:
    def model(self):
        return rationales.load(*tiny("bert"))

    def test_a_method_without_chance_agrees_with_itself(self):
        stability = between_seeds(self.model(), TEXTS, "occlusion", seeds=(0, 5))
        assert stability.rank == pytest.approx([1, 1])
        assert stability.iou == pytest.approx([1, 1])
        assert stability.between == ("0", "5")

    def test_random_scores_do_not(self):
        stability = between_seeds(self.model(), TEXTS * 3, "random", seeds=(0, 1, 2))
        assert abs(stability.rank.mean()) < 0.5
        assert stability.iou.mean() < 0.6

    def test_marc_finds_the_keyword_whatever_the_seed_and_the_baseline(self):
        model = rationales.load(*keyword_model("bread"))
        options = {"steps": 30}
        assert between_seeds(model, TEXTS[:1], options=options, seeds=(0, 1), rule="top=1").iou == pytest.approx([1])
        stability = between_baselines(model, TEXTS[:1], options=options, rule="top=1")
        assert stability.between == ("pad", "mask", "unk", "zero")
        assert stability.iou == pytest.approx([1])

    def test_baselines_matter_to_a_random_model(self):
        stability = between_baselines(self.model(), TEXTS, "occlusion", baselines=("pad", "mask"))
        assert (stability.rank < 0.999).all()

    def test_mistakes_are_told(self):
        with pytest.raises(OptionError, match="two different ones"):
            between_seeds(self.model(), TEXTS, seeds=(3, 3))
        with pytest.raises(OptionError, match="two different ones"):
            between_baselines(self.model(), TEXTS, baselines=("pad",))

    def test_an_input_without_scores_is_named(self, monkeypatch):
        from rationales.methods import METHODS

        monkeypatch.setattr(METHODS["random"], "scores", _without_a_number)
        with pytest.raises(InputError, match=r"She said nothing.*no finite scores"):
            between_seeds(self.model(), TEXTS[1:], "random")


def _without_a_number(self, batch, target, progress=None):
    from rationales.methods import Attribution

    return Attribution(batch.zeros() / 0)
