"""The networks compute what their papers say, alone and in a batch, and any method can explain them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import groundtruth as literal
from torch import nn
from torch.nn import functional

pytest.importorskip("PIL")

from rationales.errors import DataError, ModelError, NotApplicableError, OptionError
from rationales.groundtruth.explainable import Inherent, image_model, word_model
from rationales.groundtruth.networks.hardkuma import HardKuma, hardkuma_from_raw
from rationales.groundtruth.networks.rationale_models import RationaleModel, SelectionSettings
from rationales.groundtruth.networks.recurrent import AttentionLSTM, BidirectionalLSTM
from rationales.groundtruth.networks.resnet import ResNet, resnet34
from rationales.groundtruth.networks.transformer import TextTransformer
from rationales.groundtruth.networks.vit import VisionTransformer, small_vit
from rationales.groundtruth.networks.vocabulary import word_tokenizer
from rationales.methods import METHODS
from rationales.pipeline.explain import explain

TEXTS = ["the bread is warm .", "a sea wasn't calm , and the bread is a mess", "bread !"]
LABELS = ("no", "yes")
QUICK = {
    "marc": {"steps": 2},
    "meaningful-perturbation": {"steps": 2},
    "extremal-perturbation": {"steps": 2, "areas": "0.5"},
    "integrated-gradients": {"steps": 4},
    "rise": {"samples": 20},
    "gradient-shap": {"samples": 3},
    "smooth-grad": {"samples": 3},
    "lime": {"samples": 30},
    "kernel-shap": {"samples": 30},
    "shapley-sampling": {"orders": 1},
}
CELLS = {name: {"cell": 8} for name in ("lime", "kernel-shap", "shapley-sampling", "marc")}


def tokenizer():
    return word_tokenizer(TEXTS)


def text_networks(size):
    torch.manual_seed(0)
    return {
        "attention": AttentionLSTM(size, LABELS, 12, 8),
        "transformer": TextTransformer(size, LABELS, 16, 2, 2, max_length=64),
        "reinforce": RationaleModel(size, LABELS, SelectionSettings("reinforce"), 12, 8),
        "hardkuma": RationaleModel(size, LABELS, SelectionSettings("hardkuma"), 12, 8),
    }


def picture_networks():
    torch.manual_seed(0)
    return {"resnet": ResNet(2, (1, 1), 8), "vit": VisionTransformer(2, 32, 8, 16, 2, 2)}


def methods(*available):
    """Those that need nothing but what is given: not a network, or data, of their own."""
    return [name for name, method in METHODS.items() if set(method.needs) <= {"gradients", *available}]


class TestEveryMethodExplainsThem:
    @pytest.mark.parametrize("method", methods())
    def test_texts(self, method):
        words = tokenizer()
        networks = text_networks(len(words))
        if method == "marc":  # the slowest of all, and the network that is hardest to it says enough
            networks = {"reinforce": networks["reinforce"]}
        for name, module in networks.items():
            model = word_model(module, words, name)
            rationales = explain(model, TEXTS, method=method, options=QUICK.get(method, {}))
            assert [len(rationale.scores) for rationale in rationales] == [5, 11, 2]
            assert all(np.isfinite(rationale.scores).all() for rationale in rationales)
            assert all(submodule.training for submodule in module.modules())  # given back as it came

    @pytest.mark.parametrize("method", methods("feature maps", "images"))
    def test_pictures(self, method):
        pixels = np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)
        options = QUICK.get(method, {}) | CELLS.get(method, {})
        for name, module in picture_networks().items():
            if (method, name) == ("excitation-backprop", "vit"):
                with pytest.raises(NotApplicableError, match="VisionTransformer computes"):
                    explain(image_model(module, 32, LABELS, name, ["mean"]), pixels, method=method)
                continue
            rationale = explain(image_model(module, 32, LABELS, name, ["mean"]), pixels, method=method, options=options)
            assert rationale.scores.shape == (32 * 32,)
            assert np.isfinite(rationale.scores).all()

    def test_what_a_network_reads_is_what_was_planted(self):
        """No resizing, so that a region of the picture is a region of the input."""
        pixels = np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)
        model = image_model(nn.Identity(), 32, LABELS, baselines=["mean"])
        read = model.encode([model.read(pixels, "one")])[0].pixels
        shift, scale = model.normalisation(3)
        assert np.array_equal(((read * scale + shift) * 255).round().byte().permute(1, 2, 0).numpy(), pixels)


class TestWords:
    def test_tokens_are_words_and_marks_as_written(self):
        words = tokenizer()
        encoded = words("The bread wasn't warm!?", add_special_tokens=False, return_offsets_mapping=True)
        assert words.convert_ids_to_tokens(encoded["input_ids"]) == ["[UNK]", "bread", "wasn't", "warm", "!", "[UNK]"]
        assert encoded["offset_mapping"] == [(0, 3), (4, 9), (10, 16), (17, 21), (21, 22), (22, 23)]

    def test_the_order_of_texts_plays_no_part_and_frequent_words_come_first(self):
        assert word_tokenizer(TEXTS).get_vocab() == word_tokenizer(TEXTS[::-1]).get_vocab()
        assert set(word_tokenizer(TEXTS, max_words=1).get_vocab()) == {"[PAD]", "[UNK]", "bread"}
        assert "calm" not in word_tokenizer(TEXTS, min_count=2).get_vocab()
        with pytest.raises(DataError, match="no word"):
            word_tokenizer([" "])

    @pytest.mark.parametrize("name", ["attention", "transformer", "reinforce", "hardkuma"])
    def test_padding_changes_nothing(self, name):
        words = tokenizer()
        module = text_networks(len(words))[name].eval()
        encoded = words(TEXTS, add_special_tokens=False, padding=True, return_tensors="pt")
        together = module(input_ids=encoded["input_ids"], attention_mask=encoded["attention_mask"])
        for row, text in enumerate(TEXTS):
            alone = words(text, add_special_tokens=False, return_tensors="pt")
            logits = module(input_ids=alone["input_ids"], attention_mask=alone["attention_mask"])[0]
            assert torch.allclose(together[row], logits, atol=1e-6)

    def test_both_ways_is_torchs_bidirectional_network(self):
        """The same weights in a packed nn.LSTM give the same states."""
        torch.manual_seed(1)
        mine, theirs = BidirectionalLSTM(5, 4), nn.LSTM(5, 4, batch_first=True, bidirectional=True)
        for name, weight in theirs.named_parameters():
            lstm = mine.backward_lstm if name.endswith("_reverse") else mine.forward_lstm
            weight.data.copy_(getattr(lstm, name.removesuffix("_reverse")))
        words, lengths = torch.randn(3, 6, 5), torch.tensor([6, 3, 1])
        attention = (torch.arange(6) < lengths[:, None]).long()
        packed = nn.utils.rnn.pack_padded_sequence(words, lengths, batch_first=True)
        expected = nn.utils.rnn.pad_packed_sequence(theirs(packed)[0], batch_first=True)[0]
        states = mine(words, attention) * attention[..., None]
        assert torch.allclose(states, expected, atol=1e-6)

    def test_attention_is_equations_5_to_8(self):
        module = AttentionLSTM(9, LABELS, 6, 4).eval()
        ids, attention = torch.tensor([[2, 5, 7, 0]]), torch.tensor([[1, 1, 1, 0]])
        states = module.encoder(module.embeddings(ids), attention)[0]
        score = [float((torch.tanh(module.key(state)) @ module.query).detach()) for state in states[:3]]
        weight = np.exp(score) / np.exp(score).sum()
        pooled = sum(share * state for share, state in zip(weight, states, strict=False))
        assert torch.allclose(module(ids, attention)[0], module.classifier(pooled.float()), atol=1e-6)


class TestInherent:
    def test_attention_weights_add_up_to_one(self):
        words = tokenizer()
        model = word_model(text_networks(len(words))["attention"], words)
        batch = model.batch(model.encode([model.read(text, None) for text in TEXTS]))
        with model.frozen():
            scores = Inherent().scores(batch, torch.zeros(3, dtype=torch.long)).scores
        assert torch.allclose(scores.sum(1), torch.ones(3))
        assert (scores[~batch.rows.real] == 0).all()

    def test_a_network_that_says_nothing_of_itself(self):
        words = tokenizer()
        model = word_model(text_networks(len(words))["transformer"], words)
        batch = model.batch(model.encode([model.read(TEXTS[0], None)]))
        with pytest.raises(ModelError, match="no submodule called explanation"):
            Inherent().scores(batch, torch.zeros(1, dtype=torch.long))


class TestHardKuma:
    @given(a=st.floats(1, 5), b=st.floats(1, 5))
    @settings(max_examples=15)
    def test_its_probabilities_are_the_integrals_of_the_density(self, a, b):
        variable = HardKuma(torch.tensor([a]).double(), torch.tensor([b]).double())
        p_zero, p_one, mean = literal.hard_kuma(a, b)
        assert float(variable.probability_zero()) == pytest.approx(p_zero, abs=2e-3)
        assert float(variable.probability_one()) == pytest.approx(p_one, abs=2e-3)
        between = 1 - p_zero - p_one
        expected = np.clip(-0.1 + 1.2 * mean, 0, 1) if between > max(p_zero, p_one) else float(p_one > p_zero)
        if abs(between - max(p_zero, p_one)) > 0.02 and abs(p_one - p_zero) > 0.02:
            assert float(variable.likeliest()) == pytest.approx(expected, abs=5e-3)

    def test_samples_have_these_probabilities_and_gradients(self):
        raw = torch.tensor([[-1.0, 0.5], [1.0, -2.0]], requires_grad=True)
        variable = hardkuma_from_raw(raw)
        uniform = torch.rand(40_000, 2, generator=torch.Generator().manual_seed(0))
        samples = variable.sample(uniform)
        assert (samples.detach().min(), samples.detach().max()) == (0.0, 1.0)
        deviation = 4.5 * 0.5 / 200
        assert torch.allclose((samples == 0).double().mean(0), variable.probability_zero().double(), atol=deviation)
        assert torch.allclose((samples == 1).double().mean(0), variable.probability_one().double(), atol=deviation)
        samples.mean().backward()
        assert torch.isfinite(raw.grad).all()
        assert (raw.grad != 0).all()


class TestRationaleModels:
    def test_words_that_are_not_selected_do_not_count(self):
        model = text_networks(20)["hardkuma"].eval()
        words, attention = torch.randn(2, 5, 12), torch.ones(2, 5)
        selection = torch.tensor([[1.0, 0, 0.5, 0, 0], [0, 0, 1, 1, 0]])
        changed = torch.where(selection[..., None] > 0, words, torch.randn(2, 5, 12))
        assert torch.equal(model._classify(words, attention, selection), model._classify(changed, attention, selection))

    def test_reinforce_is_an_unbiased_gradient_of_the_expected_loss(self):
        """All 2^3 selections of three words, weighted with their probability, against many draws."""
        torch.manual_seed(0)
        model = RationaleModel(9, LABELS, SelectionSettings("reinforce", samples=30_000), 4, 3).double()
        ids, attention, labels = torch.tensor([[2, 5, 7]]), torch.ones(1, 3), torch.tensor([1])
        words = model.embeddings(ids).detach() * 3
        raw = torch.tensor([[[0.3], [-0.8], [1.2]]]).double().requires_grad_()
        chance = torch.sigmoid(raw[0, :, 0])
        expected = 0.0
        for choice in itertools.product((0.0, 1.0), repeat=3):
            selection = torch.tensor(choice).double()
            cost = functional.cross_entropy(model._classify(words, attention, selection[None]), labels)
            expected = expected + (chance * selection + (1 - chance) * (1 - selection)).prod() * cost
        (expected_gradient,) = torch.autograd.grad(expected, raw)
        (gradient,) = torch.autograd.grad(model._reinforce_loss(words, raw, attention, labels)[0], raw)
        assert torch.allclose(gradient, expected_gradient, atol=0.03 * float(expected_gradient.abs().max()) + 1e-4)

    def test_the_penalty_is_on_the_selection_rate_of_the_batch(self):
        model = text_networks(20)["reinforce"]
        ids, attention = torch.randint(2, 20, (4, 6)), torch.ones(4, 6).long()
        with torch.no_grad():
            model.selection_head.weight.zero_()
            model.selection_head.bias.fill_(0.0)  # every word with probability 1/2

        def cost(strength):
            model.settings = SelectionSettings("reinforce", 0.1, strength)
            return model.loss(ids, attention, torch.zeros(4).long(), 1.0)

        torch.manual_seed(3)
        plain = cost(0.0)
        torch.manual_seed(3)
        assert float((cost(10.0) - plain).detach()) == pytest.approx(10 * (0.5 - 0.1), abs=1e-4)

    def test_the_wanted_rate_falls_to_its_value(self):
        settings = SelectionSettings(rate=0.1, annealing=0.5)
        assert [settings.target_rate(done) for done in (0.0, 0.25, 0.5, 1.0)] == pytest.approx([1.0, 0.55, 0.1, 0.1])
        assert SelectionSettings(annealing=0.0).target_rate(0.0) == pytest.approx(0.1)

    @pytest.mark.parametrize(
        "wrong", [{"estimator": "magic"}, {"rate": 0.0}, {"estimator": "reinforce", "samples": 1}, {"penalty": -1.0}]
    )
    def test_mistakes_are_told(self, wrong):
        with pytest.raises(OptionError):
            SelectionSettings(**wrong)


class TestPictures:
    def test_resnet_34_has_its_layers_and_weights(self):
        """33 convolutions in blocks and stem, a linear layer; 21.3 million weights (He et al. 2016), two classes."""
        module = resnet34(2)
        convolutions = [
            submodule
            for name, submodule in module.named_modules()
            if isinstance(submodule, nn.Conv2d) and ".shortcut" not in name
        ]
        assert len(convolutions) == 33
        assert (
            sum(parameter.numel() for parameter in module.parameters()) == 21_797_672 - 513 * 998
        )  # of 1,000 classes, less 998

    @pytest.mark.parametrize("make", [lambda: ResNet(3, (1, 1, 1), 8), lambda: VisionTransformer(3, 48, 8, 12, 1, 2)])
    def test_pictures_become_logits(self, make):
        assert make().eval()(torch.randn(2, 3, 48, 48)).shape == (2, 3)

    def test_the_small_vision_transformer_fits_112_pixels(self):
        assert small_vit().positions.shape == (1, 196, 192)
        with pytest.raises(OptionError, match="no multiple"):
            VisionTransformer(2, 50, 8)
        with pytest.raises(OptionError, match="patches of 2, 4, 8"):
            VisionTransformer(2, 48, 6)
        plain = VisionTransformer(2, 48, 6, stem=False)
        assert plain.eval()(torch.randn(1, 3, 48, 48)).shape == (1, 2)
