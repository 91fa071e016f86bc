"""The terms of the loss, each worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from families import tiny
from hypothesis import given
from hypothesis import strategies as st

import rationales
from rationales.masks import objective
from rationales.masks.objective import (
    Problem,
    complement_term,
    evidence,
    loss,
    shortness,
    sigma_term,
    sparsity_term,
    squeeze,
    sufficiency_term,
)
from rationales.masks.settings import ONE_MASK
from rationales.models.batch import Batch, Rows
from rationales.models.classes import Head
from rationales.models.text.tokens import TextInput

EMPTY = 0.4  # what the model gives the second class when everything is replaced


class Table(Batch):
    """Two inputs, the first with two segments of 3 and 1 units, the second with one of 2; a model of one answer."""

    def cost(self):
        return [1] * self.size[0]

    def forward(self, piece, keep, noise):
        assert not keep.any(), "only the baseline alone is ever asked for here"
        return logits_of(*[EMPTY] * len(keep))

    def take(self, inputs):
        raise AssertionError


def table(head=Head.SOFTMAX, classes=2, views=1):
    real = torch.tensor([[True, True, True], [True, False, False], [True, True, False]]).repeat(views, 1)
    count = 3 * views
    rows = Rows(
        input=torch.tensor([0, 0, 1]).repeat(views),
        mask=torch.arange(3).repeat(views),
        view=torch.arange(views).repeat_interleave(3),
        key=torch.arange(count),
        unit=torch.zeros(count, 3, dtype=torch.long),
        real=real,
        position=torch.arange(3.0).expand(count, 3).double(),
        blend=real.double() / views,
    )
    return Table(rows=rows, inputs=2, views=views, classes=classes, head=head, grid=None, budget=100)


def logits_of(*probabilities):
    """Logits of two classes of which the second has these probabilities under softmax."""
    p = torch.tensor(probabilities, dtype=torch.float64)
    return torch.stack([torch.zeros_like(p), torch.log(p / (1 - p))], -1)


def pressed(probability):
    return 5e-6 + (1 - 1e-5) * probability


class TestSqueeze:
    @given(st.floats(0, 1))
    def test_stays_away_from_both_ends(self, value):
        actual = float(squeeze(torch.tensor(value, dtype=torch.float64)))
        assert 5e-6 - 1e-15 <= actual <= 1 - 5e-6 + 1e-15
        assert actual == pytest.approx(pressed(value), abs=1e-15)

    def test_is_symmetric_and_leaves_the_middle(self):
        values = torch.linspace(0, 1, 11, dtype=torch.float64)
        assert torch.allclose(squeeze(values) + squeeze(1 - values), torch.ones(11, dtype=torch.float64))
        assert float(squeeze(torch.tensor(0.5))) == 0.5

    def test_terms_of_a_certain_model_are_finite_with_a_slope(self):
        """In float32, where 1 - 5e-6 is the hard end."""
        for value in (0.0, 1.0):
            for form in ("bounded", "log-likelihood"):
                p = torch.tensor(value, requires_grad=True)
                total = sufficiency_term(squeeze(p)) + complement_term(squeeze(p), form)
                (gradient,) = torch.autograd.grad(total, p)
                assert torch.isfinite(total)
                assert torch.isfinite(gradient)


class TestTerms:
    @given(st.floats(0.001, 0.999))
    def test_sufficiency_is_minus_the_logarithm(self, p):
        assert float(sufficiency_term(torch.tensor(p, dtype=torch.float64))) == pytest.approx(-math.log(p))

    @given(st.floats(0.001, 0.999))
    def test_both_forms_of_the_complement(self, p):
        """As printed (Eq. 4) without a lower end; bounded, it cannot fall below 0."""
        value = torch.tensor(p, dtype=torch.float64)
        assert float(complement_term(value, "log-likelihood")) == pytest.approx(math.log(p))
        assert float(complement_term(value, "bounded")) == pytest.approx(-math.log(1 - p))
        assert float(complement_term(value, "bounded")) >= 0

    def test_sparsity_is_the_square_of_the_mean_over_units_that_exist(self):
        keep = torch.tensor([[0.1, 0.2, 0.6], [0.5, 9.0, 9.0], [0.2, 0.4, 9.0]], dtype=torch.float64)
        assert sparsity_term(keep, table()).tolist() == pytest.approx([0.3**2, 0.5**2, 0.3**2])

    def test_width_is_minus_the_mean_logarithm_over_units_that_exist(self):
        sigma = torch.tensor([[1.0, math.e, math.e**2], [2.0, 9.0, 9.0], [1.0, 4.0, 9.0]], dtype=torch.float64)
        assert sigma_term(sigma, table().rows.real).tolist() == pytest.approx([-1.0, -math.log(2), -math.log(2)])

    def test_an_input_has_the_mean_of_its_segments(self):
        actual = objective.mean_over_masks(torch.tensor([1.0, 3.0, 7.0]), table())
        assert actual.tolist() == [2.0, 7.0]


class TestEvidence:
    def test_segments_are_averaged_before_anything_else(self):
        actual = evidence(table(), torch.tensor([1, 0]), logits_of(0.9, 0.3, 0.8), 0.0)
        assert actual[:, 0].tolist() == pytest.approx([pressed(0.6), pressed(0.2)])

    def test_views_stay_apart(self):
        actual = evidence(table(views=2), torch.tensor([1, 1]), logits_of(0.9, 0.3, 0.8, 0.1, 0.2, 0.4), 0.0)
        expected = [[pressed(0.6), pressed(0.15)], [pressed(0.8), pressed(0.4)]]
        assert torch.allclose(actual, torch.tensor(expected, dtype=torch.float64))

    @given(st.floats(0, 1), st.floats(-5, 5), st.floats(-5, 5))
    def test_indicative_mixes_in_the_logits_own_sigmoid(self, share, against, for_):
        """Softmax weighs classes against each other; the sigmoid of the logit asks for the class alone."""
        logits = torch.tensor([[against, for_]] * 3, dtype=torch.float64)
        soft = 1 / (1 + math.exp(against - for_))
        indicative = 1 / (1 + math.exp(-for_))
        actual = evidence(table(), torch.tensor([1, 1]), logits, share)
        assert actual.flatten().tolist() == pytest.approx([pressed((1 - share) * soft + share * indicative)] * 2)

    @pytest.mark.parametrize("head", [Head.SIGMOID, Head.MULTI_LABEL])
    @pytest.mark.parametrize("indicative", [0.0, 0.5, 1.0])
    def test_heads_of_sigmoids_are_their_own_sigmoid_already(self, head, indicative):
        logits = torch.tensor([[-1.5, 1.5], [0.5, -0.5], [2.0, -2.0]], dtype=torch.float64)
        actual = evidence(table(head), torch.tensor([1, 0]), logits, indicative)

        def sigmoid(value):
            return 1 / (1 + math.exp(-value))

        expected = [pressed((sigmoid(1.5) + sigmoid(-0.5)) / 2), pressed(sigmoid(2.0))]
        assert actual[:, 0].tolist() == pytest.approx(expected)

    def test_labels_of_a_multi_label_head_do_not_compete(self):
        weak_rivals = torch.tensor([[3.0, 0.0, 0.0]] * 3, dtype=torch.float64)
        strong_rivals = torch.tensor([[3.0, 9.0, 9.0]] * 3, dtype=torch.float64)
        batch, target = table(Head.MULTI_LABEL, classes=3), torch.tensor([0, 0])
        assert torch.equal(evidence(batch, target, weak_rivals, 0.0), evidence(batch, target, strong_rivals, 0.0))


class TestLoss:
    """Eq. 8, with the numbers of one small case written out."""

    KEEP = torch.tensor([[0.1, 0.2, 0.6], [0.5, 0.0, 0.0], [0.2, 0.4, 0.0]], dtype=torch.float64)
    SIGMA = torch.tensor([[1.0, 2.0, 4.0], [3.0, 1.0, 1.0], [2.0, 8.0, 1.0]], dtype=torch.float64)
    LOGITS = torch.stack([logits_of(0.9, 0.7, 0.6), logits_of(0.2, 0.4, 0.5)])  # of the rationale, of its complement

    def value(self, floor=(0.0, 0.0), **settings):
        floor = torch.tensor(floor, dtype=torch.float64)[:, None]
        problem = Problem(table(), torch.tensor([1, 1]), replace(ONE_MASK, **settings), floor)
        return loss(problem, self.LOGITS, self.KEEP, self.SIGMA).tolist()

    def expected(self, sufficiency=1.0, complement=1.0, sparsity=1.0, sigma_weight=1.2, bounded=True, left=(0.3, 0.5)):
        losses = []
        for kept, left_evidence, sparse, narrow in [
            (0.8, left[0], (0.3**2 + 0.5**2) / 2, -(math.log(8) / 3 + math.log(3)) / 2),
            (0.6, left[1], 0.3**2, -math.log(16) / 2),
        ]:
            left_term = -math.log(1 - pressed(left_evidence)) if bounded else math.log(pressed(left_evidence))
            model = -sufficiency * math.log(pressed(kept)) + complement * left_term
            losses.append(model + sparsity * sparse + sigma_weight * narrow)
        return pytest.approx(losses)

    def test_all_terms(self):
        assert self.value() == self.expected()

    @pytest.mark.parametrize("name", ["sufficiency", "complement", "sparsity", "sigma_weight"])
    @pytest.mark.parametrize("weight", [0.0, 2.5])
    def test_every_term_has_its_weight(self, name, weight):
        assert self.value(**{name: weight}) == self.expected(**{name: weight})

    def test_the_complement_as_printed(self):
        assert self.value(complement_form="log-likelihood") == self.expected(bounded=False)

    def test_a_complement_below_the_floor_counts_as_the_floor(self):
        """The first input's complement (0.3) has fallen below it, the second's (0.5) has not."""
        assert self.value(floor=(pressed(0.4), pressed(0.2))) == self.expected(left=(0.4, 0.5))

    def test_a_complement_below_the_floor_is_pulled_no_further(self):
        logits = self.LOGITS.clone().requires_grad_()
        floor = torch.tensor([[pressed(0.4)], [pressed(0.2)]], dtype=torch.float64)
        problem = Problem(table(), torch.tensor([1, 1]), ONE_MASK, floor)
        (gradient,) = torch.autograd.grad(loss(problem, logits, self.KEEP, self.SIGMA).sum(), logits)
        assert gradient[1, :2].abs().sum() == 0
        assert gradient[1, 2].abs().sum() > 0
        assert (gradient[0].abs().sum(-1) > 0).all()

    def test_views_are_averaged_after_the_logarithm(self):
        """Two models: each has to be convinced, so the mean is over their losses."""
        batch = table(views=2)
        logits = torch.cat([self.LOGITS, torch.stack([logits_of(0.3, 0.3, 0.3), logits_of(0.6, 0.6, 0.6)])], 1)
        settings = replace(ONE_MASK, complement=0.0, sparsity=0.0, sigma_weight=0.0)
        problem = Problem(batch, torch.tensor([1, 1]), settings, torch.zeros(2, 2, dtype=torch.float64))
        losses = loss(problem, logits, self.KEEP, self.SIGMA)
        expected = [-(math.log(pressed(kept)) + math.log(pressed(0.3))) / 2 for kept in (0.8, 0.6)]
        assert losses.tolist() == pytest.approx(expected)

    def test_one_input_does_not_pull_at_anothers_mask(self):
        keep, sigma = self.KEEP.clone().requires_grad_(), self.SIGMA.clone().requires_grad_()
        problem = Problem(table(), torch.tensor([1, 1]), ONE_MASK, torch.zeros(2, 1, dtype=torch.float64))
        gradients = torch.autograd.grad(loss(problem, self.LOGITS, keep, sigma)[0], (keep, sigma))
        assert all(gradient[2].abs().sum() == 0 for gradient in gradients)
        assert all(gradient[:2].abs().sum() > 0 for gradient in gradients)
        assert all(gradient[1, 1:].abs().sum() == 0 for gradient in gradients)  # nor do units that are not there


class TestFloor:
    @pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
    @pytest.mark.parametrize("views", [1, 2])
    def test_is_a_share_of_what_the_baseline_alone_gives_a_short_input(self, share, views):
        problem = Problem.of(table(views=views), torch.tensor([1, 0]), replace(ONE_MASK, complement_floor=share))
        expected = [[share * pressed(EMPTY)] * views, [share * pressed(1 - EMPTY)] * views]
        assert torch.allclose(problem.complement_floor, torch.tensor(expected, dtype=torch.float64))

    @pytest.mark.parametrize("words", [1, 39, 40, 41, 80, 119, 120, 400])
    @pytest.mark.parametrize("count", [1, 2])
    def test_falls_away_between_forty_and_a_hundred_and_twenty_units(self, words, count):
        """Units are counted once, however many segments and models see them."""
        module, tokenizer = tiny("bert")
        model = rationales.load([module] * count, tokenizer, segment=40, overlap=8)
        batch = model.batch(model.encode([TextInput("the " * words), TextInput("soup")]))
        assert batch.masks > 1
        expected = [min(max((120 - words) / 80, 0), 1), 1]
        assert shortness(batch).tolist() == pytest.approx(expected, abs=1e-5)
