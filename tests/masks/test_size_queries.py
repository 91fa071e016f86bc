"""Asked in turn, the model chooses the same rationales as asked about every size, from fewer rows."""

from __future__ import annotations

from dataclasses import fields

import pytest
import torch
from families import tokenizer_of
from masks.test_levels import TEXTS, batch_of
from masks.test_words_and_spans import CLAUSE, EVIDENCE, FILLER, SpreadModel, batch_of_texts, random_values

import rationales
from rationales.masks import postprocess, sizes
from rationales.masks.settings import CLAUSES, DEFAULT, IMAGE
from rationales.masks.sizes import (
    SelectionProbabilities,
    best_size,
    may_have_lower_loss,
    needed_probabilities,
    size_candidates,
    size_losses,
    size_probabilities,
)

STRENGTHS = (0.0, 0.5, 2.0, 8.0)  # of the field at the words that count, in standard deviations of its noise


def texts():
    """A clause, words far apart, and a short text: many inputs, whose choices differ."""
    in_a_clause, scattered = ((FILLER.split() * 9)[:150] for _ in range(2))
    in_a_clause[70:81] = CLAUSE.split()
    scattered[10 : 10 + 15 * len(EVIDENCE) : 15] = EVIDENCE
    return [in_a_clause, scattered, [*FILLER.split(), *EVIDENCE]]


@pytest.fixture(scope="module")
def batch():
    model = rationales.load(SpreadModel(list(EVIDENCE)), tokenizer_of("bert"))
    return batch_of_texts(model, *(" ".join(words) for words in texts() for _ in STRENGTHS))


@pytest.fixture
def rows(monkeypatch):
    """Numbers of rows that went through the model."""
    counts = []
    plain = postprocess.Batch.class_logits

    def counted(self, piece, outputs):
        counts.append(len(piece.row))
        return plain(self, piece, outputs)

    monkeypatch.setattr(postprocess.Batch, "class_logits", counted)
    return counts


def fields_of(batch, seed):
    """A field and a gradient, (M, n) each: noise, and for every text each strength at the words that count."""
    z, gradient = random_values(batch, seed), random_values(batch, seed + 100)
    for number, (words, strength) in enumerate((words, strength) for words in texts() for strength in STRENGTHS):
        where = [index for index, word in enumerate(words) if word in EVIDENCE]
        for values in (z, gradient):
            values[number, where] += strength
    return z, gradient


@pytest.mark.parametrize("seed", range(4))
def test_the_same_scores_from_fewer_rows(batch, seed, monkeypatch, rows):
    z, gradient = fields_of(batch, seed)
    target = torch.ones(batch.inputs, dtype=torch.long)
    results, counts = [], []
    for least_cost in (0, 10**9):
        monkeypatch.setattr(sizes, "MIN_COST", least_cost)
        rows.clear()
        results.append(postprocess.words_and_spans(z, gradient, batch, target, DEFAULT))
        counts.append(sum(rows))
    for in_turn, at_once in zip(*results, strict=True):
        torch.testing.assert_close(in_turn, at_once, atol=1e-6, rtol=0)
    assert counts[0] < 0.8 * counts[1]
    alone = batch.take([0])
    monkeypatch.setattr(sizes, "MIN_COST", 0)
    lone_scores = postprocess.words_and_spans(z[:1], gradient[:1], alone, target[:1], DEFAULT)
    for values, lone_values in zip(results[0], lone_scores, strict=True):
        torch.testing.assert_close(values[:1], lone_values, atol=1e-5, rtol=0)


@pytest.mark.parametrize("settings", [DEFAULT, CLAUSES], ids=["default", "clauses"])
def test_sizes_are_those_of_all_probabilities(settings):
    """Also of a text in several segments, and where no size suffices."""
    model, batch = batch_of(TEXTS)
    for seed in range(6):
        order, target = random_values(batch, seed).to(batch.dtype), torch.tensor([0, 1, seed % 2])
        with model.frozen(), torch.no_grad():
            every_input = torch.ones(batch.inputs, dtype=torch.bool)
            few = needed_probabilities(order, settings, SelectionProbabilities(batch, target), every_input)
            expected, actual = (
                best_size(order, batch, target, settings, probabilities) for probabilities in (None, few)
            )
        assert torch.equal(actual.size, expected.size)
        assert torch.equal(actual.sufficient, expected.sufficient)
        torch.testing.assert_close(actual.loss, expected.loss)


def test_an_order_may_have_a_lower_loss_exactly_where_a_size_has():
    model, batch = batch_of(TEXTS)
    order, target = random_values(batch).to(batch.dtype), torch.tensor([0, 1, 0])
    candidates = size_candidates(batch)
    penalty = torch.arange(len(candidates), dtype=batch.dtype)[:, None].expand_as(candidates) / 5
    with model.frozen(), torch.no_grad():
        (probabilities,) = size_probabilities([order], batch, target, candidates)
        lowest = (size_losses(probabilities, batch, DEFAULT)[1] + penalty).amin(0)
        for slack, expected in ((1e-4, True), (-1e-4, False)):
            selections = SelectionProbabilities(batch, target)
            actual = may_have_lower_loss(order, DEFAULT, selections, penalty, lowest + slack)
            assert actual.tolist() == [expected] * 3


def test_equal_selections_are_asked_about_once(rows):
    model, batch = batch_of(TEXTS)
    selections = SelectionProbabilities(batch, torch.tensor([0, 1, 0]))
    keep = batch.rows.real[None].repeat(3, 1, 1)
    needed = torch.tensor([[True, True, False]] * 3)
    with model.frozen():
        first = selections.ask(keep, needed, 0.25)
        count = sum(rows)
        second = selections.ask(keep, needed, 0.25)
        expected = batch.predict()[torch.arange(3), torch.tensor([0, 1, 0])]
    assert torch.equal(first, second)
    assert count == 2  # the rows of the first two texts
    torch.testing.assert_close(first[:, :2], expected[:2].expand(3, -1), atol=1e-6, rtol=0)
    assert first[:, 2].tolist() == [0.25] * 3


class TestGrids:
    """Sizes of image rationales, asked about one after the other."""

    @pytest.fixture
    def images(self):
        pytest.importorskip("PIL")
        from models.image.test_model import detector, scene

        model = detector(baselines=("black", "mean"))
        pixels = [scene(left=left, seed=seed) for seed, left in enumerate((2, 14, 20))]
        return model, model.batch(model.encode([model.read(image, None) for image in pixels]))

    @staticmethod
    def orders_of(batch, seed):
        """(M, n): noise, and in the first two images a higher value, the more the redder a pixel is."""
        generator = torch.Generator().manual_seed(seed)
        order = torch.randn((batch.masks, batch.size[1]), generator=generator)
        redness = (batch.values[:, 0] - batch.values[:, 1]).flatten(1)
        return order + torch.tensor([8.0, 3.0, 0.0])[:, None] * redness

    @pytest.mark.parametrize("by_loss", [False, True])
    @pytest.mark.parametrize("seed", range(4))
    def test_the_same_choice_from_fewer_rows(self, images, seed, by_loss, rows):
        model, batch = images
        order, target = self.orders_of(batch, seed), torch.ones(batch.inputs, dtype=torch.long)
        with model.frozen(), torch.no_grad():
            rows.clear()
            (everything,) = size_probabilities([order], batch, target, size_candidates(batch))
            rows_of_everything = sum(rows)
            rows.clear()
            in_turn = best_size(order, batch, target, IMAGE, by_loss=by_loss)
            assert sum(rows) < rows_of_everything
            at_once = best_size(order, batch, target, IMAGE, everything, by_loss)
        for spec in fields(in_turn):
            torch.testing.assert_close(getattr(in_turn, spec.name), getattr(at_once, spec.name))

    def test_an_image_alone_has_the_choice_that_it_has_in_a_batch(self, images):
        model, batch = images
        order, target = self.orders_of(batch, 0), torch.ones(batch.inputs, dtype=torch.long)
        with model.frozen(), torch.no_grad():
            together = best_size(order, batch, target, IMAGE)
            for number in range(batch.inputs):
                alone = best_size(order[number : number + 1], batch.take([number]), target[:1], IMAGE)
                torch.testing.assert_close(alone.size, together.size[number : number + 1])
                assert alone.sufficient[0] == together.sufficient[number]
