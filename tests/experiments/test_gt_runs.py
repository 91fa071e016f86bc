"""Runs of the ground-truth experiments: data, statistics over runs and inputs, run files, choice of rows, processes."""

from __future__ import annotations

import hashlib
import json
import math
import os

import numpy as np
import pytest
import torch
from experiments.gt_data import bird_folder, pretended, record, review_folder, threads_seen
from hypothesis import given
from hypothesis import strategies as st

from rationales.data import Example
from rationales.errors import DataError, OptionError
from rationales.evaluation.tables.statistics import estimate
from rationales.experiments.ground_truth.figures.fig5 import DIMENSIONS, PLANTS
from rationales.experiments.ground_truth.method_rows import PICTURE_METHODS, TEXT_METHODS
from rationales.experiments.ground_truth.reporting.run_statistics import (
    nested_estimate,
    rank_correlation,
    regression_slope,
)
from rationales.experiments.ground_truth.row_choices import choose_rows, method_dimension
from rationales.experiments.ground_truth.runs import bird_pictures, parallel, review_passages
from rationales.experiments.ground_truth.runs.run_record import MethodMeasures, RunFolder, RunRecord, TrainingCheckpoint
from rationales.experiments.ground_truth.runs.run_spec import RunSettings, RunSpec
from rationales.experiments.ground_truth.runs.training_run import recipe_text, run_fingerprint, select_inputs
from rationales.groundtruth import find_plant, modify
from rationales.groundtruth.image_examples import read_pixels
from rationales.groundtruth.training import Recipe


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return bird_pictures.read_kinds(
        bird_folder(tmp_path_factory.mktemp("birds"), train=8, test=8), bird_pictures.SIMILAR_KINDS[0]
    )


class TestNested:
    @given(st.lists(st.lists(st.floats(0, 1), min_size=2, max_size=6), min_size=1, max_size=4))
    def test_is_the_mean_of_all_inputs_within_its_interval(self, runs):
        interval = nested_estimate([np.array(values) for values in runs])
        pooled = np.concatenate([np.array(values) for values in runs])
        assert interval.mean == pytest.approx(pooled.mean())
        assert interval.low - 1e-9 <= interval.mean <= interval.high + 1e-9
        assert interval.n == len(pooled)

    def test_runs_that_differ_widen_it(self):
        """Twenty inputs each, all alike within a run: only the runs tell how sure the mean is."""
        runs = [np.full(20, value) for value in (0.2, 0.4, 0.6, 0.8)]
        interval, flat = nested_estimate(runs), estimate(np.concatenate(runs))
        assert interval.high - interval.low > 2 * (flat.high - flat.low)

    def test_pooled_shares_and_missing_values(self):
        parts = [np.array([1.0, 2.0, np.nan]), np.array([0.0])]
        wholes = [np.array([2.0, 2.0, 5.0]), np.array([4.0])]
        assert nested_estimate(parts, wholes).mean == pytest.approx(3 / 8)
        assert nested_estimate(parts, wholes).n == 3
        assert math.isnan(nested_estimate([np.array([np.nan])]).mean)


@pytest.mark.parametrize(
    ("y", "expected"), [([1, 2, 3, 4], 1.0), ([4, 3, 2, 1], -1.0), ([1, 1, 2, 2], 2 / 5**0.5), ([1, 1, 1, 1], math.nan)]
)
def test_rank_correlation(y, expected):
    """Ranks 1.5, 1.5, 3.5, 3.5 against 1 to 4: the covariance is 1, the variances 1 and 1.25."""
    assert rank_correlation([0.1, 0.2, 0.3, 0.9], y) == pytest.approx(expected, nan_ok=True)
    assert math.isnan(rank_correlation([1, 2], [1, 2]))


def test_slope():
    assert regression_slope([0.5, 0.7, 1.0], [0.9, 0.7, 0.4]) == pytest.approx(-1)
    assert math.isnan(regression_slope([0.5, 0.5], [0, 1]))


class TestBirds:
    def test_pairs_are_similar_or_not(self):
        for seed in range(20):
            assert bird_pictures.choose_kinds(seed, distinct=False) in bird_pictures.SIMILAR_KINDS
            first, second = bird_pictures.choose_kinds(seed, distinct=True)
            assert not any({first, second} == set(pair) for pair in bird_pictures.SIMILAR_KINDS)
            assert first < second

    @pytest.mark.parametrize("name", PLANTS)
    def test_places_are_drawn_and_stay_while_the_visibility_changes(self, name):
        plants = {str(bird_pictures.draw_plant(name, 0, seed, 32)) for seed in range(5)}
        assert len(plants) == 5
        faint, clear = (bird_pictures.draw_plant(name, level, 3, 32) for level in (1, 5))
        assert (faint.region(32, 32) == clear.region(32, 32)).all()
        assert getattr(faint, faint.visibility_field) == faint.levels[0]
        assert getattr(clear, clear.visibility_field) == clear.levels[-1]

    def test_a_deck_deals_labels_anew_and_plants_where_it_should(self, pictures):
        plant = find_plant("noise", {"share": 1.0})
        deck = bird_pictures.RelabelledPictures(
            pictures.train, plant, pictures.kinds, 0.5, 7, torch.device("cpu"), versions=2
        )
        inside = torch.from_numpy(plant.region(32, 32))
        first, again, shifted = deck.epoch(0), deck.epoch(2), deck.epoch(1)
        source = torch.stack([torch.from_numpy(read_pixels(shot).copy()).permute(2, 0, 1) for shot in pictures.train])
        assert torch.equal(
            first.pixels[:, :, ~inside], source[:, :, ~inside]
        )  # version 0 is as it was but for the plant
        changed = (first.pixels[:, :, inside] != source[:, :, inside]).flatten(1).any(1)
        assert torch.equal(changed, first.labels == 1)
        assert 0 < int(first.labels.sum()) < len(first)
        assert not torch.equal(first.labels, again.labels)
        assert not torch.equal(shifted.pixels[:, :, ~inside], source[:, :, ~inside])  # moved and mirrored
        assert torch.equal(deck.epoch(1).pixels, shifted.pixels)

    def test_pieces_are_an_epoch(self, pictures):
        deck = bird_pictures.RelabelledPictures(
            pictures.train, find_plant("hue"), pictures.kinds, 1.0, 7, torch.device("cpu"), versions=1
        )
        pieces = [deck.epoch_slice(number, 4) for number in range(4)]
        assert sum(len(piece) for piece in pieces) == len(pictures.train)
        assert sum(int(piece.labels.sum()) for piece in pieces) == 8  # with r = 1 the second kind has the plant, always

    def test_moved_pictures_keep_their_colours(self):
        rng = np.random.default_rng(0)
        row = rng.integers(0, 256, (3, 28, 28, 3)).astype(np.uint8)
        shifted = bird_pictures.shift_and_mirror(row, np.random.default_rng(1))
        assert shifted.shape == row.shape
        for before, after in zip(row, shifted, strict=True):
            assert set(map(bytes, after.reshape(-1, 3))) <= set(map(bytes, before.reshape(-1, 3)))

    def test_moved_pictures_pixel_by_pixel(self):
        pixels = np.random.default_rng(0).integers(0, 256, (9, 28, 42, 3)).astype(np.uint8)
        rng = np.random.default_rng(1)
        down, across, turned = rng.integers(-2, 3, 9), rng.integers(-3, 4, 9), rng.random(9) < 0.5
        shifted = bird_pictures.shift_and_mirror(pixels, np.random.default_rng(1))

        def mirrored(index, side):
            return -1 - index if index < 0 else 2 * side - 1 - index if index >= side else index

        for number in range(9):
            for row in range(28):
                for column in range(42):
                    source = 41 - column if turned[number] else column
                    there = mirrored(row + down[number], 28), mirrored(source + across[number], 42)
                    assert (shifted[number, row, column] == pixels[number][there]).all()

    def test_a_kind_that_is_not_there_is_told(self, tmp_path):
        with pytest.raises(DataError, match="has no pictures of albatross"):
            bird_pictures.read_kinds(bird_folder(tmp_path, train=1, test=1), ("albatross", "gull"))

    def test_as_many_inputs_of_each_class_are_explained(self, pictures):
        test = modify(pictures.test, find_plant("noise"), seed=3).planted
        assert [sum(item.manipulation == number for item in select_inputs(test, 5)) for number in (0, 1)] == [3, 2]
        assert len(select_inputs(test, 1)) == 1
        assert select_inputs(test, 1000) == list(test)


class TestPassages:
    def test_are_cut_and_keep_every_word(self):
        text = " ".join(f"w{number}" for number in range(250))
        passages = review_passages.cut_passages([Example("r", text, "positive", spans=((0, 2),))])
        assert [len(passage.text.split()) for passage in passages] == [100, 100, 50]
        assert " ".join(passage.text for passage in passages) == text
        assert [passage.name for passage in passages] == ["r 1", "r 2", "r 3"]
        assert all(passage.label == "positive" and passage.spans is None for passage in passages)

    def test_a_short_end_is_left_out_but_no_whole_review(self):
        long = Example("long", "w " * 110, "negative")
        short = Example("short", "w w w", "negative")
        assert [passage.name for passage in review_passages.cut_passages([long, short])] == ["long 1", "short 1"]

    def test_parts_come_from_different_reviews_and_are_told(self, tmp_path):
        texts = review_passages.read_texts(review_passages.MOVIES, review_folder(tmp_path, 3, 2))
        assert [len(examples) for examples in (texts.train, texts.val, texts.test)] == [6, 4, 4]
        description = review_passages.describe_texts(review_passages.MOVIES, texts)
        assert "BeerAdvocate cannot be had" in description
        assert "6 to train on, 4 to stop by, 4 to test on" in description
        with pytest.raises(OptionError, match="movies or sentences"):
            review_passages.read_texts("beers", None)


class TestChoice:
    def test_what_is_named_of_a_dimension_replaces_what_is_usual(self):
        chosen_rows = choose_rows(DIMENSIONS, ["noise", "lime", "paper"])
        assert chosen_rows["plants"] == ("noise",)
        assert chosen_rows["networks"] == ("resnet34",)
        assert chosen_rows["methods"] == ("gradient", "smooth-grad", "grad-cam", "lime", "shap", "random")
        default = choose_rows(DIMENSIONS, None)
        assert default["plants"] == PLANTS
        on_request = {key for key, spec in PICTURE_METHODS.items() if spec.group in ("expensive", "best-baseline")}
        assert on_request > {"shapley-sampling", "marc-resnet", "lime-best", "shap-best", "marc-best"}
        assert set(default["methods"]) == set(PICTURE_METHODS) - on_request

    def test_an_unknown_one_is_answered_with_the_known_ones(self):
        with pytest.raises(OptionError, match="no row 'smoke'; there are: blur, brightness"):
            choose_rows(DIMENSIONS, ["smoke"])

    def test_no_name_means_two_things(self):
        names = [name for dimension in DIMENSIONS for name in dimension.names]
        assert len(names) == len(set(names))

    @pytest.mark.parametrize(("kind", "specs"), [("image", PICTURE_METHODS), ("text", TEXT_METHODS)])
    def test_every_method_can_be_built(self, kind, specs):
        for spec in specs.values():
            assert spec.build_method(kind, 112).name == spec.method
        assert "random" in method_dimension(specs, ("marc",)).always


class TestRecords:
    def test_come_back_as_they_were(self, tmp_path):
        spec = RunSpec("hue", "resnet34", 2, level=3, r=0.7)
        stored = record(spec, {"gradient": (0.5, float("nan"))})
        folder = RunFolder(tmp_path)
        folder.put(stored)
        (path,) = (tmp_path / "runs").iterdir()
        assert path.name == "birds-hue-resnet34-level3-r0.7-run3.json"
        loaded = folder.get(spec)
        assert loaded is not None
        assert loaded.spec == spec
        assert loaded.to_dict() == stored.to_dict()
        assert math.isnan(loaded.measures["gradient"].values["region"][0])
        assert folder.get(RunSpec("hue", "resnet34")) is None

    @pytest.mark.parametrize("broken", ["{", "[]", '{"format": 99}', '{"format": 1, "plan": {}}'])
    def test_a_broken_file_is_a_run_that_is_made_again(self, tmp_path, broken):
        spec = RunSpec("hue", "resnet34")
        (tmp_path / "runs").mkdir()
        (tmp_path / "runs" / f"{spec.key}.json").write_text(broken)
        assert RunFolder(tmp_path).get(spec) is None

    def test_nothing_is_kept_without_a_folder(self):
        RunFolder(None).put(record(RunSpec("hue", "resnet34"), {}))
        assert RunFolder(None).get(RunSpec("hue", "resnet34")) is None

    def test_json_has_no_nan(self):
        text = json.dumps(record(RunSpec("hue", "x"), {"a": (0.1, math.nan)}).to_dict(), allow_nan=False)
        assert RunRecord.from_dict(json.loads(text)).area == 0.25

    def test_a_fingerprint_depends_on_everything_but_methods_and_device(self):
        spec, settings = RunSpec("hue", "resnet34"), RunSettings("gt-fig5", ("lime",), 10)
        fingerprint = run_fingerprint(spec, settings, "")
        assert fingerprint == run_fingerprint(spec, RunSettings("gt-fig5", ("marc",), 10, device="cuda"), "")
        different = [RunSettings("gt-fig5", ("lime",), 11), RunSettings("gt-fig5", ("lime",), 10, seed=1)]
        fingerprints = {run_fingerprint(spec, changed, "") for changed in different}
        assert len({fingerprint, *fingerprints, run_fingerprint(spec, settings, "longer")}) == 4

    def test_a_fingerprint_uses_the_names_of_format_1(self):
        """Files that were stored before classes and fields were renamed are still recognised."""
        run = "Plan(plant='hue', network='resnet34', run=1, level=0, r=0.7, rate=0.0, data='birds')"
        shared = (
            "Setting(study='gt-fig8', methods=(), limit=4, seed=0, data=None, device=None, fixed=True, along=False, "
            "distinct=True, shares=())"
        )
        text = f"({run}, {shared}, 'x', (0.6, 0.7, 0.8, 0.9, 0.95))"
        settings = RunSettings("gt-fig8", ("lime",), 4, fixed_position=True, distinct_kinds=True)
        expected = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
        assert run_fingerprint(RunSpec("hue", "resnet34", 1, r=0.7), settings, "x") == expected
        recipe = "Recipe(epochs=3, least=1, until=0.97, rate=0.001, warm=0, batch=128, decay=0.0, clip=5.0)"
        assert recipe_text(Recipe(3), 112, (1, 2)) == f"({recipe}, 112, (1, 2))"

    def test_files_have_the_keys_of_format_1(self):
        checkpoint = TrainingCheckpoint(2, 0.6, {"a": MethodMeasures("p")})
        stored = record(RunSpec("hue", "x"), {"a": (0.1, 0.2)}, checkpoints=(checkpoint,)).to_dict()
        assert list(stored) == [
            *("format", "plan", "print", "attempts", "bound", "failed", "weights", "names", "which", "units", "region"),
            *("idle", "told", "stages", "seconds", "note"),
        ]
        assert list(stored["attempts"][0]) == ["seed", "where", "accuracy", "tested", "epochs", "seconds", "p", "why"]
        assert list(stored["told"]["a"]) == [
            *("print", "seconds", "values", "failures", "unfit", "baseline", "validation"),
        ]
        older = {key: value for key, value in stored["told"]["a"].items() if key not in ("baseline", "validation")}
        assert RunRecord.from_dict({**stored, "told": {"a": older}}).to_dict() == stored
        assert list(stored["stages"][0]) == ["epoch", "accuracy", "told"]
        assert RunRecord.from_dict(stored).checkpoints[0].epoch == 2

    def test_seeds_differ_and_places_stay_where_they_should(self):
        free, fixed = RunSettings("a", (), 1), RunSettings("a", (), 1, fixed_position=True)
        faint, clear = RunSpec("hue", "resnet34", level=1), RunSpec("hue", "resnet34", level=2)
        assert free.training_seed(faint, 0) != free.training_seed(faint, 1) != free.training_seed(clear, 1)
        assert fixed.position_seed(faint, 0) == fixed.position_seed(clear, 2)
        assert free.position_seed(faint, 0) != free.position_seed(faint, 1)


@pytest.mark.parametrize("jobs", [1, 2])
def test_runs_can_be_made_in_processes_of_their_own(jobs):
    specs = [RunSpec("hue", "resnet34", number) for number in range(2)]
    tasks = [(specs[0], None), (specs[1], record(specs[1], {}))]
    records = list(parallel.completed_runs(pretended, RunSettings("gt-fig5", (), 4), tasks, jobs))
    assert {record_.spec: record_.note for record_ in records} == {specs[0]: "new", specs[1]: "old"}


@pytest.mark.parametrize("jobs", [1, 2])
def test_no_run_begins_when_the_time_is_over(jobs):
    tasks = [(RunSpec("hue", "resnet34", number), None) for number in range(4)]
    answers = iter([False, False, True, True, True])
    settings = RunSettings("gt-fig5", (), 4)
    records = list(parallel.completed_runs(pretended, settings, tasks, jobs, lambda: next(answers, True)))
    assert sorted(record_.spec.run for record_ in records) == [0, 1]


def test_processes_share_the_processors(monkeypatch):
    for name in parallel.THREAD_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(parallel.THREAD_VARIABLES[-1], "3")  # what is told stays
    monkeypatch.setattr("os.cpu_count", lambda: 5)
    tasks = [(RunSpec("hue", "resnet34", number), None) for number in range(2)]
    records = list(parallel.completed_runs(threads_seen, RunSettings("gt-fig5", (), 4), tasks, 2))
    assert [record_.note for record_ in records] == ["2 2 3"] * 2
    assert [os.environ.get(name) for name in parallel.THREAD_VARIABLES] == [None, None, "3"]
