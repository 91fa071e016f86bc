"""aml-pretrained and aml-finetuned, and the selection by a metric on the explained input, for any method."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from families import tiny

import rationales
from methods.aml_maskers import untrained_aml_file, untrained_aml_masker
from methods.maskers import text_batch
from rationales.cli.inputs import method_rows
from rationales.data import Example
from rationales.errors import OptionError
from rationales.evaluation.scores.cache import entry_key
from rationales.masks.instant.aml.example_metrics import EXAMPLE_METRICS
from rationales.methods import build
from rationales.methods.gradient.saliency import Saliency
from rationales.methods.selected_by_metric import CANDIDATES, SelectedByMetric, selected_by_metric

TEXTS = ["Dull.", "I did not like the soup, but the bread wasn't bad at all!", "He laughed and nobody knew why. " * 12]


@pytest.fixture
def model():
    return rationales.load(*tiny("bert"))


def explain(model, method, **options):
    return rationales.explain(model, TEXTS, method=method, options={"masker": untrained_aml_file(model)} | options)


def comprehensiveness(model, results):
    from rationales.evaluation.faithfulness.measure import measure_faithfulness

    return measure_faithfulness(model, TEXTS, [result.scores for result in results], None, "aml").comprehensiveness()


def test_pretrained_scores_are_the_maps_of_the_network(model):
    masker = untrained_aml_masker(model)
    with model.frozen():
        batch = text_batch(model, TEXTS)
        maps = masker.attributions(batch, batch.predict().argmax(-1))
    for result, expected in zip(explain(model, "aml-pretrained"), maps, strict=True):
        assert np.allclose(result.scores, expected[: len(result.scores)].numpy(), atol=1e-6)
        assert result.steps == 0


def test_finetuned_by_a_fixed_budget_and_selected_are_told_apart(model):
    fixed = explain(model, "aml-finetuned", steps=4, tune="head")
    selected = explain(model, "aml-finetuned", steps=4, tune="head", select_by="comprehensiveness")
    assert [(result.steps, result.stop) for result in fixed] == [(4, "steps")] * 3
    assert all(result.stop == "selected" and 0 <= result.steps <= 4 for result in selected)
    rounding = 1e-6  # of probabilities: the candidates were measured in a batch with others
    assert (comprehensiveness(model, selected) >= comprehensiveness(model, fixed) - rounding).all()


@pytest.mark.parametrize("wrong", [{"select_by": "deletion"}, {"steps": -1}, {"tune": "most"}, {"rank": 0}])
def test_options_that_make_no_sense_are_refused(model, wrong):
    with pytest.raises(OptionError, match=next(iter(wrong))):
        explain(model, "aml-finetuned", **wrong)


@pytest.mark.parametrize("method", ["aml-pretrained", "aml-finetuned"])
def test_without_a_masker_it_says_how_to_train_one(model, method):
    with pytest.raises(OptionError, match=r"needs a masker.*train-masker MODEL DATA --kind aml --out F.*masker=F"):
        rationales.explain(model, TEXTS[0], method=method)


def test_another_masker_under_the_same_name_is_another_entry_of_a_cache(model, tmp_path):
    file = untrained_aml_masker(model).save(tmp_path / "m.safetensors")
    method = build("aml-pretrained", {"masker": str(file)})
    first = entry_key("m", "i", method, 0, 0)
    untrained_aml_masker(model, seed=1).save(file)
    assert entry_key("m", "i", method, 0, 0) != first


class TestSelectedByMetric:
    @pytest.mark.parametrize("name", ["random", "saliency"])
    @pytest.mark.parametrize("metric", EXAMPLE_METRICS)
    def test_no_candidate_is_better(self, model, name, metric):
        from rationales.evaluation.faithfulness.measure import measure_faithfulness
        from rationales.evaluation.metrics import METRICS

        oracle = selected_by_metric(name, metric)

        def value(method):
            results = rationales.explain(model, TEXTS, method=method)
            curves = measure_faithfulness(model, TEXTS, [result.scores for result in results], None, "aml")
            return METRICS[metric].function(curves)

        sign = 1 if METRICS[metric].higher else -1
        selected = sign * value(oracle)
        for candidate in oracle.candidates[:3]:
            assert (selected >= sign * value(candidate) - 1e-6).all()

    def test_marc_has_as_many_candidates_as_fine_tuning(self):
        steps = [candidate.steps for candidate in selected_by_metric("marc", "sufficiency").candidates]
        assert len(steps) == CANDIDATES == 11
        assert steps == sorted(steps)

    def test_random_scores_gain_by_it(self, model):
        plain = rationales.explain(model, TEXTS, method="random")
        selected = rationales.explain(model, TEXTS, method=selected_by_metric("random", "comprehensiveness"))
        assert comprehensiveness(model, selected)[1:].sum() > comprehensiveness(model, plain)[1:].sum()

    def test_the_first_draw_is_the_method_itself(self, model):
        plain = rationales.explain(model, TEXTS, method="random")
        same = rationales.explain(model, TEXTS, method=SelectedByMetric((build("random"),), "sufficiency"))
        assert all(
            np.array_equal(*pair) for pair in zip([r.scores for r in plain], [r.scores for r in same], strict=True)
        )

    def test_alone_and_in_a_batch(self, model):
        method = selected_by_metric("random", "aopc-sufficiency")
        for text, result in zip(TEXTS, rationales.explain(model, TEXTS, method=method), strict=True):
            assert np.array_equal(result.scores, rationales.explain(model, text, method=method).scores)

    def test_variants_of_ones_choice(self, model):
        method = selected_by_metric("occlusion", "log-odds", [{"window": 1}, {"window": 3}])
        results = rationales.explain(model, TEXTS, method=method)
        assert {result.steps for result in results} <= {0, 1}
        with pytest.raises(OptionError, match="no option"):
            selected_by_metric("occlusion", "log-odds", [{"windows": 1}])

    def test_other_candidates_are_another_entry_of_a_cache(self):
        keys = {
            entry_key("m", "i", SelectedByMetric((build(name),), "sufficiency"), 0, 0)
            for name in ("random", "loo-pad", "loo-unk")
        }
        assert len(keys) == 3

    def test_a_row_of_evaluate_can_be_selected_and_the_table_says_so(self, model):
        """Like `--methods random:oracle=comprehensiveness`; the row of plain random scores stays."""
        examples = [Example(str(number), text) for number, text in enumerate(TEXTS)]
        row = {"name": "random", "oracle": "comprehensiveness"}
        table = rationales.evaluate(model, examples, [row], "aml", ["comprehensiveness"])
        assert [table_row.title for table_row in table.rows] == ["random (oracle comprehensiveness)", "random"]
        selected, plain = (table_row.cells["comprehensiveness"].estimate.mean for table_row in table.rows)
        assert selected > plain
        (remark,) = table.remarks
        assert "on the test example itself: random (oracle comprehensiveness) (by comprehensiveness)" in remark
        assert "never with rows of fixed settings" in remark

    def test_so_it_is_of_a_step_that_is_selected(self, model):
        masker = {"masker": untrained_aml_file(model), "steps": 1, "tune": "head"}
        rows = [
            {"name": "aml-finetuned", "options": masker | {"select_by": "sufficiency"}, "title": "best"},
            {"name": "aml-finetuned", "options": masker, "title": "last"},
        ]
        table = rationales.evaluate(model, [Example("a", TEXTS[0])], rows, "aml", ["sufficiency"])
        assert "test example itself: best (by sufficiency)." in table.remarks[0]
        plain = rationales.evaluate(model, [Example("a", TEXTS[0])], rows[1:], "aml", ["sufficiency"])
        assert not plain.remarks

    def test_the_command_line_has_it_as_a_part_of_a_row(self):
        assert method_rows(["marc:oracle=sufficiency:steps=20"]) == [
            {"name": "marc", "oracle": "sufficiency", "options": {"steps": 20}}
        ]

    def test_a_wrong_metric_of_an_option_is_answered_with_those_that_there_are(self):
        with pytest.raises(OptionError, match=r"select_by is one of sufficiency, .*-comprehensiveness, or empty, not"):
            build("aml-finetuned", {"select_by": "token-f1"})

    def test_a_metric_that_is_not_there(self):
        with pytest.raises(OptionError, match="one of sufficiency"):
            selected_by_metric("random", "deletion")

    def test_a_contrast_is_refused(self, model):
        with pytest.raises(OptionError, match="without against"):
            rationales.explain(model, TEXTS[0], method=selected_by_metric("random", "sufficiency"), target=0, against=1)
        assert torch.is_grad_enabled()


def test_a_copy_in_half_precision_serves_only_methods_that_need_neither_gradients_nor_the_models_own_weights():
    in_half = [name for name in ("random", "lime", "solvex", "occlusion") if build(name).runs_in_half_precision]
    assert in_half == ["random", "lime", "solvex", "occlusion"]
    for name in ("aml-pretrained", "aml-finetuned", "marc-instant", "marc", "saliency", "alti", "decompx", "chefer"):
        assert not build(name).runs_in_half_precision
    assert not selected_by_metric("marc", "sufficiency").runs_in_half_precision
    assert selected_by_metric("random", "sufficiency").runs_in_half_precision


class TestSharedCandidates:
    def test_scores_are_computed_once_for_all_metrics_and_are_the_same(self, model, monkeypatch):
        calls, scores = [], Saliency.scores

        def counted(self, batch, target, progress=None):
            calls.append(self)
            return scores(self, batch, target, progress)

        monkeypatch.setattr(Saliency, "scores", counted)
        computed: dict = {}
        shared = [selected_by_metric("saliency", metric, computed=computed) for metric in EXAMPLE_METRICS[:3]]
        together = [
            [result.scores.tolist() for result in rationales.explain(model, TEXTS, method=item)] for item in shared
        ]
        assert len(calls) == len(shared[0].candidates)
        alone = [
            [
                result.scores.tolist()
                for result in rationales.explain(model, TEXTS, method=selected_by_metric("saliency", metric))
            ]
            for metric in EXAMPLE_METRICS[:3]
        ]
        assert together == alone

    def test_other_texts_are_not_mixed_up(self, model):
        computed: dict = {}
        method = selected_by_metric("random", "comprehensiveness", computed=computed)
        first = rationales.explain(model, TEXTS[:2], method=method)
        second = rationales.explain(model, TEXTS[2:], method=method)
        expected = rationales.explain(model, TEXTS, method=selected_by_metric("random", "comprehensiveness"))
        assert [result.scores.tolist() for result in (*first, *second)] == [
            result.scores.tolist() for result in expected
        ]
