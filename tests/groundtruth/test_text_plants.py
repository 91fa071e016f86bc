"""Plants in texts change the words they say they change, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from strategies import texts

from rationales.data import Example
from rationales.errors import DataError, OptionError
from rationales.groundtruth import PLANTS, find_plant, modify, random_generator
from rationales.groundtruth.plants.article_plants import find_articles
from rationales.groundtruth.plants.text_plants import Edit, TextPlant, apply_edits
from rationales.models.text.units import words

TEXT_PLANTS = [plant for plant in PLANTS.values() if issubclass(plant, TextPlant)]
VOCABULARY = ["the", "a", "An", "The", "THE", "bread", "is", "warm", "and", "Small", "wasn't", "3.14", ",", ".", "!"]
plain = st.lists(st.sampled_from(VOCABULARY), min_size=3, max_size=25).map(" ".join)
anything = st.one_of(plain, texts, st.builds("{} {}".format, plain, texts), st.builds("{}{}".format, texts, plain))
REVIEW = "A warm film about the sea. It has a good heart, and the end is an honest one."


def planted(plant, text, manipulation=1, seed=0):
    return plant.apply(Example("one", text, "x"), random_generator(seed, "plant", "one"), manipulation)


def outside(text, spans):
    """The words that share no character with a span."""
    return [text[start:end] for start, end in words(text) if all(end <= a or b <= start for a, b in spans)]


class TestEveryPlant:
    @given(kind=st.sampled_from(TEXT_PLANTS), text=anything, manipulation=st.integers(0, 1), seed=st.integers(0, 999))
    @settings(max_examples=250)
    def test_words_outside_of_the_spans_are_bit_identical(self, kind, text, manipulation, seed):
        """Whatever the text: other alphabets, emoji, combining marks, any white space."""
        plant = kind()
        assume(not plant.reason_text_unfit(text))
        result = planted(plant, text, manipulation, seed)
        new, spans = result.example.text, (*result.region, *result.distractors)
        edits = plant.edits(text, random_generator(seed, "plant", "one"), manipulation)
        replaced = [(edit.start, edit.end) for edit in edits if edit.start < edit.end]
        assert outside(new, spans) == outside(text, replaced)
        assert [new[start:end] for start, end in sorted(spans)] == [
            edit.replacement.strip() for edit in sorted(edits, key=lambda edit: edit.start)
        ]

    @given(kind=st.sampled_from(TEXT_PLANTS), text=anything, seed=st.integers(0, 999))
    @settings(max_examples=120)
    def test_the_classes_differ_in_the_region_alone(self, kind, text, seed):
        """What tells the class is inside: outside of the spans, and in distractors, both classes read the same."""
        plant = kind()
        assume(not plant.reason_text_unfit(text))
        first, second = (planted(plant, text, manipulation, seed) for manipulation in (0, 1))
        unplanted_words = [outside(result.example.text, result.region) for result in (first, second)]
        assert unplanted_words[0] == unplanted_words[1]
        assert len(words(first.example.text)) == len(words(second.example.text))
        inside = [[result.example.text[a:b] for a, b in result.region] for result in (first, second)]
        assert len(inside[0]) == len(inside[1]) > 0
        assert all(first_text != second_text for first_text, second_text in zip(*inside, strict=True))

    @pytest.mark.parametrize("kind", TEXT_PLANTS)
    def test_spans_of_the_example_are_the_region(self, kind):
        result = planted(kind(), REVIEW)
        assert result.example.spans == result.region
        assert result.example.label == "x"
        assert set(result.changed) <= {*result.region, *result.distractors} or result.changed == result.region

    @pytest.mark.parametrize("kind", TEXT_PLANTS)
    def test_what_it_cannot_be_planted_in_is_told(self, kind):
        with pytest.raises(DataError, match="cannot be planted in one: "):
            planted(kind(), " \t")
        with pytest.raises(OptionError, match="manipulations 0 to 1, not 2"):
            planted(kind(), REVIEW, manipulation=2)


class TestArticles:
    def test_all_become_that_of_the_class(self):
        assert planted(find_plant("articles"), REVIEW, 0).example.text == (
            "A warm film about a sea. It has a good heart, and a end is a honest one."
        )
        result = planted(find_plant("articles"), REVIEW, 1)
        assert (
            result.example.text == "The warm film about the sea. It has the good heart, and the end is the honest one."
        )
        assert [result.example.text[a:b] for a, b in result.region] == ["The", "the", "the", "the", "the"]
        assert [result.example.text[a:b] for a, b in result.changed] == ["The", "the", "the"]  # two were "the" already

    @given(st.lists(st.sampled_from(["the", "a", "an", "bread", "is", "warm", ",", "."]), min_size=1, max_size=30))
    def test_white_space_words_one_by_one(self, tokens):
        """Literally: each token that is an article becomes the class's, each other one stays."""
        text = " ".join(tokens)
        assume(any(token in ("a", "an", "the") for token in tokens))
        expected = ["the" if token in ("a", "an", "the") else token for token in tokens]
        assert planted(find_plant("articles"), text, 1).example.text == " ".join(expected)

    @pytest.mark.parametrize(
        ("text", "count"),
        [
            ("An A-list of a.m. flights", 1),
            ("vitamin A. Then", 0),
            ('"The" end', 1),
            ("THE END (a pity)", 2),
            ("là-a", 0),
        ],
    )
    def test_only_articles_that_stand_free_count(self, text, count):
        assert len(find_articles(text)) == count

    @pytest.mark.parametrize(("name", "first"), [("cn", True), ("nc", False)])
    def test_only_one_half_tells(self, name, first):
        """Figure 9: eight articles, half of the words each side."""
        text = "the cat a dog the cow an owl the cat a dog the cow an owl"
        results = [planted(find_plant(name), text, 1, seed) for seed in range(40)]
        halves = [result.example.text.split() for result in results]
        informative, distracting = (slice(0, 8, 2), slice(8, 16, 2))[:: 1 if first else -1]
        assert all(half[informative] == ["the"] * 4 for half in halves)
        assert {tuple(half[distracting]) for half in halves} == {("a",) * 4, ("the",) * 4}  # all the same, by chance
        for result in results:
            assert len(result.region) == len(result.distractors) == 4
            assert all((result.example.text[:a].count(" ") < 8) == first for a, _ in result.region)

    def test_the_idle_half_does_not_depend_on_the_class(self):
        for seed in range(20):
            first, second = (planted(find_plant("cn"), REVIEW, manipulation, seed) for manipulation in (0, 1))
            assert [first.example.text[a:b] for a, b in first.distractors] == [
                second.example.text[a:b] for a, b in second.distractors
            ]

    def test_the_idle_article_is_as_often_one_as_the_other(self):
        results = [planted(find_plant("nc"), REVIEW, 1, seed) for seed in range(400)]
        the = sum(result.example.text[slice(*result.distractors[0])].lower() == "the" for result in results)
        assert abs(the - 200) < 5 * 10  # five deviations of sqrt(400 / 4)

    def test_a_half_without_articles_cannot_tell(self):
        assert "first half" in find_plant("cn").reason_unfit(Example("one", "bread is warm and the sea is a mess"))
        assert "second half" in find_plant("nc").reason_unfit(Example("one", "the sea is a mess and bread is warm"))


class TestInsertions:
    def test_a_word_comes_in_at_any_gap(self):
        texts = {planted(find_plant("trigger"), "warm and small", 1, seed).example.text for seed in range(60)}
        assert texts == {
            "foxglove warm and small",
            "warm foxglove and small",
            "warm and foxglove small",
            "warm and small foxglove",
        }

    def test_position_and_copies(self):
        assert planted(find_plant("trigger", {"position": "end"}), REVIEW).example.text.endswith("one. foxglove")
        assert planted(find_plant("phrase", {"position": "start"}), REVIEW, 0).example.text.startswith(
            "as it were A warm"
        )
        result = planted(find_plant("trigger", {"copies": 3}), REVIEW)
        assert result.example.text.count("foxglove") == 3
        assert len(result.region) == 3

    def test_a_sentence_comes_between_sentences(self):
        texts = {planted(find_plant("sentence"), REVIEW, 1, seed).example.text for seed in range(40)}
        sentence = "Watched abroad during some other weekend."
        first, second = "A warm film about the sea.", "It has a good heart, and the end is an honest one."
        assert texts == {
            f"{sentence} {first} {second}",
            f"{first} {sentence} {second}",
            f"{first} {second} {sentence}",
        }

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"inserted": ("one", "two words")}, "length of a text reveals the class"),
            ({"inserted": ("my word", "my term")}, "my is inserted for every class"),
            ({"inserted": ("word",)}, "two classes or more"),
            ({"inserted": ("word", " ")}, "two classes or more"),
            ({"position": "middle"}, "one of random, start, end"),
            ({"copies": 0}, "at least one; not 0"),
        ],
    )
    def test_what_gives_the_class_away_is_refused(self, options, message):
        with pytest.raises(OptionError, match=message):
            find_plant("trigger", options)

    def test_a_text_that_holds_the_trigger_already_is_left_out(self):
        assert "it already contains" in find_plant("trigger").reason_unfit(Example("one", "A Foxglove grows."))
        assert "it already contains" in find_plant("phrase").reason_unfit(Example("one", "It is, so to speak, done."))
        assert not find_plant("phrase").reason_unfit(Example("one", "To speak so is new."))


class TestArtefacts:
    def test_casing(self):
        assert planted(find_plant("casing"), "I Saw it.", 1).example.text == "I SAW it."
        assert planted(find_plant("casing"), "I Saw it.", 0).example.text == "I saw it."
        many = find_plant("casing", {"count": 2, "styles": ("upper", "title")})
        assert planted(many, "saw the sea", 1).example.text == "Saw The sea"
        with pytest.raises(OptionError, match="two different styles"):
            find_plant("casing", {"styles": ("upper", "upper")})

    def test_punctuation(self):
        for text, expected in (("Warm", "Warm!"), ("Warm. ", "Warm! "), ("Warm ...", "Warm !"), ("Warm?!", "Warm!")):
            result = planted(find_plant("punctuation"), text)
            assert result.example.text == expected
            assert [expected[a:b] for a, b in result.region] == ["!"]
        assert find_plant("punctuation").reason_unfit(Example("one", "He said “no”."))
        with pytest.raises(OptionError, match="two different marks"):
            find_plant("punctuation", {"marks": (".", ",")})


class TestEdits:
    def test_overlapping_edits_are_an_error(self):
        with pytest.raises(DataError, match="overlaps another"):
            apply_edits("abc", [Edit(0, 2, "x"), Edit(1, 3, "y")])

    @given(st.text(max_size=20), st.data())
    def test_what_stands_outside_is_the_same_text(self, text, data):
        cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), min_size=2, max_size=6)))
        pieces = list(zip(cuts[::2], cuts[1::2], strict=False))
        edited = apply_edits(text, [Edit(a, b, "·new·") for a, b in pieces])
        assert len(edited.text) == len(text) + sum(5 - (b - a) for a, b in pieces)
        kept = [
            text[a:b] for a, b in zip([0, *(b for _, b in pieces)], [*(a for a, _ in pieces), len(text)], strict=True)
        ]
        assert edited.text == "·new·".join(kept)


def test_a_text_of_articles_alone_is_covered_entirely():
    examples = [Example(str(index), "the a an", "xy"[index % 2]) for index in range(4)]
    with pytest.raises(DataError, match="covers 100% of the inputs"):
        modify(examples, find_plant("articles"))


def test_pictures_are_no_texts(tmp_path):
    with pytest.raises(DataError, match="it is an image"):
        find_plant("articles").apply(Example("one", image=tmp_path), np.random.default_rng(0))
    with pytest.raises(DataError, match="is a text; this plant changes images"):
        find_plant("blur").apply(Example("one", "a text"), np.random.default_rng(0))
