"""The parts of a dry run: any data become examples, any factory a network, and every draw is sound."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
import torch
from torch import nn

from groundtruth.dry_run_data import Mean, photographs, sentences, small_resnet, table

pytest.importorskip("PIL")

from rationales.data import Example
from rationales.errors import DataError, ModelError, OptionError
from rationales.groundtruth import find_plant, image_example
from rationales.groundtruth.dryrun.input_data import InputData, prepare_data
from rationales.groundtruth.dryrun.network_under_test import (
    NETWORKS,
    build_network,
    encode_with_special_tokens,
    load_factory,
)
from rationales.groundtruth.dryrun.planted_training import UNPLANTED_SHARE, draw_training_examples, plant_splits
from rationales.groundtruth.dryrun.settings import DEFAULT_METHODS, choose_labels, resolve_settings
from rationales.groundtruth.label_reassignment import reassignment_keeping


def examples(count=120, labels="ab"):
    return [Example(f"s{index}", text, labels[index % len(labels)]) for index, text in enumerate(sentences(count))]


class TestData:
    def test_a_table_of_texts_with_columns_of_other_names(self, tmp_path):
        path = table(tmp_path / "t.csv", sentences(5), "xy", column="sentence")
        data = prepare_data(path, text_column="sentence")
        assert [example.label for example in data.examples] == ["x", "y", "x", "y", "x"]
        assert (data.kind, data.name) == ("text", "t.csv")
        with pytest.raises(DataError, match=r"no column 'text'; say which is the text column .*: sentence, label"):
            prepare_data(path)
        with pytest.raises(DataError, match="no column 'class'"):
            prepare_data(path, text_column="sentence", label_column="class")

    def test_json_lines_without_labels(self, tmp_path):
        path = tmp_path / "t.jsonl"
        path.write_text("\n".join(json.dumps({"text": text}) for text in sentences(4)), encoding="utf-8")
        assert [example.label for example in prepare_data(path).examples] == [None] * 4

    def test_mistakes_in_files(self, tmp_path):
        (tmp_path / "empty").mkdir()
        (tmp_path / "words.csv").write_text("text,label\n,a\n", encoding="utf-8")
        (tmp_path / "none.csv").write_text("text,label\n", encoding="utf-8")
        with pytest.raises(DataError, match="is empty; put images into it"):
            prepare_data(tmp_path / "empty")
        with pytest.raises(DataError, match="line 2: the text is empty"):
            prepare_data(tmp_path / "words.csv")
        with pytest.raises(DataError, match="holds no rows"):
            prepare_data(tmp_path / "none.csv")
        with pytest.raises(DataError, match="there is no data set and no file"):
            prepare_data(tmp_path / "nowhere")
        with pytest.raises(DataError, match="there are no examples"):
            prepare_data([])
        with pytest.raises(OptionError, match="columns are those of a file of texts"):
            prepare_data(photographs(tmp_path / "p", 2), text_column="sentence")

    def test_unreadable_pictures_are_named_and_too_many_refused(self, tmp_path):
        folder = photographs(tmp_path, 6, classes=())
        for number in range(5):
            (folder / f"broken{number}.jpg").write_bytes(b"nothing")
        data = prepare_data(folder, size=32)
        assert len(data.examples) == 6
        assert "left out 5 of 11 images that cannot be read" in data.notes[0]
        assert "broken0.jpg" in data.notes[0]
        assert "and 2 more" in data.notes[0]
        for number in range(3):
            (folder / f"worse{number}.jpg").write_bytes(b"nothing")
        with pytest.raises(DataError, match="only 6 of 14 images can be read"):
            prepare_data(folder, size=32)

    def test_long_texts_are_cut_many_are_thinned_and_names_become_unique(self):
        raw_examples = [Example("same", "bread " * 30, "a", spans=((0, 5),), pair="more") for _ in range(8)]
        data = prepare_data(raw_examples, max_words=4, limit=3)
        assert [example.text for example in data.examples] == ["bread bread bread bread"] * 3
        assert len({example.name for example in data.examples}) == 3
        assert all(example.pair is None and example.spans is None for example in data.examples)
        assert [note.split(";")[0] for note in data.notes] == [
            "3 of 8 examples are used, evenly spread",
            "3 of 3 texts are cut after 4 words",
            "of pairs of texts only the first is used",
        ]

    def test_pictures_and_texts_do_not_mix(self):
        pixels = np.zeros((8, 8, 3), np.uint8)
        with pytest.raises(DataError, match="holds images and texts"):
            prepare_data([Example("one", "text", "a"), image_example("two", pixels, "b")])


class TestSettings:
    @pytest.mark.parametrize("kind", ["image", "text"])
    def test_the_usual_choices_fit_and_chance_is_among_them(self, kind):
        settings = resolve_settings(kind)
        assert len(settings.plants) == 1
        assert settings.plants[0].kind == kind
        assert [entry.method.name for entry in settings.entries][-1] == "random"
        assert len(settings.entries) == len(DEFAULT_METHODS[kind]) + 1

    def test_plants_of_pictures_are_as_visible_as_can_be_unless_told_otherwise(self):
        requested = [
            "noise",
            {"name": "noise", "level": 2},
            {"name": "noise", "share": 0.5},
            {"name": "noise", "top": 10},
        ]
        assert [plant.share for plant in resolve_settings("image", plants=requested).plants] == [0.1, 0.04, 0.5, 0.1]

    def test_fewer_epochs_than_the_least_are_allowed(self):
        assert resolve_settings("text", training={"epochs": 2}).recipe.min_epochs == 2

    def test_two_classes_keep_their_names_and_others_are_drawn_anew(self):
        plant = find_plant("trigger")
        kept, reassignment = choose_labels(InputData("x", "text", tuple(examples())), plant, None)
        assert (reassignment.old_labels, reassignment.new_labels, reassignment.bound) == (("a", "b"), ("a", "b"), 0.5)
        assert kept[0].label == "a"
        assert choose_labels(InputData("x", "text", tuple(examples())), plant, 0.8)[1].bound == 0.8
        for labels in ("abc", "a"):
            relabelled, reassignment = choose_labels(
                InputData("x", "text", tuple(examples(labels=labels))), plant, None
            )
            assert (
                len({example.label for example in relabelled}),
                len(reassignment.new_labels),
                reassignment.bound,
            ) == (1, 2, 0.5)
        with pytest.raises(OptionError, match="x has 3: leave r out"):
            choose_labels(InputData("x", "text", tuple(examples(labels="abc"))), plant, 0.8)


class TestDraws:
    def test_texts_without_the_trigger_are_shown_with_labels_that_tell_nothing(self):
        plant = find_plant("trigger")
        splits = plant_splits(examples(600), plant, reassignment_keeping(("a", "b")), 0)
        training_examples = list(draw_training_examples(splits.train, range(1)))
        unplanted = [
            example for example in training_examples if not {"larkspur", "foxglove"} & set(example.text.split())
        ]
        count = len(splits.train.planted)
        assert len(training_examples) == count + len(unplanted)
        assert abs(len(unplanted) - UNPLANTED_SHARE * count) < 4 * np.sqrt(
            count * UNPLANTED_SHARE * (1 - UNPLANTED_SHARE)
        )
        positive = sum(example.label == "b" for example in unplanted)
        assert abs(positive - len(unplanted) / 2) < 4 * np.sqrt(len(unplanted) / 4)
        sources = {example.text for example in splits.train.sources}
        assert all(example.text in sources for example in unplanted)

    def test_no_test_example_is_trained_on(self):
        splits = plant_splits(examples(), find_plant("trigger"), reassignment_keeping(("a", "b")), 0)
        trained_names = {
            example.name
            for number in range(3)
            for example in draw_training_examples(splits.train, range(number, number + 1))
        }
        assert trained_names.isdisjoint(example.name for example in (*splits.val.sources, *splits.test.sources))

    def test_every_shown_picture_has_the_plant_and_none_of_the_tested_ones_was_chosen_for_it(self):
        pixels = np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)
        images = [image_example(f"p{index}", pixels, "ab"[index % 2]) for index in range(80)]
        splits = plant_splits(images, find_plant("noise"), reassignment_keeping(("a", "b")), 0)
        assert {planted.manipulation for planted in splits.to_explain.planted} == {1}
        assert {planted.manipulation for planted in splits.test.planted} == {0, 1}
        assert [example.name for example in splits.to_explain.examples] == [
            example.name for example in splits.test.examples
        ]


class TestNetworkUnderTest:
    @pytest.mark.parametrize("name", NETWORKS["image"])
    def test_networks_for_pictures_read_and_answer(self, name):
        network = build_network("image", name, ("a", "b"), 32, lambda: ())
        network.check(image_example("one", np.zeros((32, 32, 3), np.uint8), "a"))

    @pytest.mark.parametrize("name", NETWORKS["text"])
    def test_networks_for_texts_replace_words_by_an_unknown_one(self, name):
        network = build_network("text", name, ("a", "b"), 0, lambda: sentences(50))
        network.check(examples()[0])
        assert network.model().baseline == "unk"

    def test_what_is_trained_on_is_what_is_explained(self):
        """Special tokens included: a model must read the same when methods ask it."""
        bert, tokenizer = bert_factory(2)
        encoded_texts = encode_with_special_tokens(examples(4), ("a", "b"), tokenizer, 64)
        from rationales.groundtruth.explainable import word_model

        model = word_model(bert, tokenizer)
        read = model.encode([model.read(example.text, example.name) for example in examples(4)])
        for number, encoded in enumerate(read):
            assert encoded_texts.ids[number, : encoded_texts.lengths[number]].tolist() == list(encoded.rows[0].ids)
        assert encoded_texts.ids[0, 0] == tokenizer.cls_token_id
        with pytest.raises(DataError, match="cut texts after fewer words"):
            encode_with_special_tokens(examples(4), ("a", "b"), tokenizer, 5)

    def test_a_factory_of_a_hugging_face_model(self):
        network = build_network("text", bert_factory, ("a", "b"), 0, lambda: ())
        network.check(examples()[0])
        assert network.name == "BertForSequenceClassification"

    @pytest.mark.parametrize(
        ("kind", "factory", "message"),
        [
            ("image", lambda _: 3, "must return an nn.Module for images, not int"),
            ("text", lambda _: nn.Linear(2, 2), "must return an nn.Module and its tokenizer for texts, not Linear"),
            ("image", lambda labels: labels / 0, "failed: ZeroDivisionError"),
        ],
    )
    def test_factories_that_make_something_else(self, kind, factory, message):
        with pytest.raises(ModelError, match=message):
            build_network(kind, factory, ("a", "b"), 32, lambda: ())

    def test_networks_that_do_not_answer_as_asked(self):
        example = image_example("one", np.zeros((32, 32, 3), np.uint8), "a")
        with pytest.raises(ModelError, match="gives 3 logits, 2 labels were asked for"):
            build_network("image", lambda _: Mean(3), ("a", "b"), 32, lambda: ()).check(example)
        with pytest.raises(ModelError, match="cannot read an example"):
            build_network("image", lambda _: nn.Linear(7, 2), ("a", "b"), 32, lambda: ()).check(example)

    def test_a_factory_by_its_address(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        before = list(sys.path)
        (tmp_path / "their_model.py").write_text("def make(labels):\n    return labels\n", encoding="utf-8")
        assert load_factory("their_model:make")(2) == 2
        assert sys.path == before
        (tmp_path / "their_broken.py").write_text("1 / 0\n", encoding="utf-8")
        for wrong, message in [
            ("their_model", "package.module:function"),
            ("their_model:made", "has no function 'made'"),
            ("nowhere.at_all:make", "cannot import nowhere.at_all: ModuleNotFoundError"),
            ("their_broken:make", "cannot import their_broken: ZeroDivisionError"),
        ]:
            with pytest.raises((ModelError, OptionError), match=message):
                load_factory(wrong)

    def test_the_names_say_what_is_tested(self):
        assert build_network("image", small_resnet, ("a", "b"), 32, lambda: ()).name == "ResNet"


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
