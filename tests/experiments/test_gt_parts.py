"""What the ground-truth experiments are made of: material, numbers over runs and inputs, files, choices."""

from __future__ import annotations

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
from rationales.evaluation.statistics import estimate
from rationales.experiments.ground_truth import birds, passages, pool
from rationales.experiments.ground_truth.fig5 import DIMENSIONS, PLANTS
from rationales.experiments.ground_truth.plan import Plan, Setting
from rationales.experiments.ground_truth.record import Record, Store
from rationales.experiments.ground_truth.rows import PICTURES, TEXTS, choose, method_dimension
from rationales.experiments.ground_truth.running import explained_inputs, run_print
from rationales.experiments.ground_truth.summary import nested, rank_correlation, slope
from rationales.groundtruth import find_plant, modify
from rationales.groundtruth.image_examples import read_pixels


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return birds.parts(bird_folder(tmp_path_factory.mktemp("birds"), train=8, rest=8), birds.SIMILAR[0])


class TestNested:
    @given(st.lists(st.lists(st.floats(0, 1), min_size=2, max_size=6), min_size=1, max_size=4))
    def test_is_the_mean_of_all_inputs_within_its_interval(self, runs):
        found = nested([np.array(one) for one in runs])
        every = np.concatenate([np.array(one) for one in runs])
        assert found.mean == pytest.approx(every.mean())
        assert found.low - 1e-9 <= found.mean <= found.high + 1e-9
        assert found.n == len(every)

    def test_runs_that_differ_widen_it(self):
        """Twenty inputs each, all alike within a run: only the runs tell how sure the mean is."""
        runs = [np.full(20, value) for value in (0.2, 0.4, 0.6, 0.8)]
        found, flat = nested(runs), estimate(np.concatenate(runs))
        assert found.high - found.low > 2 * (flat.high - flat.low)

    def test_pooled_shares_and_missing_values(self):
        parts = [np.array([1.0, 2.0, np.nan]), np.array([0.0])]
        wholes = [np.array([2.0, 2.0, 5.0]), np.array([4.0])]
        assert nested(parts, wholes).mean == pytest.approx(3 / 8)
        assert nested(parts, wholes).n == 3
        assert math.isnan(nested([np.array([np.nan])]).mean)


@pytest.mark.parametrize(
    ("y", "wanted"), [([1, 2, 3, 4], 1.0), ([4, 3, 2, 1], -1.0), ([1, 1, 2, 2], 2 / 5**0.5), ([1, 1, 1, 1], math.nan)]
)
def test_rank_correlation(y, wanted):
    """Ranks 1.5, 1.5, 3.5, 3.5 against 1 to 4: the covariance is 1, the variances 1 and 1.25."""
    assert rank_correlation([0.1, 0.2, 0.3, 0.9], y) == pytest.approx(wanted, nan_ok=True)
    assert math.isnan(rank_correlation([1, 2], [1, 2]))


def test_slope():
    assert slope([0.5, 0.7, 1.0], [0.9, 0.7, 0.4]) == pytest.approx(-1)
    assert math.isnan(slope([0.5, 0.5], [0, 1]))


class TestBirds:
    def test_pairs_are_similar_or_not(self):
        for seed in range(20):
            assert birds.pair(seed, distinct=False) in birds.SIMILAR
            one, other = birds.pair(seed, distinct=True)
            assert not any({one, other} == set(pair) for pair in birds.SIMILAR)
            assert one < other

    @pytest.mark.parametrize("name", PLANTS)
    def test_places_are_drawn_and_stay_while_the_visibility_changes(self, name):
        drawn = {str(birds.place(name, 0, seed, 32)) for seed in range(5)}
        assert len(drawn) == 5
        faint, clear = (birds.place(name, level, 3, 32) for level in (1, 5))
        assert (faint.region(32, 32) == clear.region(32, 32)).all()
        assert getattr(faint, faint.visibility_field) == faint.levels[0]
        assert getattr(clear, clear.visibility_field) == clear.levels[-1]

    def test_a_deck_deals_labels_anew_and_plants_where_it_should(self, pictures):
        plant = find_plant("noise", {"share": 1.0})
        deck = birds.Deck(pictures.train, plant, pictures.kinds, 0.5, 7, torch.device("cpu"), versions=2)
        inside = torch.from_numpy(plant.region(32, 32))
        first, again, other = deck.fold(0), deck.fold(2), deck.fold(1)
        source = torch.stack([torch.from_numpy(read_pixels(one).copy()).permute(2, 0, 1) for one in pictures.train])
        assert torch.equal(
            first.pixels[:, :, ~inside], source[:, :, ~inside]
        )  # version 0 is as it was but for the plant
        changed = (first.pixels[:, :, inside] != source[:, :, inside]).flatten(1).any(1)
        assert torch.equal(changed, first.labels == 1)
        assert 0 < int(first.labels.sum()) < len(first)
        assert not torch.equal(first.labels, again.labels)
        assert not torch.equal(other.pixels[:, :, ~inside], source[:, :, ~inside])  # moved and mirrored
        assert torch.equal(deck.fold(1).pixels, other.pixels)

    def test_pieces_are_an_epoch(self, pictures):
        deck = birds.Deck(pictures.train, find_plant("hue"), pictures.kinds, 1.0, 7, torch.device("cpu"), versions=1)
        pieces = [deck.piece(number, 4) for number in range(4)]
        assert sum(len(one) for one in pieces) == len(pictures.train)
        assert sum(int(one.labels.sum()) for one in pieces) == 8  # with r = 1 the second kind has the plant, always

    def test_moved_pictures_keep_their_colours(self):
        rng = np.random.default_rng(0)
        row = rng.integers(0, 256, (3, 28, 28, 3)).astype(np.uint8)
        made = birds.moved(row, np.random.default_rng(1))
        assert made.shape == row.shape
        for before, after in zip(row, made, strict=True):
            assert set(map(bytes, after.reshape(-1, 3))) <= set(map(bytes, before.reshape(-1, 3)))

    def test_moved_pictures_pixel_by_pixel(self):
        pixels = np.random.default_rng(0).integers(0, 256, (9, 28, 42, 3)).astype(np.uint8)
        rng = np.random.default_rng(1)
        down, across, turned = rng.integers(-2, 3, 9), rng.integers(-3, 4, 9), rng.random(9) < 0.5
        made = birds.moved(pixels, np.random.default_rng(1))

        def mirrored(place, side):
            return -1 - place if place < 0 else 2 * side - 1 - place if place >= side else place

        for number in range(9):
            for row in range(28):
                for column in range(42):
                    wanted = 41 - column if turned[number] else column
                    there = mirrored(row + down[number], 28), mirrored(wanted + across[number], 42)
                    assert (made[number, row, column] == pixels[number][there]).all()

    def test_a_kind_that_is_not_there_is_told(self, tmp_path):
        with pytest.raises(DataError, match="has no pictures of albatross"):
            birds.parts(bird_folder(tmp_path, train=1, rest=1), ("albatross", "gull"))

    def test_as_many_inputs_of_each_class_are_explained(self, pictures):
        test = modify(pictures.test, find_plant("noise"), seed=3).planted
        assert [sum(one.manipulation == which for one in explained_inputs(test, 5)) for which in (0, 1)] == [3, 2]
        assert len(explained_inputs(test, 1)) == 1
        assert explained_inputs(test, 1000) == list(test)


class TestPassages:
    def test_are_cut_and_keep_every_word(self):
        text = " ".join(f"w{number}" for number in range(250))
        made = passages.passages([Example("r", text, "positive", spans=((0, 2),))])
        assert [len(one.text.split()) for one in made] == [100, 100, 50]
        assert " ".join(one.text for one in made) == text
        assert [one.name for one in made] == ["r 1", "r 2", "r 3"]
        assert all(one.label == "positive" and one.spans is None for one in made)

    def test_a_short_end_is_left_out_but_no_whole_review(self):
        long = Example("long", "w " * 110, "negative")
        short = Example("short", "w w w", "negative")
        assert [one.name for one in passages.passages([long, short])] == ["long 1", "short 1"]

    def test_parts_come_from_different_reviews_and_are_told(self, tmp_path):
        found = passages.texts(passages.MOVIES, review_folder(tmp_path, 3, 2))
        assert [len(part) for part in (found.train, found.val, found.test)] == [6, 4, 4]
        told = passages.said(passages.MOVIES, found)
        assert "BeerAdvocate cannot be had" in told
        assert "6 to train on, 4 to stop by, 4 to test on" in told
        with pytest.raises(OptionError, match="movies or sentences"):
            passages.texts("beers", None)


class TestChoice:
    def test_what_is_named_of_a_dimension_replaces_what_is_usual(self):
        found = choose(DIMENSIONS, ["noise", "lime", "paper"])
        assert found["plants"] == ("noise",)
        assert found["networks"] == ("resnet34",)
        assert found["methods"] == ("gradient", "smooth-grad", "grad-cam", "lime", "shap", "random")
        usual = choose(DIMENSIONS, None)
        assert usual["plants"] == PLANTS
        assert set(usual["methods"]) == set(PICTURES) - {"shapley-sampling", "marc-resnet"}

    def test_an_unknown_one_is_answered_with_the_known_ones(self):
        with pytest.raises(OptionError, match="no row 'smoke'; there are: blur, brightness"):
            choose(DIMENSIONS, ["smoke"])

    def test_no_name_means_two_things(self):
        names = [name for one in DIMENSIONS for name in one.names]
        assert len(names) == len(set(names))

    @pytest.mark.parametrize(("kind", "specs"), [("image", PICTURES), ("text", TEXTS)])
    def test_every_method_can_be_built(self, kind, specs):
        for one in specs.values():
            assert one.built(kind, 112).name == one.method
        assert "random" in method_dimension(specs, ("marc",)).always


class TestRecords:
    def test_come_back_as_they_were(self, tmp_path):
        plan = Plan("hue", "resnet34", 2, level=3, r=0.7)
        made = record(plan, {"gradient": (0.5, float("nan"))})
        store = Store(tmp_path)
        store.put(made)
        (path,) = (tmp_path / "runs").iterdir()
        assert path.name == "birds-hue-resnet34-level3-r0.7-run3.json"
        found = store.get(plan)
        assert found is not None
        assert found.plan == plan
        assert found.to_dict() == made.to_dict()
        assert math.isnan(found.told["gradient"].values["region"][0])
        assert store.get(Plan("hue", "resnet34")) is None

    @pytest.mark.parametrize("broken", ["{", "[]", '{"format": 99}', '{"format": 1, "plan": {}}'])
    def test_a_broken_file_is_a_run_that_is_made_again(self, tmp_path, broken):
        plan = Plan("hue", "resnet34")
        (tmp_path / "runs").mkdir()
        (tmp_path / "runs" / f"{plan.key}.json").write_text(broken)
        assert Store(tmp_path).get(plan) is None

    def test_nothing_is_kept_without_a_folder(self):
        Store(None).put(record(Plan("hue", "resnet34"), {}))
        assert Store(None).get(Plan("hue", "resnet34")) is None

    def test_json_has_no_nan(self):
        text = json.dumps(record(Plan("hue", "x"), {"a": (0.1, math.nan)}).to_dict(), allow_nan=False)
        assert Record.from_dict(json.loads(text)).area == 0.25

    def test_a_print_hangs_on_everything_but_methods_and_device(self):
        plan, setting = Plan("hue", "resnet34"), Setting("gt-fig5", ("lime",), 10)
        own = run_print(plan, setting, "")
        assert own == run_print(plan, Setting("gt-fig5", ("marc",), 10, device="cuda"), "")
        others = [Setting("gt-fig5", ("lime",), 11), Setting("gt-fig5", ("lime",), 10, seed=1)]
        assert len({own, *(run_print(plan, one, "") for one in others), run_print(plan, setting, "longer")}) == 4

    def test_seeds_differ_and_places_stay_where_they_should(self):
        free, fixed = Setting("a", (), 1), Setting("a", (), 1, fixed=True)
        one, other = Plan("hue", "resnet34", level=1), Plan("hue", "resnet34", level=2)
        assert free.training_seed(one, 0) != free.training_seed(one, 1) != free.training_seed(other, 1)
        assert fixed.place_seed(one, 0) == fixed.place_seed(other, 2)
        assert free.place_seed(one, 0) != free.place_seed(one, 1)


@pytest.mark.parametrize("jobs", [1, 2])
def test_runs_can_be_made_in_processes_of_their_own(jobs):
    plans = [Plan("hue", "resnet34", number) for number in range(2)]
    tasks = [(plans[0], None), (plans[1], record(plans[1], {}))]
    found = list(pool.finished(pretended, Setting("gt-fig5", (), 4), tasks, jobs))
    assert {one.plan: one.note for one in found} == {plans[0]: "new", plans[1]: "old"}


def test_processes_share_the_processors(monkeypatch):
    for name in pool.THREADS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(pool.THREADS[-1], "3")  # what is told stays
    monkeypatch.setattr("os.cpu_count", lambda: 5)
    tasks = [(Plan("hue", "resnet34", number), None) for number in range(2)]
    found = list(pool.finished(threads_seen, Setting("gt-fig5", (), 4), tasks, 2))
    assert [one.note for one in found] == ["2 2 3"] * 2
    assert [os.environ.get(name) for name in pool.THREADS] == [None, None, "3"]
