"""The batched engine finds what the literal algorithm finds, whatever company an input is in."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from families import tiny
from reference.marc import Literal
from reference.marc import explain as literally

import rationales
from rationales.masks.optimize import optimize
from rationales.masks.settings import ONE_MASK, PAPER, MaskSettings
from rationales.models.tokens import TextInput

TEXTS = [  # one word, a sentence, and texts that take one, three and four segments of 40 tokens
    "Dull",
    "The bread wasn't bad at all!",
    "She said nothing; he laughed, and nobody else understood why.",
    " ".join(["Children ran through the market, shouting."] * 4),
    " ".join(["Every morning the baker carried twelve loaves up the hill."] * 5),
]
QUIET = replace(ONE_MASK, noise=0.0, flip=0.0, stop="steps", steps=50)


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
        assert [len(one.rows) for one in encoded] == [1, 1, 1, 3, 4]
        target = torch.tensor([0, 1, 2, 0, 1])
        with model.borrowed():
            batch = model.batch(encoded)
            found = per_segment(batch, optimize(batch, target, QUIET).keep)
            wanted = [
                keep
                for one, label in zip(encoded, target.tolist(), strict=True)
                for keep in literally(
                    model.networks[0].module, one, label, model.tokenizer.pad_token_id, "softmax", Literal(50)
                )
            ]
        for mine, theirs in zip(found, wanted, strict=True):
            assert torch.allclose(mine, theirs, atol=1e-4, rtol=0)
        assert max(float(keep.max() - keep.min()) for keep in found) > 0.2, "the masks have told words apart"

    @pytest.mark.parametrize(
        ("settings", "literal"),
        [
            ({"kernel": "sigma"}, {"power": 1}),
            ({"schedule": "constant"}, {"cosine": False}),
            ({"reach": 0.0}, {"reach": 0.0}),
            ({"floor": 0.0}, {"floor": 0.0}),
            ({"neighbours": 5.0}, {"alpha_nb": 5.0}),
            ({"field": "free"}, {"use_field": False}),
            ({"sparsity": 0.0}, {"alpha_lambda": 0.0}),
            ({"width": 0.0}, {"alpha_sigma": 0.0}),
            ({"complement": 0.0}, {"complement": 0.0}),
            ({"sufficiency": 0.0}, {"sufficiency": 0.0}),
            ({"complement_form": "log-likelihood"}, {"bounded": False}),
            ({"indicative": 1.0}, {"indicative": 1.0}),
            ({"indicative": 0.1}, {"indicative": 0.1}),
            ({"rate": 0.03, "decay": 0.0, "start_w": 0.5, "start_sigma": 1.2, "smallest_sigma": 0.6},
             {"rate": 0.03, "decay": 0.0, "w": 0.5, "sigma": 1.2, "smallest_sigma": 0.6}),
        ],
        ids=lambda value: "+".join(value),
    )  # fmt: skip
    def test_every_term_can_be_switched(self, settings, literal):
        self.compare("softmax", replace(QUIET, steps=12, **settings), Literal(12, **literal), target=2)

    @pytest.mark.parametrize(("head", "target"), [("sigmoid", 0), ("sigmoid", 1), ("multi-label", 1)])
    def test_every_kind_of_head(self, head, target):
        self.compare(head, replace(QUIET, steps=12), Literal(12), target)

    def compare(self, head, settings, literal, target):
        model, encoded = prepared(TEXTS[1:2] + TEXTS[3:4], head)
        with model.borrowed():
            batch = model.batch(encoded)
            found = per_segment(batch, optimize(batch, torch.full((2,), target), settings).keep)
            module, pad = model.networks[0].module, model.tokenizer.pad_token_id
            wanted = [keep for one in encoded for keep in literally(module, one, target, pad, head, literal)]
        for mine, theirs in zip(found, wanted, strict=True):
            assert torch.allclose(mine, theirs, atol=1e-7, rtol=0)


class TestCompany:
    """float64, so that what is left is a difference in kind and not in rounding."""

    NOISY = replace(ONE_MASK, steps=40, stop="steps")

    def keep_of(self, model, encoded, settings, budget=None):
        with model.borrowed():
            batch = model.batch(encoded, seed=3)
            if budget is not None:
                batch.budget = budget
            found = optimize(batch, torch.zeros(len(encoded), dtype=torch.long), settings)
            return batch.gather(found.keep[batch.rows.mask]), found

    @pytest.mark.parametrize("settings", [NOISY, replace(NOISY, stop="plateau", steps=70), replace(PAPER, steps=120)])
    def test_batch_equals_single_with_noise_on(self, settings):
        model, encoded = prepared(TEXTS)
        together, found = self.keep_of(model, encoded, settings)
        for number, one in enumerate(encoded):
            alone, ended = self.keep_of(model, [one], settings)
            assert torch.allclose(together[number], alone[0], atol=1e-8, rtol=0)
            assert (ended.steps, ended.stop) == ([found.steps[number]], [found.stop[number]])

    def test_order_does_not_matter(self):
        model, encoded = prepared(TEXTS)
        forward, _ = self.keep_of(model, encoded, self.NOISY)
        backward, _ = self.keep_of(model, encoded[::-1], self.NOISY)
        for mine, theirs in zip(forward, reversed(backward), strict=True):
            assert torch.allclose(mine, theirs, atol=1e-8, rtol=0)

    def test_little_memory_changes_nothing(self):
        """Inputs wait for room and rows are run in pieces; the result is the same."""
        model, encoded = prepared(TEXTS)
        roomy, _ = self.keep_of(model, encoded, self.NOISY)
        for budget in (100, 1):
            tight, _ = self.keep_of(model, encoded, self.NOISY, budget)
            for mine, theirs in zip(roomy, tight, strict=True):
                assert torch.allclose(mine, theirs, atol=1e-8, rtol=0)

    def test_out_of_memory_halves_the_pieces_and_goes_on(self, monkeypatch):
        model, encoded = prepared(TEXTS)
        expected, _ = self.keep_of(model, encoded, self.NOISY)
        original = type(model.batch(encoded)).forward
        sizes = []

        def limited(batch, piece, keep, noise):
            sizes.append(len(piece.where) * piece.size)
            if sizes[-1] > 200:
                raise torch.OutOfMemoryError("as a small card would say")
            return original(batch, piece, keep, noise)

        monkeypatch.setattr(type(model.batch(encoded)), "forward", limited)
        found, _ = self.keep_of(model, encoded, self.NOISY)
        assert max(sizes) > 200
        for mine, theirs in zip(expected, found, strict=True):
            assert torch.allclose(mine, theirs, atol=1e-8, rtol=0)


class TestStopping:
    def test_inputs_stop_on_their_own_and_others_go_on(self):
        model, encoded = prepared(TEXTS)
        with model.borrowed():
            batch = model.batch(encoded)
            settings = replace(QUIET, stop="plateau", steps=200)
            found = optimize(batch, torch.zeros(len(TEXTS), dtype=torch.long), settings)
        assert set(found.stop) <= {"plateau", "steps"}
        assert len(set(found.steps)) > 1
        assert all(count < 200 for count, reason in zip(found.steps, found.stop, strict=True) if reason == "plateau")

    @pytest.mark.parametrize("steps", [1, 7, 33])
    def test_steps_are_exact(self, steps):
        model, encoded = prepared(TEXTS[:3])
        for stop in ("steps", "plateau", "paper"):
            with model.borrowed():
                settings = replace(ONE_MASK, steps=steps, stop=stop)
                found = optimize(model.batch(encoded), torch.zeros(3, dtype=torch.long), settings)
            assert found.steps == [steps] * 3
            assert found.stop == ["steps"] * 3

    def test_progress_rises_to_one(self):
        model, encoded = prepared(TEXTS)
        seen: list[float] = []
        with model.borrowed():
            batch = model.batch(encoded)
            batch.budget = 100
            optimize(batch, torch.zeros(len(TEXTS), dtype=torch.long), MaskSettings(steps=30), seen.append)
        assert seen == sorted(seen)
        assert seen[-1] == 1
