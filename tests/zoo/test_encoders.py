"""The script that trains the encoders of the AML tables: packing, two small families, one run of everything."""

from __future__ import annotations

import json
import tarfile

import numpy as np
import pytest
import torch
import transformers
from families import CORPUS, tiny

from rationales.models.delta import load_delta
from zoo.encoders import train
from zoo.encoders.families import FAMILIES, byte_spelling
from zoo.encoders.pack import LABELS, SPLITS
from zoo.encoders.texts import LabelledText, load_texts, review_sentences, save_texts
from zoo.paper_models.delta_files import save_delta
from zoo.paper_models.storage import pack_encoder, rounded_bits, unpack_encoder


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """A random BERT encoder, as wide as the widest small model at least, saved as the MiniLM package saves its own."""
    module, tokenizer = tiny("bert", hidden_size=256, max_position_embeddings=512)
    folder = tmp_path_factory.mktemp("encoder")
    module.bert.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def carry(encoder, tmp_path_factory):
    """What `zoo.encoders.pack` writes, of our own sentences."""
    folder = tmp_path_factory.mktemp("carry")
    sets = {
        f"{name}-{split}": [LabelledText(text, number % len(LABELS[name])) for number, text in enumerate(CORPUS[:12])]
        for name, splits in SPLITS.items()
        for split in splits
    }
    save_texts(sets, folder)
    pack_encoder(encoder, folder / "minilm", dropped_bits=3)
    return folder


class TestFiles:
    def test_texts_come_back_as_they_were(self, tmp_path):
        sets = {
            "rt-train": [LabelledText("a “quoted” line\u2028 and tab\t.", 1, True)],
            "rt-val": [LabelledText("b", 0)],
        }
        save_texts(sets, tmp_path)
        assert load_texts(tmp_path) == sets

    def test_dropped_bits_are_rounded_not_cut(self):
        weights = np.float16(
            [1.0, 1.0 + 3 / 1024, 1.0 + 5 / 1024, -2.0]
        )  # steps of 2**-10 at 1; three bits are 8 steps
        rounded = rounded_bits(weights, 3).view(np.float16)
        assert rounded.tolist() == [1.0, 1.0, 1.0 + 8 / 1024, -2.0]

    def test_a_rounded_encoder_is_close_to_the_exact_one(self, encoder, carry, tmp_path):
        exact = transformers.AutoModel.from_pretrained(encoder).state_dict()
        packed = transformers.AutoModel.from_pretrained(unpack_encoder(carry / "minilm", tmp_path)).float().state_dict()
        assert exact.keys() == packed.keys()
        for name, value in exact.items():
            largest = value.abs().amax()  # eight bits: half a step is 1/254 of the largest; seven: 2**-8 of each number
            assert (packed[name] - value).abs().amax() <= largest / 200, name

    def test_sentences_are_short_and_different(self):
        reviews = [LabelledText("Too short. This one is long enough. This one is long enough. Well, so is this!", 1)]
        sentences = review_sentences(reviews, 10, np.random.default_rng(0))
        assert sorted(sentences) == ["This one is long enough.", "Well, so is this!"]

    def test_a_byte_level_piece_is_spelled_in_letters(self):
        assert byte_spelling("\u0120film") == "film"


@pytest.mark.slow
def test_one_run_trains_stores_and_tests_every_model(carry, encoder, tmp_path, monkeypatch):
    teacher = transformers.AutoModelForSequenceClassification.from_pretrained(encoder, num_labels=2)
    teacher.config.architectures = ["BertForSequenceClassification"]
    head = {name: value for name, value in teacher.named_parameters() if name.startswith("classifier.")}
    save_delta(tmp_path / "minilm-sst2", head, teacher.config)
    monkeypatch.setattr(train, "TEACHER", tmp_path / "minilm-sst2")
    (tmp_path / "work").mkdir()
    run = train.train_all(carry, tmp_path, tmp_path / "work", 1.0, list(train.MINUTES), seed=0, tiny=True)
    assert not [name for name, figures in run.results.items() if "error" in figures]
    with tarfile.open(tmp_path / "encoders.tar") as archive:
        archive.extractall(tmp_path / "zoo", filter="data")
    for family in FAMILIES:
        for task, labels in LABELS.items():
            module, tokenizer = load_delta(
                tmp_path / "zoo" / f"{family.name}-{task}", None, "AutoModelForSequenceClassification"
            )
            assert isinstance(module, family.model_class)
            assert tuple(module.config.id2label.values()) == tuple(labels)
            encoding = tokenizer("What a film !", return_tensors="pt")
            logits = module(input_ids=encoding["input_ids"], attention_mask=encoding["attention_mask"]).logits
            assert torch.isfinite(logits).all()
    results = json.loads((tmp_path / "results.json").read_text())
    assert results.keys() == run.results.keys()
    assert train.lines_of(results)
