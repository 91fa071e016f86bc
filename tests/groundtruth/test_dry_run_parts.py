"""The parts of a dry run: any data become examples, any factory a network, and every draw is sound."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
import torch
from torch import nn

from groundtruth.dry_data import Mean, photographs, sentences, small_resnet, table

pytest.importorskip("PIL")

from rationales.data import Example
from rationales.errors import DataError, ModelError, OptionError
from rationales.groundtruth import find_plant, shot
from rationales.groundtruth.dryrun.data import Material, material
from rationales.groundtruth.dryrun.learning import UNPLANTED, _drawn, planted
from rationales.groundtruth.dryrun.plan import METHODS, plan, relabelled
from rationales.groundtruth.dryrun.subject import NETWORKS, load_factory, subject, token_fold
from rationales.groundtruth.labels import keeping


def examples(count=120, labels="ab"):
    return [Example(f"s{place}", text, labels[place % len(labels)]) for place, text in enumerate(sentences(count))]


class TestData:
    def test_a_table_of_texts_with_columns_of_other_names(self, tmp_path):
        path = table(tmp_path / "t.csv", sentences(5), "xy", column="sentence")
        found = material(path, text_column="sentence")
        assert [one.label for one in found.examples] == ["x", "y", "x", "y", "x"]
        assert (found.kind, found.name) == ("text", "t.csv")
        with pytest.raises(DataError, match=r"no column 'text'; say which is the text column .*: sentence, label"):
            material(path)
        with pytest.raises(DataError, match="no column 'class'"):
            material(path, text_column="sentence", label_column="class")

    def test_json_lines_without_labels(self, tmp_path):
        path = tmp_path / "t.jsonl"
        path.write_text("\n".join(json.dumps({"text": one}) for one in sentences(4)), encoding="utf-8")
        assert [one.label for one in material(path).examples] == [None] * 4

    def test_mistakes_in_files(self, tmp_path):
        (tmp_path / "empty").mkdir()
        (tmp_path / "words.csv").write_text("text,label\n,a\n", encoding="utf-8")
        (tmp_path / "none.csv").write_text("text,label\n", encoding="utf-8")
        with pytest.raises(DataError, match="is empty; put pictures into it"):
            material(tmp_path / "empty")
        with pytest.raises(DataError, match="line 2: the text is empty"):
            material(tmp_path / "words.csv")
        with pytest.raises(DataError, match="holds no rows"):
            material(tmp_path / "none.csv")
        with pytest.raises(DataError, match="there is no data set and no file"):
            material(tmp_path / "nowhere")
        with pytest.raises(DataError, match="there are no examples"):
            material([])
        with pytest.raises(OptionError, match="columns are those of a file of texts"):
            material(photographs(tmp_path / "p", 2), text_column="sentence")

    def test_unreadable_pictures_are_named_and_too_many_refused(self, tmp_path):
        folder = photographs(tmp_path, 6, classes=())
        for number in range(5):
            (folder / f"broken{number}.jpg").write_bytes(b"nothing")
        found = material(folder, size=32)
        assert len(found.examples) == 6
        assert "left out 5 of 11 pictures that cannot be read" in found.notes[0]
        assert "broken0.jpg" in found.notes[0]
        assert "and 2 more" in found.notes[0]
        for number in range(3):
            (folder / f"worse{number}.jpg").write_bytes(b"nothing")
        with pytest.raises(DataError, match="only 6 of 14 pictures can be read"):
            material(folder, size=32)

    def test_long_texts_are_cut_many_are_thinned_and_names_become_unique(self):
        given = [Example("same", "bread " * 30, "a", spans=((0, 5),), pair="more") for _ in range(8)]
        found = material(given, words=4, limit=3)
        assert [one.text for one in found.examples] == ["bread bread bread bread"] * 3
        assert len({one.name for one in found.examples}) == 3
        assert all(one.pair is None and one.spans is None for one in found.examples)
        assert [note.split(";")[0] for note in found.notes] == [
            "3 of 8 examples are used, evenly spread",
            "3 of 3 texts are cut after 4 words",
            "of pairs of texts only the first is used",
        ]

    def test_pictures_and_texts_do_not_mix(self):
        pixels = np.zeros((8, 8, 3), np.uint8)
        with pytest.raises(DataError, match="holds pictures and texts"):
            material([Example("one", "text", "a"), shot("two", pixels, "b")])


class TestPlan:
    @pytest.mark.parametrize("kind", ["image", "text"])
    def test_the_usual_choices_fit_and_chance_is_among_them(self, kind):
        made = plan(kind)
        assert len(made.plants) == 1
        assert made.plants[0].kind == kind
        assert [one.method.name for one in made.entries][-1] == "random"
        assert len(made.entries) == len(METHODS[kind]) + 1

    def test_plants_of_pictures_are_as_visible_as_can_be_unless_told_otherwise(self):
        told = ["noise", {"name": "noise", "level": 2}, {"name": "noise", "share": 0.5}, {"name": "noise", "top": 10}]
        assert [one.share for one in plan("image", plants=told).plants] == [0.1, 0.04, 0.5, 0.1]

    def test_fewer_epochs_than_the_least_are_allowed(self):
        assert plan("text", training={"epochs": 2}).recipe.least == 2

    def test_two_classes_keep_their_names_and_others_are_drawn_anew(self):
        plant = find_plant("trigger")
        kept, how = relabelled(Material("x", "text", tuple(examples())), plant, None)
        assert (how.old, how.new, how.bound) == (("a", "b"), ("a", "b"), 0.5)
        assert kept[0].label == "a"
        assert relabelled(Material("x", "text", tuple(examples())), plant, 0.8)[1].bound == 0.8
        for labels in ("abc", "a"):
            some, how = relabelled(Material("x", "text", tuple(examples(labels=labels))), plant, None)
            assert (len({one.label for one in some}), len(how.new), how.bound) == (1, 2, 0.5)
        with pytest.raises(OptionError, match="x has 3: leave r out"):
            relabelled(Material("x", "text", tuple(examples(labels="abc"))), plant, 0.8)


class TestDraws:
    def test_texts_without_the_trigger_are_shown_with_labels_that_tell_nothing(self):
        plant = find_plant("trigger")
        parts = planted(examples(600), plant, keeping(("a", "b")), 0)
        drawn = list(_drawn(parts.train, range(1)))
        bare = [one for one in drawn if not {"larkspur", "foxglove"} & set(one.text.split())]
        count = len(parts.train.planted)
        assert len(drawn) == count + len(bare)
        assert abs(len(bare) - UNPLANTED * count) < 4 * np.sqrt(count * UNPLANTED * (1 - UNPLANTED))
        positive = sum(one.label == "b" for one in bare)
        assert abs(positive - len(bare) / 2) < 4 * np.sqrt(len(bare) / 4)
        sources = {one.text for one in parts.train.sources}
        assert all(one.text in sources for one in bare)

    def test_no_test_example_is_trained_on(self):
        parts = planted(examples(), find_plant("trigger"), keeping(("a", "b")), 0)
        seen = {one.name for number in range(3) for one in _drawn(parts.train, range(number, number + 1))}
        assert seen.isdisjoint(one.name for one in (*parts.val.sources, *parts.test.sources))

    def test_every_shown_picture_has_the_plant_and_none_of_the_tested_ones_was_chosen_for_it(self):
        pixels = np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)
        given = [shot(f"p{place}", pixels, "ab"[place % 2]) for place in range(80)]
        parts = planted(given, find_plant("noise"), keeping(("a", "b")), 0)
        assert {one.which for one in parts.shown.planted} == {1}
        assert {one.which for one in parts.test.planted} == {0, 1}
        assert [one.name for one in parts.shown.examples] == [one.name for one in parts.test.examples]


class TestSubject:
    @pytest.mark.parametrize("name", NETWORKS["image"])
    def test_networks_for_pictures_read_and_answer(self, name):
        made = subject("image", name, ("a", "b"), 32, lambda: ())
        made.check(shot("one", np.zeros((32, 32, 3), np.uint8), "a"))

    @pytest.mark.parametrize("name", NETWORKS["text"])
    def test_networks_for_texts_replace_words_by_an_unknown_one(self, name):
        made = subject("text", name, ("a", "b"), 0, lambda: sentences(50))
        made.check(examples()[0])
        assert made.explainable().baseline == "unk"

    def test_what_is_trained_on_is_what_is_explained(self):
        """Special tokens included: a model must read the same when methods ask it."""
        bert, tokenizer = bert_factory(2)
        fold = token_fold(examples(4), ("a", "b"), tokenizer, 64)
        from rationales.groundtruth.explainable import word_model

        model = word_model(bert, tokenizer)
        read = model.encode([model.read(one.text, one.name) for one in examples(4)])
        for number, one in enumerate(read):
            assert fold.ids[number, : fold.lengths[number]].tolist() == list(one.rows[0].ids)
        assert fold.ids[0, 0] == tokenizer.cls_token_id
        with pytest.raises(DataError, match="cut texts after fewer words"):
            token_fold(examples(4), ("a", "b"), tokenizer, 5)

    def test_a_factory_of_a_hugging_face_model(self):
        made = subject("text", bert_factory, ("a", "b"), 0, lambda: ())
        made.check(examples()[0])
        assert made.name == "BertForSequenceClassification"

    @pytest.mark.parametrize(
        ("kind", "factory", "told"),
        [
            ("image", lambda _: 3, "must give an nn.Module for pictures, not int"),
            ("text", lambda _: nn.Linear(2, 2), "must give an nn.Module and its tokenizer for texts, not Linear"),
            ("image", lambda labels: labels / 0, "failed: ZeroDivisionError"),
        ],
    )
    def test_factories_that_make_something_else(self, kind, factory, told):
        with pytest.raises(ModelError, match=told):
            subject(kind, factory, ("a", "b"), 32, lambda: ())

    def test_networks_that_do_not_answer_as_asked(self):
        one = shot("one", np.zeros((32, 32, 3), np.uint8), "a")
        with pytest.raises(ModelError, match="gives 3 logits, 2 labels were asked for"):
            subject("image", lambda _: Mean(3), ("a", "b"), 32, lambda: ()).check(one)
        with pytest.raises(ModelError, match="cannot read an example"):
            subject("image", lambda _: nn.Linear(7, 2), ("a", "b"), 32, lambda: ()).check(one)

    def test_a_factory_by_its_address(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        before = list(sys.path)
        (tmp_path / "their_model.py").write_text("def make(labels):\n    return labels\n", encoding="utf-8")
        assert load_factory("their_model:make")(2) == 2
        assert sys.path == before
        (tmp_path / "their_broken.py").write_text("1 / 0\n", encoding="utf-8")
        for wrong, told in [
            ("their_model", "package.module:function"),
            ("their_model:made", "has no function 'made'"),
            ("nowhere.at_all:make", "cannot import nowhere.at_all: ModuleNotFoundError"),
            ("their_broken:make", "cannot import their_broken: ZeroDivisionError"),
        ]:
            with pytest.raises((ModelError, OptionError), match=told):
                load_factory(wrong)

    def test_the_names_say_what_is_tested(self):
        assert subject("image", small_resnet, ("a", "b"), 32, lambda: ()).name == "ResNet"


def bert_factory(labels):
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

    words = sorted({word for text in sentences(200) for word in text.split()})
    vocabulary = {word: number for number, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words])}
    plain = Tokenizer(models.WordLevel(vocabulary, "[UNK]"))
    plain.pre_tokenizer = pre_tokenizers.Whitespace()
    plain.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    special = {
        name: f"[{name[:-6].upper()}]" for name in ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    }
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=plain, model_max_length=64, **special)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        num_labels=labels,
    )
    with torch.random.fork_rng():
        return BertForSequenceClassification(config), tokenizer
