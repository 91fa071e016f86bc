"""Table 1, Figures 12 and 13: small runs on invented reviews, and claims that follow the figures they stand on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from experiments.gt_data import record, review_folder

from rationales.experiments import EXPERIMENTS, Request
from rationales.experiments.ground_truth.figures import fig12, table1
from rationales.experiments.ground_truth.figures.article_scores import run_metric, selection_metric, word_share
from rationales.experiments.ground_truth.figures.word_selections import requested_rates, selection_points
from rationales.experiments.ground_truth.method_rows import TEXT_METHODS
from rationales.experiments.ground_truth.reporting.run_tables import ExperimentRuns
from rationales.experiments.ground_truth.row_choices import choose_rows
from rationales.experiments.ground_truth.runs import networks, text_run
from rationales.experiments.ground_truth.runs.run_record import MethodMeasures
from rationales.experiments.ground_truth.runs.run_spec import RunSettings, RunSpec
from rationales.groundtruth.metrics import Case, optimal_selection
from rationales.groundtruth.networks.rationale_models import RationaleModel, SelectionSettings
from rationales.groundtruth.networks.recurrent import AttentionLSTM
from rationales.groundtruth.training import Recipe


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return review_folder(tmp_path_factory.mktemp("reviews"))


@pytest.fixture
def narrow(monkeypatch):
    """Networks of 16 numbers in place of 200."""

    def small(name, make, recipe):
        monkeypatch.setitem(
            networks.TEXT_NETWORKS, name, replace(networks.TEXT_NETWORKS[name], make=make, recipe=recipe)
        )

    small(
        "attention",
        lambda words, labels, _: AttentionLSTM(words, labels, 16, 16),
        Recipe(12, batch_size=32, learning_rate=4e-3),
    )
    for name in ("hardkuma", "reinforce"):
        small(
            name,
            lambda words, labels, rate, how=name: RationaleModel(words, labels, SelectionSettings(how, rate), 16, 16),
            Recipe(30, min_epochs=12, learning_rate=4e-3, batch_size=32),
        )
    monkeypatch.setattr(text_run, "SHARE_TOLERANCE", 0.1)


def verdicts(claims):
    return {
        (claim.text.split(" (")[0], verdict.reading): verdict.holds for claim in claims for verdict in claim.verdicts
    }


def text_run_record(spec, methods, **fields):
    """A run on ten texts of 100 words, eight of them articles; method -> (Attr% on them, on distractors,
    selections).

    Selections: name -> (hits, words, distractors) of every text.
    """
    template = record(spec, {}, inputs=10, **fields)
    distractors = 4 if spec.plant != "articles" else 0
    measures = {}
    for key, (region, distractor_share, selections) in methods.items():
        values = {"region": (region,) * 10, "distractors": (distractor_share if distractors else float("nan"),) * 10}
        for name, counts in selections.items():
            pairs = zip(("hits", "had", "lured"), counts, strict=True)
            values |= {f"{count_name}@{name}": (float(count),) * 10 for count_name, count in pairs}
        measures[key] = MethodMeasures("p", 0.1, values)
    return replace(
        template, measures=measures, region_sizes=(8 - distractors,) * 10, distractor_sizes=(distractors,) * 10
    )


def finished_runs(experiment, records, methods):
    chosen_rows = {**choose_rows(experiment.dimensions, None), "methods": methods}
    return ExperimentRuns(tuple(records), RunSettings(experiment.name, methods, 10), chosen_rows, TEXT_METHODS)


@pytest.mark.usefixtures("narrow")
class TestRuns:
    def test_attention_and_methods(self, folder, tmp_path):
        rows = ["articles", "cn", "inherent", "loo", "integrated-gradients"]
        request = Request(data=folder, rows=rows, runs=1, limit=16, out=tmp_path)
        report = EXPERIMENTS["gt-table1"].run(request)
        assert [row.title for row in report.table.rows] == [
            "Attention",
            "Leave one out",
            "Integrated gradients",
            "Random",
        ]
        assert len(report.table.inputs) == 2
        chance, exact = (report.table[name].cells["correlating"].estimate.mean for name in ("Random", "Leave one out"))
        assert chance == pytest.approx((4 + 2) / (2 * 24), abs=0.03)  # four articles of 24 words, two of them in a half
        assert exact > 2 * chance
        parts = ("correlating", "non-correlating", "other")
        shares = np.array([[row.cells[name].values for name in parts] for row in report.table.rows])
        assert np.nansum(shares, 1) == pytest.approx(1)
        markdown = report.to_markdown()
        assert "BeerAdvocate cannot be had" in markdown
        assert "Section 6.2" in markdown
        assert report.draw_figures is not None
        assert report.draw_figures(tmp_path)[0].is_file()

    def test_rationale_models_beside_a_method(self, folder, tmp_path):
        rows = ["hardkuma", "attention", "rate-0.15", "loo"]
        report = EXPERIMENTS["gt-fig12"].run(Request(data=folder, rows=rows, runs=1, limit=16, out=tmp_path))
        assert [row.title for row in report.table.rows] == ["CR", "Leave one out", "Random"]
        precision = {row.title: row.cells["precision"].values[0] for row in report.table.rows}
        assert precision["CR"] > 0.5 > 2 * precision["Random"]
        assert report.table["Leave one out"].cells["selected"].values[0] == pytest.approx(round(0.15 * 24) / 24)
        assert report.draw_figures is not None
        assert report.draw_figures(tmp_path)[0].is_file()

    def test_a_model_that_selects_everything_does_not_count(self, folder, monkeypatch):
        monkeypatch.setattr(text_run, "MAX_EXCESS", 0.2)
        monkeypatch.setitem(
            networks.TEXT_NETWORKS,
            "hardkuma",
            replace(networks.TEXT_NETWORKS["hardkuma"], recipe=Recipe(2, learning_rate=1e-3)),
        )
        settings = RunSettings("gt-fig12", ("inherent", "random"), 8, data=folder)
        record_ = text_run.run(RunSpec("articles", "hardkuma", rate=0.15, data="movies"), settings)
        assert "of the words where 15.0% were wanted" in record_.failed

    def test_chance_is_there_without_a_reader(self, folder):
        rows = ["cn", "hardkuma", "rate-0.09"]
        report = EXPERIMENTS["gt-fig13"].run(Request(data=folder, rows=rows, runs=1, limit=8))
        assert [row.title for row in report.table.rows] == ["CR", "Random"]
        assert "Section 7.2" in report.to_markdown()


class TestTable1:
    def test_a_world_like_the_papers(self):
        weak = {"0.08": (2, 8, 0), "0.04": (1, 4, 1)}
        better = {"0.08": (8, 8, 0), "0.04": (4, 4, 0)}
        runs = [
            text_run_record(
                RunSpec(plant, "attention", run, data="movies"),
                {"inherent": (0.09 + 0.3 * run * (plant != "articles"), 0.06, weak), "marc": (0.9, 0.01, better)},
            )
            for plant in ("articles", "cn", "nc")
            for run in (0, 1)
        ]
        finished = finished_runs(table1.EXPERIMENT, runs, ("inherent", "marc"))
        holds = verdicts(table1.claims(finished))
        assert len(holds) == 8
        assert all(holds.values())
        loud = []
        for run in runs:
            attention = run.measures["inherent"]
            attention = replace(attention, values={**attention.values, "region": (0.8,) * 10})
            loud.append(replace(run, measures={"inherent": attention}))
        changed = verdicts(table1.claims(finished_runs(table1.EXPERIMENT, loud, ("inherent",))))
        assert changed["Attention on articles is better than random, albeit barely", "here"] is False
        assert changed["CN: attention varies widely between runs", "here"] is False

    def test_networks_are_told_apart(self, folder, tmp_path):
        """Two runs with .9 of the attention on articles, and two with .1: a mean of .5 is that of no network."""
        shares = {"attention-pretrained": 0.9, "attention-frozen": 0.1}
        runs = [
            text_run_record(
                RunSpec("articles", network, number, data="movies"),
                {"inherent": (share, 0.0, {"0.08": (8 * share, 8, 0)}), "loo": (0.5, 0.0, {"0.08": (4, 8, 0)})},
            )
            for network, share in shares.items()
            for number in (0, 1)
        ]
        finished = finished_runs(table1.EXPERIMENT, runs, ("inherent", "loo"))
        tables = dict(table1.sections(finished))
        assert "| Attention | .100 [.100 .100]" in tables["Data set articles, attention-frozen"]
        assert "| Attention | .900 [.900 .900]" in tables["Data set articles, attention-pretrained"]
        assert "2 runs, 20 texts." in tables["Data set articles, attention-frozen"]
        holds = verdicts(table1.claims(finished))
        barely, loo = "Attention on articles is better than random, albeit barely", "Leave one out tells the articles"
        assert holds[barely, "attention-frozen, here"] is True
        assert holds[barely, "attention-pretrained, here"] is False
        of_loo = {reading: held for (text, reading), held in holds.items() if text.startswith(loo)}
        more = "more on correlating articles"
        assert of_loo[f"attention-frozen, {more}"] is True
        assert of_loo[f"attention-pretrained, {more}"] is False
        with_data = replace(finished, settings=replace(finished.settings, data=folder))
        assert any("sections below tell them apart" in remark for remark in table1.text_table(with_data)[0].remarks)
        pytest.importorskip("matplotlib")
        assert table1.draw(finished, tmp_path)[0].stat().st_size > 1000

    def test_a_network_that_never_learns_is_judged_too(self):
        spec = RunSpec("articles", "attention-frozen", data="movies")
        learned = text_run_record(replace(spec, network="attention"), {"inherent": (0.9, 0.0, {"0.08": (8, 8, 0)})})
        failed = replace(learned, spec=spec, failed="the model did not learn", measures={})
        finished = finished_runs(table1.EXPERIMENT, [learned, failed], ("inherent",))
        assert [title for title, _ in table1.sections(finished)][:-1] == ["Data set articles, attention"]
        holds = verdicts(table1.claims(finished))
        accurate = "All models reach an accuracy above 97 %"
        assert holds[accurate, "attention, here"] is True
        assert holds[accurate, "attention-frozen, here"] is False

    def test_by_hand(self):
        """Eight articles; two of the eight selected words are articles."""
        spec = RunSpec("articles", "attention", data="movies")
        run = text_run_record(spec, {"inherent": (0.3, 0.0, {"0.08": (2, 8, 0)})})
        assert selection_metric([run], "inherent", "precision").mean == pytest.approx(2 / 8)
        assert selection_metric([run], "inherent", "recall").mean == pytest.approx(2 / 8)
        assert selection_metric([run], "inherent", "selected").mean == pytest.approx(0.08)
        assert run_metric(run, "inherent", "other") == pytest.approx(0.7)
        assert word_share([run], "correlating") == pytest.approx(0.08)
        assert np.isnan(word_share([run], "non-correlating"))


class TestRationaleModels:
    def runs(self, plant, rates, select):
        """Both models at every rate: (hits, words, distractors) of every text, by model and rate."""
        return [
            text_run_record(
                RunSpec(plant, model, rate=rate, data="movies"),
                {"inherent": (0.5, 0.1, {"chosen": select(model, rate)})},
            )
            for model in ("reinforce", "hardkuma")
            for rate in rates
        ]

    def test_a_world_like_the_papers(self):
        rates = requested_rates(choose_rows(fig12.FIG12.dimensions, None))

        def perfect(model, rate):
            words = round(100 * rate)
            return (1, words, 0) if (model, rate) == ("hardkuma", 0.07) else (min(words, 8), words, 0)

        runs = self.runs("articles", rates, perfect)
        holds = verdicts(fig12.fig12_claims(finished_runs(fig12.FIG12, runs, ("inherent", "random"))))
        assert len(holds) == 4
        assert all(holds.values())
        blind = self.runs("articles", rates, lambda *_: (0, 9, 0))
        changed = verdicts(fig12.fig12_claims(finished_runs(fig12.FIG12, blind, ("inherent", "random"))))
        assert changed["Every rationale has at least one word that tells the class, as it must", "here"] is False
        assert changed["All but CR at the lowest %Sel are near-perfect", "here"] is False

    def test_articles_that_tell_nothing(self):
        rates = requested_rates(choose_rows(fig12.FIG13.dimensions, None))

        def lured(model, rate):
            words = round(100 * rate)
            distractors = words // 2 if model == "reinforce" else 0
            return (words - distractors, words, distractors)

        runs = [run for plant in ("cn", "nc") for run in self.runs(plant, rates[:2], lured)]
        holds = verdicts(fig12.fig13_claims(finished_runs(fig12.FIG13, runs, ("inherent", "random"))))
        assert len(holds) == 4
        assert all(holds.values())
        swap = {"reinforce": "hardkuma", "hardkuma": "reinforce"}
        swapped = [replace(run, spec=replace(run.spec, network=swap[run.spec.network])) for run in runs]
        changed = verdicts(fig12.fig13_claims(finished_runs(fig12.FIG13, swapped, ("inherent", "random"))))
        assert changed["The problem is more severe with RL than with CR", "here"] is False

    def test_the_best_possible_is_that_of_the_metrics(self):
        """The same lines as `groundtruth.metrics.optimal`, from counts alone."""
        runs = self.runs("articles", (0.07, 0.15), lambda _, rate: (5, round(100 * rate), 0))
        finished = finished_runs(fig12.FIG12, runs, ("inherent", "random"))
        uneven = [replace(run, region_sizes=tuple(range(4, 14))) for run in finished.records]
        finished = replace(finished, records=tuple(uneven))
        masks = [np.arange(100) < count for count in range(4, 14)]
        cases = [Case(mask.astype(float), mask, ~mask & False, "a") for mask in masks]
        for point in selection_points(finished, "reinforce"):
            for per_text in (False, True):
                expected = [
                    float(values[0]) for values in optimal_selection(cases, [round(100 * point.rate) / 100], per_text)
                ]
                assert point.best_possible(per_text) == pytest.approx(tuple(expected))


class TestInsideEncoders:
    def keys(self, network):
        rows = choose_rows(table1.DIMENSIONS, ["inside", "marc", network])
        settings = RunSettings("gt-table1", rows["methods"], 4)
        return {spec.key for spec in text_run.suitable_methods(RunSpec("articles", network, 0), settings)}

    def test_methods_that_look_inside_run_on_an_encoder_alone(self):
        inside = {key for key, spec in TEXT_METHODS.items() if spec.group == "inside"}
        assert {"decompx", "alti", "globenc", "chefer", "aml-pretrained", "aml-finetuned"} <= inside
        assert self.keys("bert") == {"marc", "random", *inside}
        assert self.keys("attention") == {"marc", "random"}
        assert not inside & set(choose_rows(table1.DIMENSIONS, None)["methods"])  # the default network is none

    def test_a_masker_is_trained_on_the_runs_own_texts(self, tmp_path):
        setup = text_run.prepare(
            RunSpec("articles", "bert", 0, data="movies"),
            RunSettings("gt-table1", (), 4, data=review_folder(tmp_path)),
            0,
        )
        assert setup.training_texts
        assert type(setup.make_network()).__name__ == "BertForSequenceClassification"
