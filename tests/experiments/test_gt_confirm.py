"""Figure 5 confirmed: other birds and seeds, baselines chosen on validation pictures, claims with their tests."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from experiments.gt_data import bird_folder, record

from rationales.errors import OptionError
from rationales.experiments import EXPERIMENTS, Request
from rationales.experiments.ground_truth.experiment import build_report
from rationales.experiments.ground_truth.figures import fig5, fig5_confirm
from rationales.experiments.ground_truth.method_rows import PICTURE_METHODS
from rationales.experiments.ground_truth.reporting.run_tables import ExperimentRuns
from rationales.experiments.ground_truth.row_choices import choose_rows
from rationales.experiments.ground_truth.runs import bird_pictures, method_measures, networks
from rationales.experiments.ground_truth.runs.method_measures import EncodedInputs, measure_method, method_fingerprint
from rationales.experiments.ground_truth.runs.run_record import MethodMeasures, RunFolder
from rationales.experiments.ground_truth.runs.run_spec import RunSettings, RunSpec
from rationales.experiments.ground_truth.runs.training_run import run_fingerprint
from rationales.groundtruth import find_plant
from rationales.groundtruth.networks.resnet import ResNet
from rationales.groundtruth.training import Recipe
from rationales.models.image.baseline_choice import CANDIDATES

CONFIRM = fig5_confirm.EXPERIMENT
BEST = [spec for spec in PICTURE_METHODS.values() if spec.alternatives]
ATTRIBUTIONS = {"gradient": (0.5, 0.4), "lime-best": (0.6, 0.6), "shap-best": (0.7, 0.9), "marc": (0.9, 0.8)}
METHODS = ("gradient", "lime-best", "shap-best", "marc", "marc-best", "random")


def finished_runs(records, methods=METHODS):
    chosen_rows = {**choose_rows(CONFIRM.dimensions, None), "methods": methods}
    return ExperimentRuns(tuple(records), RunSettings(CONFIRM.name, methods, 8), chosen_rows, PICTURE_METHODS)


def confirmed(plant, run, attributions, validation=None, baseline="noise"):
    """A finished run; methods with a choice chose `baseline` by these Attr% on validation pictures."""
    finished = record(RunSpec(plant, "resnet34", run), {"random": (0.25, 0.25), **attributions})
    shares = validation or {"noise": 0.8, "mean": 0.5, "rule": 0.79}
    measures = {
        key: replace(measures, baseline=baseline, validation=shares) if key.endswith("-best") else measures
        for key, measures in finished.measures.items()
    }
    return replace(finished, measures=measures)


class TestBestBaselines:
    @pytest.mark.parametrize("spec", BEST, ids=lambda spec: spec.key)
    def test_every_candidate_is_tried_with_the_same_method(self, spec):
        as_published = PICTURE_METHODS[spec.key.removesuffix("-best")]
        assert [alternative.key for alternative in spec.alternatives] == [*CANDIDATES, "rule", "pictures"]
        assert all(alternative.method == as_published.method for alternative in spec.alternatives)
        usual = (as_published.baselines, as_published.background, dict(as_published.options))
        assert usual in [
            (alternative.baselines, alternative.background, dict(alternative.options))
            for alternative in spec.alternatives
        ]

    def test_all_methods_with_baselines_have_a_choice(self):
        assert {spec.key for spec in BEST} == {
            f"{key}-best"
            for key in ("lime", "shap", "marc", "integrated-gradients", "deep-lift", "occlusion", "kernel-shap")
        }

    def test_shap_averages_about_as_many_gradients_on_every_baseline(self):
        for alternative in PICTURE_METHODS["shap-best"].alternatives:
            count = len(alternative.baselines) or alternative.background or 3
            assert 198 <= alternative.options["samples"] * count <= 200

    def test_the_best_on_validation_inputs_is_used_on_test_inputs(self, monkeypatch):
        """`noise` is best on validation inputs, `mean` would be best on test inputs, `white` cannot be run."""

        class Inputs(EncodedInputs):
            size = 112

        class Model:
            kind = "image"

        validation = Inputs(Model(), (), (), (), (), ())
        test = Inputs(Model(), (), (), (), (), (), validation=validation)
        on_validation = {"noise": (0.9, 0.7), "mean": (0.6, math.nan), "rule": (0.7, 0.8)}
        on_test = {"noise": (0.5,), "mean": (1.0,)}
        calls = []

        def measured(inputs, spec):
            calls.append((inputs is test, spec.key))
            if spec.key == "white":
                return MethodMeasures("print", unsupported="no white")
            values = (on_test if inputs is test else on_validation).get(spec.key, (0.1, 0.1))
            return MethodMeasures("print", 0.5, {"region": values})

        monkeypatch.setattr(method_measures, "measure_method", measured)
        measures = measure_method(test, PICTURE_METHODS["lime-best"])
        assert [key for is_test, key in calls if is_test] == ["noise"]
        assert (measures.baseline, measures.values["region"]) == ("noise", (0.5,))
        assert measures.validation["noise"] == pytest.approx(0.8)
        assert measures.validation["mean"] == pytest.approx(0.6)
        assert math.isnan(measures.validation["white"])

    def test_without_validation_inputs_nothing_is_chosen(self):
        with pytest.raises(OptionError, match="LIME, best baseline needs validation inputs"):
            measure_method(EncodedInputs(None, (), (), (), (), ()), PICTURE_METHODS["lime-best"])

    def test_fingerprints_tell_other_alternatives_apart(self):
        spec = PICTURE_METHODS["lime-best"]
        fewer = replace(spec, alternatives=spec.alternatives[:-1])
        method = spec.build_method("image", 112)
        assert method_fingerprint(spec, method) != method_fingerprint(fewer, method)


class TestRuns:
    def test_other_birds_another_seed_and_a_choice_that_is_stored(self, tmp_path, monkeypatch):
        tiny = networks.PictureNetwork(
            "tiny", lambda classes, _: ResNet(classes, (1, 1), 8), Recipe(16, 4, batch_size=32, learning_rate=3e-3)
        )
        monkeypatch.setattr(bird_pictures, "draw_plant", lambda *_: find_plant("noise", {"share": 0.5}))
        monkeypatch.setitem(networks.PICTURE_NETWORKS, "small-resnet", tiny)
        rows = ["noise", "small-resnet", "gradient", "deep-lift-best"]
        folder = bird_folder(tmp_path / "data")
        log = []
        request = Request(data=folder, rows=rows, runs=1, limit=4, validation=2, out=tmp_path, log=log.append)
        report = EXPERIMENTS["gt-fig5-confirm"].run(request)
        finished = RunFolder(tmp_path).get(RunSpec("noise", "small-resnet"))
        species = set(finished.last_attempt.plant_description.split("; ")[1].split(" and "))
        assert not any(species == set(pair) for pair in bird_pictures.SIMILAR_KINDS)
        measures = finished.measures["deep-lift-best"]
        assert set(measures.validation) == {*CANDIDATES, "rule", "pictures"}
        assert measures.validation[measures.baseline] == max(measures.validation.values())
        assert report.table.seed == 1000
        text = report.to_markdown()
        assert "Chosen on 2 validation pictures of each model" in text
        assert "Baselines that were chosen, by manipulation" in text
        EXPERIMENTS["gt-fig5-confirm"].run(request)
        assert log[-1] == "1 runs, 0 of them still to be made"

    def test_plants_lie_elsewhere_than_in_the_first_study(self):
        settings = RunSettings(CONFIRM.name, (), 8, seed=CONFIRM.first_seed, **CONFIRM.run_options)
        first_study = RunSettings("gt-fig5", (), 8)
        for run in range(5):
            spec = RunSpec("hue", "resnet34", run)
            assert settings.position_seed(spec, 0) != first_study.position_seed(spec, 0)
            assert settings.training_seed(spec, 0) != first_study.training_seed(spec, 0)

    def test_a_fingerprint_depends_on_the_birds_and_the_validation_inputs(self):
        spec, settings = RunSpec("hue", "resnet34"), RunSettings(CONFIRM.name, (), 8)
        changed = [replace(settings, all_distinct=True), replace(settings, validation=6)]
        assert len({run_fingerprint(spec, each, "") for each in (settings, *changed)}) == 3

    def test_all_seven_plants_and_each_group_of_them(self):
        default = choose_rows(CONFIRM.dimensions, None)
        assert default["plants"] == (*fig5.NEW_PLANTS, *fig5.PLANTS)
        assert set(default["methods"]) == {*fig5_confirm.DEFAULT_METHODS, "random"}
        assert choose_rows(CONFIRM.dimensions, ["new-plants"])["plants"] == ("colour-cast", "jpeg-blocks")


class TestClaims:
    def verdicts(self, attributions, count):
        runs = [confirmed(plant, run, attributions) for plant in fig5.NEW_PLANTS for run in range(count)]
        return {
            (claim.text, verdict.reading): verdict
            for claim in fig5_confirm.claims(finished_runs(runs))
            for verdict in claim.verdicts
        }

    with_plant = "MaRC's Attr% on pictures with the plant is above that of every other method; new plants"
    without = "MaRC's Attr% on pictures without it is above that of every other method; new plants"

    def test_differences_of_all_runs_have_the_p_value_of_their_number(self):
        """8 runs with the same sign: 2 of 256 flips are as extreme, three rivals: p = 6 / 256 for each."""
        verdicts = self.verdicts({**ATTRIBUTIONS, "marc-best": (0.92, 0.82)}, 4)
        lime = verdicts[self.with_plant, "LIME, best baseline"]
        assert (lime.word, lime.p) == ("holds", pytest.approx(6 / 256))
        assert lime.figures.startswith(".900 against .600, p = .023")
        shap = verdicts[self.without, "SHAP, best baseline"]
        assert (shap.word, shap.holds) == ("does not hold", False)

    def test_two_runs_are_not_significant(self):
        """The smallest p-value of two runs is 1/2."""
        runs = [confirmed("jpeg-blocks", run, {**ATTRIBUTIONS, "marc-best": (0.92, 0.82)}) for run in range(2)]
        verdicts = [verdict for claim in fig5_confirm.claims(finished_runs(runs))[1:] for verdict in claim.verdicts]
        assert {verdict.word for verdict in verdicts} <= {"not significant", "not judged", "does not hold"}
        assert not any(verdict.word == "holds" for verdict in verdicts)

    @pytest.mark.parametrize(("best", "word"), [(0.92, "holds"), (0.99, "does not hold")])
    def test_the_rule_may_be_a_margin_below_the_best(self, best, word):
        """MaRC has .85 on average; 8 runs have a p of 2 / 256."""
        verdicts = self.verdicts({**ATTRIBUTIONS, "marc-best": (best, best - 0.05)}, 4)
        (verdict,) = [
            verdict for (text, group), verdict in verdicts.items() if "0.05 below" in text and group == "new plants"
        ]
        assert (verdict.word, verdict.p) == (word, pytest.approx(2 / 256))

    def test_the_rule_against_each_baseline_alone(self):
        """On validation pictures: .79 against .50 and .80."""
        verdicts = self.verdicts({**ATTRIBUTIONS, "marc-best": (0.92, 0.82)}, 4)
        text = "The rule's baselines serve MaRC better than any other, on validation pictures; new plants"
        assert verdicts[text, "mean"].word == "holds"
        assert verdicts[text, "noise"].word == "does not hold"
        assert verdicts[text, "black"].word == "not judged"

    def test_the_report_says_which_baseline_was_chosen(self):
        attributions = {**ATTRIBUTIONS, "marc-best": (0.92, 0.82)}
        runs = [confirmed("colour-cast", run, attributions, baseline=("noise", "mean")[run // 2]) for run in range(3)]
        text = build_report(CONFIRM, finished_runs(runs), 1.0).to_markdown()
        assert "LIME, best baseline: noise 2, mean 1; SHAP, best baseline: noise 2, mean 1" in text
        assert "## Claims" in text
        assert "| LIME, best baseline | noise 2, mean 1 |" in text
