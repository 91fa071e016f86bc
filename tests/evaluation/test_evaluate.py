"""From examples to a table: the right values in the right places, resumed where it stopped, nothing averaged away."""

from __future__ import annotations

import errno
import json
import os
import tempfile
from dataclasses import replace

import numpy as np
import pytest
from families import tiny
from methods.fillers import tiny_filler
from methods.keyword import keyword_model

import rationales
from rationales.data.example import Example
from rationales.errors import InputError, OptionError
from rationales.evaluation import collecting
from rationales.evaluation import preparation as module_under_test
from rationales.evaluation.entries import MethodEntry
from rationales.evaluation.evaluate import evaluate
from rationales.evaluation.metrics import METRICS
from rationales.evaluation.protocols import PRESETS
from rationales.evaluation.scores.attribution import score_rows
from rationales.evaluation.selection.rules import FixedTop, Otsu
from rationales.evaluation.tables.table import Table
from rationales.methods import METHODS, Attribution
from rationales.rationale import Rule

TEXTS = [
    "we had some bread with soup",
    "the bread was not very good today",
    "bread is what he said to us",
    "all that bread",
]


def example(number, text, **fields):
    start = text.index("bread")
    return Example(f"review {number}", text, "found", ((start, start + 5),), **fields)


EXAMPLES = [example(number, text) for number, text in enumerate(TEXTS)]


def keyword():
    return rationales.load(*keyword_model("bread"))


def loaded():
    return rationales.load(*tiny("bert"))


class TestTable:
    def test_a_method_that_finds_the_cause_gets_full_marks(self):
        sharp = evaluate(
            keyword(), EXAMPLES, [{"name": "occlusion", "options": {"window": 1}}], metrics=list(METRICS_OF_TEXTS),
            selection="gold-length",
        )  # fmt: skip
        row = sharp["occlusion (window=1)"]
        perfect = (
            "f1-gold-length",
            "precision-at-1",
            "average-precision",
            "auprc",
            "token-f1",
            "token-f1-micro",
            "iou-f1",
        )
        assert all(row.cells[name].estimate.mean == 1.0 for name in perfect)
        assert row.cells["sufficiency"].estimate.mean == pytest.approx(0, abs=1e-6)
        assert row.cells["comprehensiveness"].estimate.mean > 0.99
        assert row.cells["spans"].values == (1.0,) * 4
        assert all(cell.estimate.n == 4 for cell in row.cells.values())

    def test_everything_is_on_record(self):
        shares = []
        table = evaluate(keyword(), EXAMPLES, ["occlusion"], seed=5, progress=shares.append)
        assert table.protocol is PRESETS["marc"]
        assert (table.selection, table.seed, table.model, table.baseline) == ("fitted", 5, "KeywordModel", "pad")
        assert table.inputs == tuple(f"review {number}" for number in range(4))
        assert {"rationales", "torch", "transformers", "python"} <= set(table.versions)
        assert table.metrics == tuple(
            name for name in METRICS if METRICS[name].default and "boxes" not in METRICS[name].needs
        )
        assert table["occlusion"].options == {"window": 0, "stride": 1} | dict(table["occlusion"].options)
        assert table["occlusion"].seconds > 0
        assert len(table["occlusion"].curves["kept"]) == 19
        assert shares == sorted(shares)
        assert shares[-1] == 1.0
        assert Table.from_json(table.to_json()).to_json() == table.to_json()

    def test_a_random_row_is_always_there_but_never_twice(self):
        titles = [row.title for row in evaluate(keyword(), EXAMPLES, ["occlusion"]).rows]
        assert titles == ["occlusion", "random"]
        titles = [row.title for row in evaluate(keyword(), EXAMPLES, ["random", "occlusion"]).rows]
        assert titles == ["random", "occlusion"]

    def test_rows_by_name_mapping_and_entry(self):
        table = evaluate(
            keyword(),
            EXAMPLES,
            ["occlusion", {"name": "occlusion", "smooth": 2}, MethodEntry("occlusion", {"window": 1}, None, "sharp")],
            smooth=4.0,
        )
        assert [row.title for row in table.rows] == [
            "occlusion (smooth 4)", "occlusion (smooth 2)", "sharp", "random (smooth 4)",
        ]  # fmt: skip
        assert [row.smooth for row in table.rows] == [4.0, 2, None, 4.0]

    def test_the_company_of_other_examples_and_methods_changes_nothing(self, monkeypatch):
        together = evaluate(loaded(), labelled(), ["occlusion"], metrics=["comprehensiveness", "average-precision"])
        monkeypatch.setattr(module_under_test, "INPUTS_AT_ONCE", {"text": 1})
        alone = evaluate(
            loaded(), labelled(), ["random", "occlusion"], metrics=["comprehensiveness", "average-precision"]
        )
        for name in together.metrics:
            for row in ("occlusion", "random"):
                assert together[row].cells[name].values == pytest.approx(alone[row].cells[name].values, abs=1e-5)


METRICS_OF_TEXTS = [name for name, metric in METRICS.items() if "boxes" not in metric.needs and metric.kind != "study"]


def labelled():
    return [replace(item, label="LABEL_1") for item in EXAMPLES]


class TestProtocols:
    @pytest.mark.parametrize("name", [name for name in PRESETS if name != "marc-images"])
    def test_every_protocol_makes_a_table(self, name):
        examples = [replace(preset, label=f"LABEL_{number % 3}") for number, preset in enumerate(EXAMPLES)]
        options = {"filler": tiny_filler()} if name == "im-bert" else {}
        table = evaluate(loaded(), examples, ["occlusion"], name, list(METRICS_OF_TEXTS), **options)
        assert table.protocol == replace(PRESETS[name], filler="BertForMaskedLM" if options else None)
        for row in table.rows:
            assert set(row.cells) == set(METRICS_OF_TEXTS)
            assert all(len(cell.values) == 4 for cell in row.cells.values())
        if name in ("im", "im-bert"):
            assert table["random"].cells["deletion"].estimate.n < 4  # the misclassified ones are counted out
            assert "(n = " in str(table)

    def test_labels_decide_what_is_explained(self):
        model = loaded()
        wrong = [replace(item, label="LABEL_0") for item in EXAMPLES]
        gold = evaluate(model, wrong, ["occlusion"], metrics=["comprehensiveness"])
        predicted = evaluate(
            model, wrong, ["occlusion"], replace(PRESETS["marc"], label="predicted"), metrics=["comprehensiveness"]
        )
        assert (
            gold["occlusion"].cells["comprehensiveness"].values
            != predicted["occlusion"].cells["comprehensiveness"].values
        )
        unlabelled = [replace(item, label=None) for item in EXAMPLES]
        free = evaluate(
            model, unlabelled, ["occlusion"], replace(PRESETS["marc"], label="predicted"), metrics=["comprehensiveness"]
        )
        assert free["occlusion"].cells == predicted["occlusion"].cells

    def test_without_marks_words_are_selected_by_what_suffices(self):
        bare = [Example(item.name, item.text, "found") for item in EXAMPLES]
        table = evaluate(
            keyword(), bare, [{"name": "occlusion", "options": {"window": 1}}], metrics=["selected-share", "spans"]
        )
        assert table["occlusion (window=1)"].cells["spans"].values == (1.0,) * 4
        assert [round(item, 3) for item in table["occlusion (window=1)"].cells["selected-share"].values] == [
            round(1 / len(text.split()), 3) for text in TEXTS
        ]
        assert evaluate(keyword(), bare, ["occlusion"]).metrics == ("sufficiency", "comprehensiveness")


class TestSelection:
    def test_rules_side_by_side(self):
        """What needs marks beside what needs none, in one table."""
        names = ["token-f1", "token-f1@sufficient", "token-f1@keep-sum", "selected-share@top=2", "iou-f1@gold-length"]
        sharp = [{"name": "occlusion", "options": {"window": 1}, "title": "sharp"}]
        row = evaluate(keyword(), EXAMPLES, sharp, metrics=names)["sharp"]
        assert list(row.cells) == names
        assert row.cells["token-f1@sufficient"].values == (1.0,) * 4
        assert row.cells["selected-share@top=2"].values == pytest.approx([2 / len(text.split()) for text in TEXTS])
        assert "token-f1@sufficient ↑" in str(evaluate(keyword(), EXAMPLES, sharp, metrics=names))

    def test_the_rule_of_a_table_is_on_record(self):
        rules = (
            ("top=2", "top=2"),
            (FixedTop(2), "top=2"),
            (Rule(share=0.3), "share=0.3"),
            (Otsu(), "otsu"),
            (None, "fitted"),
        )
        for selection, title in rules:
            assert evaluate(keyword(), EXAMPLES, ["random"], selection=selection).selection == title
        bare = [replace(item, spans=None) for item in EXAMPLES]
        assert evaluate(keyword(), bare, ["random"]).selection == "sufficient"

    def test_what_selects_nothing_takes_no_rule(self):
        with pytest.raises(OptionError, match="sufficiency selects no words, so it takes no @otsu"):
            evaluate(keyword(), EXAMPLES, ["random"], metrics=["sufficiency@otsu"])

    def test_a_rule_that_cannot_work_is_told_before_anything_is_computed(self, monkeypatch):
        monkeypatch.setattr(module_under_test, "collect", None)
        with pytest.raises(InputError, match="at least two marked inputs"):
            evaluate(keyword(), EXAMPLES[:1], ["random"])
        with pytest.raises(InputError, match="needs people's marks"):
            evaluate(keyword(), [replace(EXAMPLES[0], spans=None)], ["random"], metrics=["spans@gold-length"])


class TestNothingIsAveragedAway:
    def test_an_input_without_scores_is_counted_and_named(self, monkeypatch):
        plain = METHODS["occlusion"].scores

        def sometimes(self, batch, target, progress=None):
            attribution = plain(self, batch, target, progress).scores.clone()
            attribution[1] = float("nan")
            return Attribution(attribution)

        monkeypatch.setattr(METHODS["occlusion"], "scores", sometimes)
        table = evaluate(keyword(), EXAMPLES, ["occlusion"], metrics=list(METRICS_OF_TEXTS))
        row = table["occlusion"]
        assert set(row.failures) == {"review 1"}
        assert all(cell.estimate.n == 3 for cell in row.cells.values())
        assert all(np.isnan(cell.values[1]) for cell in row.cells.values())
        assert all(cell.estimate.n == 4 for cell in table["random"].cells.values())
        assert "occlusion: no scores for 1 of 4 inputs (review 1" in str(table)

    def test_a_method_that_fails_everywhere_still_has_a_row(self, monkeypatch):
        monkeypatch.setattr(
            METHODS["occlusion"], "scores", lambda self, batch, target, progress=None: Attribution(batch.zeros() / 0)
        )
        table = evaluate(keyword(), EXAMPLES, ["occlusion"])
        assert all(cell.estimate.n == 0 for cell in table["occlusion"].cells.values())
        assert "undefined (n = 0)" in str(table)

    def test_examples_that_nobody_marked_have_no_agreement(self):
        partly_marked = [*EXAMPLES[:2], replace(EXAMPLES[2], spans=None), replace(EXAMPLES[3], spans=())]
        table = evaluate(
            keyword(),
            partly_marked,
            ["occlusion"],
            metrics=["token-f1", "average-precision", "best-threshold-iou", "sufficiency"],
        )
        assert [table["occlusion"].cells[name].estimate.n for name in table.metrics] == [2, 2, 2, 4]


class TestCache:
    def counted(self, monkeypatch):
        calls: list[int] = []

        def spy(model, encoded, method, *arguments, **options):
            calls.append(len(encoded))
            return score_rows(model, encoded, method, *arguments, **options)

        monkeypatch.setattr(collecting, "score_rows", spy)
        return calls

    def test_a_second_run_asks_nothing_and_says_the_same(self, tmp_path, monkeypatch):
        calls = self.counted(monkeypatch)
        first = evaluate(loaded(), labelled(), ["occlusion"], cache=tmp_path)
        assert calls == [4, 4]
        again = evaluate(loaded(), labelled(), ["occlusion"], cache=tmp_path)
        assert calls == [4, 4]
        assert first == again
        assert first["random"].cells == evaluate(loaded(), labelled(), ["random"])["random"].cells

    def test_an_interrupted_table_goes_on_where_it_stopped(self, tmp_path, monkeypatch):
        calls = self.counted(monkeypatch)
        monkeypatch.setattr(module_under_test, "INPUTS_AT_ONCE", {"text": 1})
        stop = iter([None, None, KeyboardInterrupt])
        plain = METHODS["random"].scores

        def interrupted(self, *arguments):
            if next(stop, None) is KeyboardInterrupt:
                raise KeyboardInterrupt
            return plain(self, *arguments)

        monkeypatch.setattr(METHODS["random"], "scores", interrupted)
        with pytest.raises(KeyboardInterrupt):
            evaluate(loaded(), labelled(), ["random"], cache=tmp_path)
        assert calls == [1, 1, 1]
        evaluate(loaded(), labelled(), ["random"], cache=tmp_path)
        assert calls == [1, 1, 1, 1, 1]  # two were there

    def test_a_folder_that_cannot_be_written_costs_no_table_and_the_table_says_so(self, tmp_path, monkeypatch):
        plain = evaluate(loaded(), labelled(), ["occlusion"], metrics=["average-precision"])
        (tmp_path / "file").touch()
        below_a_file = evaluate(
            loaded(), labelled(), ["occlusion"], metrics=["average-precision"], cache=tmp_path / "file" / "scores"
        )

        def refuse(*_, **__):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

        monkeypatch.setattr(tempfile, "mkstemp", refuse)
        refused = evaluate(loaded(), labelled(), ["occlusion"], metrics=["average-precision"], cache=tmp_path / "new")
        for table, reason in ((below_a_file, "cannot be made (Not a directory)"), (refused, "(Permission denied)")):
            assert table["occlusion"].cells == plain["occlusion"].cells
            assert reason in str(table)
            assert "Scores were not kept: " in str(table)
        assert "Scores were not kept" not in str(plain)

    def test_only_what_changed_is_made_again(self, tmp_path, monkeypatch):
        calls = self.counted(monkeypatch)
        evaluate(loaded(), labelled(), ["random"], cache=tmp_path)
        evaluate(
            loaded(), [*labelled(), Example("new", "soup again", "LABEL_0", ((0, 4),))], ["random"], cache=tmp_path
        )
        evaluate(loaded(), labelled(), ["random"], cache=tmp_path, seed=1)
        evaluate(loaded(), labelled(), ["random"], "eraser-code", cache=tmp_path, smooth=3)
        assert calls[:3] == [4, 1, 4]
        assert calls[3] == 4
        path = next(tmp_path.rglob("*.safetensors"))
        path.write_bytes(path.read_bytes()[:-3])
        calls.clear()
        for seed in (0, 1):
            evaluate(
                loaded(),
                [*labelled(), Example("new", "soup again", "LABEL_0", ((0, 4),))],
                ["random"],
                cache=tmp_path,
                seed=seed,
            )
        evaluate(loaded(), labelled(), ["random"], "eraser-code", cache=tmp_path, smooth=3)
        assert calls in ([1, 1], [2])  # the broken one, and the new text under the other seed


class TestBadInput:
    @pytest.mark.parametrize(
        ("options", "error", "message"),
        [
            ({"examples": []}, InputError, "no examples"),
            ({"examples": EXAMPLES[:1] * 2}, InputError, "two examples are called 'review 0'"),
            ({"examples": [replace(EXAMPLES[0], label=None)]}, InputError, "review 0 has no label, and protocol marc"),
            ({"examples": [replace(EXAMPLES[0], label="lost")]}, InputError, "review 0: the model has no label 'lost'"),
            (
                {"examples": [Example("x", "a soup", "found")], "metrics": ["token-f1"]},
                OptionError,
                "needs people's marks",
            ),
            ({"methods": []}, OptionError, "at least one"),
            ({"methods": "marc"}, OptionError, r"a list of methods: \['marc'\]"),
            ({"methods": ["random", "random"]}, OptionError, "two rows are called 'random'"),
            ({"methods": ["marcc"]}, OptionError, "no method 'marcc'"),
            (
                {"methods": [{"method": "marc"}]},
                OptionError,
                "a method is a name or has name, options, oracle, shape, smooth",
            ),
            ({"smooth": -1.0}, OptionError, "greater than 0"),
            ({"protocol": "best"}, OptionError, "no protocol 'best'"),
            ({"metrics": ["speed"]}, OptionError, "no metric 'speed'"),
            ({"selection": "half"}, OptionError, "no selection 'half'"),
            ({"seed": 0.5}, OptionError, "whole number"),
            ({"examples": EXAMPLES[:1], "selection": "fitted"}, InputError, "at least two marked inputs"),
        ],
    )
    def test_is_told(self, options, error, message):
        examples = {"examples": EXAMPLES, "methods": ["random"]} | options
        with pytest.raises(error, match=message):
            evaluate(keyword(), examples.pop("examples"), **examples)

    def test_pictures_are_no_texts(self, tmp_path):
        with pytest.raises(InputError, match="is not a text, which is what KeywordModel reads"):
            evaluate(keyword(), [Example("cat", label="found", image=tmp_path / "cat.png")], ["random"])


def test_the_front_door():
    assert rationales.evaluate is evaluate
    table = rationales.evaluate(keyword(), EXAMPLES, methods=["occlusion"], protocol="marc")
    assert json.loads(table.to_json())["protocol"]["name"] == "marc"


def test_one_class_data_is_fine():
    """All examples of one class, everything marked: agreement is perfect whatever is chosen first."""
    table = [Example(f"{number}", text, "found", ((0, len(text)),)) for number, text in enumerate(TEXTS)]
    table = evaluate(
        keyword(), table, ["random"], metrics=["average-precision", "f1-gold-length", "token-f1", "sufficiency"]
    )
    for name in ("average-precision", "f1-gold-length"):
        assert table["random"].cells[name].values == (1.0,) * 4
    assert table["random"].cells["token-f1"].estimate.mean > 0.9  # the best share of 6 words, 0.84, misses one of 7
