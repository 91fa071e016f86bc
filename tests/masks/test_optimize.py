"""The batched engine finds what the literal algorithm finds, whatever company an input is in."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from families import tiny
from reference.marc import LiteralSettings
from reference.marc import explain as optimize_literally

import rationales
from rationales.masks.optimize import MaskResult, movement, optimize
from rationales.masks.optimizer import OptimizerState
from rationales.masks.settings import ONE_MASK, PAPER, MaskSettings
from rationales.methods import build
from rationales.models.text.tokens import TextInput

TEXTS = [  # one word, a sentence, and texts that take one, three and four segments of 40 tokens
    "Dull",
    "The bread wasn't bad at all!",
    "She said nothing; he laughed, and nobody else understood why.",
    " ".join(["Children ran through the market, shouting."] * 4),
    " ".join(["Every morning the baker carried twelve loaves up the hill."] * 5),
]
QUIET = replace(ONE_MASK, noise=0.0, flip_share=0.0, stop="steps", steps=30)


def prepared(texts, head="softmax", family="bert", segment=40):
    kinds = {
        "softmax": {"labels": 3},
        "sigmoid": {"labels": 1},
        "multi-label": {"labels": 3, "problem_type": "multi_label_classification"},
    }
    module, tokenizer = tiny(family, **kinds[head])
    model = rationales.load(module.double(), tokenizer, segment=segment, overlap=8)
    encoded = model.encode([TextInput(text) for text in texts])
    return model, encoded


def per_segment(batch, keep):
    """The keeps of every mask, padding cut off."""
    return [line[real] for line, real in zip(keep, batch.rows.real[: batch.masks], strict=True)]


class TestEqualsTheLiteralAlgorithm:
    def test_five_texts_of_very_different_lengths_in_one_batch(self):
        model, encoded = prepared(TEXTS)
        assert [len(encoded_text.rows) for encoded_text in encoded] == [1, 1, 1, 3, 4]
        target = torch.tensor([0, 1, 2, 0, 1])
        with model.frozen():
            batch = model.batch(encoded)
            actual = per_segment(batch, optimize(batch, target, replace(QUIET, steps=12)).keep)
            expected = [
                keep
                for encoded_text, label in zip(encoded, target.tolist(), strict=True)
                for keep in optimize_literally(
                    model.networks[0].module,
                    encoded_text,
                    label,
                    model.tokenizer.pad_token_id,
                    "softmax",
                    LiteralSettings(12),
                )
            ]
        for mine, theirs in zip(actual, expected, strict=True):
            assert torch.allclose(mine, theirs, atol=1e-4, rtol=0)
        assert max(float(keep.max() - keep.min()) for keep in actual) > 0.05, "the masks tell words apart"

    @pytest.mark.parametrize(
        ("settings", "literal"),
        [
            ({"kernel": "sigma"}, {"power": 1}),
            ({"schedule": "constant"}, {"cosine": False}),
            ({"max_sigma_share": 0.0}, {"max_sigma_share": 0.0}),
            ({"complement_floor": 0.0}, {"complement_floor": 0.0}),
            ({"neighbour_weight": 5.0}, {"alpha_nb": 5.0}),
            ({"field": "free"}, {"use_field": False}),
            ({"sparsity": 0.0}, {"alpha_lambda": 0.0}),
            ({"sigma_weight": 0.0}, {"alpha_sigma": 0.0}),
            ({"complement": 0.0}, {"complement": 0.0}),
            ({"sufficiency": 0.0}, {"sufficiency": 0.0}),
            ({"complement_form": "log-likelihood"}, {"bounded": False}),
            ({"indicative": 1.0}, {"indicative": 1.0}),
            ({"indicative": 0.1}, {"indicative": 0.1}),
            ({"learning_rate": 0.03, "weight_decay": 0.0, "initial_w": 0.5, "initial_sigma": 1.2, "min_sigma": 0.6},
             {"learning_rate": 0.03, "weight_decay": 0.0, "w": 0.5, "sigma": 1.2, "min_sigma": 0.6}),
        ],
        ids=lambda value: "+".join(value),
    )  # fmt: skip
    def test_every_term_can_be_switched(self, settings, literal):
        self.compare("softmax", replace(QUIET, steps=4, **settings), LiteralSettings(4, **literal), target=2)

    @pytest.mark.parametrize(("head", "target"), [("sigmoid", 0), ("sigmoid", 1), ("multi-label", 1)])
    def test_every_kind_of_head(self, head, target):
        self.compare(head, replace(QUIET, steps=6), LiteralSettings(6), target)

    def compare(self, head, settings, literal, target):
        model, encoded = prepared(TEXTS[1:2] + TEXTS[3:4], head)
        with model.frozen():
            batch = model.batch(encoded)
            actual = per_segment(batch, optimize(batch, torch.full((2,), target), settings).keep)
            module, pad = model.networks[0].module, model.tokenizer.pad_token_id
            expected = [
                keep
                for encoded_text in encoded
                for keep in optimize_literally(module, encoded_text, target, pad, head, literal)
            ]
        for mine, theirs in zip(actual, expected, strict=True):
            assert torch.allclose(mine, theirs, atol=1e-7, rtol=0)


class TestCompany:
    """float64, so that what is left is a difference in kind and not in rounding."""

    NOISY = replace(ONE_MASK, steps=10, stop="steps")

    def optimized_keep(self, model, encoded, settings, budget=None):
        with model.frozen():
            batch = model.batch(encoded, seed=3)
            if budget is not None:
                batch.budget = budget
            result = optimize(batch, torch.zeros(len(encoded), dtype=torch.long), settings)
            return batch.gather(result.keep[batch.rows.mask]), result

    @pytest.mark.parametrize("settings", [NOISY, replace(NOISY, stop="plateau", steps=70), replace(PAPER, steps=60)])
    def test_batch_equals_single_with_noise_on(self, settings):
        model, encoded = prepared(TEXTS)
        together, result = self.optimized_keep(model, encoded, settings)
        for number, encoded_text in enumerate(encoded):
            alone, ended = self.optimized_keep(model, [encoded_text], settings)
            assert torch.allclose(together[number], alone[0], atol=1e-8, rtol=0)
            assert (ended.steps, ended.stop) == ([result.steps[number]], [result.stop[number]])

    def test_order_does_not_matter(self):
        model, encoded = prepared(TEXTS)
        forward, _ = self.optimized_keep(model, encoded, self.NOISY)
        backward, _ = self.optimized_keep(model, encoded[::-1], self.NOISY)
        for mine, theirs in zip(forward, reversed(backward), strict=True):
            assert torch.allclose(mine, theirs, atol=1e-8, rtol=0)

    def test_little_memory_changes_nothing(self):
        """Inputs wait for room and rows are run in pieces; the result is the same."""
        model, encoded = prepared(TEXTS)
        roomy, _ = self.optimized_keep(model, encoded, self.NOISY)
        for budget in (100, 1):
            tight, _ = self.optimized_keep(model, encoded, self.NOISY, budget)
            for mine, theirs in zip(roomy, tight, strict=True):
                assert torch.allclose(mine, theirs, atol=1e-8, rtol=0)

    def test_out_of_memory_halves_the_pieces_and_goes_on(self, monkeypatch):
        model, encoded = prepared(TEXTS)
        expected, _ = self.optimized_keep(model, encoded, self.NOISY)
        original = type(model.batch(encoded)).forward
        sizes = []

        def limited(batch, piece, keep, noise):
            sizes.append(len(piece.where) * piece.size)
            if sizes[-1] > 200:
                raise torch.OutOfMemoryError("as a small card would say")
            return original(batch, piece, keep, noise)

        monkeypatch.setattr(type(model.batch(encoded)), "forward", limited)
        result, _ = self.optimized_keep(model, encoded, self.NOISY)
        assert max(sizes) > 200
        for mine, theirs in zip(expected, result, strict=True):
            assert torch.allclose(mine, theirs, atol=1e-8, rtol=0)


class TestStopping:
    def test_inputs_stop_on_their_own_and_others_go_on(self):
        model, encoded = prepared(TEXTS)
        with model.frozen():
            batch = model.batch(encoded)
            settings = replace(QUIET, stop="plateau", steps=200)
            result = optimize(batch, torch.zeros(len(TEXTS), dtype=torch.long), settings)
        assert set(result.stop) <= {"plateau", "steps"}
        assert len(set(result.steps)) > 1
        assert all(count < 200 for count, reason in zip(result.steps, result.stop, strict=True) if reason == "plateau")

    @pytest.mark.parametrize("steps", [1, 7, 33])
    def test_steps_are_exact(self, steps):
        model, encoded = prepared(TEXTS[:3])
        for stop in ("steps", "plateau", "paper"):
            with model.frozen():
                settings = replace(ONE_MASK, steps=steps, stop=stop)
                result = optimize(model.batch(encoded), torch.zeros(3, dtype=torch.long), settings)
            assert result.steps == [steps] * 3
            assert result.stop == ["steps"] * 3

    def test_progress_rises_to_one(self):
        model, encoded = prepared(TEXTS)
        shares: list[float] = []
        with model.frozen():
            batch = model.batch(encoded)
            batch.budget = 100
            optimize(batch, torch.zeros(len(TEXTS), dtype=torch.long), MaskSettings(steps=20), shares.append)
        assert shares == sorted(shares)
        assert shares[-1] == 1


class TestMovement:
    """Of three words with the values -1, 0 and 1, whose last updates, divided by the learning rate, are these."""

    def movement(self, update, **settings):
        model, encoded = prepared(["The bread was"])
        batch, count = model.batch(encoded), 10
        state = OptimizerState.start(batch, MaskSettings(**settings)).copy()
        state.w, state.step = torch.tensor([[-1.0, 0.0, 1.0]]).double(), torch.tensor([count])
        state.w_mean = torch.tensor([update]).double() * (1 - 0.9**count)
        state.w_square = torch.full_like(state.w, 1 - 0.999**count)  # the moments are divided by these factors
        (value,) = movement(batch, MaskSettings(**settings, warmup_steps=0), state)
        return value

    def test_of_a_gaussian_field_is_the_mean_size(self):
        assert self.movement([0.9, 0.0, -0.3], field="gaussian") == pytest.approx(0.4)

    @pytest.mark.parametrize("update", [[0.5, 0.5, 0.5], [-0.6, 0.0, 0.6], [0.1, 0.4, 0.7]])
    def test_what_shifts_or_scales_the_values_of_all_words_is_left_out(self, update):
        assert self.movement(update) == pytest.approx(0, abs=1e-6)

    def test_of_free_words_is_the_root_mean_square(self):
        """The mean of (0.7, -0.8, 0.7) is 0.2: (0.5, -1, 0.5), of which nothing is along (-1, 0, 1)."""
        assert self.movement([0.7, -0.8, 0.7]) == pytest.approx(0.5**0.5)
        assert self.movement([0.4, -0.8, 1.0]) == pytest.approx(0.5**0.5)


class TestResult:
    @pytest.mark.parametrize("mask_weight", [0.0, 1.0])
    def test_keep_is_the_sigmoid_of_the_field_and_0_for_padding(self, mask_weight):
        model, encoded = prepared(TEXTS[:3])
        with model.frozen():
            batch = model.batch(encoded)
            settings = replace(ONE_MASK, mask_weight=mask_weight, level_weight=1.0, steps=5)
            result = optimize(batch, torch.zeros(3, dtype=torch.long), settings)
        real = batch.rows.real[: batch.masks]
        assert torch.equal(result.keep[real], result.field[real].sigmoid())
        assert not result.keep[~real].any()

    def test_a_field_whose_sigmoids_are_equal_keeps_its_values(self):
        """In single precision the sigmoids of 20 and 30 are both 1; the field is not computed from them."""
        field, real = torch.tensor([[20.0, 30.0, -40.0]]), torch.ones(1, 3, dtype=torch.bool)
        result = MaskResult(field, real, [1], ["steps"], field, field, [0.0], torch.zeros_like(field))
        assert result.keep.tolist() == [[1.0, 1.0, pytest.approx(0.0)]]
        assert result.field.tolist() == [[20.0, 30.0, -40.0]]
        limits = torch.logit(torch.tensor([1.0, 1.0, 0.0]), eps=1e-7)
        assert torch.allclose(result.bounded_field[0], limits)

    def test_marc_scores_come_from_the_field_and_not_from_its_rounded_sigmoid(self, monkeypatch):
        """In single precision the sigmoids of 7 values between 13 and 13.1 are fewer than 7 numbers."""
        model = rationales.load(*tiny("bert"))
        with model.frozen():
            batch = model.batch(model.encode([TextInput("The bread wasn't bad at all!")]))
            field = torch.linspace(13, 13.1, batch.size[1])[None]
            assert len(field.sigmoid().unique()) < field.shape[1] == 7
            result = MaskResult(field, batch.rows.real, [1], ["steps"], field, field, [0.0], torch.zeros_like(field))
            monkeypatch.setattr("rationales.methods.marc.optimize", lambda *_: result)
            scores = build("marc", {"mask_weight": 1.0}).scores(batch, torch.tensor([0])).scores[0]
        assert (scores.diff() > 0).all()
