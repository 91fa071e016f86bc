"""The tables of the AML paper: rows, both normalisers, claims, passes, and a run from data to report."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from language_models import tiny_language_model
from methods.aml_maskers import untrained_aml_file
from methods.maskers import untrained_masker

import rationales
from rationales.data import read_data
from rationales.errors import OptionError
from rationales.evaluation.preparation import prepare_evaluation
from rationales.evaluation.protocols import PRESETS
from rationales.evaluation.scores.attribution import score_rows
from rationales.evaluation.tables.table import Cell, Table, TableRow
from rationales.experiments.aml import decoders, scenario_run, table1, table2, table3, table4, table5, table6
from rationales.experiments.aml.maskers import MaskerPlan
from rationales.experiments.aml.row_specs import (
    COLUMNS,
    FAML,
    METRICS,
    PAPER,
    RIVALS,
    ROWS,
    masker_metric,
    select_rows,
)
from rationales.experiments.aml.scenario_run import ScenarioRun, StudySettings, pooled, with_corrected
from rationales.experiments.aml.scenarios import CORPORA, Scenario, choose_encoder, choose_scenarios
from rationales.experiments.aml.table1_claims import SELECTED_RIVALS, claims
from rationales.experiments.registry import EXPERIMENTS, Request
from rationales.masks.instant import training as instant
from rationales.masks.instant.aml.masker import load_aml_masker
from rationales.masks.instant.aml.settings import AmlTraining
from rationales.masks.instant.masker_file import load_masker
from rationales.masks.instant.training import TrainSettings
from rationales.methods import build
from rationales.models.batch.execution import counted_passes

SENTENCES = [
    ("a warm and clever little film", 1),
    ("the plot is dull and the jokes are worse", 0),
    ("I loved every minute of it", 1),
    ("a tired story , badly told", 0),
    ("funny , tender and never too long", 1),
    ("nothing in this mess is worth your time", 0),
    ("what a fine cast and what a lovely song", 1),
    ("it drags on without a single idea", 0),
]


@pytest.fixture
def data(tmp_path):
    """SST-2 of our own sentences."""
    folder = tmp_path / "data"
    folder.mkdir()
    lines = [f"{text}\t{label}" for text, label in SENTENCES]
    for split in ("train", "dev"):
        (folder / f"{split}.tsv").write_text("\n".join(["sentence\tlabel", *lines]) + "\n")
    return folder


TINY = StudySettings(
    MaskerPlan(
        AmlTraining(texts=4, validation_texts=2, epochs=1, trials=0),
        metrics=("comprehensiveness",),
        finetuning={"steps": 1, "tune": "head"},
    ),
    selected_metrics=("comprehensiveness",),
)
SST2 = Scenario(CORPORA["sst2"], "roberta")


class TestRows:
    def test_the_papers_twelve_methods_are_there(self):
        assert len([row for row in ROWS.values() if row.group == PAPER]) == 12
        assert len(RIVALS) == 10

    @pytest.mark.parametrize("key", [key for key, row in ROWS.items() if not row.selected])
    def test_every_row_can_be_built(self, key):
        assert build(ROWS[key].method, dict(ROWS[key].options)).name == ROWS[key].method

    def test_solvex_searches_for_what_it_is_measured_by(self, tmp_path, data):
        """Protocol `aml` deletes words, and takes log-odds with the mask token in their place."""
        request = Request(data=data, model="embedded", device="cpu", limit=2)
        methods = ScenarioRun.open(SST2, request, TINY, tmp_path).methods(ROWS["solvex"])
        deleted = {metric: (method.metric, method.removal) for metric, method in methods.items()}
        assert deleted.pop("log-odds") == ("comprehensiveness", "baseline")
        assert (methods["log-odds"].baseline, methods["log-odds"].output) == ("mask", "log-probability")
        assert deleted == {
            "sufficiency": ("sufficiency", "delete"),
            "aopc-sufficiency": ("sufficiency", "delete"),
            "comprehensiveness": ("comprehensiveness", "delete"),
            "aopc-comprehensiveness": ("comprehensiveness", "delete"),
        }

    def test_stored_rows_are_not_taken_over_when_the_options_of_a_row_change(self, monkeypatch):
        before = scenario_run._code_of_rows()
        scenario_run._code_of_rows.cache_clear()
        monkeypatch.setitem(ROWS, "lime", replace(ROWS["lime"], options={"samples": 10}))
        assert scenario_run._code_of_rows() != before
        scenario_run._code_of_rows.cache_clear()

    def test_a_row_for_chance_is_always_there(self):
        assert [row.key for row in select_rows(["alti"])] == ["alti", "random"]
        with pytest.raises(OptionError, match="there is no row 'alto'"):
            select_rows(["alto"])

    def test_twelve_scenarios_with_a_classifier_each(self):
        scenarios = choose_scenarios(None).scenarios()
        assert len(scenarios) == 12
        assert all(scenario.model_name in rationales.models.catalogue.CATALOGUE for scenario in scenarios)
        choice = choose_scenarios(["imdb", "bert", "alti"])
        assert [s.model_name for s in choice.scenarios()] == ["minilm-imdb"]
        assert choice.row_names == ("alti",)

    def test_tables_3_and_6_are_about_one_encoder(self):
        assert choose_encoder(["sst", "marc"], "bert") == "bert"
        assert choose_encoder(["sst", "distilbert"], "bert") == "distilbert"
        with pytest.raises(OptionError, match="one encoder"):
            choose_encoder(["roberta", "distilbert"], "bert")

    def test_a_metric_without_a_masker_uses_that_of_its_kin(self):
        assert masker_metric("sufficiency", ("comprehensiveness", "aopc-sufficiency")) == "aopc-sufficiency"
        assert masker_metric("log-odds", ("sufficiency", "comprehensiveness")) == "comprehensiveness"
        assert masker_metric("sufficiency", ("comprehensiveness",)) == "comprehensiveness"
        assert masker_metric("sufficiency", ()) is None

    @pytest.mark.parametrize("number", [1, 3, 4, 5, 6])
    def test_the_command_lists_the_tables(self, number):
        experiment = EXPERIMENTS[f"aml-table{number}"]
        assert experiment.rows()
        assert "Attributive Masking Learning" in experiment.paper


def table_of(rows, inputs=40):
    """A table with these values: title -> metric -> mean, the values scattered a little around it."""
    noise = np.random.default_rng(0).normal(0, 0.01, inputs)
    table_rows = [
        TableRow(title, {metric: Cell(tuple((mean + noise).tolist())) for metric, mean in metrics.items()})
        for title, metrics in rows.items()
    ]
    return Table(tuple(table_rows), COLUMNS, tuple(map(str, range(inputs))), PRESETS["aml"], "x", "m", "pad", 0, {})


def with_values(key, good, bad):
    """A row whose metrics are good or bad: high comprehensiveness, low values of the others."""
    value = {metric: good if metric.endswith("comprehensiveness") else bad for metric in METRICS}
    return {ROWS[key].title: value}


class TestClaims:
    def verdict(self, tables, text, reading=0):
        return next(claim for claim in claims(tables) if claim.text.startswith(text)).verdicts[reading]

    def test_fAML_is_the_best_where_it_is(self):  # noqa: N802  # the paper's name
        table = table_of(with_values(FAML, 0.5, 0.1) | with_values("alti", 0.4, 0.2) | with_values("random", 0.1, 0.4))
        verdict = self.verdict({SST2: table}, "fAML is the best")
        assert (verdict.word, verdict.figures) == ("holds", "best in 5 of 5 combinations of scenario and metric")
        assert verdict.p < 0.01

    def test_and_is_not_where_a_rival_is_better(self):
        table = table_of(with_values(FAML, 0.3, 0.3) | with_values("alti", 0.4, 0.2))
        assert self.verdict({SST2: table}, "fAML is the best").word == "does not hold"

    def test_a_selected_row_is_only_compared_with_selected_rows(self):
        table = table_of(
            with_values(FAML, 0.3, 0.3) | with_values("faml-selected", 0.4, 0.2) | with_values("alti", 0.9, 0.0)
            | with_values("random-selected", 0.35, 0.25)
        )  # fmt: skip
        assert self.verdict({SST2: table}, "fAML is the best", 0).word == "does not hold"
        assert self.verdict({SST2: table}, "fAML is the best", 2).word == "holds"
        assert not {key for key in SELECTED_RIVALS if not ROWS[key].selected}
        assert not {key for key in RIVALS if ROWS[key].selected}

    def test_decompx_with_distilbert(self):
        weak = table_of(with_values("decompx", 0.1, 0.4) | with_values("sequential-ig", 0.4, 0.2))
        distilbert = Scenario(CORPORA["sst2"], "distilbert")
        assert self.verdict({distilbert: weak}, "DecompX underperforms").word == "holds"
        assert self.verdict({SST2: weak}, "DecompX underperforms").word == "not judged"

    def test_what_was_not_measured_is_not_judged(self):
        table = table_of(with_values("alti", 0.4, 0.2))
        assert all(v.word == "not judged" for c in claims({SST2: table}) if "runners" not in c.text for v in c.verdicts)

    def test_ablations(self):
        rows = {
            f"fAML{suffix}": {"sufficiency": suff, "comprehensiveness": comp}
            for suffix, suff, comp in (("", 0.01, 0.7), ("Xpred", 0.2, 0.7), ("Xinv", 0.01, 0.5))
        }
        words = [claim.verdicts[0].word for claim in table4.claims(table_of(rows))]
        assert words == ["holds"] * 4 + ["not judged"] * 4

    def test_times(self):
        def timing(seconds, count):
            return table5.Timing(tuple(seconds * (1 + 0.01 * n) for n in range(count)), seconds, 1, 0)

        def both(short, long):
            return {"sst2": timing(short, 50), "imdb": timing(long, 15)}

        seconds = {"paml": both(0.01, 0.01), FAML: both(1.5, 1.6), "sequential-ig": both(6.5, 84.0)}
        judged = table5.claims({ROWS[key].title: value for key, value in seconds.items()})
        assert [claim.verdicts[0].word for claim in judged] == ["holds"] * 4
        assert tuple(table5.table_rows({ROWS["paml"].title: seconds["paml"]})[0].cells) == table5.COLUMNS

    def test_agreement(self):
        texts = table3.MARKED_TEXTS["sst"]
        means = {FAML: 0.5, "paml": 0.45, "decompx": 0.4, "sequential-ig": 0.3}
        table = table_of({ROWS[key].title: {texts.metrics[0]: mean} for key, mean in means.items()})
        assert table3.claim(texts, table).verdicts[0].word == "holds"
        assert table3.claim(texts, replace(table, rows=table.rows[:2])).verdicts[0].word == "not judged"


class TestNormalisers:
    def test_the_corrected_one_is_the_mean_over_the_five_levels(self):
        model = rationales.load()
        examples = [rationales.data.Example(f"{n}", text, None) for n, (text, _) in enumerate(SENTENCES[:3])]
        names = ("aopc-sufficiency", "aopc-comprehensiveness")
        entries = rationales.evaluation.entries.resolve_entries(["input-x-gradient"], None, "text")[:1]
        sixth, mean = (
            prepare_evaluation(model, examples, protocol, names).rows(entries)[0].cells
            for protocol in (PRESETS["aml"], replace(PRESETS["aml"], name="aml, mean", normaliser="mean"))
        )
        corrected = with_corrected(sixth)
        for name in names:
            assert corrected[f"{name}@mean"].values == pytest.approx(mean[name].values)
            assert corrected[name] == sixth[name]

    def test_pooling_keeps_every_value_and_marks_what_a_scenario_lacks(self):
        first = table_of(with_values("alti", 0.4, 0.2) | with_values("solvex", 0.4, 0.2), inputs=3)
        second = table_of(with_values("alti", 0.6, 0.2), inputs=2)
        table = pooled({"a": first, "b": second})
        assert table.inputs == ("a: 0", "a: 1", "a: 2", "b: 0", "b: 1")
        alti, solvex = (row.cells["comprehensiveness"].values for row in table.rows)
        assert alti[:3] == first.rows[0].cells["comprehensiveness"].values
        assert all(map(math.isnan, solvex[3:]))
        assert table.rows[1].cells["comprehensiveness"].estimate.n == 3


class TestPasses:
    def passes(self, name, options):
        model = rationales.load()
        encoded = model.encode([model.read("a b c d", None)])
        with counted_passes() as count:
            score_rows(model, encoded, build(name, options), [1])
        return count

    def test_a_gradient_is_a_forward_and_a_backward_pass(self):
        count = self.passes("input-x-gradient", {})
        assert (count.forward, count.backward, count.total) == (1, 1, 2)

    @pytest.mark.parametrize(
        ("name", "options", "model_passes", "network_passes"),
        [
            ("aml-pretrained", {}, (1, 0), (1, 0)),
            ("aml-finetuned", {"steps": 3}, (9, 6), (4, 3)),  # a step has the masked input and its inverse
            ("aml-finetuned", {"steps": 3, "tune": "head"}, (9, 6), (1, 0)),  # the encoder runs once
            ("marc-instant", {}, None, (1, 0)),
        ],
    )
    def test_passes_through_a_network_of_the_method_are_counted_apart(
        self, name, options, model_passes, network_passes
    ):
        masker = {} if name == "marc-instant" else {"masker": untrained_aml_file(rationales.load())}
        count = self.passes(name, options | masker)
        assert (count.network_forward, count.network_backward) == network_passes
        assert model_passes is None or (count.forward, count.backward) == model_passes

    def test_leaving_out_each_of_four_words_needs_no_backward_pass(self):
        count = self.passes("occlusion", {"window": 1})
        assert count.forward in (4, 5)  # with the text itself, where it is run again
        assert count.backward == 0


class TestRun:
    def request(self, data, out, **options):
        return Request(data=data, out=out, model="embedded", device="cpu", limit=4, **options)

    def test_from_data_to_report_and_again_without_computing(self, data, tmp_path, monkeypatch):
        rows = ["sst2", "roberta", "faml", "paml", "alti", "random-selected"]
        request = self.request(data, tmp_path / "out", rows=rows)
        report = table1.reproduce(request, TINY)
        titles = [row.title for row in report.table.rows]
        assert titles == [ROWS[key].title for key in (FAML, "paml", "alti", "random", "random-selected")]
        assert set(report.table.rows[0].cells) == set(COLUMNS)
        assert set(report.table.rows[-1].cells) == {"comprehensiveness"}
        assert "The paper's claims" in report.to_markdown()
        monkeypatch.setattr(ScenarioRun, "_row", lambda *_: pytest.fail("this row was computed before"))
        again = table1.reproduce(request, TINY)
        assert [(row.title, row.cells) for row in again.table.rows] == [
            (row.title, row.cells) for row in report.table.rows
        ]

    def test_maskers_of_another_training_are_not_used(self, data, tmp_path):
        """As a run with other settings and the same --out leaves them."""
        lines = []
        first = ScenarioRun.open(SST2, self.request(data, None, log=lines.append), TINY, tmp_path)
        (path,) = first.masker_files().of_aml().values()
        digest = load_aml_masker(path).card.digest
        first.masker_files().of_aml()
        assert load_aml_masker(path).card.digest == digest
        assert not lines
        plan = replace(TINY.plan, training=replace(TINY.plan.training, learning_rate=1e-3))
        replace(first, settings=replace(TINY, plan=plan)).masker_files().of_aml()
        assert len(lines) == 1
        assert "was trained in another way" in lines[0]
        assert load_aml_masker(path).card.digest != digest

    def test_marc_instant_has_a_masker_trained_on_the_scenarios_texts(self, data, tmp_path, monkeypatch):
        lines, trained = [], []

        def train(model, texts, settings, resume):
            trained.append((len(texts), settings.seed))
            masker = untrained_masker(model)
            digest = instant.training_digest(model, texts, settings)
            return replace(masker, card=replace(masker.card, digest=digest))

        monkeypatch.setattr(instant, "train", train)
        run = ScenarioRun.open(SST2, self.request(data, None, log=lines.append), TINY, tmp_path)
        assert run.methods(ROWS["marc-instant"])["log-odds"].masker == ""  # the shipped one is for the embedded model
        monkeypatch.setattr(scenario_run, "SHIPPED_MASKER", tmp_path / "none")
        assert run.applies(ROWS["marc-instant"])
        (path,) = {method.masker for method in run.methods(ROWS["marc-instant"]).values()}
        assert load_masker(path).card.digest
        assert run.compute([ROWS["marc-instant"]]).rows[0].cells.keys() == set(COLUMNS)
        assert trained == [(8, 0)]
        run.settings = replace(TINY, plan=replace(TINY.plan, marc=TrainSettings(steps=7)))
        run.methods(ROWS["marc-instant"])
        assert len(trained) == 2
        assert "was trained in another way" in lines[-1]

    def test_selected_random_scores_are_never_worse_than_drawn_once(self, data, tmp_path):
        run = ScenarioRun.open(SST2, self.request(data, None), TINY, tmp_path)
        table = run.compute([ROWS["random"], ROWS["random-selected"]])
        single, best = (np.array(row.cells["comprehensiveness"].values) for row in table.rows)
        assert (best >= single - 1e-6).all()
        assert best.mean() > single.mean()

    def test_best_words_of_a_text_are_in_bold(self, data, tmp_path):
        run = ScenarioRun.open(SST2, self.request(data, None), TINY, tmp_path)
        best = table6.best_words(run, ["input-x-gradient"])
        (tops,) = best.values()
        assert all(len(top) == 3 for top in tops)
        encoded = run.model.encode([run.model.read(run.prepared.examples[0].text, None)])[0]
        words = table6._in_bold(encoded, tops[0]).split()
        assert sum(word.startswith("**") for word in words) == 3

    def test_table_6_from_data_to_report(self, data, tmp_path, monkeypatch):
        monkeypatch.setitem(CORPORA, "emotion", CORPORA["sst2"])
        plan = replace(TINY.plan, metrics=(table6.METRIC,))
        request = self.request(data, tmp_path / "out", rows=["decompx", "distilbert"])
        report = table6.reproduce(request, replace(TINY, plan=plan))
        assert [row.title for row in report.table.rows] == [ROWS[key].title for key in (FAML, "decompx", "random")]
        assert report.table.rows[0].cells[table6.SHARED].estimate.mean == 1  # fAML's words among fAML's words
        text = report.to_markdown()
        assert "1. predicted negative" in text  # the second sentence: four of eight, evenly spread
        assert "SST-2, DistilBERT shape" in text

    def test_table_5_from_data_to_report(self, data, monkeypatch):
        monkeypatch.setattr(table5, "COUNTS", {"sst2": 2, "imdb": 2})
        reviews = [
            f"take {n}: {text},{'positive' if label else 'negative'}" for n in range(3) for text, label in SENTENCES
        ]
        (data / "imdb.csv").write_text("\n".join(["review,sentiment", *(r.replace(" ,", "") for r in reviews)]))
        report = table5.reproduce(self.request(data, None, rows=["input-x-gradient"]), TINY)
        assert [row.title for row in report.table.rows] == [ROWS["input-x-gradient"].title, "random"]
        assert set(report.table.rows[0].cells) == set(table5.COLUMNS)
        assert "| sst2 s alone |" in report.to_markdown()
        assert "not judged" in report.to_markdown()  # neither AML nor sequential IG was timed

    def test_seconds_and_passes_of_a_method(self, data):
        model = rationales.load()
        texts = [example.text for example in read_data("sst-2", "dev", data)][:3]
        timing = table5.measure(model, texts, build("input-x-gradient"))
        assert len(timing.alone) == 3
        assert min(timing.alone) > 0
        assert timing.forward == timing.backward == 1  # a model's gradients are verified once, before the clock starts

    def test_ablated_maskers_are_trained_without_their_loss(self, data, tmp_path, monkeypatch):
        monkeypatch.setitem(CORPORA, "emotion", CORPORA["sst2"])
        training = replace(TINY.plan.training, trials=1, trial_texts=2, trial_epochs=1)  # which must not bring it back
        searched = replace(TINY, plan=replace(TINY.plan, training=training))
        report = table4.reproduce(self.request(data, tmp_path / "out", rows=["xinv"]), searched)
        assert [row.title for row in report.table.rows] == ["fAMLXinv", "pAMLXinv", "random"]
        (path, _) = sorted((tmp_path / "out" / "maskers").glob("*-xinv-*.safetensors"))
        losses = load_aml_masker(path).card.losses
        assert losses.inverse_weight == 0
        assert losses.prediction_weight > 0


class TestTable2:
    def test_from_data_to_report(self, data, tmp_path, monkeypatch):
        """On a tiny random language model: every row that a decoder can have, words it names, and prompts."""
        module, tokenizer = tiny_language_model("llama", max_position_embeddings=512)
        folder = tmp_path / "model"
        module.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        monkeypatch.setattr(decoders, "encoder_folder", lambda: None)
        rows = ["sst2", "paml", "input-x-gradient", "llm-ranking", "alti", "raw-attention"]
        request = Request(data=data, out=tmp_path / "out", model=str(folder), device="cpu", limit=3, rows=rows)
        report = table2.reproduce(request, TINY)
        titles = [row.title for row in report.table.rows]
        assert titles == [ROWS[key].title for key in ("paml", "input-x-gradient", "llm-ranking", "random")]
        text = report.to_markdown()
        assert "SST-2, SmolLM2-135M-Instruct, 4 worked examples" in text
        assert "words named per text" in text
        assert "Sentiment: positive" in text
        assert "The language model's own ranking is worse than the leading methods" in text

    def test_an_encoder_has_no_row_of_a_language_model(self, data, tmp_path):
        run = ScenarioRun.open(SST2, Request(data=data, model="embedded", device="cpu", limit=2), TINY, tmp_path)
        assert not run.applies(ROWS["llm-ranking"])

    def test_every_data_set_has_labels_that_its_examples_have(self):
        assert decoders.PROMPTS.keys() == CORPORA.keys()
        for prompt in decoders.PROMPTS.values():
            assert {label for _, label in prompt.template.examples} == set(prompt.labels)
