"""The ranking of methods under several ways of removal: ranks and correlations by hand, and the warning."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from families import tiny
from hypothesis import given
from hypothesis import strategies as st
from methods.aml_maskers import untrained_aml_masker
from methods.fillers import known_filler, tiny_filler
from methods.keyword import keyword_model
from scipy.stats import kendalltau

import rationales
from rationales.data.example import Example
from rationales.errors import OptionError
from rationales.evaluation.bias.protocol_comparison import ProtocolComparison, compare_protocols
from rationales.evaluation.bias.ranking import kendall, kendall_interval, rank_rows, spearman
from rationales.evaluation.bias.removal_operations import method_operation, resolve_protocols, shared_operations
from rationales.evaluation.protocols import PRESETS
from rationales.evaluation.tables.table import Cell, Table, TableRow
from rationales.masks.instant.aml.settings import AmlLosses
from rationales.methods import METHODS, resolve_method

EXAMPLES = [
    Example("a", "the old boat was at the cold bread", "found"),
    Example("b", "a good day and all the bread is warm", "found"),
    Example("c", "bread and soup", "found"),
]


def table_of(**means):
    """A table whose rows have two inputs, mean - 0.01 and mean + 0.01."""
    rows = tuple(TableRow(name, {"deletion": Cell((mean - 0.01, mean + 0.01))}) for name, mean in means.items())
    return Table(rows, ("deletion",), ("a", "b"), PRESETS["im"], "top", "model", "pad", 0, {})


class TestRanking:
    def test_by_hand(self):
        assert rank_rows(np.array([0.3, 0.1, 0.2]), higher=False).tolist() == [3, 1, 2]
        assert rank_rows(np.array([0.3, 0.1, 0.3]), higher=True).tolist() == [1.5, 3, 1.5]
        with_gap = rank_rows(np.array([0.3, np.nan, 0.4]), higher=False)
        assert (with_gap[0], with_gap[2]) == (1, 2)
        assert math.isnan(with_gap[1])

    def test_kendall_and_spearman_by_hand(self):
        # orders 1 2 3 4 and 2 1 3 4: five pairs agree, one does not: tau = 4/6; rho = 1 - 6 * 2 / (4 * 15) = 0.8
        first, second = np.array([1.0, 2, 3, 4]), np.array([2.0, 1, 3, 4])
        assert kendall(first, second) == pytest.approx(4 / 6)
        assert spearman(first, second) == pytest.approx(0.8)
        assert math.isnan(kendall(first, np.ones(4)))
        assert math.isnan(spearman(np.array([1.0, np.nan]), np.array([1.0, 2.0])))

    @given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=9))
    def test_kendall_is_scipys(self, pairs):
        first, second = (np.array(side, dtype=float) for side in zip(*pairs, strict=True))
        assert kendall(first, second) == pytest.approx(kendalltau(first, second).statistic, nan_ok=True)

    def test_the_interval_is_narrow_where_no_input_disagrees(self):
        values = np.array([[0.1, 0.2, 0.3], [0.5, 0.6, 0.7]])
        assert kendall_interval(values, values) == (1.0, 1.0)
        assert kendall_interval(values, values[::-1]) == (-1.0, -1.0)
        mixed = np.array([[0.1, 0.9], [0.5, 0.5]])
        assert kendall_interval(mixed, np.array([[0.1, 0.1], [0.5, 0.5]])) == (-1.0, 1.0)
        assert math.isnan(kendall_interval(values[:, :1], values[:, :1])[0])


class TestComparison:
    def test_the_papers_table_1a(self):
        """Table 1a, SST-2: LOO_empty is the best under Deletion and the last under Deletion-BERT, IM the reverse."""
        comparison = ProtocolComparison(
            {
                "delete": table_of(im=0.4732, zero=0.4374, unk=0.4464, empty=0.4241),
                "fill": table_of(im=0.4922, zero=0.4970, unk=0.5047, empty=0.5065),
            },
            ("deletion",),
            (),
        )
        assert comparison.ranks("deletion").tolist() == [[4, 2, 3, 1], [1, 2, 3, 4]]
        (pair,) = comparison.agreement("deletion")
        # the pair (zero, unk) keeps its order, the five others are reversed: tau = (1 - 5) / 6
        assert pair["kendall"] == pytest.approx(-4 / 6)
        # squared differences of ranks 9 + 0 + 0 + 9: rho = 1 - 6 * 18 / (4 * 15)
        assert pair["spearman"] == pytest.approx(-0.8)
        text = comparison.to_markdown()
        assert "| im | 4 (.473) | 1 (.492) |" in text
        assert "| delete – fill | −.667" in text

    def test_methods_are_ranked_under_every_way_of_removal_and_told_on(self):
        model = rationales.load(*keyword_model("bread"))
        sure = known_filler({position: {"bread": 0.9, "soup": 0.1} for position in range(12)})
        methods = ["loo-empty", {"name": "input-marginalization", "options": {"filler": sure}, "title": "im"}]
        comparison = compare_protocols(model, EXAMPLES, methods, ["delete", "pad", "fill"], filler=sure)
        assert comparison.metrics == ("deletion",)
        assert comparison.rows == ["loo-empty", "im", "random"]
        assert comparison.ranks("deletion")[0][0] < comparison.ranks("deletion")[0][2]
        assert comparison.tables["fill"].protocol.fill_order == "in-turn"
        assert comparison.tables["delete"].protocol.removal == "delete"
        assert comparison.warnings == (
            "loo-empty deletes units, and so does delete: these figures favour it.",
            "im fills units in with a masked language model, and so does fill: these figures favour it.",
        )
        data = json.loads(comparison.to_json())
        assert data["metrics"]["deletion"]["ranks"] == comparison.ranks("deletion").tolist()
        assert Table.from_dict(data["tables"]["pad"]).protocol == comparison.tables["pad"].protocol

    def test_scores_are_computed_once(self, monkeypatch):
        calls = []
        plain = METHODS["saliency"].scores

        def counted(self, batch, target, progress=None):
            calls.append(batch.inputs)
            return plain(self, batch, target, progress)

        monkeypatch.setattr(METHODS["saliency"], "scores", counted)
        model = rationales.load(*keyword_model("bread"))
        compare_protocols(model, EXAMPLES, ["saliency"], ["delete", "pad", "mask"])
        assert sum(calls) == len(EXAMPLES)

    def test_other_protocols_and_metrics(self):
        model = rationales.load(*keyword_model("bread"))
        comparison = compare_protocols(
            model, EXAMPLES, ["occlusion"], ["marc", "aml"], base="marc", metrics=["comprehensiveness"]
        )
        assert list(comparison.tables) == ["marc", "aml"]
        assert "occlusion replaces units by pad, and so does marc" in comparison.warnings[0]


NONE = (
    *("saliency", "input-x-gradient", "smooth-grad", "guided-backpropagation", "excitation-backprop"),
    *("grad-cam", "grad-cam-plus-plus", "guided-grad-cam", "llm-ranking", "random"),
    *("raw-attention", "attention-rollout", "chefer", "transition-attention", "alti", "globenc", "decompx"),
)
OF_METHODS = {  # on a model whose baseline is pad and whose tokenizer has a mask token, with default options
    **dict.fromkeys(("loo-empty", "lime-text"), "delete"),
    **dict.fromkeys(("input-marginalization", "lime-bert"), "fill"),
    **dict.fromkeys(("aml-pretrained", "aml-finetuned"), "mask"),
    "loo-unk": "unk",
    **dict.fromkeys(NONE),
}
QUICK = {name: {"steps": 4} for name in ("marc", "meaningful-perturbation", "extremal-perturbation")}
SPECIAL_NEEDS = {"feature maps", "images", "a language model", "attention", "a masker", "an AML masker"}
ON_ANY_TEXT_MODEL = [
    name for name, method in METHODS.items() if not SPECIAL_NEEDS & {*method.needs} and OF_METHODS.get(name) != "fill"
]


class TestOperations:
    model = rationales.load(*keyword_model("bread"))

    def sentences(self, name, options, *removals):
        """The warnings for a method, each protocol being called as its removal."""
        method = resolve_method(name, options, "text")
        return shared_operations([("m", method)], resolve_protocols(removals, "im", "text"), self.model)

    @pytest.mark.parametrize("name", METHODS)
    def test_of_every_method(self, name):
        method = METHODS[name](**({"filler": tiny_filler()} if OF_METHODS.get(name) == "fill" else {}))
        assert method_operation(method, self.model) == OF_METHODS.get(name, "pad")

    @pytest.mark.parametrize(
        ("name", "options", "operation"),
        [
            ("solvex", {"removal": "delete"}, "delete"),
            ("solvex", {"removal": "baseline"}, "pad"),
            ("solvex", {"baseline": "unk"}, "unk"),
            ("occlusion", {"baseline": "unk"}, "unk"),
            ("integrated-gradients", {"baseline": "mask"}, "mask"),
        ],
    )
    def test_options_decide(self, name, options, operation):
        (sentence,) = self.sentences(name, options, "delete", "pad", "unk", "mask")
        assert method_operation(resolve_method(name, options, "text"), self.model) == operation
        assert re.search(rf", and so does {operation}: ", sentence)

    @pytest.mark.parametrize("name", ON_ANY_TEXT_MODEL)
    def test_scores_depend_on_the_models_baseline_where_a_method_says_so(self, name):
        method = METHODS[name](**QUICK.get(name, {}))
        model = tiny("bert")
        scores = [
            rationales.explain(rationales.load(*model, baseline=baseline), EXAMPLES[2].text, method=method).scores
            for baseline in ("pad", "mask")
        ]
        differ = not np.allclose(*scores, atol=1e-7)
        assert differ == (method.removal_operation == "baseline")

    def test_a_masker_was_trained_with_an_operation_and_its_refinement_uses_it(self):
        assert self.sentences("marc-instant", {}, "delete", "pad") == [
            "m was trained with units replaced by pad, as under pad: these figures favour it."
        ]
        assert self.sentences("marc-instant", {"refine": 3}, "delete", "pad") == [
            "m replaces units by pad, and so does pad: these figures favour it."
        ]

    @pytest.mark.parametrize(
        ("losses", "sentence"),
        [
            ({}, "m was trained with units replaced by mask, as under mask: these figures favour it."),
            (
                {"replacement": "unk"},
                "m was trained with units replaced by unk, as under unk: these figures favour it.",
            ),
            (
                {"replacement": "omission", "mask": "hard"},
                "m was trained with units deleted, as under delete: these figures favour it.",
            ),
            ({"replacement": "random"}, None),
        ],
    )
    def test_an_aml_masker_says_what_it_was_trained_with(self, tmp_path, losses, sentence):
        masker = untrained_aml_masker(self.model, losses=AmlLosses(**losses)).save(tmp_path / "masker.safetensors")
        options = {"masker": str(masker)}
        expected = [] if sentence is None else [sentence]
        assert self.sentences("aml-pretrained", options, "delete", "pad", "unk", "mask") == expected
        finetuned = self.sentences("aml-finetuned", options, "delete", "pad", "unk", "mask")
        assert len(finetuned) == len(expected)
        assert all(", and so does " in text for text in finetuned)

    def test_baseline_and_reference_are_resolved(self):
        occlusion = [("occlusion", resolve_method("occlusion", {}, "text"))]
        plain, reference = (replace(PRESETS["marc"], name=name, removal=name) for name in ("baseline", "reference"))
        assert shared_operations(occlusion, [plain, reference], self.model) == [
            "occlusion replaces units by pad, and so does baseline: these figures favour it."
        ]  # the reference of this tokenizer is mask


class TestBadInput:
    @pytest.mark.parametrize(
        ("protocols", "message"),
        [
            (["delete"], "at least two protocols"),
            ("delete", "at least two protocols"),
            (["delete", "erase"], "no protocol or removal 'erase'"),
            (["delete", "delete"], "two protocols are called 'delete'"),
        ],
    )
    def test_protocols(self, protocols, message):
        with pytest.raises(OptionError, match=message):
            resolve_protocols(protocols, "im", "text")

    def test_metrics_that_no_removal_changes(self):
        model = rationales.load(*keyword_model("bread"))
        with pytest.raises(OptionError, match="token-f1 does not depend on how words are removed"):
            compare_protocols(model, EXAMPLES, ["random"], ["delete", "pad"], metrics=["token-f1"])

    def test_data_without_labels(self):
        model = rationales.load(*keyword_model("bread"))
        with pytest.raises(rationales.RationalesError, match="has no label, and protocol delete needs it"):
            compare_protocols(model, [Example("a", "the bread")], ["random"], ["delete", "pad"])
