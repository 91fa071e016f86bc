"""Data are modified the same way in any order, and what cannot work is told before anything is trained."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("PIL")

from PIL import Image

from rationales.data import Example, read_data
from rationales.errors import DataError, OptionError
from rationales.groundtruth import (
    PLANTS,
    find_plant,
    image_example,
    load_images,
    modify,
    reassignment_keeping,
    split,
    truncate_texts,
    uniform_reassignment,
)
from rationales.groundtruth.modified_data import region_share

REVIEW = "A warm film about the sea. It has a good heart, and the end is an honest one."


def shots(count, side=56, labels="ab"):
    rng = np.random.default_rng(1)
    return [
        image_example(f"p{index}", rng.integers(0, 256, (side, side, 3), dtype=np.uint8), labels[index % len(labels)])
        for index in range(count)
    ]


def reviews(count):
    return [Example(f"t{index}", f"{REVIEW} Number {index}.", "np"[index % 2]) for index in range(count)]


def same(mine, theirs):
    if mine.example.image is None:
        return mine.example == theirs.example and mine.region == theirs.region
    return np.array_equal(mine.example.pixels, theirs.example.pixels) and mine.example.label == theirs.example.label


class TestModify:
    @pytest.mark.parametrize("name", PLANTS)
    def test_the_order_of_examples_plays_no_part(self, name):
        plant = find_plant(name)
        originals = shots(12, 64) if plant.kind == "image" else reviews(12)
        forwards, backwards = modify(originals, plant, seed=5), modify(originals[::-1], plant, seed=5)
        assert all(same(a, b) for a, b in zip(forwards.planted, backwards.planted[::-1], strict=True))
        alone = modify(originals[3:4], plant, reassignment=forwards.reassignment, seed=5).planted[0]
        assert same(alone, forwards.planted[3])

    @pytest.mark.parametrize("name", PLANTS)
    def test_another_seed_is_another_data_set(self, name):
        plant = find_plant(name)
        originals = shots(24, 64) if plant.kind == "image" else reviews(24)
        first, second = modify(originals, plant, seed=1), modify(originals, plant, seed=2)
        assert [example.label for example in first.examples] != [example.label for example in second.examples]

    def test_the_label_says_which_manipulation(self):
        modified = modify(reviews(30), find_plant("trigger"))
        assert modified.labels == ("n", "p")
        for planted in modified.planted:
            word = planted.example.text[slice(*planted.region[0])]
            assert word == {"n": "larkspur", "p": "foxglove"}[planted.example.label]

    def test_what_is_known_is_on_record(self):
        modified = modify(
            [*reviews(9), Example("bare", "No such word here.", "n")], find_plant("articles"), r=0.8, seed=3
        )
        assert modified.bound == 0.8
        assert modified.left_out == (("bare", "there is no article in it"),)
        assert modified.area == pytest.approx(np.mean([region_share(planted) for planted in modified.planted]))
        assert len(modified.sources) == len(modified.planted) == 9

    def test_again_is_another_draw_of_the_same_distribution(self):
        modified = modify(reviews(40), find_plant("articles"), seed=3)
        assert all(same(a, b) for a, b in zip(modified.planted, modified.redraw(0).planted, strict=True))
        labels = [[example.label for example in modified.redraw(number).examples] for number in range(3)]
        assert labels[0] != labels[1] != labels[2]
        assert all(same(a, b) for a, b in zip(modified.redraw(2).planted, modified.redraw(2).planted, strict=True))

    def test_any_number_of_classes_can_become_two(self):
        modified = modify(
            shots(20, labels="abcde"),
            find_plant("noise"),
            reassignment=uniform_reassignment("abcde", ("without", "with")),
        )
        assert modified.bound == 0.5
        assert all(bool(planted.changed.any()) == (planted.example.label == "with") for planted in modified.planted)


class TestBadInput:
    def test_more_classes_than_manipulations(self):
        with pytest.raises(OptionError, match="blur can tell 2 classes apart, and there are 3: a, b, c"):
            modify(shots(6, labels="abc"), find_plant("blur"))

    def test_examples_without_labels_or_none_at_all(self):
        with pytest.raises(DataError, match="1 examples have no label, such as x"):
            modify([*reviews(3), Example("x", REVIEW)], find_plant("articles"))
        with pytest.raises(DataError, match="there are no examples"):
            modify([], find_plant("articles"))

    def test_a_plant_that_fits_nothing(self):
        with pytest.raises(DataError, match=r"articles fits none of the 2 examples \(x: there is no article in it"):
            modify([Example("x", "bread", "a"), Example("y", "sea", "b")], find_plant("articles"))

    def test_classes_with_five_examples(self):
        with pytest.raises(DataError, match=r"class 'a' has 5 examples, too few.*about 27 of each class"):
            split(shots(10))

    def test_one_small_class_among_large_ones(self):
        examples = [*shots(80), *(Example(f"few{index}", "x", "c") for index in range(5))]
        with pytest.raises(DataError, match="class 'c' has 5 examples"):
            split(examples)

    def test_what_is_asked_for_is_enough(self):
        splits = split(shots(54))
        assert (len(splits.train), len(splits.val), len(splits.test)) == (38, 8, 8)

    def test_labels_that_stay_need_more_examples(self):
        """At r = 0.9 even a perfect model needs 44 test examples: 0.9^44 < 0.01."""
        with pytest.raises(DataError, match="too few"):
            split(shots(60), bound=0.9)
        assert len(split(shots(400), bound=0.9).test) >= 44

    def test_unreadable_images_are_left_out_and_told(self, tmp_path):
        for number in range(6):
            folder = tmp_path / "ab"[number % 2]
            folder.mkdir(exist_ok=True)
            Image.fromarray(shots(1, 80)[0].pixels).save(folder / f"{number}.png")
        (tmp_path / "a" / "0.png").write_bytes(b"\x89PNG\r\n\x1a\n broken")
        (tmp_path / "b" / "note.jpg").write_text("no picture at all")
        (tmp_path / "b" / "empty.jpg").write_bytes(b"")
        loaded = load_images(read_data(tmp_path), size=32)
        assert sorted(example.name for example in loaded.examples) == [
            "a/2.png",
            "a/4.png",
            "b/1.png",
            "b/3.png",
            "b/5.png",
        ]
        assert sorted(name for name, _ in loaded.unreadable) == ["a/0.png", "b/empty.jpg", "b/note.jpg"]
        assert all(reason for _, reason in loaded.unreadable)

    def test_hardly_any_readable_image_is_an_error(self, tmp_path):
        (tmp_path / "a").mkdir()
        for number in range(3):
            (tmp_path / "a" / f"{number}.jpg").write_text("no picture")
        with pytest.raises(DataError, match=r"only 0 of 3 images can be read: a/0\.jpg is a text, not an image"):
            load_images(read_data(tmp_path), size=32)

    def test_texts_are_no_pictures(self):
        with pytest.raises(DataError, match="t0 is a text"):
            load_images(reviews(1))


class TestSplit:
    def test_each_class_in_the_same_shares_whatever_the_order(self):
        examples = shots(200, side=8, labels="aab")
        splits, again = split(examples, seed=4), split(examples[::-1], seed=4)
        for members, repeated in ((splits.train, again.train), (splits.val, again.val), (splits.test, again.test)):
            assert {example.name for example in members} == {example.name for example in repeated}
            share = np.mean([example.label == "b" for example in members])
            assert share == pytest.approx(1 / 3, abs=0.04)
        names = [example.name for members in (splits.train, splits.val, splits.test) for example in members]
        assert len(names) == len(set(names)) == 200

    def test_shares_add_up(self):
        with pytest.raises(OptionError, match="add up to 1"):
            split(shots(50), shares=(0.5, 0.2, 0.2))


def test_pictures_are_cut_to_the_middle_square_and_read_as_they_are(tmp_path):
    wide = np.zeros((40, 80, 3), np.uint8)
    wide[:, 20:60] = 200
    Image.fromarray(wide).save(tmp_path / "one.png")
    loaded = load_images([Example("one", label="a", image=tmp_path / "one.png")], size=40).examples[0]
    assert (loaded.pixels == 200).all()
    assert loaded.raw_input() is loaded.pixels


def test_texts_are_cut_after_whole_words():
    cut = truncate_texts([Example("one", "a b  c d", "x", spans=((0, 1), (5, 6)))], 3)[0]
    assert (cut.text, cut.spans) == ("a b  c", None)
    short = Example("one", "a b", "x")
    assert truncate_texts([short], 3) == [short]


def test_keeping_all_labels_gives_a_bound_of_one():
    assert modify(reviews(4), find_plant("articles"), r=1.0).bound == reassignment_keeping("np", 1.0).bound == 1.0
