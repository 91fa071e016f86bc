"""Pictures with captions, plants in words and pictures, and borders that tell nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch

pytest.importorskip("PIL")

from rationales.groundtruth.captioned_shapes import COLOURS, LABELS, SHAPES, SIDE, captioned_pictures
from rationales.groundtruth.image_examples import ImageExample
from rationales.groundtruth.networks.vocabulary import word_tokenizer
from rationales.groundtruth.pair_plants import CAUSES, WORD_PLANT, planted_pairs
from rationales.groundtruth.pair_training import PairData, TrainingSettings, accuracy, train_pairs
from rationales.groundtruth.plants.bordered import BorderedWatermark
from rationales.groundtruth.plants.plant import random_generator
from rationales.models.multimodal.pair_network import (
    PairConfiguration,
    PairNetwork,
    is_pair_network,
    load_pair_network,
    picture_tensor,
)


class TestCaptionedShapes:
    def test_a_caption_fits_if_the_picture_has_the_shape_in_the_colour(self):
        """The named shape is there in its colour exactly where the label says so."""
        for picture in captioned_pictures(60):
            colour, shape = (picture.caption[start:end] for start, end in picture.words)
            assert colour in COLOURS
            assert shape in SHAPES
            assert LABELS[picture.label] == ("match" if picture.named.any() else "no match")
            if picture.named.any():
                mean = picture.pixels[picture.named].mean(0)
                assert np.abs(mean - np.array(COLOURS[colour])).max() < 12

    def test_the_same_number_and_seed_give_the_same_picture(self):
        few, many = captioned_pictures(3, seed=5), captioned_pictures(6, seed=5)
        for mine, theirs in zip(few, many, strict=False):
            assert mine.caption == theirs.caption
            assert np.array_equal(mine.pixels, theirs.pixels)
        assert not np.array_equal(captioned_pictures(1, seed=6)[0].pixels, few[0].pixels)

    def test_neither_words_nor_colours_tell_the_label(self):
        """Half of the captions that do not fit name a colour that is in the picture, as all that fit do."""
        pictures = [picture for picture in captioned_pictures(400) if not picture.label]
        present = 0
        for picture in pictures:
            colour = np.array(COLOURS[picture.caption[slice(*picture.words[0])]])
            near = np.abs(picture.pixels.astype(int) - colour).max(-1) < 25
            present += near.sum() > 40
        assert present / len(pictures) > 0.5


@pytest.mark.parametrize("cause", CAUSES)
class TestPairPlants:
    def test_the_cause_tells_the_label_and_nothing_else_changes(self, cause):
        pictures = captioned_pictures(80)
        for before, pair in zip(pictures, planted_pairs(pictures, cause), strict=True):
            inserted = {pair.caption[start:end] for start, end in pair.words}
            tinted = (pair.pixels != before.pixels).any(-1)
            assert not (tinted & ~pair.picture).any()
            assert [word for word in pair.caption.split() if word not in inserted] == before.caption.split()
            has_word, has_tint = WORD_PLANT.inserted[1] in inserted, bool(tinted.any())
            expected = {"words": has_word, "picture": has_tint, "both": has_word and has_tint}[cause]
            assert pair.label == expected
            assert bool(pair.words) == (cause != "picture")
            assert pair.picture.any() == (cause != "words")

    def test_labels_do_not_depend_on_the_picture(self, cause):
        pictures = captioned_pictures(600)
        pairs = planted_pairs(pictures, cause)
        share_with_label = np.mean([pair.label for pair, picture in zip(pairs, pictures, strict=True) if picture.label])
        share_without_label = np.mean(
            [pair.label for pair, picture in zip(pairs, pictures, strict=True) if not picture.label]
        )
        assert abs(share_with_label - share_without_label) < 4 * np.sqrt(0.25 / 300 * 2)


class TestPairNetwork:
    def test_it_learns_a_word_and_comes_back_from_its_folder(self, tmp_path):
        pairs = planted_pairs(captioned_pictures(200), "words")
        tokenizer = word_tokenizer([pair.caption for pair in pairs])
        torch.manual_seed(0)
        module = PairNetwork(PairConfiguration(len(tokenizer), {0: "0", 1: "1"}, SIDE, 16))
        captions, labels = [pair.caption for pair in pairs], [pair.label for pair in pairs]
        data = PairData.of([pair.pixels for pair in pairs], captions, labels, tokenizer)
        train_pairs(module, data, TrainingSettings(steps=60, batch_size=32, learning_rate=1e-2))
        assert accuracy(module, data) > 0.95
        module.save(tmp_path / "folder", tokenizer)
        assert is_pair_network(tmp_path / "folder")
        assert not is_pair_network(tmp_path)
        loaded, loaded_tokenizer = load_pair_network(tmp_path / "folder")
        assert loaded_tokenizer.get_vocab() == tokenizer.get_vocab()
        with torch.no_grad():
            index = torch.arange(20)
            assert torch.allclose(data.logits(loaded, index), data.logits(module, index), atol=0.1)

    def test_pictures_are_read_from_minus_one_to_one(self):
        pixels = np.array([[[0, 0, 255]]], dtype=np.uint8)
        assert picture_tensor([pixels])[0, :, 0, 0].tolist() == [-1, -1, 1]


class TestBorder:
    def planted(self, count=40, manipulation=1):
        rng = np.random.default_rng(0)
        plant = BorderedWatermark()
        examples = [
            ImageExample(f"p{number}", label="0", pixels=rng.integers(40, 200, (64, 64, 3), dtype=np.uint8))
            for number in range(count)
        ]
        rngs = [random_generator(0, "test", example.name) for example in examples]
        return plant, examples, plant.apply_all(examples, rngs, [manipulation] * count)

    def test_a_random_half_has_the_border_whatever_the_manipulation(self):
        plant, examples, planted = self.planted()
        _, _, without = self.planted(manipulation=0)
        border = plant.border_region(64, 64)
        bordered = [bool((item.example.pixels[border] == 255).all()) for item in planted]
        assert bordered == [bool((item.example.pixels[border] == 255).all()) for item in without]
        assert 8 <= sum(bordered) <= 32
        for item, example, has_border in zip(planted, examples, bordered, strict=True):
            kept = ~plant.region(64, 64) & ~(border if has_border else np.zeros_like(border))
            assert np.array_equal(item.example.pixels[kept], example.pixels[kept])

    def test_the_border_is_no_part_of_the_cause(self):
        plant, _, planted = self.planted(count=4)
        for item in planted:
            assert np.array_equal(item.distractors, plant.border_region(64, 64))
            assert not (item.distractors & item.region).any()
            assert item.distractors.any()
