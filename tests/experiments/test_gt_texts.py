"""Table 1, Figures 12 and 13: small runs on invented reviews, and claims that follow the figures they stand on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from experiments.gt_data import record, review_folder

from rationales.experiments import EXPERIMENTS, Request
from rationales.experiments.ground_truth import fig12, networks, run_texts, table1
from rationales.experiments.ground_truth.articles import frequency, measure, selected
from rationales.experiments.ground_truth.plan import Plan, Setting
from rationales.experiments.ground_truth.record import Told
from rationales.experiments.ground_truth.results import Results
from rationales.experiments.ground_truth.rows import TEXTS, choose
from rationales.experiments.ground_truth.selections import points, rates
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
        monkeypatch.setitem(networks.TEXTS, name, replace(networks.TEXTS[name], make=make, recipe=recipe))

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
    monkeypatch.setattr(run_texts, "TOLERANCE", 0.1)


def verdicts(claims):
    return {(one.text.split(" (")[0], own.reading): own.holds for one in claims for own in one.verdicts}


def made(plan, methods, **more):
    """A run on ten texts of 100 words, eight of them articles; method -> (Attr% on them, on idle ones, selections).

    Selections: name -> (hits, words, idle ones) of every text.
    """
    given = record(plan, {}, inputs=10, **more)
    idle = 4 if plan.plant != "articles" else 0
    told = {}
    for key, (region, idle_share, chosen) in methods.items():
        values = {"region": (region,) * 10, "distractors": (idle_share if idle else float("nan"),) * 10}
        for name, counts in chosen.items():
            pairs = zip(("hits", "had", "lured"), counts, strict=True)
            values |= {f"{what}@{name}": (float(count),) * 10 for what, count in pairs}
        told[key] = Told("p", 0.1, values)
    return replace(given, told=told, region=(8 - idle,) * 10, idle=(idle,) * 10)


def results(study, records, methods):
    chosen = {**choose(study.dimensions, None), "methods": methods}
    return Results(tuple(records), Setting(study.name, methods, 10), chosen, TEXTS)


@pytest.mark.usefixtures("narrow")
class TestRuns:
    def test_attention_and_methods(self, folder, tmp_path):
        rows = ["articles", "cn", "own", "loo", "integrated-gradients"]
        asked = Request(data=folder, rows=rows, runs=1, limit=16, out=tmp_path)
        found = EXPERIMENTS["gt-table1"].run(asked)
        assert [row.title for row in found.table.rows] == [
            "Attention",
            "Leave one out",
            "Integrated gradients",
            "Random",
        ]
        assert len(found.table.inputs) == 2
        chance, exact = (found.table[name].cells["correlating"].estimate.mean for name in ("Random", "Leave one out"))
        assert chance == pytest.approx((4 + 2) / (2 * 24), abs=0.03)  # four articles of 24 words, two of them in a half
        assert exact > 2 * chance
        parts = ("correlating", "non-correlating", "other")
        shares = np.array([[row.cells[name].values for name in parts] for row in found.table.rows])
        assert np.nansum(shares, 1) == pytest.approx(1)
        report = found.to_markdown()
        assert "BeerAdvocate cannot be had" in report
        assert "Section 6.2" in report
        assert found.draw is not None
        assert found.draw(tmp_path)[0].is_file()

    def test_rationale_models_beside_a_method(self, folder, tmp_path):
        rows = ["hardkuma", "attention", "rate-0.15", "loo"]
        found = EXPERIMENTS["gt-fig12"].run(Request(data=folder, rows=rows, runs=1, limit=16, out=tmp_path))
        assert [row.title for row in found.table.rows] == ["CR", "Leave one out", "Random"]
        precision = {row.title: row.cells["precision"].values[0] for row in found.table.rows}
        assert precision["CR"] > 0.5 > 2 * precision["Random"]
        assert found.table["Leave one out"].cells["selected"].values[0] == pytest.approx(round(0.15 * 24) / 24)
        assert found.draw is not None
        assert found.draw(tmp_path)[0].is_file()

    def test_a_model_that_selects_everything_does_not_count(self, folder, monkeypatch):
        monkeypatch.setattr(run_texts, "FAR", 0.2)
        monkeypatch.setitem(
            networks.TEXTS, "hardkuma", replace(networks.TEXTS["hardkuma"], recipe=Recipe(2, learning_rate=1e-3))
        )
        setting = Setting("gt-fig12", ("own", "random"), 8, data=folder)
        found = run_texts.run(Plan("articles", "hardkuma", rate=0.15, data="movies"), setting)
        assert "of the words where 15.0% were wanted" in found.failed

    def test_chance_is_there_without_a_reader(self, folder):
        rows = ["cn", "hardkuma", "rate-0.09"]
        found = EXPERIMENTS["gt-fig13"].run(Request(data=folder, rows=rows, runs=1, limit=8))
        assert [row.title for row in found.table.rows] == ["CR", "Random"]
        assert "Section 7.2" in found.to_markdown()


class TestTable1:
    def test_a_world_like_the_papers(self):
        some = {"0.08": (2, 8, 0), "0.04": (1, 4, 1)}
        better = {"0.08": (8, 8, 0), "0.04": (4, 4, 0)}
        runs = [
            made(Plan(plant, "attention", run, data="movies"),
                 {"own": (0.09 + 0.3 * run * (plant != "articles"), 0.06, some), "marc": (0.9, 0.01, better)})
            for plant in ("articles", "cn", "nc")
            for run in (0, 1)
        ]  # fmt: skip
        given = results(table1.STUDY, runs, ("own", "marc"))
        found = verdicts(table1.claims(given))
        assert len(found) == 8
        assert all(found.values())
        loud = []
        for one in runs:
            own = one.told["own"]
            loud.append(replace(one, told={"own": replace(own, values={**own.values, "region": (0.8,) * 10})}))
        changed = verdicts(table1.claims(results(table1.STUDY, loud, ("own",))))
        assert changed["Attention on articles is better than random, albeit barely", "here"] is False
        assert changed["CN: attention varies widely between runs", "here"] is False

    def test_by_hand(self):
        """Eight articles; two of the eight selected words are articles."""
        (one,) = [made(Plan("articles", "attention", data="movies"), {"own": (0.3, 0.0, {"0.08": (2, 8, 0)})})]
        assert selected([one], "own", "precision").mean == pytest.approx(2 / 8)
        assert selected([one], "own", "recall").mean == pytest.approx(2 / 8)
        assert selected([one], "own", "selected").mean == pytest.approx(0.08)
        assert measure(one, "own", "other") == pytest.approx(0.7)
        assert frequency([one], "correlating") == pytest.approx(0.08)
        assert np.isnan(frequency([one], "non-correlating"))


class TestRationaleModels:
    def runs(self, plant, given, chosen):
        """Both models at every rate: (hits, words, idle ones) of every text, by model and rate."""
        return [
            made(Plan(plant, model, rate=rate, data="movies"), {"own": (0.5, 0.1, {"chosen": chosen(model, rate)})})
            for model in ("reinforce", "hardkuma")
            for rate in given
        ]

    def test_a_world_like_the_papers(self):
        given = rates(choose(fig12.FIG12.dimensions, None))

        def perfect(model, rate):
            words = round(100 * rate)
            return (1, words, 0) if (model, rate) == ("hardkuma", 0.07) else (min(words, 8), words, 0)

        runs = self.runs("articles", given, perfect)
        found = verdicts(fig12.claims12(results(fig12.FIG12, runs, ("own", "random"))))
        assert len(found) == 4
        assert all(found.values())
        blind = self.runs("articles", given, lambda *_: (0, 9, 0))
        changed = verdicts(fig12.claims12(results(fig12.FIG12, blind, ("own", "random"))))
        assert changed["Every rationale has at least one word that tells the class, as it must", "here"] is False
        assert changed["All but CR at the lowest %Sel are near-perfect", "here"] is False

    def test_articles_that_tell_nothing(self):
        given = rates(choose(fig12.FIG13.dimensions, None))

        def lured(model, rate):
            words = round(100 * rate)
            idle = words // 2 if model == "reinforce" else 0
            return (words - idle, words, idle)

        runs = [one for plant in ("cn", "nc") for one in self.runs(plant, given[:2], lured)]
        found = verdicts(fig12.claims13(results(fig12.FIG13, runs, ("own", "random"))))
        assert len(found) == 4
        assert all(found.values())
        other = {"reinforce": "hardkuma", "hardkuma": "reinforce"}
        swapped = [replace(one, plan=replace(one.plan, network=other[one.plan.network])) for one in runs]
        changed = verdicts(fig12.claims13(results(fig12.FIG13, swapped, ("own", "random"))))
        assert changed["The problem is more severe with RL than with CR", "here"] is False

    def test_the_best_possible_is_that_of_the_metrics(self):
        """The same lines as `groundtruth.metrics.optimal`, from counts alone."""
        runs = self.runs("articles", (0.07, 0.15), lambda _, rate: (5, round(100 * rate), 0))
        own = results(fig12.FIG12, runs, ("own", "random"))
        uneven = [replace(one, region=tuple(range(4, 14))) for one in own.records]
        own = replace(own, records=tuple(uneven))
        masks = [np.arange(100) < count for count in range(4, 14)]
        cases = [Case(mask.astype(float), mask, ~mask & False, "a") for mask in masks]
        for point in points(own, "reinforce"):
            for each in (False, True):
                wanted = [float(one[0]) for one in optimal_selection(cases, [round(100 * point.rate) / 100], each)]
                assert point.best(each) == pytest.approx(tuple(wanted))
