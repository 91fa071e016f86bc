"""The shape of a rationale, for every method: connected spans as people mark clauses, or single scores."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest
import torch
from commands import error, run
from families import tokenizer_of
from masks.test_words_and_spans import CLAUSE, EVIDENCE, SpreadModel, batch_of_texts
from methods.keyword import keyword_model
from PIL import Image

import rationales
from rationales.data.example import Example
from rationales.errors import OptionError
from rationales.evaluation import collecting
from rationales.evaluation.entries import MethodEntry, resolve_entries
from rationales.evaluation.scores.attribution import RawScores, attribute, score_rows
from rationales.evaluation.scores.cache import Cache
from rationales.evaluation.tables.table import Table
from rationales.masks.postprocess import clause_scores
from rationales.methods import build
from rationales.methods.method import Attribution
from rationales.pipeline.scoring import shaped_scores
from rationales.pipeline.selection import rule_on_scores, with_values_of
from rationales.rationale import Rationale, Rule
from rationales.report.wording import rule_text

WORDS = ["and"] * 160
WORDS[70:81] = CLAUSE.split()
LONG_TEXT = " ".join(WORDS)
SHORT_TEXT = "and " * 5 + CLAUSE
CLAUSE_START = LONG_TEXT.index(CLAUSE)
GRADIENTS = {"name": "integrated-gradients", "options": {"steps": 8, "output": "log-odds"}}


@pytest.fixture(scope="module")
def model():
    """Many words of a clause are the evidence, and no single one decides."""
    return rationales.load(SpreadModel(list(EVIDENCE), strength=6.0), tokenizer_of("bert"))


def explain(model, text=LONG_TEXT, method="integrated-gradients", **settings):
    options = {} if method == "marc" else {"steps": 8, "output": "log-odds"}
    return rationales.explain(model, text, method=method, **{"options": options, **settings})


def selections(results):
    return [result.selected() for result in results]


class TestExplain:
    def test_spans_of_any_method_are_selected_by_its_shaped_scores(self, model):
        plain, shaped = explain(model, snap=False), explain(model, snap=False, shape="clauses")
        assert np.array_equal(plain.scores, shaped.scores)
        batch = model.batch(model.encode([model.read(LONG_TEXT, None)]))
        order = clause_scores(torch.from_numpy(plain.scores)[None], batch)[0].numpy()
        assert np.array_equal(shaped.selected(), shaped.rule.select(order))
        assert (plain.selected_by, shaped.selected_by) == ("scores", "spans")
        assert len(shaped.spans()) < len(plain.spans())
        assert shaped.options["shape"] == "clauses"
        assert "shape" not in plain.options

    def test_with_a_shape_spans_alone_are_smoothed(self, model):
        plain, smoothed = explain(model, snap=False), explain(model, snap=False, smooth=2.0)
        shaped = explain(model, snap=False, smooth=2.0, shape="clauses")
        batch = model.batch(model.encode([model.read(LONG_TEXT, None)]))
        order = clause_scores(torch.from_numpy(smoothed.scores)[None], batch)[0].numpy()
        assert not np.array_equal(plain.scores, smoothed.scores)
        assert np.array_equal(plain.scores, shaped.scores)
        assert np.array_equal(shaped.selected(), shaped.rule.select(order))

    def test_a_short_text_has_no_clauses_to_shape(self, model):
        plain, shaped = (explain(model, SHORT_TEXT, shape=shape) for shape in (None, "clauses"))
        assert np.array_equal(plain.selected(), shaped.selected())
        assert shaped.selected_by == "scores"

    def test_marc_has_spans_of_its_own_and_none_leaves_them_out(self, model):
        default, clauses, single = (
            explain(model, method="marc", snap=False, shape=shape) for shape in (None, "clauses", "none")
        )
        assert np.array_equal(default.selected(), clauses.selected())
        assert np.array_equal(default.scores, single.scores)
        assert (default.selected_by, single.selected_by) == ("spans", "scores")
        assert np.array_equal(single.selected(), single.rule.select(single.scores))
        assert single.selection is None
        assert default.options["shaping"] == single.options["shaping"] == "spans"  # marc's option is another one
        assert single.options["shape"] == "none"

    def test_single_words_of_marc_are_shaped(self, model):
        """As many units as `preset=words` selects at the same threshold, by the shaped scores: connected."""
        words, shaped, default = (
            explain(model, method="marc", snap=False, options=options, shape=shape)
            for options, shape in (({"preset": "words"}, None), ({"preset": "words"}, "clauses"), ({}, "clauses"))
        )
        assert np.array_equal(words.scores, shaped.scores)
        batch = model.batch(model.encode([model.read(LONG_TEXT, None)]))
        order = clause_scores(torch.from_numpy(words.scores)[None], batch)[0].numpy()
        assert np.array_equal(shaped.selected(), shaped.rule.select(order))
        assert (words.selected_by, shaped.selected_by, shaped.options["shape"]) == ("scores", "spans", "clauses")
        assert len(words.spans()) > len(shaped.spans())
        assert default.selected_by == "spans"

    @pytest.mark.parametrize("method", ["marc", "integrated-gradients"])
    @pytest.mark.parametrize("rule", [{"threshold": 0.3}, {"share": 0.1}, {"top": 4}], ids=str)
    def test_a_requested_rule_selects_by_the_scores_whatever_the_shape(self, model, method, rule):
        result = explain(model, method=method, shape="clauses", **rule)
        assert np.array_equal(result.selected(), Rule(**rule).select(result.scores))
        assert result.selected_by == "scores"
        assert result.rule == Rule(**rule)

    def test_alone_equals_in_a_batch(self, model):
        together = explain(model, [LONG_TEXT, SHORT_TEXT], shape="clauses")
        for text, result in zip((LONG_TEXT, SHORT_TEXT), together, strict=True):
            assert np.array_equal(explain(model, text, shape="clauses").selected(), result.selected())

    def test_thresholds_of_a_method_select_as_many_units_of_its_shaped_scores(self, model):
        """The scores of preset `paper` are keeps; shaped they are in standard deviations, where 0.5 means nothing."""
        options = {"preset": "paper", "steps": 60}
        plain, shaped = (
            explain(model, method="marc", options=options, snap=False, shape=shape) for shape in (None, "clauses")
        )
        assert plain.rule.threshold is not None
        assert shaped.rule == Rule(top=int(shaped.selected().sum()))
        assert any(shaped.selected().sum() == (plain.scores > limit).sum() for limit in (0.5, 0.4, 0.3, 0.2, 0.1))

    def test_what_cannot_be_shaped_is_refused(self, model):
        with pytest.raises(OptionError, match="shape"):
            explain(model, shape="sentences")
        with pytest.raises(OptionError, match="for texts and sounds, not for an input of kind image"):
            resolve_entries(["saliency"], None, "image", "clauses")
        assert resolve_entries(["saliency"], None, "image", "none")[0].shape == "none"


def test_single_units_of_some_inputs_are_shaped_and_spans_of_others_stay(model):
    """The span scores of the first text are of another order; those of the second rank its words as the scores do."""
    batch = batch_of_texts(model, LONG_TEXT, "and " * 100 + CLAUSE)
    scores = torch.rand(2, 160, generator=torch.Generator().manual_seed(0))
    spans = torch.stack([scores[0].flip(0), scores[1] ** 3])
    shaped = shaped_scores(batch, Attribution(scores, span_scores=spans), shape="clauses")[1]
    assert torch.equal(shaped[0], spans[0])
    words = int(batch.rows.real[1].sum())
    order = clause_scores(scores, batch)[1, :words]
    assert not torch.equal(order.argsort(), scores[1, :words].argsort())
    assert torch.equal(shaped[1, :words], with_values_of(order, spans[1, :words]))
    for shape in (None, "none"):
        plain = shaped_scores(batch, Attribution(scores, span_scores=spans), shape=shape)
        assert plain[0] is scores
        assert plain[1] is (spans if shape is None else None)


def test_values_are_ranked_by_another_order():
    order, scores = torch.tensor([3.0, -1.0, 2.0, 9.0]), torch.tensor([0.1, 0.9, 0.6, 0.3])
    assert torch.equal(with_values_of(order, scores), torch.tensor([0.6, 0.1, 0.3, 0.9]))


def test_a_threshold_on_span_scores_becomes_the_number_of_units():
    selected = np.array([True, False, True])
    assert rule_on_scores(Rule(threshold=0.5), selected) == Rule(top=2)
    assert rule_on_scores(Rule(share=0.3), selected) == Rule(share=0.3)


class TestRationale:
    def test_spans_that_no_threshold_gives_are_saved_and_loaded(self, model, tmp_path):
        result = explain(model, method="marc")
        limits = np.unique(result.scores)
        assert not any(np.array_equal(result.scores > limit, result.selected()) for limit in limits)
        loaded = Rationale.load(result.save(tmp_path / "why.json"))
        assert np.array_equal(loaded.selected(), result.selected())
        assert loaded.spans() == result.spans()
        assert loaded.selected_by == result.selected_by == "spans"
        assert loaded.to_dict() == result.to_dict()

    def test_the_rule_is_put_into_words(self, model):
        assert rule_text(explain(model, method="marc")) == "connected spans"
        assert rule_text(explain(model, shape="clauses")).endswith("%, in connected spans")
        keyword = rationales.load(*keyword_model("bridge"))
        assert rule_text(explain(keyword, "the old bridge and the field", "marc")) == "the best 1"


@pytest.fixture(scope="module")
def examples():
    span = (CLAUSE_START, CLAUSE_START + len(CLAUSE))
    return [Example("long", LONG_TEXT, "found", (span,)), Example("short", SHORT_TEXT, "found", ((20, 30),))]


METRICS = ["average-precision", "iou-f1", "sufficiency", "comprehensiveness"]


class TestEvaluate:
    def test_a_shaped_row_differs_in_agreement_and_not_in_faithfulness(self, model, examples):
        rows = [GRADIENTS | {"title": "plain"}, GRADIENTS | {"title": "shaped", "shape": "clauses"}]
        table = rationales.evaluate(model, examples, rows, metrics=METRICS)
        plain, shaped = table["plain"], table["shaped"]
        assert shaped.cells["average-precision"].values[0] > plain.cells["average-precision"].values[0]
        assert shaped.cells["average-precision"].values[1] == plain.cells["average-precision"].values[1]  # it is short
        for name in ("sufficiency", "comprehensiveness"):
            assert shaped.cells[name].values == plain.cells[name].values
        assert (plain.shape, shaped.shape) == (None, "clauses")

    def test_marc_agrees_by_its_spans_and_is_faithful_by_its_words(self, model, examples):
        rows = [{"name": "marc", "title": "spans"}, {"name": "marc", "shape": "none", "title": "words"}]
        table = rationales.evaluate(model, examples, rows, metrics=METRICS)
        agreement = [table[title].cells["average-precision"].values[0] for title in ("spans", "words")]
        assert agreement[0] > agreement[1]
        for name in ("sufficiency", "comprehensiveness"):
            assert table["spans"].cells[name].values == table["words"].cells[name].values

    def test_the_shape_of_the_table_is_that_of_rows_that_set_none(self):
        rows = ["occlusion", {"name": "marc", "shape": None}, MethodEntry("saliency", shape="none")]
        entries = resolve_entries(rows, None, "text", "clauses")
        assert [entry.shape for entry in entries] == ["clauses", None, "none", "clauses"]  # the last is random
        assert entries[0].title == "occlusion (shape clauses)"
        with pytest.raises(OptionError, match="shape"):
            resolve_entries([{"name": "saliency", "shape": "words"}], None, "text")

    def test_it_is_in_the_files_of_the_table(self, model, examples, tmp_path):
        table = rationales.evaluate(model, examples, ["random"], metrics=METRICS[:1], shape="clauses")
        assert Table.from_json(table.to_json(tmp_path / "table.json"))["random (shape clauses)"].shape == "clauses"
        (record,) = csv.DictReader(io.StringIO(table.to_csv()))
        assert record["shape"] == "clauses"
        assert table.frame_records()[0]["shape"] == "clauses"
        data = json.loads((tmp_path / "table.json").read_text(encoding="utf-8"))
        del data["rows"][0]["shape"]  # as older tables were saved
        (tmp_path / "old.json").write_text(json.dumps(data), encoding="utf-8")
        assert Table.from_json(tmp_path / "old.json").rows[0].shape is None

    def test_scores_are_those_of_explain(self, model):
        encoded = model.encode([model.read(text, None) for text in (LONG_TEXT, SHORT_TEXT)])
        targets = [model.labels.index("found")] * 2
        for raw, text in zip(attribute(model, encoded, build("marc"), targets), (LONG_TEXT, SHORT_TEXT), strict=True):
            result = explain(model, text, "marc", target="found", snap=False)
            assert np.allclose(raw.scores, result.scores, atol=1e-5)
            assert np.array_equal(raw.span_scores > 0.5, result.selected())


class TestCache:
    def test_span_scores_are_stored_and_restored(self, tmp_path):
        cache, scores = Cache(tmp_path), np.linspace(0, 1, 5, dtype=np.float32)
        cache.put("ab" * 20, RawScores(scores, 0.25, span_scores=scores[::-1]))
        entry = cache.get("ab" * 20, 5)
        assert np.array_equal(entry.scores, scores)
        assert np.array_equal(entry.span_scores, scores[::-1])
        cache.put("cd" * 20, RawScores(scores, 0.25))
        assert cache.get("cd" * 20, 5).span_scores is None

    @pytest.mark.parametrize("span_scores", [np.zeros(4), np.array([0.0, np.nan, 0, 0, 0])], ids=["short", "nan"])
    def test_an_entry_with_broken_span_scores_is_computed_again(self, tmp_path, span_scores):
        cache = Cache(tmp_path)
        cache.put("ab" * 20, RawScores(np.zeros(5), 0.25, span_scores=span_scores))
        assert cache.get("ab" * 20, 5) is None

    def test_a_table_from_the_cache_is_the_same(self, model, examples, tmp_path, monkeypatch):
        calls = []

        def counted(*arguments, **keywords):
            calls.append(arguments[2].name)
            return score_rows(*arguments, **keywords)

        monkeypatch.setattr(collecting, "score_rows", counted)
        rows = ["marc", {"name": "marc", "shape": "none"}]
        first, second = (rationales.evaluate(model, examples, rows, metrics=METRICS, cache=tmp_path) for _ in range(2))
        assert calls == ["marc", "random"]
        for row, again in zip(first.rows, second.rows, strict=True):
            for name in METRICS:
                assert row.cells[name].values == pytest.approx(again.cells[name].values)


def test_compare_shapes_the_rows_that_say_so(model):
    rows = [GRADIENTS, GRADIENTS | {"shape": "clauses"}]
    plain, shaped = rationales.compare(model, LONG_TEXT, rows).rationales
    assert np.array_equal(shaped.selected(), explain(model, shape="clauses").selected())
    assert (plain.selected_by, shaped.selected_by) == ("scores", "spans")
    (all_shaped,) = rationales.compare(model, LONG_TEXT, [GRADIENTS], shape="clauses").rationales
    assert np.array_equal(all_shaped.selected(), shaped.selected())


FILLER = "The river went past the old mill and nobody said a word about it. " * 10
REVIEW = f"{FILLER}The acting was dreadful and the script even worse. {FILLER}"


class TestCommands:
    def test_explain(self):
        plain, shaped = (
            json.loads(run("explain", REVIEW, "--method", "saliency", "--json", *arguments).stdout)
            for arguments in ((), ("--shape", "clauses"))
        )
        assert plain["scores"] == shaped["scores"]
        assert len(shaped["spans"]) < len(plain["spans"])
        assert shaped["selected_by"] == "spans"

    def test_compare_and_rows_of_their_own(self):
        result = run("compare", REVIEW, "--methods", "saliency,saliency:shape=none", "--shape", "clauses", "--json")
        data = json.loads(result.stdout)
        shapes = [rationale["options"]["shape"] for rationale in data["results"]]
        assert shapes == ["clauses", "none"]

    def test_evaluate(self, tmp_path):
        data = tmp_path / "texts.jsonl"
        data.write_text(json.dumps({"text": REVIEW, "label": "negative"}) + "\n", encoding="utf-8")
        arguments = ("--methods", "saliency", "--shape", "clauses", "--metrics", "spans", "--no-cache", "--json")
        rows = json.loads(run("evaluate", data, *arguments).stdout)["rows"]
        assert [row["shape"] for row in rows] == ["clauses", "clauses"]

    @pytest.mark.parametrize("command", ["explain", "compare", "evaluate"])
    def test_the_option_is_described_with_an_example(self, command):
        text = " ".join(run(command, "--help").stdout.split())
        assert "--shape" in text
        assert "shape clauses" in text or "shape=clauses" in text

    def test_an_image_has_no_clauses(self, tmp_path):
        path = tmp_path / "grey.png"
        Image.new("RGB", (8, 8), "grey").save(path)
        assert "not for an input of kind image" in error(run("explain", "--image", path, "--shape", "clauses"))
