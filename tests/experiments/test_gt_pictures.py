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

from rationales.evaluation.tables.table import Table
from rationales.experiments import EXPERIMENTS, Request
from rationales.experiments.ground_truth.experiment import build_report
from rationales.experiments.ground_truth.figures import fig5, fig6, fig7, fig8
from rationales.experiments.ground_truth.method_rows import PAPER_METHODS, PICTURE_METHODS, TEXT_METHODS
from rationales.experiments.ground_truth.reporting.run_tables import ExperimentRuns, run_remarks
from rationales.experiments.ground_truth.row_choices import choose_rows
from rationales.experiments.ground_truth.runs import bird_pictures, networks, picture_run, run_spec, training_run
from rationales.experiments.ground_truth.runs.run_record import MethodMeasures, RunFolder, TrainingCheckpoint
from rationales.experiments.ground_truth.runs.run_spec import MAX_ATTEMPTS, RunSettings, RunSpec
from rationales.groundtruth import find_plant
from rationales.groundtruth.networks.resnet import ResNet
from rationales.groundtruth.training import Recipe
from rationales.methods.cam.grad_cam import GradCam
from rationales.methods.gradient.gradient_method import GradientMethod

QUICK = ["noise", "small-resnet", "gradient", "grad-cam"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return bird_folder(tmp_path_factory.mktemp("birds"))


@pytest.fixture
def quick(monkeypatch):
    """Half of a band's pixels become noise, which a tiny network learns at once; at low visibility a tenth."""

    def draw_plant(_name, level, _seed, _size):
        return find_plant("noise", {"share": 0.1 if level == 1 else 0.5})

    tiny = networks.PictureNetwork(
        "tiny", lambda classes, _: ResNet(classes, (1, 1), 8), Recipe(16, 4, batch_size=32, learning_rate=3e-3)
    )
    monkeypatch.setattr(bird_pictures, "draw_plant", draw_plant)
    monkeypatch.setitem(networks.PICTURE_NETWORKS, "small-resnet", tiny)


def request(folder, **options):
    return Request(**{"data": folder, "rows": QUICK, "runs": 1, "limit": 6, **options})


def verdicts(claims):
    """(beginning of the claim, reading) -> holds."""
    return {
        (claim.text.split(" (")[0], verdict.reading): verdict.holds for claim in claims for verdict in claim.verdicts
    }


def finished_runs(experiment, records, methods=(*PAPER_METHODS, "marc", "random"), **options):
    chosen_rows = {**choose_rows(experiment.dimensions, None), "methods": methods}
    return ExperimentRuns(
        tuple(records),
        RunSettings(experiment.name, methods, 8, **{**experiment.run_options, **options}),
        chosen_rows,
        PICTURE_METHODS,
    )


class TestExplainedOutput:
    @pytest.mark.parametrize(("specs", "kind"), [(PICTURE_METHODS, "image"), (TEXT_METHODS, "text")])
    def test_gradient_methods_explain_the_logit_as_in_the_published_rows(self, specs, kind):
        for spec in specs.values():
            method = spec.build_method(kind, 32)
            assert getattr(method, "output", None) == spec.output
            if isinstance(method, (GradientMethod, GradCam)):
                assert spec.output == "logit"

    def test_a_remark_says_so(self):
        attributions = dict.fromkeys(("gradient", "lime", "shap", "marc"), (0.5, 0.5))
        runs = finished_runs(fig5.EXPERIMENT, [record(RunSpec("noise", "small-resnet"), attributions)])
        assert run_remarks(runs)[-1] == "Explained output: logit (Gradient; SHAP), probability (LIME)."


@pytest.mark.usefixtures("quick")
class TestRuns:
    def test_train_explain_and_go_on(self, folder, tmp_path, monkeypatch):
        """Two runs; then one extended, with the first two taken over; then another method, on models trained anew."""
        log = []
        first = EXPERIMENTS["gt-fig5"].run(request(folder, runs=2, out=tmp_path, log=log.append))
        assert log[0] == "2 runs, 2 of them still to be made"
        assert all("accuracy 1" in line or "accuracy 9" in line for line in log[1:])
        assert [row.title for row in first.table.rows] == ["Gradient", "GradCAM", "Random"]
        cell = first.table["Random"].cells["attr-with"]
        assert cell.estimate.n == 2
        assert cell.estimate.mean == pytest.approx(0.375, abs=0.02)  # 12 of 32 rows
        done = json.loads((tmp_path / "runs" / "birds-noise-small-resnet-run1.json").read_text())
        assert done["attempts"][-1]["p"] < 0.01
        assert sorted(done["which"]) == [0, 0, 0, 1, 1, 1]

        log.clear()
        again = EXPERIMENTS["gt-fig5"].run(request(folder, runs=2, out=tmp_path, log=log.append))
        assert log == ["2 runs, 0 of them still to be made"]
        assert again.table.to_json() == first.table.to_json()

        measured = []
        measure = training_run.measure_method
        monkeypatch.setattr(
            training_run,
            "measure_method",
            lambda inputs, spec, *arguments: measured.append(spec.key) or measure(inputs, spec, *arguments),
        )
        rows = [*QUICK, "input-x-gradient"]
        extended = EXPERIMENTS["gt-fig5"].run(request(folder, rows=rows, runs=1, out=tmp_path))
        assert measured == ["input-x-gradient"]  # the same seed gave the same model
        assert extended.table["Gradient"].cells["attr"].values == first.table["Gradient"].cells["attr"].values[:1]

    def test_a_network_that_does_not_learn_is_repeated_and_then_told(self, folder, tmp_path, monkeypatch):
        untrained = replace(networks.PICTURE_NETWORKS["small-resnet"], recipe=Recipe(1, learning_rate=1e-6))
        monkeypatch.setitem(networks.PICTURE_NETWORKS, "small-resnet", untrained)
        report_ = EXPERIMENTS["gt-fig5"].run(request(folder, out=tmp_path))
        record_ = RunFolder(tmp_path).get(RunSpec("noise", "small-resnet"))
        assert record_ is not None
        assert len(record_.attempts) == MAX_ATTEMPTS
        assert len({attempt.seed for attempt in record_.attempts}) == MAX_ATTEMPTS
        assert report_.table.inputs == ()
        report = report_.to_markdown()
        assert "1 of 1 runs have no part in any figure" in report
        assert report.count("not above 95%") == MAX_ATTEMPTS
        log = []
        EXPERIMENTS["gt-fig5"].run(request(folder, out=tmp_path, log=log.append))
        assert log == ["1 runs, 0 of them still to be made"]

        monkeypatch.setattr(run_spec, "MAX_ATTEMPTS", MAX_ATTEMPTS + 1)  # it goes on with the next seed
        monkeypatch.setattr(training_run, "train", trained := Mock(wraps=training_run.train))
        EXPERIMENTS["gt-fig5"].run(request(folder, out=tmp_path))
        assert trained.call_count == 1
        assert RunFolder(tmp_path).get(RunSpec("noise", "small-resnet")).attempts[:MAX_ATTEMPTS] == record_.attempts

    def test_methods_are_asked_on_the_way(self, folder):
        settings = RunSettings("gt-fig6", ("gradient", "random"), 4, data=folder, explain_during_training=True)
        record_ = picture_run.run(RunSpec("noise", "small-resnet"), settings)
        assert not record_.failed
        accuracies = [checkpoint.accuracy for checkpoint in record_.checkpoints]
        assert accuracies == sorted(accuracies)
        assert len(accuracies) <= len(training_run.ACCURACY_STEPS) + 1
        assert all(len(checkpoint.measures["gradient"].values["region"]) == 4 for checkpoint in record_.checkpoints)
        assert [line.x for line in fig6.lines(finished_runs(fig6.EXPERIMENT, [record_], ("gradient", "random")))] == [
            (*accuracies, record_.last_attempt.accuracy)
        ]

    def test_the_command_writes_everything(self, folder, tmp_path):
        pytest.importorskip("matplotlib")
        options = ["--data", folder, "--rows", ",".join([*QUICK, "r-0.5", "r-0.7"]), "--runs", 1, "--limit", 4]
        done = command("reproduce", "gt-fig8", *options, "--out", tmp_path)
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
            attributions = {key: (share + up, share + up - 0.1) for key, share in base.items()}
            runs += [
                record(RunSpec(plant, "resnet34", run), {**attributions, "random": (0.25, 0.25)}) for run in range(2)
            ]
        holds = verdicts(fig5.claims(finished_runs(fig5.EXPERIMENT, runs)))
        assert holds.pop(("No method consistently reaches Attr% ≈ 1", "all methods here")) is True
        assert len(holds) == 8
        assert all(holds.values())
        weak = [replace(run_, measures={**run_.measures, "marc": run_.measures["gradient"]}) for run_ in runs]
        changed = verdicts(fig5.claims(finished_runs(fig5.EXPERIMENT, weak)))
        fallen = {key for key, holds in changed.items() if not holds}
        assert fallen == {
            ("MaRC's Attr% on pictures with the plant is above that of every method of the paper", "MaRC")
        }

    def test_a_perfect_method_and_equal_manipulations_are_noticed(self):
        perfect = dict.fromkeys((*PAPER_METHODS, "marc", "random"), (0.98, 0.97))
        runs = [record(RunSpec(plant, "resnet34"), perfect) for plant in fig5.PLANTS]
        holds = verdicts(fig5.claims(finished_runs(fig5.EXPERIMENT, runs)))
        assert holds["No method consistently reaches Attr% ≈ 1", "the paper's five"] is False
        assert holds["Not all manipulations are detected equally well", "here"] is False
        assert holds["SHAP depends strongly on the manipulation", "here"] is False

    def test_failed_runs_and_unfit_methods_are_told_and_never_averaged(self):
        good = record(RunSpec("hue", "resnet34"), {"gradient": (0.5, 0.5), "random": (0.25, 0.25)})
        measures = {**good.measures, "grad-cam": MethodMeasures("print", unsupported="no feature maps")}
        bad = replace(record(RunSpec("hue", "resnet34", 1), {"gradient": (0.0, 0.0)}), failed="it did not learn")
        runs = finished_runs(
            fig5.EXPERIMENT, [replace(good, measures=measures), bad], ("gradient", "grad-cam", "random")
        )
        report = build_report(fig5.EXPERIMENT, runs, 1.0)
        assert report.table["Gradient"].cells["attr"].values == (0.5,)
        assert [row.title for row in report.table.rows] == ["Gradient", "Random"]
        text = report.to_markdown()
        assert "1 of 2 runs have no part in any figure" in text
        assert "GradCAM has no scores in 1 runs: no feature maps." in text

    def test_by_hand(self):
        """Area a quarter, Attr% a half: a third of what is left above chance."""
        runs = finished_runs(
            fig5.EXPERIMENT, [record(RunSpec("hue", "resnet34"), {"gradient": (0.6, 0.4)})], ("gradient",)
        )
        assert fig5.excess_over_chance(runs, "hue", "gradient") == pytest.approx(1 / 3)
        table, metrics = fig5.picture_table(runs)
        assert [table["Gradient"].cells[name].values[0] for name in metrics] == pytest.approx([0.6, 0.4, 0.5])


class TestTrends:
    def test_along_the_training(self):
        """SHAP rises with a watermark; others stay where they are."""

        methods, accuracies = (*PAPER_METHODS, "marc", "random"), (0.5, 0.7, 0.9)

        def trained(plant, rising):
            checkpoints = []
            for number, accuracy in enumerate(accuracies):
                still = 0.3 + 0.01 * (number % 2)
                values = {key: accuracy if rising and key == "shap" else still for key in methods}
                measures = {key: MethodMeasures("p", 0.1, {"region": (value,) * 8}) for key, value in values.items()}
                checkpoints.append(TrainingCheckpoint(number, accuracy, measures))
            last = {key: (0.99, 0.99) if rising and key == "shap" else (0.3, 0.3) for key in methods}
            return record(RunSpec(plant, "resnet34"), last, checkpoints=tuple(checkpoints))

        runs = finished_runs(fig6.EXPERIMENT, [trained("watermark", True), trained("hue", False)])
        holds = verdicts(fig6.claims(runs))
        assert holds["SHAP with a watermark shows the most consistent increase of Attr% with accuracy", "here"] is True
        assert holds["Other methods and manipulations have a mild or noisy trend", "here"] is True
        assert holds["MaRC's Attr% rises with accuracy", "with the plant"] is False
        table, _ = fig6.EXPERIMENT.table(runs)
        assert table["SHAP"].cells["trend-with"].values[0] == pytest.approx(1)

    def test_with_visibility(self):
        def level(plant, number):
            rising = {
                key: (0.3 + 0.1 * number, 0.3) if key == "shap" and plant == "watermark" else (0.4, 0.4)
                for key in PAPER_METHODS
            }
            return record(
                RunSpec(plant, "resnet34", level=number), {**rising, "marc": (0.95, 0.9), "random": (0.2, 0.2)}
            )

        runs = finished_runs(fig7.EXPERIMENT, [level(plant, n) for plant in ("watermark", "blur") for n in range(1, 6)])
        (line,) = (candidate for candidate in fig7.lines(runs) if candidate.plant == "watermark")
        assert line.x == (1, 2, 3, 4, 5)
        assert line.trend("shap", "with") == pytest.approx(1)
        assert math.isnan(line.trend("gradient", "with"))
        holds = verdicts(fig7.claims(runs))
        assert holds["No method finds the least visible manipulations", "the paper's five"] is True
        assert holds["No method finds the least visible manipulations", "all methods here"] is False
        assert holds["SHAP's Attr% on a watermark rises with its visibility", "here"] is True

    def test_with_r(self):
        """Attr% of 1.6 - r is always allowed by Eq. 3 at an accuracy of 1, Attr% of 0.3 only at r = 1."""

        def run(plant, r, number):
            attributions = {
                key: (1.6 - r, 1.6 - r) if key == "shap" and plant == "watermark" else (0.3, 0.3)
                for key in PAPER_METHODS
            }
            attributions |= {"gradient": (0.9, 0.3) if plant == "watermark" else (0.3, 0.3), "marc": (0.3, 0.3)}
            record_ = record(RunSpec(plant, "resnet34", number, r=r), attributions)
            return replace(record_, attempts=(replace(record_.attempts[0], accuracy=1.0),))

        shares = [float(name.removeprefix("r-")) for name in fig8.R_VALUES]
        runs = [run(plant, r, number) for plant in ("watermark", "hue") for r in shares for number in (0, 1)]
        finished = finished_runs(fig8.EXPERIMENT, runs)
        assert fig8.share_in_range(finished.with_plant("watermark"), "shap", "with") == 1
        assert fig8.share_in_range(finished.with_plant("hue"), "lime", "with") == 0  # 1.5 - 1 is still more than 0.3
        assert fig8.shapley_minimum(runs[0]) == pytest.approx(1)
        assert [line.dashed for line in fig8.lines(finished)] == [False, True] * 2
        holds = verdicts(fig8.claims(finished))
        expected = {
            "All models reach an accuracy above 95 %": True,
            "With a watermark, SHAP's Attr% falls as r rises": True,
            "Gradient tracks the predicted range for a watermark, but only on pictures with it": True,
            "Other manipulations do not show this, even for SHAP": True,
            "Many saliency maps are inconsistent with the Shapley axioms": True,
            "Similar and distinct kinds of birds make no clear difference": True,
        }
        assert {key: holds[key, "here"] for key in expected} == expected
        assert holds["MaRC's Attr% falls as r rises", "in the Shapley range"] is False
        lost = [replace(runs[0], failed="no"), *runs[1:]]
        assert not verdicts(fig8.claims(finished_runs(fig8.EXPERIMENT, lost)))[
            "All models reach an accuracy above 95 %", "here"
        ]

    def test_plans(self):
        chosen_rows = choose_rows(fig7.EXPERIMENT.dimensions, ["hue", "visibility-2", "visibility-5"])
        assert [(spec.level, spec.run) for spec in fig7.run_specs(chosen_rows, 2)] == [(2, 0), (5, 0), (2, 1), (5, 1)]
        assert len(fig8.run_specs(choose_rows(fig8.EXPERIMENT.dimensions, None), 4)) == 120  # as in section 5.4
        assert len(fig5.run_specs(choose_rows(fig5.EXPERIMENT.dimensions, None), 5)) == 25


class TestCommand:
    def test_lists_what_there_is(self):
        listing = command("reproduce", "gt-fig7", "--list").stdout
        assert "Figures 7 and 17" in listing
        assert all(name in listing for name in ("watermark", "visibility-5", "marc", "small-vit"))

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
    runs = finished_runs(fig5.EXPERIMENT, [record(RunSpec("hue", "resnet34"), {"gradient": (0.6, 0.4)})], ("gradient",))
    with pytest.raises(OptionError, match="pip install matplotlib"):
        fig5.draw(runs, tmp_path)
    assert np.isfinite(runs.successful[0].area)
