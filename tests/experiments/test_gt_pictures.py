"""Figures 5 to 8: small runs from the photographs to the report, and claims that follow the figures they stand on."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest
from commands import error
from commands import run as command
from experiments.gt_data import bird_folder, record

from rationales.evaluation.table import Table
from rationales.experiments import EXPERIMENTS, Request
from rationales.experiments.ground_truth import birds, fig5, fig6, fig7, fig8, networks, run_pictures, running
from rationales.experiments.ground_truth import plan as plan_
from rationales.experiments.ground_truth.plan import TRIES, Plan, Setting
from rationales.experiments.ground_truth.record import Stage, Store, Told
from rationales.experiments.ground_truth.results import Results
from rationales.experiments.ground_truth.rows import PAPER, PICTURES, choose
from rationales.experiments.ground_truth.study import outcome
from rationales.groundtruth import find_plant
from rationales.groundtruth.networks.resnet import ResNet
from rationales.groundtruth.training import Recipe

QUICK = ["noise", "small-resnet", "gradient", "grad-cam"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return bird_folder(tmp_path_factory.mktemp("birds"))


@pytest.fixture
def quick(monkeypatch):
    """Half of a band's pixels become noise, which a tiny network learns at once; at low visibility a tenth."""

    def place(_name, level, _seed, _size):
        return find_plant("noise", {"share": 0.1 if level == 1 else 0.5})

    made = networks.PictureNetwork(
        "tiny", lambda classes, _: ResNet(classes, (1, 1), 8), Recipe(16, 4, batch_size=32, learning_rate=3e-3)
    )
    monkeypatch.setattr(birds, "place", place)
    monkeypatch.setitem(networks.PICTURES, "small-resnet", made)


def asked(folder, **more):
    return Request(**{"data": folder, "rows": QUICK, "runs": 1, "limit": 6, **more})


def verdicts(claims):
    """(beginning of the claim, reading) -> holds."""
    return {(one.text.split(" (")[0], own.reading): own.holds for one in claims for own in one.verdicts}


def results(study, records, methods=(*PAPER, "marc", "random"), **more):
    chosen = {**choose(study.dimensions, None), "methods": methods}
    return Results(tuple(records), Setting(study.name, methods, 8, **{**study.more, **more}), chosen, PICTURES)


@pytest.mark.usefixtures("quick")
class TestRuns:
    def test_train_explain_and_go_on(self, folder, tmp_path, monkeypatch):
        """Two runs; then one more, with the first two taken over; then another method, on models trained anew."""
        said = []
        first = EXPERIMENTS["gt-fig5"].run(asked(folder, runs=2, out=tmp_path, tell=said.append))
        assert said[0] == "2 runs, 2 of them still to be made"
        assert all("accuracy 1" in line or "accuracy 9" in line for line in said[1:])
        assert [row.title for row in first.table.rows] == ["Gradient", "GradCAM", "Random"]
        cell = first.table["Random"].cells["attr-with"]
        assert cell.estimate.n == 2
        assert cell.estimate.mean == pytest.approx(0.375, abs=0.02)  # 12 of 32 rows
        done = json.loads((tmp_path / "runs" / "birds-noise-small-resnet-run1.json").read_text())
        assert done["attempts"][-1]["p"] < 0.01
        assert sorted(done["which"]) == [0, 0, 0, 1, 1, 1]

        said.clear()
        again = EXPERIMENTS["gt-fig5"].run(asked(folder, runs=2, out=tmp_path, tell=said.append))
        assert said == ["2 runs, 0 of them still to be made"]
        assert again.table.to_json() == first.table.to_json()

        asked_methods = []
        ask = running.told
        monkeypatch.setattr(running, "told", lambda own, spec: asked_methods.append(spec.key) or ask(own, spec))
        rows = [*QUICK, "input-x-gradient"]
        more = EXPERIMENTS["gt-fig5"].run(asked(folder, rows=rows, runs=1, out=tmp_path))
        assert asked_methods == ["input-x-gradient"]  # the same seed gave the same model
        assert more.table["Gradient"].cells["attr"].values == first.table["Gradient"].cells["attr"].values[:1]

    def test_a_network_that_does_not_learn_is_repeated_and_then_told(self, folder, tmp_path, monkeypatch):
        idle = replace(networks.PICTURES["small-resnet"], recipe=Recipe(1, learning_rate=1e-6))
        monkeypatch.setitem(networks.PICTURES, "small-resnet", idle)
        outcome_ = EXPERIMENTS["gt-fig5"].run(asked(folder, out=tmp_path))
        record_ = Store(tmp_path).get(Plan("noise", "small-resnet"))
        assert record_ is not None
        assert len(record_.attempts) == TRIES
        assert len({own.seed for own in record_.attempts}) == TRIES
        assert outcome_.table.inputs == ()
        report = outcome_.to_markdown()
        assert "1 of 1 runs have no part in any figure" in report
        assert report.count("not above 95%") == TRIES
        said = []
        EXPERIMENTS["gt-fig5"].run(asked(folder, out=tmp_path, tell=said.append))
        assert said == ["1 runs, 0 of them still to be made"]

        monkeypatch.setattr(plan_, "TRIES", TRIES + 1)  # it goes on with the next seed
        monkeypatch.setattr(running, "train", trained := Mock(wraps=running.train))
        EXPERIMENTS["gt-fig5"].run(asked(folder, out=tmp_path))
        assert trained.call_count == 1
        assert Store(tmp_path).get(Plan("noise", "small-resnet")).attempts[:TRIES] == record_.attempts

    def test_methods_are_asked_on_the_way(self, folder):
        setting = Setting("gt-fig6", ("gradient", "random"), 4, data=folder, along=True)
        found = run_pictures.run(Plan("noise", "small-resnet"), setting)
        assert not found.failed
        accuracies = [stage.accuracy for stage in found.stages]
        assert accuracies == sorted(accuracies)
        assert len(accuracies) <= len(running.STEPS) + 1
        assert all(len(stage.told["gradient"].values["region"]) == 4 for stage in found.stages)
        assert [line.x for line in fig6.lines(results(fig6.STUDY, [found], ("gradient", "random")))] == [
            (*accuracies, found.last.accuracy)
        ]

    def test_the_command_writes_everything(self, folder, tmp_path):
        pytest.importorskip("matplotlib")
        given = ["--data", folder, "--rows", ",".join([*QUICK, "r-0.5", "r-0.7"]), "--runs", 1, "--limit", 4]
        done = command("reproduce", "gt-fig8", *given, "--out", tmp_path)
        assert done.exit_code == 0, done.output
        assert {path.name for path in tmp_path.iterdir()} == {
            *("table.md", "table.csv", "table.json", "plot.png", "attribution-by-r.png", "runs")
        }
        assert (tmp_path / "attribution-by-r.png").read_bytes().startswith(b"\x89PNG")
        table = Table.from_json(tmp_path / "table.json")
        assert table.protocol is None
        assert table.unit == "lines"
        assert "Section 5.4" in (tmp_path / "table.md").read_text(encoding="utf-8")


class TestFigure5:
    def test_a_world_like_the_papers(self):
        """SHAP leads, watermarks are seen when they are there, nothing is perfect: all claims hold."""
        base = {"gradient": 0.5, "smooth-grad": 0.4, "grad-cam": 0.45, "lime": 0.5, "shap": 0.6, "marc": 0.95}
        shift = dict(zip(fig5.PLANTS, (0.0, 0.05, 0.1, 0.15, 0.25), strict=True))
        runs = []
        for plant, up in shift.items():
            told = {key: (own + up, own + up - 0.1) for key, own in base.items()}
            runs += [record(Plan(plant, "resnet34", run), {**told, "random": (0.25, 0.25)}) for run in range(2)]
        found = verdicts(fig5.claims(results(fig5.STUDY, runs)))
        assert found.pop(("No method consistently reaches Attr% ≈ 1", "all methods here")) is True
        assert len(found) == 8
        assert all(found.values())
        weak = [replace(one, told={**one.told, "marc": one.told["gradient"]}) for one in runs]
        changed = verdicts(fig5.claims(results(fig5.STUDY, weak)))
        fallen = {key for key, holds in changed.items() if not holds}
        assert fallen == {
            ("MaRC's Attr% on pictures with the plant is above that of every method of the paper", "MaRC")
        }

    def test_a_perfect_method_and_equal_manipulations_are_noticed(self):
        perfect = dict.fromkeys((*PAPER, "marc", "random"), (0.98, 0.97))
        runs = [record(Plan(plant, "resnet34"), perfect) for plant in fig5.PLANTS]
        found = verdicts(fig5.claims(results(fig5.STUDY, runs)))
        assert found["No method consistently reaches Attr% ≈ 1", "the paper's five"] is False
        assert found["Not all manipulations are detected equally well", "here"] is False
        assert found["SHAP depends strongly on the manipulation", "here"] is False

    def test_failed_runs_and_unfit_methods_are_told_and_never_averaged(self):
        good = record(Plan("hue", "resnet34"), {"gradient": (0.5, 0.5), "random": (0.25, 0.25)})
        unfit = {**good.told, "grad-cam": Told("print", unfit="no feature maps")}
        bad = replace(record(Plan("hue", "resnet34", 1), {"gradient": (0.0, 0.0)}), failed="it did not learn")
        given = results(fig5.STUDY, [replace(good, told=unfit), bad], ("gradient", "grad-cam", "random"))
        report = outcome(fig5.STUDY, given, 1.0)
        assert report.table["Gradient"].cells["attr"].values == (0.5,)
        assert [row.title for row in report.table.rows] == ["Gradient", "Random"]
        text = report.to_markdown()
        assert "1 of 2 runs have no part in any figure" in text
        assert "GradCAM has no scores in 1 runs: no feature maps." in text

    def test_by_hand(self):
        """Area a quarter, Attr% a half: a third of what is left above chance."""
        given = results(fig5.STUDY, [record(Plan("hue", "resnet34"), {"gradient": (0.6, 0.4)})], ("gradient",))
        assert fig5.excess(given, "hue", "gradient") == pytest.approx(1 / 3)
        table, shown = fig5.picture_table(given)
        assert [table["Gradient"].cells[name].values[0] for name in shown] == pytest.approx([0.6, 0.4, 0.5])


class TestTrends:
    def test_along_the_training(self):
        """SHAP rises with a watermark; others stay where they are."""

        methods, places = (*PAPER, "marc", "random"), (0.5, 0.7, 0.9)

        def made(plant, rising):
            stages = []
            for number, place in enumerate(places):
                still = 0.3 + 0.01 * (number % 2)
                values = {key: place if rising and key == "shap" else still for key in methods}
                told = {key: Told("p", 0.1, {"region": (own,) * 8}) for key, own in values.items()}
                stages.append(Stage(number, place, told))
            last = {key: (0.99, 0.99) if rising and key == "shap" else (0.3, 0.3) for key in methods}
            return record(Plan(plant, "resnet34"), last, stages=tuple(stages))

        given = results(fig6.STUDY, [made("watermark", True), made("hue", False)])
        found = verdicts(fig6.claims(given))
        assert found["SHAP with a watermark shows the most consistent increase of Attr% with accuracy", "here"] is True
        assert found["Other methods and manipulations have a mild or noisy trend", "here"] is True
        assert found["MaRC's Attr% rises with accuracy", "with the plant"] is False
        table, _ = fig6.table(given)
        assert table["SHAP"].cells["trend-with"].values[0] == pytest.approx(1)

    def test_with_visibility(self):
        def level(plant, number):
            rising = {
                key: (0.3 + 0.1 * number, 0.3) if key == "shap" and plant == "watermark" else (0.4, 0.4)
                for key in PAPER
            }
            return record(Plan(plant, "resnet34", level=number), {**rising, "marc": (0.95, 0.9), "random": (0.2, 0.2)})

        given = results(fig7.STUDY, [level(plant, n) for plant in ("watermark", "blur") for n in range(1, 6)])
        (line,) = (one for one in fig7.lines(given) if one.plant == "watermark")
        assert line.x == (1, 2, 3, 4, 5)
        assert line.trend("shap", "with") == pytest.approx(1)
        assert math.isnan(line.trend("gradient", "with"))
        found = verdicts(fig7.claims(given))
        assert found["No method finds the least visible manipulations", "the paper's five"] is True
        assert found["No method finds the least visible manipulations", "all methods here"] is False
        assert found["SHAP's Attr% on a watermark rises with its visibility", "here"] is True

    def test_with_r(self):
        """Attr% of 1.6 - r is always allowed by Eq. 3 at an accuracy of 1, Attr% of 0.3 only at r = 1."""

        def run(plant, r, number):
            told = {key: (1.6 - r, 1.6 - r) if key == "shap" and plant == "watermark" else (0.3, 0.3) for key in PAPER}
            told |= {"gradient": (0.9, 0.3) if plant == "watermark" else (0.3, 0.3), "marc": (0.3, 0.3)}
            made = record(Plan(plant, "resnet34", number, r=r), told)
            return replace(made, attempts=(replace(made.attempts[0], accuracy=1.0),))

        shares = [float(name.removeprefix("r-")) for name in fig8.SHARES]
        runs = [run(plant, r, number) for plant in ("watermark", "hue") for r in shares for number in (0, 1)]
        given = results(fig8.STUDY, runs)
        assert fig8.inside(given.of("watermark"), "shap", "with") == 1
        assert fig8.inside(given.of("hue"), "lime", "with") == 0  # 1.5 - 1 is still more than 0.3
        assert fig8.band(runs[0]) == pytest.approx(1)
        assert [line.dashed for line in fig8.lines(given)] == [False, True] * 2
        found = verdicts(fig8.claims(given))
        expected = {
            "All models reach an accuracy above 95 %": True,
            "With a watermark, SHAP's Attr% falls as r rises": True,
            "Gradient tracks the predicted range for a watermark, but only on pictures with it": True,
            "Other manipulations do not show this, even for SHAP": True,
            "Many saliency maps are inconsistent with the Shapley axioms": True,
            "Similar and distinct kinds of birds make no clear difference": True,
        }
        assert {key: found[key, "here"] for key in expected} == expected
        assert found["MaRC's Attr% falls as r rises", "in the Shapley range"] is False
        lost = [replace(runs[0], failed="no"), *runs[1:]]
        assert not verdicts(fig8.claims(results(fig8.STUDY, lost)))["All models reach an accuracy above 95 %", "here"]

    def test_plans(self):
        chosen = choose(fig7.STUDY.dimensions, ["hue", "visibility-2", "visibility-5"])
        assert [(one.level, one.run) for one in fig7.plans(chosen, 2)] == [(2, 0), (5, 0), (2, 1), (5, 1)]
        assert len(fig8.plans(choose(fig8.STUDY.dimensions, None), 4)) == 120  # as in section 5.4
        assert len(fig5.plans(choose(fig5.STUDY.dimensions, None), 5)) == 25


class TestCommand:
    def test_lists_what_there_is(self):
        shown = command("reproduce", "gt-fig7", "--list").stdout
        assert "Figures 7 and 17" in shown
        assert all(name in shown for name in ("watermark", "visibility-5", "marc", "small-vit"))

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["gt-fig5", "--rows", "smoke"], "there is no row 'smoke'"),
            (["gt-fig5", "--runs", "0"], "--runs must be at least 1"),
            (["gt-fig5", "--model", "embedded"], "gt-fig5 takes no --model"),
            (["marc-table1", "--runs", "2"], "marc-table1 takes no --runs"),
            (["marc-table1", "--jobs", "2"], "marc-table1 takes no --jobs"),
        ],
    )
    def test_mistakes_are_one_line(self, arguments, message):
        assert message in error(command("reproduce", *arguments))


def test_a_figure_without_matplotlib_is_told(monkeypatch, tmp_path):
    import sys

    from rationales.errors import OptionError

    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    given = results(fig5.STUDY, [record(Plan("hue", "resnet34"), {"gradient": (0.6, 0.4)})], ("gradient",))
    with pytest.raises(OptionError, match="pip install matplotlib"):
        fig5.draw(given, tmp_path)
    assert np.isfinite(given.good[0].area)
