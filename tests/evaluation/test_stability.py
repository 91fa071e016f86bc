"""Stability: figures of agreement by hand, runs that must or must not agree, baselines that carry evidence."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch
from families import tiny, tokenizer_of
from methods.keyword import WeightedWordsModel, keyword_model

import rationales
from rationales.errors import InputError, OptionError
from rationales.evaluation.stability.agreement import agreement, chance_iou, rank_matrix, selection_iou
from rationales.evaluation.stability.results import ALL, BOTH, RATE_ONLY, SEED_ONLY, evidence_limit
from rationales.evaluation.tables.statistics import rank_correlation

TEXTS = ["I did not like the soup, but the bread wasn't bad at all!", "She said nothing; he laughed."]


def test_overlap_of_two_selections():
    assert selection_iou(np.array([True, True, False]), np.array([False, True, True])) == pytest.approx(1 / 3)
    assert selection_iou(np.zeros(2, dtype=bool), np.zeros(2, dtype=bool)) == 1.0


def test_overlap_by_chance():
    """4 and 6 of 12 units share 4 * 6 / 12 = 2 on average, of 4 + 6 - 2 = 8 in either."""
    assert chance_iou(4, 6, 12) == pytest.approx(2 / 8)
    assert chance_iou(12, 12, 12) == 1.0
    assert chance_iou(0, 0, 5) == 1.0


def test_ranking_each_run_once_equals_the_correlation_of_each_pair():
    scores = np.random.default_rng(0).integers(0, 6, (4, 30)).astype(float)
    scores[3] = 2.0  # constant: not defined
    expected = [[rank_correlation(first, second) for second in scores] for first in scores]
    assert rank_matrix(scores) == pytest.approx(np.array(expected), nan_ok=True)


def test_runs_are_compared_in_pairs():
    """Runs a and b are equal; c is reversed and selects another unit."""
    first, second = np.array([1.0, 2, 3]), np.array([3.0, 2, 1])
    last_unit, first_unit = np.array([False, False, True]), np.array([True, False, False])
    compared = agreement([[first], [first], [second]], [[last_unit], [last_unit], [first_unit]])
    assert compared.pairs == [(0, 1), (0, 2), (1, 2)]
    assert compared.per_input(compared.rank) == pytest.approx([(1 - 1 - 1) / 3])
    assert compared.per_input(compared.iou) == pytest.approx([1 / 3])
    assert compared.per_input(compared.iou, [(0, 1)]) == pytest.approx([1])
    assert compared.iou[:, :, 0] == pytest.approx(np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1]]))


def test_evidence_starts_half_way_between_chance_and_certainty():
    assert evidence_limit(2) == pytest.approx(0.75)
    assert evidence_limit(4) == pytest.approx(0.625)


@dataclass(frozen=True)
class RateMethod(rationales.Method):
    """Scores in the order of the words up to a learning rate of 1, and against it beyond; seeds change nothing."""

    name: ClassVar[str] = "rate"
    summary: ClassVar[str] = "the order of the words, or its reverse"
    learning_rate: float = 1.0

    def scores(self, batch, target, progress=None):
        sign = 1.0 if self.learning_rate <= 1 else -1.0
        return rationales.Attribution(sign * batch.rows.position.view(batch.size).to(batch.dtype) * batch.rows.real)


@pytest.fixture(scope="module")
def random_model():
    return rationales.load(*tiny("bert"))


class TestRuns:
    def test_a_method_without_chance_runs_once_and_says_so(self, random_model):
        result = rationales.stability(random_model, TEXTS, "occlusion", baselines=())
        (method,) = result.methods
        assert [run.title for run in method.runs] == ["seed 0"]
        assert method.summary == {}
        assert method.disagreements == ()
        assert any("not random" in remark for remark in method.remarks)
        assert any("no learning rate" in remark for remark in method.remarks)
        assert "one run only" in result.interpretation()["occlusion"][0]

    def test_learning_rates_vary_alone_where_nothing_is_random(self, random_model):
        """Half and once the rate agree, twice the rate is reversed: Spearman 1, -1, -1."""
        result = rationales.stability(random_model, TEXTS, RateMethod(), baselines=(), top=1)
        (method,) = result.methods
        assert [run.learning_rate for run in method.runs] == [0.5, 1.0, 2.0]
        assert method.runs[method.reference].learning_rate == 1.0
        assert set(method.summary) == {ALL, RATE_ONLY}
        assert method.summary[ALL]["rank"].mean == pytest.approx(-1 / 3)
        assert method.summary[ALL]["iou"].mean == pytest.approx(1 / 3)
        assert method.mean_matrix("iou") == pytest.approx(np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1]]))
        assert [case.runs for case in method.disagreements] == [("seed 0 · rate 0.5", "seed 0 · rate 2")] * 2

    def test_random_scores_do_not_agree(self, random_model):
        (method,) = rationales.stability(random_model, TEXTS * 3, "random", baselines=()).methods
        assert len(method.runs) == 3
        assert abs(method.summary[SEED_ONLY]["rank"].mean) < 0.5
        assert method.summary[ALL]["iou"].mean < 0.6

    def test_pairs_are_grouped_by_what_differs(self, random_model):
        options = {"steps": 4}
        marc = {"name": "marc", "options": options}
        (method,) = rationales.stability(
            random_model, TEXTS[:1], marc, seeds=(0, 1), learning_rates=(0.1, 0.2), baselines=()
        ).methods
        assert {name: len(pairs) for name, pairs in method.groups.items()} == {
            ALL: 6,
            SEED_ONLY: 2,
            RATE_ONLY: 2,
            BOTH: 2,
        }

    def test_progress_ends_at_one_and_never_falls(self, random_model):
        shares = []
        rationales.stability(random_model, TEXTS, ["occlusion", "random"], baselines=("mask",), progress=shares.append)
        assert shares == sorted(shares)
        assert shares[-1] == pytest.approx(1)

    def test_a_shape_goes_to_the_methods_that_name_none(self, random_model):
        methods = ["saliency", {"name": "random", "shape": "none"}]
        result = rationales.stability(random_model, TEXTS[:1], methods, shape="clauses", seeds=(0,), baselines=())
        assert [method.title for method in result.methods] == ["saliency (shape clauses)", "random (shape none)"]
        with pytest.raises(OptionError, match="shape"):
            rationales.stability(random_model, TEXTS[:1], methods, shape="round")

    def test_marc_finds_the_keyword_whatever_the_seed_and_the_baseline(self):
        weights = {"bread": (-6.0, 6.0), "soup": (-1.0, 1.0)}  # of one word alone, all seeds give the same scores
        model = rationales.load(WeightedWordsModel(weights, ("no", "yes")), tokenizer_of("bert"))
        marc = {"name": "marc", "options": {"steps": 30}}
        (method,) = rationales.stability(model, TEXTS[:1], marc, seeds=(0, 1), learning_rates=(0.08,), top=1).methods
        assert method.summary[SEED_ONLY]["iou"].mean == 1
        assert [baseline.name for baseline in method.baselines] == ["pad", "mask", "unk", "zero"]
        assert [baseline.is_reference for baseline in method.baselines] == [True, False, False, False]
        assert all(baseline.iou[0] == 1 for baseline in method.baselines)


class TestBaselines:
    def test_baselines_matter_to_a_random_model(self, random_model):
        (method,) = rationales.stability(random_model, TEXTS, "occlusion", seeds=(0,), baselines=("mask",)).methods
        assert (method.baselines[0].rank < 0.999).all()

    def test_a_baseline_that_carries_evidence_for_a_class_is_noticed(self):
        """The model looks for 'bread'; with the word bread as baseline it finds it in any text."""
        model = rationales.load(*keyword_model("bread"))
        result = rationales.stability(model, TEXTS, "occlusion", seeds=(0,), baselines=("pad", "bread"))
        neutral, loaded = result.methods[0].baselines
        assert result.targets == ("found", "absent")
        assert neutral.favoured[0] == "absent"
        assert loaded.favoured[0] == "found"
        assert loaded.carries_evidence
        summary = loaded.summary(result.members("found"))
        assert summary["baseline"].mean > 0.99  # nothing is left of the text, and it is 'found' all the same
        assert any("bread carries evidence for found" in line for line in result.interpretation()["occlusion"])


@pytest.fixture(scope="module")
def result(random_model):
    return rationales.stability(random_model, TEXTS, "random", seeds=(0, 1), names=["a", "b"], baselines=("mask",))


class TestResult:
    def test_json_holds_every_figure(self, result, tmp_path):
        content = json.loads(result.save(tmp_path / "s.json").read_text(encoding="utf-8"))
        assert content == result.to_dict()
        (method,) = content["methods"]
        assert method["agreement"][ALL]["iou"]["n"] == 2
        assert np.shape(method["matrix"]["rank"]) == (2, 2)
        assert [entry["name"] for entry in content["inputs"]] == ["a", "b"]
        assert set(method["baselines"][0]["labels"]) == set(result.targets)

    def test_rows_of_data_frames(self, result):
        from rationales.evaluation.stability.plain_data import baseline_rows, pair_rows

        pairs = pair_rows(result)
        assert [row["input"] for row in pairs] == ["a", "b"]
        assert pairs[0]["iou"] == result.methods[0].agreement.iou[0, 1, 0]
        assert [row["baseline"] for row in baseline_rows(result)] == ["mask", "mask"]
        with pytest.raises(OptionError, match="pairs, baselines"):
            result.to_frame("runs")

    def test_as_text_it_is_markdown(self, result):
        assert str(result).startswith("## random on 2 texts: 2 runs, 1 baseline, ")
        assert "| seed only | 1 |" in str(result)


class TestMistakes:
    def test_mistakes_are_told_before_any_work(self, random_model):
        with pytest.raises(OptionError, match="at least one seed"):
            rationales.stability(random_model, TEXTS, seeds=())
        with pytest.raises(OptionError, match="greater than 0"):
            rationales.stability(random_model, TEXTS, learning_rates=(0.1, -1))
        with pytest.raises(OptionError, match="a word of one token"):
            rationales.stability(random_model, TEXTS, baselines=("nonsensical",))
        with pytest.raises(InputError, match="list of inputs"):
            rationales.stability(random_model, TEXTS[0])
        with pytest.raises(InputError, match="no input"):
            rationales.stability(random_model, [])

    def test_an_input_without_scores_is_named(self, random_model, monkeypatch):
        from rationales.methods import METHODS

        monkeypatch.setattr(METHODS["random"], "scores", _without_a_number)
        with pytest.raises(InputError, match="no finite scores for short"):
            rationales.stability(random_model, TEXTS[1:], "random", names=["short"])


def _without_a_number(self, batch, target, progress=None):
    return rationales.Attribution(torch.full_like(batch.zeros(), torch.nan))
