"""Image-text models: the plain model at keep = 1, any company, families of transformers, and how inputs are read."""

from __future__ import annotations

import numpy as np
import pytest
import torch

pytest.importorskip("PIL")
pytest.importorskip("skimage")

from families import tokenizer_of
from models.multimodal.pairs import (
    SIDE,
    TEXTS,
    RedAndWord,
    clip_processor,
    preprocess,
    red_and_word,
    scene,
    small_model,
    tiny,
    tiny_vilt,
    vilt_processor,
)

import rationales
from rationales.errors import InputError, ModelError, OptionError
from rationales.models.batch.rows import Part, part_weights
from rationales.models.multimodal.architectures import PairScore
from rationales.models.multimodal.baselines import PIXEL_BASELINES, part_baselines
from rationales.rationale import Grid, Rationale, TextAndImage

PAIRS = [(scene(seed=seed, left=4 * seed), text) for seed, text in enumerate(TEXTS)]


def families():
    """Models of every architecture that is known, and a module of the user's."""
    tokenizer = tokenizer_of("bert")
    yield "vilt-questions", lambda: (tiny_vilt(), (tokenizer, vilt_processor()))
    yield "vilt-classes", lambda: (tiny_vilt(images=1), (vilt_processor(), tokenizer))
    for family in ("CLIPModel", "BlipForImageTextRetrieval"):
        yield family, lambda family=family: (tiny(family), (tokenizer, clip_processor()))
    yield "module", lambda: (RedAndWord().eval(), (tokenizer, preprocess))


def batch_of(model, pairs, seed=0):
    return model.batch(model.encode([model.read(pair, None) for pair in pairs]), seed)


@pytest.mark.parametrize(("family", "make"), list(families()), ids=[name for name, _ in families()])
class TestFamilies:
    def test_keeping_all_gives_the_logits_of_the_plain_model(self, family, make):
        """Of a family with its own output, by what that family returns."""
        module, readers = make()
        model = rationales.load(module, readers, baseline="pad; mean")
        for pair in PAIRS:
            (encoded,) = model.encode([model.read(pair, None)])
            ids = torch.tensor([tokenizer_of("bert")(pair[1])["input_ids"]])
            assert encoded.tokens.ids == ids[0].tolist()
            with torch.no_grad():
                output = module(pixel_values=encoded.pixels[None], input_ids=ids, attention_mask=torch.ones_like(ids))
            with model.frozen():
                logits = batch_of(model, [pair]).full_logits()
            assert torch.allclose(logits, expected_logits(family, model, output), atol=1e-4)

    def test_alone_equals_in_a_batch_under_any_keep(self, family, make):
        model = rationales.load(*make(), baseline="pad; black, mean")
        with model.frozen(), torch.no_grad():
            together = batch_of(model, PAIRS)
            keep = torch.rand(together.size, generator=torch.Generator().manual_seed(1)) * together.rows.real
            logits = together.logits(keep)
            for number, pair in enumerate(PAIRS):
                alone = batch_of(model, [pair])
                rows = together.rows_of([number])
                mine = keep[rows][:, : alone.size[1]]
                assert torch.allclose(logits[rows], alone.logits(mine), atol=1e-4)

    def test_both_parts_have_gradients_where_the_model_reads_them(self, family, make):
        model = rationales.load(*make(), baseline="pad; mean")
        result = rationales.explain(model, PAIRS[1], method="saliency")
        assert (result.text_part.scores > 0).any()
        assert (result.image_part.scores > 0).any()

    def test_randomness_is_neither_read_nor_moved(self, family, make):
        """ViLT draws the order of its patches."""
        model = rationales.load(*make(), baseline="pad; mean")
        before = torch.get_rng_state()
        first = rationales.explain(model, PAIRS[0], method="saliency")
        assert torch.equal(before, torch.get_rng_state())
        torch.manual_seed(3)
        assert np.array_equal(first.scores, rationales.explain(model, PAIRS[0], method="saliency").scores)


def expected_logits(family, model, output):
    """The logits of classes from the output of the plain module."""
    if family == "CLIPModel":
        empty = model.network.module.empty_text
        logit = (output.image_embeds @ (output.text_embeds - empty).T) * model.network.module.clip.logit_scale.exp()
        return torch.cat([-logit, logit], 1)
    if family == "BlipForImageTextRetrieval":
        return output.itm_score
    return getattr(output, "logits", output)


class TestBatch:
    def test_baselines_of_each_part_replace_it(self):
        """keep 0 on a part gives what the module says of the baseline's pixels, or of padding tokens."""
        model = red_and_word()
        with model.frozen(), torch.no_grad():
            batch = batch_of(model, [(scene(), "the old stone bridge")])
            pixels, words = batch.parts
            keep = batch.ones()
            keep[:, pixels.units] = 0
            grey = model.pictures.mean_colour
            uniform = torch.tensor(grey)[None, :, None, None].expand(1, 3, SIDE, SIDE)
            ids = batch.ids
            expected = model.network.module(uniform, ids, torch.ones_like(ids))
            assert torch.allclose(batch.logits(keep), expected, atol=1e-5)
            keep = batch.ones()
            keep[:, words.units] = 0
            padded = torch.where(batch.owner < words.count, tokenizer_of("bert").pad_token_id, ids)
            expected = model.network.module(batch.pixels, padded, torch.ones_like(ids))
            assert torch.allclose(batch.logits(keep), expected, atol=1e-5)

    def test_the_input_of_gradient_methods_gives_the_same_logits(self):
        model = small_model(baseline="pad; black, white")
        with model.frozen(), torch.no_grad():
            batch = batch_of(model, PAIRS)
            assert torch.allclose(batch.logits_from(batch.input_embeddings()), batch.full_logits(), atol=1e-5)
            assert torch.allclose(batch.logits_from(batch.all_replaced()), batch.logits(batch.zeros()), atol=1e-5)

    def test_a_share_of_an_input_is_taken_and_put_together_again(self):
        model = small_model(baseline="pad; black, mean")
        with model.frozen(), torch.no_grad():
            batch = batch_of(model, PAIRS)
            subset = batch.take([0, 2])
            assert subset.inputs == 2
            assert torch.allclose(subset.full_logits(), batch.full_logits()[batch.rows_of([0, 2])], atol=1e-5)
            one_view = batch.on_baseline(torch.tensor([1, 0, 1]))
            expected = batch.logits(batch.zeros()).view(2, 3, -1)[torch.tensor([1, 0, 1]), torch.arange(3)]
            assert torch.allclose(one_view.logits(one_view.zeros()), expected, atol=1e-5)

    def test_every_part_of_a_row_weighs_the_same(self):
        real = torch.tensor([[True] * 9 + [True, True, False], [True, False] * 4 + [True] + [True] * 3])
        parts = (Part(0, 9, (3, 3)), Part(9, 12, None))
        weights = part_weights(real, parts, torch.float64)
        assert torch.allclose(weights[:, :9].sum(1), weights[:, 9:].sum(1))
        assert torch.allclose(weights.sum(1), real.sum(1).double())
        assert not weights[~real].any()
        assert torch.equal(part_weights(real, parts[:1], torch.float64), real.double())


class TestReading:
    @pytest.mark.parametrize(
        ("raw_input", "message"),
        [
            ("a text", r"a tuple \(image, text\).*not str"),
            (("a text", scene()), "the image comes first"),
            ((scene(), 3), "its text is int"),
            ((scene(), " "), "the text of the input is empty"),
            (("no-such.png", "a text"), "there is no file no-such.png"),
        ],
    )
    def test_a_wrong_input_is_refused_with_what_is_expected(self, raw_input, message):
        with pytest.raises(InputError, match=message):
            rationales.explain(small_model(), raw_input)

    def test_a_text_beyond_the_limit_is_refused(self):
        model = rationales.load(tiny_vilt(), (tokenizer_of("bert"), vilt_processor()))
        with pytest.raises(InputError, match="longer than the 40 tokens"):
            rationales.explain(model, (scene(), "the old stone bridge " * 20))

    def test_two_images_per_text_are_refused(self):
        with pytest.raises(ModelError, match="reads 2 images"):
            rationales.load(tiny_vilt(images=2), (tokenizer_of("bert"), vilt_processor()))

    def test_a_module_needs_both_readers(self):
        with pytest.raises(OptionError, match="a tokenizer and an image processor"):
            rationales.load(RedAndWord(), (tokenizer_of("bert"), None))

    @pytest.mark.parametrize(
        ("requested", "text", "image"),
        [
            (None, None, PIXEL_BASELINES),
            ("mask; black, white", "mask", "black, white"),
            ({"image": "black"}, None, "black"),
            ({"text": "unk"}, "unk", PIXEL_BASELINES),
        ],
    )
    def test_baselines_have_two_parts(self, requested, text, image):
        parts = part_baselines(requested)
        assert (parts.text, parts.image) == (text, image)

    @pytest.mark.parametrize("requested", ["mask", {"words": "mask"}, ["mask", "black"]])
    def test_a_baseline_for_one_part_alone_is_refused(self, requested):
        with pytest.raises(OptionError, match="baseline"):
            part_baselines(requested)

    def test_clip_scores_the_empty_text_as_nothing(self):
        """A text equal to the empty one has the logit 0 with any image."""
        tokenizer = tokenizer_of("bert")
        score = PairScore(tiny("CLIPModel"), tokenizer)
        ids = torch.tensor([tokenizer("")["input_ids"]])
        with torch.no_grad():
            logit = score(torch.rand(1, 3, SIDE, SIDE), ids, torch.ones_like(ids))
        assert logit.abs().item() < 1e-4


class TestResult:
    def test_it_has_words_and_a_picture_and_comes_back_from_a_file(self, tmp_path):
        big = np.kron(scene(), np.ones((3, 3, 1), dtype=np.uint8))  # three times the size of what the model reads
        result = rationales.explain(
            red_and_word(), (big, TEXTS[1]), method="occlusion", options={"window": 6, "stride": 6}
        )
        assert isinstance(result.units, TextAndImage)
        assert [unit.text for unit in result.words] == ["the", "old", "stone", "bridge", "was", "calm"]
        assert result.units.grid == Grid(3 * SIDE, 3 * SIDE)
        assert len(result.scores) == 6 + 9 * SIDE * SIDE
        assert [span.text for span in result.spans()] == ["bridge"]
        assert result.regions()[0].left >= 30
        loaded = Rationale.load(result.save(tmp_path / "r.json"))
        assert loaded.units == result.units
        assert np.allclose(loaded.scores, result.scores)
        assert np.array_equal(loaded.selected(), result.selected())
        assert loaded.spans() == result.spans()
        assert loaded.rule == result.rule
        frame = result.to_frame()
        assert list(frame.columns) == ["text", "start", "end", "row", "column", "score", "selected"]
        assert frame.selected.sum() == result.selected().sum()

    def test_a_share_is_taken_of_each_part_and_top_is_refused(self):
        pair, options = (scene(), TEXTS[1]), {"window": 8, "stride": 4}
        model = red_and_word()
        result = rationales.explain(model, pair, method="random", share=0.5)
        assert result.text_part.selected().sum() == 3
        assert result.image_part.selected().sum() == SIDE * SIDE / 2
        with pytest.raises(OptionError, match="words and pixels cannot be counted together"):
            rationales.explain(model, pair, method="occlusion", options=options, top=3)
        with pytest.raises(OptionError, match="words and pixels cannot be counted together"):
            result.selected(top=3)
